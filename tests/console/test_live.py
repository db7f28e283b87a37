"""The page is live by itself: one stream for all tabs, asking where that fails, a chip where nobody answers."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal

import pytest
from playwright.async_api import Route, expect

from common.clock import SystemClock
from tests.console.console import Console, choose, script_of_ours, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.waiting import PATIENCE_S, wait_until

LOOKS_AFTER_AN_EVENT = 2
LOOKS_BEFORE_ITS_OWN = 2
"""As the page is opened, and as it is told how the manager is."""
# Without the shared worker the page has a stream of its own, which a test can cut off.
NO_SHARED_WORKER = "delete window.SharedWorker;"


async def shared_workers(console: Console, url: str) -> int:
    """How many there are in the browser context of the pages at a URL."""
    session = await console.browser.new_browser_cdp_session()
    targets = (await session.send("Target.getTargets"))["targetInfos"]
    await session.detach()
    (context,) = {one["browserContextId"] for one in targets if one["type"] == "page" and one["url"] == url}
    return sum(one["type"] == "shared_worker" and one["browserContextId"] == context for one in targets)


async def test_all_tabs_share_one_stream(console: Console, cluster: Cluster, name: str) -> None:
    first = await console.open(f"/jobs?q={name}", own_context=True)  # in the usual one a page that is kept has it, too
    second = await first.context.new_page()
    await second.goto(f"/jobs?q={name}")
    for page in (first, second):
        await expect(page.locator("#live")).to_have_text(" Live")
    assert await shared_workers(console, first.url) == 1
    await cluster.save(name, "true", EVERY_SECOND)
    for page in (first, second):
        await expect(page.locator("#jobs .strip .is-success").first).to_be_visible()
    await cluster.post("/job/delete", name=name)
    for page in (first, second):
        await expect(page.locator("#jobs tbody tr")).to_have_count(0)


async def test_tab_that_joins_is_told_the_managers_time(console: Console) -> None:
    """Where the browser's clock is off, it would count wrongly until the next heartbeat."""
    page = await console.open("/")
    await expect(page.locator("#live")).to_have_text(" Live")
    heard = await page.evaluate(
        """() => new Promise((resolve) => {
          const { port } = new SharedWorker(document.body.dataset.liveWorker, { type: "module", name: "etcron" });
          const heard = [];
          port.onmessage = ({ data }) => {
            heard.push(data);
            if (data.name === "health") resolve(heard);
          };
        })"""
    )
    now_ms, *_ = [one["data"]["nowMs"] for one in heard if "nowMs" in one.get("data", {})]
    assert abs(now_ms - SystemClock().wall_ms()) < 60_000


