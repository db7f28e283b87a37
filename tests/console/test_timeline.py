"""The timeline: what ran and what is to come, moved by keys and mouse; the jobs of a crowded hour, spread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, expect

from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.console.console import AXE, Console, Usual, findings, overflow, settled
from tests.support.etcd_server import EtcdServer
from tests.support.joining import join
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing
from tests.support.open_runs import claim, now_ms, record_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

MINUTE_MS = 60_000
CROWD = ("billing", "media", "search", "sync")


@pytest_asyncio.fixture(loop_scope="session")
async def manager(etcd_server: EtcdServer, log_store: LogStore, own_usual: Usual) -> AsyncIterator[Managed]:
    """One of its own, with four jobs at two o'clock, one that runs, one that is paused."""
    place = Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)
    async with managing(place, loops=True, notifier=False, port=own_usual.port) as manager:
        await join(manager, "w1")
        fields = {name: {"cronExpr": "0 2 * * *", "slots": 3, "labels": {"team": "night"}} for name in CROWD}
        fields |= {"hourly": {"every": "1h"}, "paused": {"every": "1h", "enabled": False}}
        for name, of in fields.items():
            await manager.call("PUT", f"/api/v1/jobs/{name}", {"command": "true", **of})
        ago = {Verdict.SUCCESS: (180, 240, 300), Verdict.FAILED: (120,), Verdict.SKIPPED: (60,)}
        planned = [(verdict, now_ms() - minutes * MINUTE_MS) for verdict, times in ago.items() for minutes in times]
        await manager.write([
            record_of(RunId.planned("hourly", at), verdict, **(
                {"end_ms": at + 20 * MINUTE_MS + 2} if verdict.is_of_a_run else {}))
            for verdict, at in planned
        ])  # fmt: skip
        await claim(manager, "hourly", now_ms() - 5 * MINUTE_MS)
        yield manager


@pytest_asyncio.fixture(loop_scope="session")
async def own(browser: Browser, manager: Managed, own_usual: Usual, screenshots: Path | None) -> AsyncIterator[Console]:
    console = Console(browser=browser, usual=own_usual, base=own_usual.base, screenshots=screenshots)
    yield console
    await console.close()
    assert console.problems == []


async def looked_at(console: Console, page: Page, name: str) -> None:
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, name, whole=True)


async def test_lanes_tell_what_ran_and_what_is_to_come_and_are_moved_by_keys_and_mouse(own: Console) -> None:
    page = await own.open("/timeline?hours=12")
    await settled(page)
    lanes = page.locator("#lanes")
    failed = lanes.get_by_role("link", name=re.compile(r"hourly .*: failed, 20 min"))
    await expect(failed).to_have_attribute("href", re.compile("/runs/hourly%40"))
    await expect(lanes.get_by_role("link", name=re.compile("Usually done by"))).to_have_count(1)
    await expect(lanes.get_by_role("img", name=re.compile("paused paused since"))).to_have_count(0)
    await lanes.get_by_role("button", name="Show 1 paused job").click()
    await expect(lanes.get_by_role("img", name=re.compile("paused paused since"))).to_have_count(1)
    await expect(lanes.get_by_role("button", name="Hide paused jobs")).to_be_focused()
    await expect(page.locator("#heat")).to_contain_text(re.compile("(Slots wanted at once|Fires in the hour): ?[0-9]"))
    await looked_at(own, page, "timeline")

    first = lanes.locator(".mark[tabindex='0']")
    await first.focus()
    said = await first.get_attribute("aria-label")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator(".mark:focus")).not_to_have_attribute("aria-label", said or "")
    await expect(lanes.locator(".tip")).to_be_visible()
    await lanes.locator(".chart-of").hover(position={"x": 2, "y": 2})  # a page that moves under a mouse does so, too
    await expect(lanes.locator(".tip")).to_be_visible()

    await lanes.get_by_role("button", name=re.compile("table")).click()
    row = lanes.get_by_role("row", name=re.compile("^hourly"))
    await expect(row).to_contain_text(re.compile("3 success.*1 failed|1 skipped"))
    await expect(row).to_contain_text("20 min 00 s")
    await lanes.get_by_role("button", name=re.compile("chart")).click()

    await page.locator("h1").click()
    await page.keyboard.press("+")
    await expect(page).to_have_url(re.compile("from=[0-9]+&to=[0-9]+"))
    near = page.url
    await page.keyboard.press("ArrowRight")
    await expect(page).not_to_have_url(near)
    box = await page.locator("#pressure .chart-of").bounding_box()
    assert box is not None
    moved = page.url
    await page.mouse.move(box["x"] + 500, box["y"] + 60)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 300, box["y"] + 60, steps=4)
    await page.mouse.up()
    await expect(page).not_to_have_url(moved)
    await page.keyboard.press("0")
    await expect(page).to_have_url(re.compile("hours=12$"))

    await page.get_by_role("button", name="Label", exact=True).click()
    await expect(page.locator("#lanes .lane-name")).to_have_text(["night (4)"])
    await page.get_by_role("button", name="Workers", exact=True).click()
    await expect(page.locator("#lanes .lane-name")).to_have_text(["w1"])


