"""Whether all is well: the overview, the mark on every page, the banner where nothing fires, a fresh installation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from common.protocol.drain import Drain
from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.console.console import AXE, Console, Usual, findings, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.counting import count_records
from tests.support.etcd_server import EtcdServer
from tests.support.joining import join
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import claim, now_ms, record_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

SPEC = {"command": "true", "cronExpr": "0 0 0 1 1 * 2199"}
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A manager of one's own: what is counted is of its jobs alone."""

    manager: Managed
    console: Console

    async def fail(self, job: str, *, ago: int = 2, **changes: object) -> None:
        await self.manager.call("PUT", f"/api/v1/jobs/{job}", SPEC)
        values = {"exit_code": 1, "err": "exit status 1", "output": "reading\nno such host: db-7\n"} | changes
        run = RunId.planned(job, now_ms() - ago * MINUTE_MS)
        await self.manager.write([record_of(run, Verdict.FAILED, **values)])


@pytest_asyncio.fixture(loop_scope="session")
async def world(
    browser: Browser, own_usual: Usual, etcd_server: EtcdServer, log_store: LogStore, screenshots: Path | None
) -> AsyncIterator[World]:
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, loops=True, notifier=False, port=own_usual.port) as manager:
        console = Console(browser=browser, usual=own_usual, base=own_usual.base, screenshots=screenshots)
        yield World(manager=manager, console=console)
        await console.close()
        assert console.problems == []


async def shown(page: Page, text: str) -> None:
    await expect(page.locator("#verdict")).to_have_text(re.compile(text))
    await settled(page)


async def looked_at(world: World, page: Page, name: str) -> None:
    if AXE.exists():
        assert await findings(page) == []
    await world.console.shoot_all(page, name, whole=True)


async def lose_the_answer(route: Route) -> None:
    """As a proxy does that has been cut off from the manager."""
    await route.fetch()
    await route.fulfill(body="an answer of another")


async def test_a_fresh_installation_says_what_to_do_until_there_is_a_job_and_a_worker(world: World) -> None:
    page = await world.console.open("/")
    await shown(page, "Nothing fires")
    await expect(page.locator("#halt")).to_contain_text("there is no worker yet")
    await expect(page.locator("#first-steps").get_by_role("link", name="Paste a crontab")).to_be_visible()
    await looked_at(world, page, "overview-fresh")
    await join(world.manager, "w1")
    await shown(page, "No jobs yet")
    await expect(page.locator("#halt")).to_be_empty()
    await world.manager.call("PUT", "/api/v1/jobs/first", SPEC)
    await shown(page, "Your job is well")
    await expect(page.locator("#first-steps")).to_be_empty()
    await expect(page.locator("#mark")).to_be_hidden()
    await looked_at(world, page, "overview-well")


async def test_failing_jobs_are_seen_on_every_page_and_what_they_have_in_common_first(world: World) -> None:
    await join(world.manager, "w1")
    for number in range(5):
        await world.fail(f"alike-{number}", ago=number + 2)
    await world.fail("other", exit_code=127, err="exit status 127", output="sh: 1: tool: not found\n")
    await world.manager.call("PUT", "/api/v1/jobs/slow", SPEC)
    await claim(world.manager, "slow", now_ms() - 90_000)
    await count_records(world.manager.runlog)
    page = await world.console.open("/")
    await shown(page, "6 of 7 jobs failing")
    await expect(page).to_have_title("(6) Overview - etcron")
    groups = page.locator(".alike > li")
    await expect(groups).to_have_count(2)
    await expect(groups.first).to_contain_text("5 jobs")
    await expect(groups.first).to_contain_text("exit status 1")
    await expect(groups.first).to_contain_text("alike-0: no such host: db-7")
    newest = groups.first.locator(".alike-names a").first
    await expect(groups.first.get_by_role("link", name=re.compile("^Open the run: alike-0"))).to_have_attribute(
        "href", re.compile("^/runs/alike-0")
    )
    await expect(newest).to_have_text("alike-0")
    await expect(page.locator("#running")).to_contain_text("slow")
    await expect(page.locator("#day")).to_contain_text("failed 6")
    await groups.first.get_by_role("button", name="and 2 more").click()
    await expect(groups.first.locator(".alike-jobs")).to_contain_text("alike-4")
    await looked_at(world, page, "overview-failing")

    # By keyboard: all of them are run again, and kept quiet.
    await groups.first.get_by_role("button", name="Run again: 5 jobs").focus()
    await page.keyboard.press("Enter")
    await page.route("**/api/v1/jobs/alike-1/run", lose_the_answer, times=1)
    await page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    await expect(page.locator("#toasts")).to_contain_text("4 runs requested")
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(
        re.compile("alike-1: .*may or may not have been done.*not done twice")
    )
    await page.get_by_role("dialog").get_by_role("button", name="Run again").click()
    await expect(page.locator("#toasts")).to_contain_text("1 run requested")
    assert await world.manager.etcd.count(world.manager.keys.requests) == 5
    await groups.first.get_by_role("button", name="Silence: 5 jobs").click()
    await page.get_by_role("dialog").get_by_role("button", name="Silence").click()
    await expect(groups.first).to_contain_text("silenced until")
    await expect(groups.first.locator(".alike-jobs")).to_be_visible()

    # The mark leads back here, and goes once nothing fails.
    await page.locator("#tiles").get_by_role("link", name="Jobs").click()
    await expect(page.locator("#mark")).to_have_text(" 6 failing")
    await expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile("icon-bad"))
    for job in ("alike-0", "alike-1", "alike-2", "alike-3", "alike-4", "other"):
        run = await claim(world.manager, job, now_ms())
        await world.manager.write([record_of(run)])
        await world.manager.etcd.delete(world.manager.keys.run(run))
    await expect(page.locator("#mark")).to_be_hidden()
    await expect(page).to_have_title("Jobs - etcron")
    await expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile(r"icon\.svg"))


