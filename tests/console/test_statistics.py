"""A job's days, on its page."""

from __future__ import annotations

import re

from playwright.async_api import expect

from common.clock import SystemClock
from common.runlog import RunLog
from common.stored.keys import RunId
from common.stored.run import Verdict
from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.open_runs import record_of

DAY_MS = 86_400_000


async def test_days_are_shown_when_they_are_asked_for(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    now_ms = SystemClock().wall_ms()
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write([
            record_of(RunId(name, "r-1"), plan_ms=now_ms, end_ms=now_ms + 90_002),
            record_of(RunId(name, "r-2"), Verdict.SKIPPED, plan_ms=now_ms - 3 * DAY_MS, count=1200),
        ])  # fmt: skip
        while await runlog.fold_statistics(limit=100):
            pass
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