async def test_crowded_hour_is_spread_and_a_job_that_was_changed_meanwhile_stays(
    own: Console, manager: Managed
) -> None:
    page = await own.open("/timeline")
    await settled(page)
    await expect(page.locator("#fullest")).to_contain_text(re.compile("5 fires, 1[23] slots"))
    crowd, fullest = page.locator("#crowd"), page.get_by_role("button", name="Show the jobs")
    await fullest.press("Enter")
    await expect(crowd.get_by_role("row")).to_have_count(6)
    await crowd.get_by_role("button", name="Close").press("Enter")
    await expect(fullest).to_be_focused()
    await page.get_by_role("button", name=re.compile(r"5 fires, 1[23] slots")).first.click()
    await expect(crowd.get_by_role("row")).to_have_count(6)
    await crowd.get_by_role("checkbox", name="Spread hourly").uncheck()
    await looked_at(own, page, "timeline-crowd")
    await crowd.get_by_role("button", name="Preview").click()
    await expect(crowd).to_contain_text("5 fires become")
    await expect(crowd).to_contain_text("of 2.")
    await expect(crowd.get_by_role("row", name=re.compile("billing"))).to_contain_text("H 2 * * *")
    await looked_at(own, page, "timeline-spread")

    await manager.call("PUT", "/api/v1/jobs/sync", {"command": "true", "cronExpr": "0 5 * * *"})
    await crowd.get_by_role("button", name="Save 4 jobs").click()
    await expect(page.locator("#toasts")).to_contain_text("3 jobs saved")
    await page.locator("#toasts .toast-box").hover()  # so it stays
    await expect(crowd).to_contain_text("1 job was not saved")
    await expect(crowd).to_contain_text("sync")
    schedules = [(await manager.get(f"/api/v1/jobs/{name}"))["spec"]["cronExpr"] for name in CROWD]
    assert schedules == ["H 2 * * *"] * 3 + ["0 5 * * *"]

    await manager.call("PUT", "/api/v1/jobs/media", {"command": "false", "cronExpr": "H 2 * * *", "slots": 3})
    await expect(page.locator("#fullest")).to_contain_text(re.compile("[0-9] fires, [34] slots"))
    await page.locator("#toasts").get_by_role("button", name="Undo").click()
    await expect(page.locator("#toasts")).to_contain_text("2 jobs fire as before")
    await expect(page.locator("#toasts")).to_contain_text("media: it has been changed since, and stays as it is")
    schedules = [(await manager.get(f"/api/v1/jobs/{name}"))["spec"]["cronExpr"] for name in CROWD]
    assert schedules == ["0 2 * * *", "H 2 * * *", "0 2 * * *", "0 5 * * *"]
    await expect(page.locator("#fullest")).to_contain_text(re.compile("[0-9] fires, [67] slots"))


async def test_the_hour_that_has_begun_is_not_told_as_the_fullest_to_come(own: Console) -> None:
    hour = now_ms() // 3_600_000 * 3_600_000
    later = hour + 24 * 3_600_000  # the next hour may begin meanwhile
    items = [{"time": at, "fires": 9, "slots": slots, "waitMs": 0} for at, slots in ((hour, 9), (later, 8))]

    async def week(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, json={**await answer.json(), "items": items})

    page = await own.open("about:blank")
    await page.route("**/api/v1/forecast/week*", week)
    await page.goto("/timeline")
    await expect(page.locator("#fullest .big")).to_contain_text("9 fires, 8 slots")
    whose = page.get_by_role("button", name="Show the jobs")
    await expect(whose).to_have_attribute("data-crowd", f"{later}")