async def test_page_asks_where_the_stream_fails(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("about:blank", script=NO_SHARED_WORKER, watched=False)
    await page.route("**/api/v1/events", lambda route: route.abort())
    await page.goto(f"/jobs?q={name}")
    await expect(page.locator("#live")).to_have_text(" Every 5 s")
    await cluster.save(name, "true", "@yearly")
    await expect(page.locator("#jobs tbody tr")).to_have_count(1)


async def test_page_has_a_stream_of_its_own_where_the_shared_worker_says_nothing(console: Console) -> None:
    silent = "window.SharedWorker = class { port = { postMessage() {} }; };"
    page = await console.open("/jobs", script=silent)
    await expect(page.locator("#live")).to_have_text(" Live")


async def test_page_has_a_stream_of_its_own_where_the_shared_worker_falls_silent(console: Console) -> None:
    silent = """
        const Worker = SharedWorker;
        window.SharedWorker = class {
          constructor(...how) {
            const { port } = new Worker(...how);
            this.port = { postMessage: (message) => port.postMessage(message) };
            port.onmessage = (event) => this.isSilent || this.port.onmessage(event);
            window.fallSilent = () => (this.isSilent = true);
          }
        };
    """
    page = await console.open("about:blank", script=silent, own_context=True)
    await page.clock.install()
    await page.goto("/jobs")
    await expect(page.locator("#live")).to_have_text(" Live")
    await page.evaluate("fallSilent()")
    async with page.expect_request("**/api/v1/events"):
        await page.clock.run_for(31_000)


async def test_page_closes_its_own_stream_once_the_shared_worker_speaks(console: Console) -> None:
    late = """
        window.own = [];
        window.EventSource = class extends EventSource { constructor(url) { super(url); own.push(this); } };
        const Worker = SharedWorker;
        window.SharedWorker = class {
          constructor(...how) {
            const { port } = new Worker(...how);
            this.port = { postMessage: (message) => port.postMessage(message) };
            setTimeout(() => (port.onmessage = (event) => this.port.onmessage(event)), 8000);
          }
        };
    """
    page = await console.open("/jobs", script=late)
    await expect(page.locator("#live")).to_have_text(" Live")

    async def is_closed() -> bool:
        return bool(await page.evaluate("own.length === 1 && own[0].readyState === 2"))

    await wait_until(is_closed, description="the page has no stream of its own any more")
    await expect(page.locator("#live")).to_have_text(" Live")


async def test_stream_in_the_page_itself_works_too(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open(f"/jobs?q={name}", script=NO_SHARED_WORKER)
    await expect(page.locator("#live")).to_have_text(" Live")
    await cluster.save(name, "true", "@yearly")
    await expect(page.locator("#jobs tbody tr")).to_have_count(1)


async def test_manager_that_is_gone_is_said_and_recovered_from(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    (manager,) = cluster.managers
    jobs = await console.open(f"/jobs?q={name}", watched=False)
    await settled(jobs)
    edit = await jobs.context.new_page()
    await edit.goto(f"/jobs/{name}/edit")
    await settled(edit)
    await edit.get_by_label("Command").fill("echo typed before")
    await manager.end(signal.SIGKILL)
    try:
        for page in (jobs, edit):
            await expect(page.locator("#live")).to_contain_text("Stale: manager unreachable since")
        await console.shoot(jobs, "manager-gone")
        await expect(jobs.locator("#jobs tbody tr")).to_have_count(1)
        await edit.get_by_role("button", name="Save").click()
        await expect(edit.locator("#problem")).to_contain_text("The manager cannot be reached.")
    finally:
        manager.start()
        await cluster.ready()
    for page in (jobs, edit):
        await expect(page.locator("#live")).to_have_text(" Live")
    await edit.get_by_role("button", name="Save").click()
    await edit.wait_for_url(f"**/jobs/{name}")
    await cluster.save(name, "true", "@monthly")
    await expect(jobs.locator("#jobs .c-schedule").last).to_contain_text("@monthly")


async def test_server_that_is_away_is_named_and_recovered_from(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}", watched=False)
    chip, row = page.locator("#live"), page.locator("#jobs tbody tr")
    await expect(chip).to_have_text(" Live")
    cluster.log_store.pause()
    try:
        await expect(chip).to_contain_text("Log store unreachable since")
        await console.shoot_all(page, "log-store-away")
        await cluster.etcd.stop()
        await expect(chip).to_contain_text("Stale: etcd and log store unreachable since")
        await console.shoot_all(page, "both-away")
        system = await page.context.new_page()
        await system.goto("/system")
        for server in ("etcd", "Log store"):
            await expect(system.locator(".check-of").filter(has_text=server).first).to_contain_text("unreachable")
        await console.shoot_all(system, "system-both-away")
    finally:
        cluster.log_store.resume()
    try:
        await expect(chip).to_contain_text("Stale: etcd unreachable since")
        await expect(row).to_have_count(1)
        await expect(page.locator("#problem")).to_contain_text(
            "etcd cannot be reached: jobs and runs are shown as they"
        )
        await choose(page, "Pause", name)
        await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
        await expect(page.locator("#toasts .tone-bad")).to_contain_text("etcd")
        await console.shoot_all(page, "etcd-away")
    finally:
        await cluster.etcd.start()
        await cluster.ready()
    await expect(chip).to_have_text(" Live")
    await expect(page.locator("#problem")).to_be_empty()
    await expect(system.locator(".check-of").filter(has_text="etcd").first).to_contain_text("OK")
    await cluster.save(name, "true", "@monthly")
    await expect(row.locator(".c-schedule")).to_contain_text("@monthly")


STREAM_THAT_FAILS = """
window.EventSource = class extends EventTarget {
  constructor() { super(); window.stream = this; }
  say(name, data) { this.dispatchEvent(new MessageEvent(name, { data: JSON.stringify(data) })); }
  close() {}
};
"""
AWAY = {"etcd": "away", "logStore": "ok", "sinceMs": 1_700_000_000_000, "problem": None}
NO_WORKER = {"etcd": "ok", "logStore": "ok", "sinceMs": None, "fires": {"state": "none", "sinceMs": 1, "why": None}}


@pytest.mark.parametrize(
    ("told", "status", "shown", "chip", "mark"),
    [
        (AWAY, "unready", "etcd is unreachable", "etcd unreachable since", " Nothing fires"),
        (None, "unready", "This manager is not ready", " Manager not ready", " Manager not ready"),
        (NO_WORKER, "unready", "This manager is not ready", " Manager not ready", " Manager not ready"),
        (NO_WORKER, "degraded", "no worker is live", " Every 5 s", " Nothing fires"),
    ],
)
async def test_manager_that_knows_nobody_while_etcd_is_away_is_not_shown_as_well(
    console: Console, told: dict[str, object] | None, status: str, shown: str, chip: str, mark: str
) -> None:
    """After five minutes without etcd a manager believes no rights, and tells everybody its status alone."""
    answer = {"status": status}
    page = await console.open("about:blank", script=NO_SHARED_WORKER + STREAM_THAT_FAILS, watched=False)
    await page.route("**/readyz?verbose", lambda route: route.fulfill(status=503, json=answer))
    await page.goto("/workers")
    await wait_until(lambda: page.evaluate("'stream' in window"), description="the page listens")
    if told:
        await page.evaluate("(health) => stream.say('health', health)", told)
        await expect(page.locator("#halt")).not_to_be_empty()
    async with page.expect_request("**/api/v1/overview"):  # after what it was told, the page counts what fails
        await page.evaluate("stream.onerror()")
    await expect(page.locator("#halt")).to_contain_text(shown)
    await expect(page.locator("#live")).to_contain_text(chip)
    await expect(page.locator("#mark")).to_have_text(mark)
    await expect(page).to_have_title("(!) Workers - etcron")
    answer["status"] = "ready"
    await expect(page.locator("#halt")).to_be_empty()
    await expect(page.locator("#live")).to_have_text(" Every 5 s")


async def test_what_is_wrong_stays_said_while_it_is_wrong(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", watched=False)
    answer = {"status": 503, "content_type": "application/problem+json", "body": '{"detail": "the log store is away"}'}
    await page.route(f"**/api/v1/jobs/{name}/fires*", lambda route: route.fulfill(**answer))
    await page.goto(f"/jobs/{name}#runs")
    problem = page.locator("#problem")
    await expect(problem).to_have_text("the log store is away")
    await problem.evaluate(
        "(box) => new MutationObserver(() => { window.drawn = 1 }).observe(box, { childList: true })"
    )
    async with page.expect_response(f"**/api/v1/jobs/{name}/fires*"):
        await cluster.save(name, "true", "@monthly")
    await expect(page.locator("#facts")).to_contain_text("@monthly")
    async with page.expect_response(f"**/api/v1/jobs/{name}/fires*"):
        pass  # it looks once more
    assert await page.evaluate("window.drawn") is None
    await page.unroute(f"**/api/v1/jobs/{name}/fires*")
    await cluster.save(name, "true", "@weekly")
    await expect(problem).to_be_empty()


async def test_call_that_nobody_answers_is_given_up_and_sent_again(
    console: Console, cluster: Cluster, name: str
) -> None:
    """As where the network has gone and come back: no connection has been told that its other end is gone."""
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", watched=False, own_context=True)
    await page.clock.install()
    asked = asyncio.Event()
    await page.route("**/api/v1/jobs?*", lambda _: asked.set(), times=1)
    await page.goto(f"/jobs?q={name}")
    await asked.wait()
    await expect(page.locator("#live")).to_have_text(" Live")
    await page.clock.run_for(60_000)
    await expect(page.locator("#jobs tbody tr")).to_have_count(1)


@pytest.mark.parametrize("path", ["/jobs?q={name}", "/jobs/{name}"])
async def test_page_asks_again_after_an_error_that_no_event_ends(
    console: Console, cluster: Cluster, name: str, path: str
) -> None:
    """As where a call was under way while a server went away, and the event of its return came before the answer."""
    await cluster.save(name, "true", "@yearly")
    page = await console.open(path.format(name=name), watched=False)
    await expect(page.locator("#live")).to_have_text(" Live")
    refused = asyncio.Event()
    refusals = itertools.count(1)

    async def refuse(route: Route) -> None:
        if next(refusals) == LOOKS_AFTER_AN_EVENT:
            refused.set()
        await route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "no answer in time"}')

    calls = re.compile(rf"/api/v1/(jobs\?|runs\?|jobs/{name}$)")
    await page.route(calls, refuse)
    await cluster.save(name, "true", "@monthly")  # the last event that comes
    await refused.wait()
    await expect(page.locator("#problem")).to_have_text("no answer in time")
    await page.unroute(calls)
    await expect(page.locator("#problem")).to_be_empty()


@pytest.mark.parametrize(
    ("path", "calls", "place"),
    [
        ("/jobs?q={name}", r"/api/v1/jobs\?", "#problem"),
        ("/runs?job={name}", r"/api/v1/runs\?", "#problem"),
        ("/jobs/{name}", "/api/v1/jobs/{name}$", "#health"),
    ],
)
async def test_page_asks_again_after_a_warning_that_no_event_ends(
    console: Console, cluster: Cluster, name: str, path: str, calls: str, place: str
) -> None:
    """As where the log store was too slow for one call, and in time for what tells how it is."""
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", watched=False)
    warned, looks = asyncio.Event(), itertools.count(1)

    async def warn(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), "warnings": ["no results in time"]})
        if next(looks) > LOOKS_BEFORE_ITS_OWN:
            warned.set()

    await page.route(re.compile(calls.format(name=name)), warn)
    await page.goto(path.format(name=name))
    said = page.locator(place).filter(has_text=re.compile("no results in time|Results are unknown"))
    await expect(said).to_have_count(1)
    async with asyncio.timeout(PATIENCE_S):
        await warned.wait()
    await page.unroute_all(behavior="wait")
    await expect(said).to_have_count(0)


@pytest.mark.parametrize(
    ("path", "call", "place", "looks"),
    [
        ("/account", "/sessions", "#problem", 1),
        ("/access", "/users", "#problem", 1),
        ("/audit", "/audit", "#problem", 1),
        ("/jobs/{name}/edit", "/jobs/{name}", "#problem", 1),
        ("/jobs/{name}#versions", "/jobs/{name}/versions", "#versions-problem", LOOKS_BEFORE_ITS_OWN + 1),
    ],
)
async def test_page_that_hears_of_no_change_asks_again_after_an_error(
    console: Console,
    cluster: Cluster,
    administrator: dict[str, str],
    name: str,
    path: str,
    call: str,
    place: str,
    looks: int,
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("about:blank", watched=False, headers=administrator)
    refused, refusals = asyncio.Event(), itertools.count(1)

    async def refuse(route: Route) -> None:
        if next(refusals) == looks:
            refused.set()
        await route.fulfill(status=503, content_type="application/problem+json", body='{"detail": "no answer in time"}')

    calls = re.compile(rf"/api/v1{call.format(name=name)}(\?|$)")
    await page.route(calls, refuse)
    await page.goto(path.format(name=name))
    await expect(page.locator(place)).to_have_text("no answer in time")
    async with asyncio.timeout(PATIENCE_S):
        await refused.wait()
    await page.unroute(calls)
    await expect(page.locator(place)).to_be_empty()
    await expect(page.locator("#job-form")).to_be_visible(visible="edit" in path)


async def test_workers_come_and_go_by_themselves(console: Console, cluster: Cluster) -> None:
    page = await console.open("/workers")
    row = page.locator("#workers tbody tr")
    await expect(row).to_have_count(1)
    await expect(row).to_contain_text("healthy")
    await expect(row).to_contain_text(re.compile(r"\d+ of \d+"))
    (worker,) = cluster.workers
    await worker.end()
    await expect(page.locator("#workers")).to_contain_text("No worker is running")
    worker.start()
    await cluster.ready()  # which takes its time on a busy machine
    await expect(row).to_have_count(1)


async def test_running_run_ends_on_its_page(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo begun; exec sleep 1000", EVERY_SECOND)

    async def runs() -> bool:
        return bool((await cluster.get(f"/api/v1/jobs/{name}"))["running"])

    await wait_until(runs, description="it runs")
    page = await console.open(f"/jobs/{name}")
    await page.locator("#facts").get_by_role("link", name="running").click()
    await expect(page.locator("#output")).to_contain_text("begun")
    await expect(page.locator("#state")).to_have_text(" running")
    await cluster.save(name, "true", "@yearly")
    await page.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("textbox").fill("seen enough")
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("#state")).to_have_text(" killed")
    await expect(page.locator("#output")).to_have_text("begun")
    await expect(page.locator("main")).to_contain_text("seen enough")


async def test_run_that_is_claimed_ahead_of_its_time_counts_from_then_by_itself(console: Console) -> None:
    page = await console.open("about:blank", own_context=True)
    await page.clock.install()
    await page.goto("/")
    await page.evaluate(
        """async (module) => {
          const { stamp } = await import(module);
          document.body.append(Object.assign(stamp(Date.now() + 600_000, { as: "lasting" }), { id: "ahead" }));
        }""",
        await script_of_ours(page, "stamp.js"),
    )
    await expect(page.locator("#ahead")).to_have_text("claimed")
    await page.clock.fast_forward(601_000)
    await expect(page.locator("#ahead")).to_have_text(re.compile(r"\d s"))
