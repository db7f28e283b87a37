"""Open alerts of one cause are one row, with one menu: unfolded, silenced and acknowledged by keyboard."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace
from playwright.async_api import Browser, expect

from tests.console.console import AXE, Console, Usual, findings, overflow, settled
from tests.support.alerts import alert_of, open_alerts_are
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import now_ms

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]


@pytest_asyncio.fixture(loop_scope="session")
async def manager(etcd_server: EtcdServer, log_store: LogStore, own_usual: Usual) -> AsyncIterator[Managed]:
    """One of its own, with 15 alerts of one cause, and one of another."""
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, loops=True, notifier=False, port=own_usual.port) as manager:
        since = now_ms() - 3_600_000
        flapping = {"is_flapping": True, "is_bad": False}
        alerts = [replace(alert_of(f"alike-{number:02}", since + number), **flapping) for number in range(15)]
        alerts.append(alert_of("other", since, exit_code=127, err="exit status 127", told=("ops",)))
        for alert in alerts:
            await manager.call("PUT", f"/api/v1/jobs/{alert.event.job}", {"command": "true", "cronExpr": "@yearly"})
        await open_alerts_are(manager, *alerts)
        yield manager


@pytest_asyncio.fixture(loop_scope="session")
async def own(browser: Browser, manager: Managed, own_usual: Usual, screenshots: Path | None) -> AsyncIterator[Console]:
    console = Console(browser=browser, usual=own_usual, base=own_usual.base, screenshots=screenshots)
    yield console
    await console.close()
    assert console.problems == []


async def test_alerts_of_one_cause_are_one_row_that_is_unfolded_and_silenced_by_keyboard(
    own: Console, manager: Managed
) -> None:
    page = await own.open("/alerts")
    await settled(page)
    rows = page.locator("#open tbody tr")
    await expect(rows).to_have_count(2)
    await expect(rows.first).to_contain_text("15 jobs")
    await expect(rows.first).to_contain_text("exit status 3")
    await expect(rows.first).to_contain_text("flapping, well now")
    await expect(rows.last).not_to_contain_text("flapping")
    await expect(rows.last).to_contain_text("ops")
    await expect(page.locator("#untold")).to_contain_text("Nobody is told of 15 of these alerts")
    await expect(page.get_by_text("Nobody is told")).to_have_count(1)
    if AXE.exists():
        assert await findings(page) == []
    await own.shoot_all(page, "alerts-grouped", whole=True)

    unfold = rows.first.get_by_role("button", name="Show each: 15 jobs, failed: exit status 3")
    await unfold.press("Enter")
    await expect(rows).to_have_count(17)
    await expect(rows.nth(1)).to_contain_text("alike-14")
    await own.shoot_all(page, "alerts-unfolded", whole=True)
    await page.set_viewport_size({"width": 390, "height": 800})
    assert await overflow(page) == 0

    menu = rows.first.get_by_role("button", name="Silence: 15 jobs, failed: exit status 3")
    await menu.press("Enter")
    await menu.press("ArrowDown")
    await expect(rows.first.get_by_role("button", name="Acknowledge")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await own.shoot_all(page, "alerts-menu", whole=True)
    await page.keyboard.press("Enter")
    await expect(page.locator("#toasts")).to_contain_text(re.compile(r"15 jobs silenced until .*\d\d:\d\d:\d\d\."))
    await expect(rows.first).to_contain_text("silenced until")
    (silence,) = (await manager.get("/api/v1/silences"))["items"]
    assert sorted(silence["jobs"]) == [f"alike-{number:02}" for number in range(15)]
    assert silence["untilTime"] - silence["fromTime"] == 3_600_000, "by the manager's clock alone"

    await menu.press("Enter")
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page.locator("#toasts")).to_contain_text("15 jobs: no more messages until the problem is over.")
    await expect(rows.nth(1)).to_contain_text("acknowledged by")
    await page.goto("/jobs/alike-14")
    await expect(page.locator("#open-alert")).to_contain_text("ends after 15 minutes without a change")
    acknowledged = [one["acknowledged"] for one in (await manager.get("/api/v1/alerts"))["items"]]
    assert sum(one is not None for one in acknowledged) == 15
