"""No page asks the manager more than once a second, however much it hears of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import quote

import pytest
from playwright.async_api import Page, Request, Route, expect

from tests.console.console import Console, settled
from tests.console.test_live import NO_SHARED_WORKER
from tests.console.test_run_list import HAND_MADE_EVENTS
from tests.console.test_statistics import COUNTED_BY_THEN_MS
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

TOLD_EVERY_MS = 500
"""As often as a manager tells of changes at most."""
SECONDS = 5
PAGES = ("/", "/jobs", "/jobs?state=running", "/jobs/{job}", "/runs", "/runs/{run}", "/timeline", "/workers",
         "/workers/worker-1", "/alerts", "/notifications", "/system")  # fmt: skip
TELL = """(job) => {
  tell("jobs", { names: [job] });
  tell("jobs", { all: true });
  tell("runs", { jobs: { [job]: { running: [], last: null } } });
  tell("workers", {});
  tell("health", { etcd: "ok", logStore: "ok" });
  tell("failing", { count: 1 });
  tell("ping", {});
}"""

COUNTED_FETCH = """
window.awaited = 0;
window.asked = [];
const ask = window.fetch;
window.fetch = async (...what) => {
  window.awaited += 1;
  window.asked.push({ ms: performance.now(), url: what[0] });
  try {
    const answer = await ask(...what);
    if (!answer.headers.get("content-type")?.includes("event-stream")) await answer.clone().arrayBuffer();
    return answer;
  } finally {
    window.awaited -= 1;
  }
};
"""
ASKED_SINCE = """(began) =>
  [performance.now() - began, window.asked.filter(({ ms }) => ms >= began).map(({ url }) => url)]
