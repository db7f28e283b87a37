"""10,000 jobs in a manager of its own: search, filters and pages answer, and the first load of a full page is small."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest_asyncio
from playwright.async_api import CDPSession, expect

from bench.console_data import fill_etcd, fill_log_store
from tests.console.console import PATIENT_MANAGER, Console, settled
from tests.support.cluster import Cluster, Process
from tests.support.etcd_server import free_port
from tests.support.waiting import wait_until

JOBS, PAUSED, TEAM, A_PAGE = 10_000, 500, 2_000, 50
WITH_RESULTS = 100
MOST_BYTES = 130_000
TYPED, TYPED_THEN, LABEL = "step-42 --SHARD", " 9936", "team=search"
CLICKS = 7
INPUTS = len(TYPED + TYPED_THEN + LABEL) + CLICKS
ANSWERED_WITHIN_MS = 100
"""Of the processor, an input: so long it may work until the next frame, then somebody notices."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def many(cluster: Cluster) -> AsyncIterator[str]:
    """The URL of a manager whose prefix has 10,000 jobs; the first of them have run."""
    port, now_ms = free_port(), time.time_ns() // 1_000_000
    await fill_etcd(cluster.etcd.endpoint, "/many", JOBS, now_ms)
    await fill_log_store(cluster.log_store.uri, "many", WITH_RESULTS, 20 * WITH_RESULTS, now_ms)
    flags = ("--etcd-endpoints", cluster.etcd.endpoint, "--mongodb-uri", cluster.log_store.uri, "--key-prefix", "/many",
             "--mongodb-database", "many", "--api-port", str(port), "--auth", "off", *PATIENT_MANAGER)  # fmt: skip
    manager = Process("manager", "manager-many", cluster.directory / "manager-many", flags)
    manager.start()
    url = f"http://127.0.0.1:{port}"

    async def knows_all() -> bool:
        assert cluster.http is not None
        try:
            async with cluster.http.get(f"{url}/api/v1/jobs", params={"limit": "1"}) as answer:
                return answer.status == 200 and (await answer.json())["total"] == JOBS
        except aiohttp.ClientConnectionError:
            return False

    try:
        await wait_until(knows_all, description="the manager knows all jobs")
        yield url
    finally:
        manager.destroy()


async def worked_s(session: CDPSession) -> float:
    """How long the page's main thread has had the processor; what else the machine does is not in it."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    (found,) = [float(one["value"]) for one in metrics if one["name"] == "TaskDuration"]
    return found


async def test_search_filters_and_pages_answer_among_10_000_jobs(console: Console, many: str) -> None:
    page = await console.open(f"{many}/jobs")
    rows, total = page.locator("#jobs tbody tr"), page.locator("#total")
    await expect(rows).to_have_count(A_PAGE)
    await expect(total).to_have_text("10,000 jobs")
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before_s = await worked_s(session)

    await page.get_by_role("button", name="Paused").click()
    await expect(total).to_have_text(f"{PAUSED} jobs found")
    await page.get_by_role("button", name="All", exact=True).click()
    search = page.get_by_role("searchbox")
    await search.press_sequentially(TYPED, delay=30)
    await expect(total).to_have_text("103 jobs found")
    await expect(rows.first).to_contain_text("billing.job-")
    await search.press_sequentially(TYPED_THEN)
    await expect(rows).to_have_count(1)
    await search.fill("")
    await page.get_by_placeholder("Label, e.g.").press_sequentially(LABEL, delay=30)
    await page.keyboard.press("Enter")
    await expect(total).to_have_text("2,000 jobs found")

    for number in range(2, 5):
        await page.get_by_role("button", name="Next page").click()
        await expect(rows.first).to_contain_text(f"search.job-{1 + 5 * A_PAGE * (number - 1):06d}")
    await page.go_back()
    await expect(rows.first).to_contain_text(f"search.job-{1 + 5 * A_PAGE * 2:06d}")
    await expect(rows).to_have_count(A_PAGE)
    took_ms = (await worked_s(session) - before_s) / INPUTS * 1000
    assert took_ms <= ANSWERED_WITHIN_MS


async def test_first_load_of_a_full_page_is_small(console: Console, many: str) -> None:
    page = await console.open("about:blank", own_context=True)
    session = await page.context.new_cdp_session(page)
    await session.send("Network.enable")
    loaded: dict[str, float] = {}
    names: dict[str, str] = {}

    def note(event: dict[str, Any]) -> None:
        """Of each address the first answer: a page that takes its time asks again."""
        loaded.setdefault(names.get(event["requestId"], ""), event["encodedDataLength"])

    session.on("Network.requestWillBeSent", lambda event: names.update({event["requestId"]: event["request"]["url"]}))
    session.on("Network.loadingFinished", note)
    await page.goto(f"{many}/jobs")
    await settled(page)
    await expect(page.locator("#jobs tbody tr")).to_have_count(A_PAGE)
    await expect(page.locator("#jobs .strip").first).to_be_visible()
    await wait_until(lambda: len(loaded) > 10, description="what the page is made of is told to have been loaded")
    for url, size in sorted(loaded.items(), key=lambda item: -item[1])[:8]:
        print(f"{size:8.0f} {url}")  # noqa: T201
    print(f"first load: {sum(loaded.values()) / 1000:.0f} KB in {len(loaded)} requests")  # noqa: T201
    is_built = any("/vendor/pages/" in url for url in names.values())
    assert is_built, "the scripts have changed since they were built: make assets"
    assert sum(loaded.values()) < MOST_BYTES
