"""A fire that was held up and then passed over says what held it up, as far as the worker that decides it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from common.clock import SystemClock
from common.protocol.drain import Drain
from tests.support.disks import full_disk
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

SECOND: Final[Mapping[str, Any]] = {"cron": "* * * * * * *", "overlap": "allow"}
"""Else a run that takes longer may be why the next is missed, and that be recorded first."""


async def three_fires(since_ms: int) -> None:
    """So many have come due since then."""
    until_ms = since_ms // 1000 * 1000 + 3200
    await wait_until(lambda: SystemClock().wall_ms() > until_ms, description="three fires are due")


async def missed(world: World) -> dict[str, Any]:
    """The oldest record of fires that were missed, and never claimed."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = [
            record for record in await world.records() if record.get("reason") not in (None, "claimed, not started")
        ]
        return bool(found)

    await wait_until(there, description="what was missed is recorded")
    return found[-1]


async def test_after_a_drain(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        drain = Drain(by="me", since_ms=1, reason="new kernel")
        await world.etcd.put(world.keys.drain("w1"), drain.to_json())
        await wait_until(lambda: not worker.parts.members.accepting(), description="it is drained")
        await world.save(**SECOND)
        await three_fires(SystemClock().wall_ms())
        await world.etcd.delete(world.keys.drain("w1"))
        record = await missed(world)
    replaced = "misfire: latest kept a newer fire"
    assert record["reason"] == f"{replaced}; no worker took it: w1: drained by me: new kernel"


async def test_after_a_full_disk(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        worker.parts.spool_watch._every_s = 0.1
        job = await world.save("other")
        with full_disk(worker.agent._spool.size_bytes + 50):
            await world.ask(job, SystemClock().wall_ms(), name="other")
            await wait_until(lambda: not worker.parts.members.accepting(), description="it takes nothing")
            await world.save(**SECOND)
            await three_fires(SystemClock().wall_ms())
        record = await missed(world)
    replaced = "misfire: latest kept a newer fire"
    assert record["reason"].startswith(f"{replaced}; no worker took it: w1: the spool's disk is full"), record["reason"]


async def test_after_an_outage_of_etcd(place: Place, world: World) -> None:
    async with Proxy(place.etcd) as proxy, working(place, etcd=proxy.endpoint, lease_ttl_s=10) as worker:
        await worker.deciding()
        first_s = SystemClock().wall_ms() // 1000 + 3
        seconds = f"{first_s % 60},{(first_s + 3) % 60}"
        misfire = {"policy": "skip", "graceSeconds": 1}
        await world.save(cron=f"{seconds} * * * * * *", overlap="allow", misfire=misfire)
        await wait_until(lambda: "job" in worker.parts.catalog.jobs, description="the job is known")
        proxy.set(Mode.SWALLOW)
        await three_fires(first_s * 1000 + 2000)
        proxy.set(Mode.PASS)
        record = await missed(world)
    assert record["reason"] == "late: w1 was out of touch with etcd"


async def test_before_any_worker_was_started(place: Place, world: World) -> None:
    now_ms = SystemClock().wall_ms()
    await world.save(**SECOND, mark_ms=now_ms - 5000)
    async with working(place) as worker:
        await worker.deciding()
        record = await missed(world)
    assert record["reason"] == "misfire: latest kept a newer fire; no worker took it: w1: was started later"
