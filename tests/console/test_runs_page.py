"""The page of runs: what it is narrowed to, its page and what is open stand in the address; failures by their error."""

from __future__ import annotations

import asyncio
import re

import pytest
import pytest_asyncio
from playwright.async_api import Route, expect

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import RunRecord, Trigger
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.open_runs import record_of

MINUTE_MS = 60_000


@pytest_asyncio.fixture(loop_scope="session")
async def many(cluster: Cluster, name: str) -> str:
    """70 runs of 3 jobs within the last 70 minutes, a third of them failed in two ways; a part of the jobs' names."""
    now, records = SystemClock().wall_ms(), []
    for job in range(3):
        await cluster.save(f"{name}-{job}", "true", "@yearly")
    for number in range(70):
        run = RunId.planned(f"{name}-{number % 3}", now - (number + 1) * MINUTE_MS)
        records.append(
            _failed(run, 3 if number % 2 else 7) if number % 3 == 1 else record_of(run, labels={"team": "a"})
        )
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write(records)
    return name


def _failed(run: RunId, code: int) -> RunRecord:
    text = f"cannot reach the server ({code})\n"
    return record_of(
        run, Verdict.FAILED, exit_code=code, err=f"exit status {code}", output=text, output_bytes=len(text),
        trigger=Trigger.MANUAL, by="alice",
    )  # fmt: skip


async def test_back_from_a_run_leads_to_where_one_was(console: Console, many: str) -> None:
    page = await console.open(f"/runs?q={many}")
    rows = page.locator("#runs tbody tr")
    await expect(rows).to_have_count(25)
    for first in (26, 51):
        before = await rows.first.get_attribute("data-key")
        await page.get_by_role("button", name="Next page").click()
        await expect(rows.first).not_to_have_attribute("data-key", before or "")
        assert first
    await expect(rows).to_have_count(20)
    third = await rows.first.get_attribute("data-key")
    await rows.nth(3).get_by_role("link").first.click()
    await expect(page.locator("#facts")).to_contain_text("ms")
    await page.go_back()
    await expect(rows.first).to_have_attribute("data-key", third or "")
    await page.reload()
    await expect(rows.first).to_have_attribute("data-key", third or "")
    await page.get_by_role("button", name="Previous page").click()
    await expect(rows).to_have_count(25)
    await page.go_back()
    await expect(rows.first).to_have_attribute("data-key", third or "")
    await page.locator("[data-status=failed]").click()
    await expect(rows).to_have_count(23)
    await expect(page).not_to_have_url(re.compile("cursor"))  # another list begins at its beginning


@pytest.mark.parametrize("path", ["/jobs", "/runs", "/timeline"])
async def test_what_is_typed_before_the_page_is_ready_is_looked_for(console: Console, path: str) -> None:
    page = await console.open("/livez")
    waiting: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/api/v1/whoami", waiting.put, times=1)
    await page.goto(path)
    first = await waiting.get()
    await page.get_by_role("searchbox").first.fill("nightly")
    await first.continue_()
    await expect(page).to_have_url(re.compile("=nightly"))
    await expect(page.get_by_role("searchbox").first).to_have_value("nightly")


async def test_runs_are_narrowed_down_and_failures_counted_by_their_error(console: Console, many: str) -> None:
    page = await console.open("/runs")
    rows = page.locator("#runs tbody tr")
    await page.get_by_role("searchbox").fill(many)
    await expect(rows.filter(has_not_text=many)).to_have_count(0)
    await page.get_by_role("button", name="1 h", exact=True).click()
    await page.locator("[data-status=failed]").click()
    await page.locator("[data-status=timeout]").click()
    await expect(rows).to_have_count(20)
    await expect(page).to_have_url(re.compile("period=1h"))
    await expect(page).to_have_url(re.compile("status=failed%2Ctimeout"))
    await console.shoot_all(page, "runs", whole=True)
    if AXE.exists():
        assert await findings(page) == []
    await page.get_by_role("button", name="By error").click()
    groups = page.locator(".group-of")
    await expect(groups).to_have_count(2)
    await expect(groups.first).to_contain_text("cannot reach the server")
    await groups.last.locator("summary").click()
    await expect(groups.last.get_by_role("link", name="Show these")).to_be_visible()
    await console.shoot_all(page, "runs-by-error", whole=True)
    if AXE.exists():
        assert await findings(page) == []
    await groups.last.locator("li a").first.click()
    await page.wait_for_url("**/runs/*")
    await settled(page)
    await page.go_back()
    await expect(groups.last).to_have_attribute("open", "")
    await groups.last.get_by_role("link", name="Show these").click()
    await expect(rows).to_have_count(10)
    await expect(page.locator("#named")).to_contain_text("failed: exit status")
    await page.get_by_role("button", name="Clear filters").click()
    await expect(page).to_have_url(f"{console.base}/runs")
    await page.goto(f"/runs?q={many}&label=team%3Da&trigger=manual")
    await expect(page.locator("#runs")).to_contain_text("No runs match")
    await page.get_by_label("Trigger").select_option("")
    await expect(rows).to_have_count(25)


@pytest.mark.parametrize("path", ["/runs", "/audit"])
async def test_times_are_typed_in_the_zone_that_the_page_shows(
    console: Console, administrator: dict[str, str], path: str
) -> None:
    page = await console.open(f"{path}?from=2026-11-29T01:10:00Z", headers=administrator)
    await expect(page.get_by_label("From (Europe/Berlin)")).to_have_value("2026-11-29T02:10")
    await page.get_by_role("button", name="UTC", exact=True).click()
    field = page.get_by_label("From (UTC)")
    await expect(field).to_have_value("2026-11-29T01:10")
    async with page.expect_request(re.compile(rf"/api/v1{path}\?.*from=2026-11-29T03%3A10%3A00.000Z")):
        await field.fill("2026-11-29T03:10")
    await page.reload()
    await expect(field).to_have_value("2026-11-29T03:10")