async def test_a_banner_says_on_every_page_that_nothing_fires_and_since_when(world: World) -> None:
    await world.manager.call("PUT", "/api/v1/jobs/a", SPEC | {"cronExpr": EVERY_SECOND})
    await world.manager.etcd.put(world.manager.keys.drain("w1"), Drain(by="ada", since_ms=now_ms()).to_json())
    await join(world.manager, "w1", not_accepting="drained by ada")
    page = await world.console.open("/")
    await expect(page.locator("#tiles [data-key=late]")).to_have_text(re.compile("^1.*Late"))
    await expect(page.locator("#next")).to_contain_text("no worker takes fires")
    await expect(page.locator("#next")).not_to_contain_text("of 0")
    await looked_at(world, page, "overview-halted")
    await page.goto("/runs")
    await expect(page.locator("#halt")).to_contain_text("all workers are drained. Since")
    await expect(page).to_have_title("(!) Runs - etcron")
    await page.locator("#halt").get_by_role("link", name="Workers").click()
    await page.wait_for_url("**/workers")
    await join(world.manager, "w2")
    await expect(page.locator("#halt")).to_be_empty()
    await expect(page).to_have_title("Workers - etcron")


async def test_what_runs_shows_how_far_it_is_and_what_it_printed_last(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "echo '::progress 40% half of it'; echo copying table 12; exec sleep 1000", EVERY_SECOND)
    page = await console.open("/")
    row = page.locator("#running li").filter(has_text=name)
    await expect(row).to_contain_text("copying table 12")
    await expect(row).to_contain_text("40 %")
    await expect(row.locator("progress")).to_have_attribute("value", "40")
    await cluster.save(name, "true", "@yearly")
    await row.get_by_role("button", name=f"Kill: {name}").click()
    await page.get_by_role("dialog").get_by_role("textbox").fill("seen enough")
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(row).to_have_count(0)


async def test_of_two_runs_of_one_job_each_is_killed_by_a_button_of_its_own(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    asked: list[str] = []

    async def with_two(route: Route) -> None:
        answer = await route.fetch()
        runs = [
            {"id": f"{name}@{at}#1", "jobName": name, "state": "running", "planTime": at, "startTime": at,
             "worker": worker, "labels": {}}
            for at, worker in ((1_000, "w1"), (2_000, "w1"), (2_000, "w2"))
        ]  # fmt: skip
        await route.fulfill(response=answer, json={**await answer.json(), "longest": runs})

    async def kill(route: Route) -> None:
        asked.append(unquote(route.request.url))
        await route.fulfill(json={"message": "asked for", "outcome": "requested"})

    page = await console.open("/", watched=False)
    await page.route("**/api/v1/overview", with_two)
    await page.route("**/kill", kill)
    await page.reload()
    buttons = page.locator("#running").get_by_role("button", name=f"Kill: {name}")
    await expect(buttons).to_have_count(3)
    names = [await one.get_attribute("aria-label") for one in await buttons.all()]
    assert len(set(names)) == 3, names
    await buttons.nth(1).click()
    await expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(names[1] or "")
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("#toasts")).to_contain_text("asked for")
    assert [url.split("/api/v1")[1] for url in asked] == [f"/runs/{name}@2000#1/kill"]