"""
_COUNTS = re.compile("/api/v1/(?!.*follow)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A page with a clock of its own, which hears what the test says; what it has asked for, and what was answered."""

    page: Page
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)

    @classmethod
    async def new(cls, console: Console, *, watched: bool = True) -> Asking:
        script = NO_SHARED_WORKER + HAND_MADE_EVENTS + COUNTED_FETCH
        page = await console.open("about:blank", script=script, watched=watched, own_context=True)
        asking = cls(page=page)
        page.on("request", cls._note(asking.asked))
        for event in ("requestfinished", "requestfailed"):
            page.on(event, cls._note(asking.answered))
        await page.clock.install()
        return asking

    @staticmethod
    def _note(into: list[str]) -> Callable[[Request], None]:
        return lambda request: into.append(request.url) if _COUNTS.search(request.url) else None

    async def run_for(self, ms: int) -> None:
        """So much later by its clock, and the page has all answers: later than they were sent, on a slow machine."""
        await self.page.clock.run_for(ms)
        await wait_until(lambda: len(self.answered) == len(self.asked), description="all is answered")
        await wait_until(lambda: self.page.evaluate("window.awaited === 0"), description="the page has the answers")

    async def too_often(self, path: str, job: str) -> list[str]:
        """What a page asks for too often while it is told of everything all the time, for a while of its clock."""
        await self.page.goto(path)
        await settled(self.page)
        await self.page.evaluate("tell('hello', {})")
        await self.run_for(5_000)
        began_ms = await self.page.evaluate("performance.now()")
        for _ in range(SECONDS * 1000 // TOLD_EVERY_MS):
            await self.page.evaluate(TELL, job)
            await self.run_for(TOLD_EVERY_MS)
        # All by the page's own clock: it goes on while this process waits for the page.
        took_ms, asked = await self.page.evaluate(ASKED_SINCE, began_ms)
        took_s, found = took_ms / 1000, [url.partition("/api/v1")[2] for url in asked if _COUNTS.search(url)]
        assert found, f"{path} hears of what concerns it"
        return [f"{path}: {len(found)} in {took_s} s: {Counter(found)}"] if len(found) > took_s + 1 else []


@pytest.mark.slow
async def test_no_page_asks_more_than_once_a_second(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo begun; sleep 600", "@yearly")
    run = (await cluster.call("POST", f"/api/v1/jobs/{name}/run", {}))["runId"]
    asking = await Asking.new(console)
    too_often = [
        what for path in PAGES for what in await asking.too_often(path.format(job=name, run=quote(run, safe="")), name)
    ]
    await cluster.call("POST", f"/api/v1/jobs/{name}/kill", {})
    assert not too_often, "\n".join(too_often)


async def test_of_all_that_runs_each_is_asked_in_its_turn_however_much_else_the_page_asks(console: Console) -> None:
    """It does so while it reloads its overview, while workers do not answer, and while short runs come and go."""
    asking = await Asking.new(console, watched=False)
    runs, plan = [f"j@{at}#1" for at in (1_000, 2_000, 3_000)], count(4_000)

    async def with_runs(route: Route) -> None:
        answer = await route.fetch()
        longest = [
            {"id": run, "jobName": "j", "state": "running", "planTime": 1_000, "startTime": 1_000, "worker": "w",
             "labels": {}}
            for run in (*runs, f"j@{next(plan)}#1")
        ]  # fmt: skip
        await route.fulfill(response=answer, json={**await answer.json(), "longest": longest, "running": 4})

    async def output(route: Route) -> None:
        if quote(runs[2], safe="") in route.request.url:
            await route.fulfill(json={"text": "copying table 12", "progress": {"percent": 40, "text": ""}})
        else:
            await route.fulfill(status=503)

    await asking.page.route("**/api/v1/overview", with_runs)
    await asking.page.route("**/output?*", output)
    await asking.page.goto("/")
    await settled(asking.page)
    await asking.page.clock.pause_at(await asking.page.evaluate("Date.now() + 20_000"))
    await asking.page.evaluate("tell('hello', {})")
    for _ in range(4):
        await asking.run_for(5_250)  # all is quiet, and the overview is asked for at another moment of the second
        before = len(asking.asked)
        for _ in range(30):
            await asking.page.evaluate("tell('ping', {})")
            await asking.run_for(TOLD_EVERY_MS)
        found = asking.asked[before:]
        asked = Counter(run for url in found for run in runs if quote(run, safe="") in url)
        assert all(asked[run] >= 1 for run in runs), (asked, found)
        assert sum("/overview" in url for url in found) >= 4, found
    await expect(asking.page.locator("#running")).to_contain_text("copying table 12")


async def test_a_page_where_nothing_is_wrong_asks_once(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@monthly")
    asking = await Asking.new(console)
    await asking.page.goto(f"/jobs/{name}#runs")
    await settled(asking.page)
    await asking.page.evaluate("tell('hello', {})")
    await asking.run_for(5_000)

    async def asks_no_more() -> bool:
        before = len(asking.asked)
        for _ in range(4):
            await asking.page.evaluate("tell('ping', {})")  # else it asks, as the manager says nothing
            await asking.run_for(6_000)
        return not any("/fires" in url for url in asking.asked[before:])

    # An answer that lacks records, as a busy log store was not in time, is asked for again, and rightly.
    await wait_until(asks_no_more, description="fires are not asked for again")


async def test_a_tab_that_joins_asks_for_each_part_of_a_job_once_more(
    console: Console, cluster: Cluster, name: str
) -> None:
    """What has happened since it asked no event tells it; the first that it is told is how the manager is."""
    await cluster.save(name, "true", "@monthly")
    asking = await Asking.new(console)
    page = asking.page
    await page.goto(f"/jobs/{name}")
    await settled(page)
    async with page.expect_response("**/api/v1/statistics?*"):
        await page.locator("summary").filter(has_text="By day").click()
    await asking.run_for(1_000)
    before = len(asking.asked)
    await page.evaluate("tell('health', { etcd: 'ok', logStore: 'ok' })")
    await asking.run_for(COUNTED_BY_THEN_MS)
    found = asking.asked[before:]
    for part in (f"/jobs/{name}", f"/jobs/{name}/notifications", f"/jobs/{name}/durations", "/statistics"):
        assert any(url.partition("?")[0].endswith(part) for url in found), (part, found)


async def test_what_nobody_looks_at_is_not_asked_for_again_though_it_failed(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@monthly")
    asking = await Asking.new(console, watched=False)
    page = asking.page
    await page.route(re.compile(r"/api/v1/.*(durations|statistics\?)"), lambda route: route.fulfill(status=503))
    await page.goto(f"/jobs/{name}")
    await settled(page)
    fold = page.locator("summary").filter(has_text="By day")
    async with page.expect_response("**/api/v1/statistics?*"):
        await fold.click()
    await expect(page.locator("#statistics .note-bad")).to_be_visible()
    await fold.click()
    await page.get_by_role("tab", name="Versions").click()
    await asking.run_for(10_000)  # what was under way is answered
    before = len(asking.asked)
    for _ in range(2):
        await asking.run_for(COUNTED_BY_THEN_MS)
    assert [url for url in asking.asked[before:] if "/durations" in url or "/statistics" in url] == []

    await page.route(re.compile(rf"/api/v1/jobs/{name}$"), lambda route: route.fulfill(status=503))
    await page.goto(f"/jobs/{name}/edit")
    await expect(page.locator("#problem")).not_to_be_empty()
    await page.evaluate("Object.defineProperty(document, 'hidden', { value: true })")
    await asking.run_for(6_000)  # what was under way is answered
    before = len(asking.asked)
    for _ in range(2):
        await asking.run_for(6_000)
    assert asking.asked[before:] == []
