"""How far each process's clock is off: on the page of the workers, and on that of the system, in both languages."""

from __future__ import annotations

from playwright.async_api import Page

from common.etcd import EtcdClient
from common.protocol.clocks import Clocks, Measured
from common.protocol.keys import Keys
from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until


async def manager_of(cluster: Cluster) -> str:
    """The name of the manager's beat."""
    system = await cluster.call("GET", "/api/v1/system")
    return str(system["manager"])


async def shows(etcd: EtcdClient, clocks: Clocks, page: Page, *texts: str) -> None:
    """The page shows it; the cluster's own steward, which has two clocks only, puts its own over it now and then."""

    async def is_shown() -> bool:
        await etcd.put(Keys().clocks, clocks.to_json())
        await page.reload()
        await settled(page)
        shown = " ".join((await page.locator("main").inner_text()).split())
        return all(text in shown for text in texts)

    await wait_until(is_shown, description=f"the page says {texts}")


async def test_offsets_are_shown_and_too_few_clocks_are_said_to_be(console: Console, cluster: Cluster) -> None:
    manager = await manager_of(cluster)
    workers, system = await console.open("/workers"), await console.open("/system")
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        fine = {"worker-1": Measured(offset_ms=-12, clock=""), manager: Measured(offset_ms=3, clock="")}
        off = {"worker-1": Measured(offset_ms=30_000, clock=""), manager: Measured(offset_ms=3, clock="")}
        await shows(etcd, Clocks(count=3, measured=fine), workers, "\N{MINUS SIGN}12 ms")
        words = "2 processes compared: all within 250 ms."
        await shows(etcd, Clocks(count=3, measured=fine), system, words, "+3 ms")
        await shows(etcd, Clocks(count=3, measured=off), workers, "+30 s")
        words = "the clock of worker-1 is 30.0 s ahead of the others'"
        await shows(etcd, Clocks(count=3, measured=off), system, "Off by more than 250 ms: worker-1", words)
        for page in (workers, system):
            if AXE.exists():
                assert await findings(page) == []
        await console.shoot_all(system, "system-clock-off")
        await shows(etcd, Clocks(count=2), system, "Not compared: only 2 clocks")
        await shows(etcd, Clocks(count=2), workers, "not compared")
