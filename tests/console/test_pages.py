"""Each page: it shows its data, fits into 360 px, has no serious finding of axe, and asks for little on first load."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.console.console import AXE, THEMES, Console, findings, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.waiting import wait_until

PAGES = {
    "overview": "/", "jobs": "/jobs?label=seen", "new": "/new", "crontab": "/crontab",
    "job": "/jobs/shown", "edit": "/jobs/shown/edit",
    "runs": "/runs", "run": "/runs/{run}", "workers": "/workers", "worker": "/workers/worker-1",
    "timeline": "/timeline", "alerts": "/alerts",
    "notifications": "/notifications", "system": "/system",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def run(cluster: Cluster) -> AsyncIterator[str]:
    """The id of a run that has failed; there are jobs of every state."""
    seen = {"labels": {"seen": "here"}}
    fields = {"labels": {"seen": "here", "team": "billing"}, "timezone": "Asia/Shanghai"}
    await cluster.save("shown", "echo one; echo two >&2; exit 3", "0 0 0 1 1 * *")
    await cluster.save("shown", "echo one; echo two >&2; exit 3", EVERY_SECOND, **fields)
    await cluster.save("waiting", "true", "0 30 6 * * MON-FRI *", timezone="America/New_York", **seen)
    await cluster.save("not-now", "true", EVERY_SECOND, enabled=False, **seen)
    await cluster.save("long-one", "exec sleep 1000", EVERY_SECOND, **seen)

    async def has_failed() -> bool:
        return len(await cluster.runs(job="shown", status="failed")) > 2

    await wait_until(has_failed, description="it has failed")
    await cluster.save("shown", "echo one; echo two >&2; exit 3", "0 0 0 1 1 * *", **fields)
    found: str = (await cluster.runs(job="shown", status="failed"))[0]["id"]
    cluster.busy.remove("long-one")  # it goes on, until all of these are over
    yield found
    cluster.busy.add("long-one")
    await cluster.calm()


@pytest.mark.parametrize("page_name", PAGES)
async def test_page_is_accessible_and_fits(console: Console, cluster: Cluster, run: str, page_name: str) -> None:
    page = await console.open(PAGES[page_name].format(run=quote(run, safe="")))
    await settled(page)
    await expect(page.locator("#live")).to_have_text(" Live")
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)
        await expect(page.locator("html")).to_have_attribute("data-bs-theme", theme)
        if AXE.exists():
            assert await findings(page, colours_alone=theme != THEMES[0]) == []
    await console.shoot_all(page, f"page-{page_name}", whole=True)


async def test_everything_that_is_hashed_is_kept_and_nothing_comes_from_elsewhere(console: Console, run: str) -> None:
    page = await console.open("about:blank")
    answers = []
    page.on("response", lambda answer: answers.append(answer))
    await page.goto("/")
    await settled(page)
    assert {answer.url.split("/")[2] for answer in answers} == {console.base.split("/")[2]}
    for answer in answers:
        if "/static/" in answer.url:
            assert "immutable" in (await answer.all_headers())["cache-control"], answer.url


async def test_an_address_without_a_page_leads_back(console: Console) -> None:
    page = await console.open("/nosuchpage")
    await console.shoot(page, "missing")
    await page.get_by_role("link", name="To the overview").click()
    await settled(page)
    await expect(page).to_have_url(f"{console.base}/")
    await expect(page.locator("#all-well")).to_be_visible()
