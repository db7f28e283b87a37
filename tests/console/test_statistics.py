"""A job's days, on its page."""

from __future__ import annotations

import re

from playwright.async_api import expect

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunLog
from common.runlog.statistics import HOUR_MS, Counts
from common.verdicts import Verdict
from tests.console.console import AXE, Console, findings, settled
from tests.console.test_redrawing import BY_HAND
from tests.support.cluster import Cluster
from tests.support.open_runs import record_of

DAY_MS = 86_400_000
COUNTED_BY_THEN_MS = 75_000


async def count(cluster: Cluster, *records: RunRecord) -> None:
    """Written, and counted at once, also in an hour that the steward has counted before."""
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write(records)
        for hour in {one.plan_ms // HOUR_MS for one in records}:
            found: dict[str, Counts] = {}
            await runlog.count_hour(hour, after="", limit=1000, to=found)
            await runlog.put_hour(hour, found)


async def test_days_are_shown_when_they_are_asked_for(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    now_ms = SystemClock().wall_ms()
    await count(
        cluster,
        record_of(RunId(name, "r-1"), plan_ms=now_ms, end_ms=now_ms + 90_002),
        record_of(RunId(name, "r-2"), Verdict.SKIPPED, plan_ms=now_ms - 3 * DAY_MS, count=1200),
    )
    page = await console.open(f"/jobs/{name}")
    await settled(page)
    rows = page.locator("#statistics tbody tr")
    await expect(rows).to_have_count(0)
    await page.locator("summary").filter(has_text="By day").click()
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text(re.compile("1.*1 min 30 s", re.DOTALL))
    await expect(rows.nth(1)).to_contain_text("1,200")
    if AXE.exists():
        assert await findings(page) == []
    await page.locator("#statistics-of").scroll_into_view_if_needed()
    await console.shoot_all(page, "statistics", whole=True)


async def test_days_follow_what_happens_while_they_are_shown(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", script=BY_HAND, own_context=True)
    await page.clock.install()
    await page.goto(f"/jobs/{name}")
    await page.locator("summary").filter(has_text="By day").click()
    await expect(page.locator("#statistics")).to_contain_text("Nothing in the last 30 days")
    now_ms = SystemClock().wall_ms()
    await page.evaluate("(name) => tell('runs', { jobs: { [name]: { running: [] } } })", name)
    await count(cluster, record_of(RunId(name, "r-1"), plan_ms=now_ms, end_ms=now_ms + 2))
    async with page.expect_request("**/api/v1/statistics?*"):
        await page.clock.run_for(COUNTED_BY_THEN_MS)
    await expect(page.locator("#statistics tbody tr")).to_have_count(1)