async def test_an_answer_that_is_overtaken_is_not_shown_under_what_was_asked_for_last(
    own: Console, manager: Managed
) -> None:
    await manager.call("PUT", "/api/v1/jobs/later", {"command": "true", "cronExpr": "30 2 * * *"})
    page = await own.open("/timeline")
    await settled(page)
    crowd = page.locator("#crowd")
    await page.get_by_role("button", name="Show the jobs").click()
    minute, hour = crowd.locator("button[aria-pressed=true]"), crowd.locator("button[aria-pressed=false]")
    await expect(hour).to_have_count(1)
    rows = await crowd.get_by_role("row").count()
    released, held = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        held.set()
        await released.wait()
        await route.fulfill(response=await route.fetch())

    await page.route("**/forecast/jobs?*", late, times=1)
    await hour.click()
    await held.wait()
    async with page.expect_response("**/forecast/jobs?*"):
        await minute.click()
    async with page.expect_response("**/forecast/jobs?*"):
        released.set()
    await settled(page)
    await expect(crowd.get_by_role("row")).to_have_count(rows)


async def test_all_jobs_of_the_crowded_minute_are_reached_spread_in_one_step_and_put_back_in_one(
    own: Console, manager: Managed
) -> None:
    names = [f"crowd-{number:03d}" for number in range(120)]
    for name in names:
        await manager.call("PUT", f"/api/v1/jobs/{name}", {"command": "true", "cronExpr": "0 3 * * *"})
    await manager.call("PUT", "/api/v1/jobs/crowd-chosen", {"command": "true", "cronExpr": "30 0 3 * * * *"})
    page = await own.open("/timeline?q=crowd")
    await settled(page)
    await expect(page.locator("#fullest")).to_contain_text("With 2 slots the last one starts about 59 s late.")
    crowd = page.locator("#crowd")
    await page.get_by_role("button", name="Show the jobs").click()
    await expect(crowd.get_by_role("heading")).to_contain_text("121 jobs")
    await expect(crowd).to_contain_text("120 jobs selected")
    await expect(crowd.get_by_role("row")).to_have_count(101)
    assert await overflow(page) == 0
    await crowd.get_by_role("button", name="Next").click()
    await expect(crowd.get_by_role("row")).to_have_count(22)
    await expect(crowd.get_by_role("checkbox", checked=True)).to_have_count(20)  # not the chosen one
    await looked_at(own, page, "timeline-crowd-many")
    await crowd.get_by_role("button", name="Preview").click()
    await expect(crowd).to_contain_text(
        re.compile(r"122 fires become \d\d?, and 121 slots wanted at once become \d\d?, of 2")
    )
    await looked_at(own, page, "timeline-spread-many")
    await crowd.get_by_role("button", name="Save 120 jobs").click()
    await expect(page.locator("#toasts")).to_contain_text("120 jobs saved")
    await page.locator("#toasts .toast-box").hover()  # so it stays
    after = await manager.get("/api/v1/jobs", q="crowd-0", limit="500")
    assert {job["spec"]["cronExpr"] for job in after["items"]} == {"H 3 * * *"}
    await page.locator("#toasts").get_by_role("button", name="Undo").click()
    await expect(page.locator("#toasts")).to_contain_text("Undoing the change of 120 jobs.")
    await expect(page.locator("#toasts")).to_contain_text("120 jobs fire as before")
    before = await manager.get("/api/v1/jobs", q="crowd-0", limit="500")
    assert {job["spec"]["cronExpr"] for job in before["items"]} == {"0 3 * * *"}


async def test_back_shows_the_week_of_what_was_searched_for_before(own: Console) -> None:
    page = await own.open("/timeline")
    await settled(page)
    await page.locator("#by [data-by=worker]").click()
    async with page.expect_request("**/forecast/week?q=nothing"):
        await page.locator("#filters [name=q]").fill("nothing")
    await settled(page)
    async with page.expect_request("**/forecast/week"):
        await page.go_back()
