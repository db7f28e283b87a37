"""No page asks the manager more than once a second, however much it hears of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from urllib.parse import quote

from playwright.async_api import Request

from tests.console.console import Console, settled
from tests.console.test_live import NO_SHARED_WORKER
from tests.console.test_run_list import HAND_MADE_EVENTS
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

TOLD_EVERY_MS = 500
"""As often as a manager tells of changes at most."""
SECONDS = 10
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


async def asked_too_often(console: Console, path: str, job: str) -> list[str]:
    """What the page asks for too often while it is told of everything all the time, for a while of its own clock."""
    page = await console.open("about:blank", script=NO_SHARED_WORKER + HAND_MADE_EVENTS)
    asked: list[str] = []
    answered: list[str] = []

    def note(into: list[str]) -> Callable[[Request], None]:
        return lambda request: into.append(request.url) if re.search("/api/v1/(?!.*follow)", request.url) else None

    page.on("request", note(asked))
    for event in ("requestfinished", "requestfailed"):
        page.on(event, note(answered))
    await page.clock.install()
    await page.goto(path)
    await settled(page)
    await page.evaluate("tell('hello', {})")
    await page.clock.run_for(5_000)
    await wait_until(lambda: len(answered) == len(asked), description="all is answered")
    before, began_ms = len(asked), await page.evaluate("performance.now()")
    for _ in range(SECONDS * 1000 // TOLD_EVERY_MS):
        await page.evaluate(TELL, job)
        await page.clock.run_for(TOLD_EVERY_MS)
        await wait_until(lambda: len(answered) == len(asked), description="all is answered")
    took_s = (await page.evaluate("performance.now()") - began_ms) / 1000
    await page.close()
    found = [url.partition("/api/v1")[2] for url in asked[before:]]
    assert found, f"{path} hears of what concerns it"
    return [] if len(found) <= took_s + 1 else [f"{path}: {len(found)} in {took_s} s: {Counter(found).most_common()}"]


async def test_no_page_asks_more_than_once_a_second(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo begun; sleep 600", "@yearly")
    run = (await cluster.call("POST", f"/api/v1/jobs/{name}/run", {}))["runId"]
    too_often = [
        what for path in PAGES
        for what in await asked_too_often(console, path.format(job=name, run=quote(run, safe="")), name)
    ]  # fmt: skip
    await cluster.call("POST", f"/api/v1/jobs/{name}/kill", {})
    assert not too_often, "\n".join(too_often)
