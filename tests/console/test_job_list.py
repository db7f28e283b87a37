"""The list of jobs: search and filters live in the URL, many jobs at once, the keyboard alone, pages by the server."""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import quote

from playwright.async_api import Locator, Route, expect

from common.clock import SystemClock
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.txn import Delete, Txn
from tests.console.console import AXE, Console, choose, findings, overflow, script_of_ours, settled
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until


async def test_search_and_filters_are_in_the_url_and_back_goes_back(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(f"{name}-a", "echo needle", "@yearly", labels={"team": name})
    await cluster.save(f"{name}-b", "true", "@yearly", labels={"team": name}, enabled=False)
    page = await console.open("/jobs")
    rows = page.locator("#jobs tbody tr")
    await settled(page)
    await page.keyboard.press("/")
    await page.keyboard.type(name)
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(re.compile(rf"\?q={name}$"))
    await page.get_by_role("button", name="Paused").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(f"{name}-b")
    await page.go_back()
    await expect(rows).to_have_count(2)
    await expect(page.get_by_role("button", name="All", exact=True)).to_have_attribute("aria-pressed", "true")

    again = await console.open(f"/jobs?label=team%3D{name}&state=enabled")
    await expect(again.locator("#jobs tbody tr")).to_have_count(1)
    chips = again.get_by_role("group", name="Active filters")
    await expect(chips).to_contain_text(f"team={name}")
    await chips.get_by_role("button", name=re.compile("Enabled")).click()
    await expect(again.locator("#jobs tbody tr")).to_have_count(2)
    await expect(chips).not_to_contain_text("Enabled")
    await again.get_by_role("searchbox").fill("no such job at all")
    await expect(again.locator("#empty")).to_contain_text("No jobs match.")
    await expect(again.locator("#pick-all")).to_be_disabled()  # a choice of nothing would not stay
    await again.locator("#empty").get_by_role("button", name="Clear filters").click()
    await expect(again.locator("#jobs tbody tr").first).to_be_visible()
    await expect(again).to_have_url(re.compile(r"/jobs$"))


async def test_labels_of_a_row_narrow_the_list_one_by_one(console: Console, cluster: Cluster) -> None:
    for letter, tier in (("a", "1"), ("b", "2")):
        await cluster.save(f"chips-{letter}", "true", "@yearly", labels={"team": "chips", "tier": tier})
    page = await console.open("/jobs?q=chips")
    rows, chips = page.locator("#jobs tbody tr"), page.get_by_role("group", name="Active filters")
    await expect(rows).to_have_count(2)
    async with page.context.expect_page() as another:
        await rows.first.get_by_role("link", name="team=chips").click(modifiers=["Control"])
    await (await another.value).close()
    await expect(page).to_have_url(re.compile("q=chips$"))
    await rows.first.get_by_role("link", name="team=chips").click()
    await expect(page).to_have_url(re.compile("q=chips&label=team%3Dchips$"))
    await rows.first.get_by_role("link", name="tier=1").click()
    await expect(rows).to_have_count(1)
    await expect(page).to_have_url(re.compile("&label=tier%3D1$"))
    await page.get_by_placeholder("Label, e.g.").fill("no-such-label")
    await page.keyboard.press("Enter")
    await expect(rows).to_have_count(0)
    await chips.get_by_role("button", name="no-such-label").click()
    await chips.get_by_role("button", name="tier=1").click()
    await expect(rows).to_have_count(2)
    await expect(chips.get_by_role("button", name="Clear filters")).to_be_focused()
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "chips")
    await page.go_back()
    await expect(rows).to_have_count(1)


async def test_pages_come_from_the_server(console: Console, cluster: Cluster, name: str) -> None:
    await asyncio.gather(*(cluster.save(f"{name}-{n:02d}", "true", "@yearly") for n in range(55)))
    page = await console.open(f"/jobs?q={name}")
    rows = page.locator("#jobs tbody tr")
    await expect(rows).to_have_count(50)
    await expect(page.locator("#total")).to_have_text("55 jobs found")
    await page.get_by_role("button", name="Next page").click()
    await expect(rows).to_have_count(5)
    await expect(rows.first).to_contain_text(f"{name}-50")
    await expect(rows.first.locator(".row-name")).to_be_focused()
    await expect(page.locator("#jobs thead")).to_be_in_viewport()
    await page.reload()
    await expect(rows).to_have_count(5)
    await page.get_by_role("button", name="First page").click()
    await expect(rows).to_have_count(50)


async def test_many_jobs_are_paused_resumed_and_deleted_at_once(console: Console, cluster: Cluster, name: str) -> None:
    for letter in "abc":
        await cluster.save(f"{name}-{letter}", "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    rows, dialog = page.locator("#jobs tbody tr"), page.get_by_role("dialog")
    await expect(rows).to_have_count(3)
    await page.get_by_label("Select all on this page").check()
    await expect(page.locator("#bulk")).to_contain_text("3 jobs selected")
    await page.get_by_label(f"Select {name}-c").uncheck()
    await page.locator("#bulk").get_by_role("button", name="Pause").click()
    await expect(dialog).to_contain_text(f"{name}-a, {name}-b")
    await console.shoot(page, "bulk-pause")
    await dialog.get_by_role("textbox").fill("holidays")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(rows.filter(has_text="holidays")).to_have_count(2)
    await expect(page.locator("#bulk")).to_be_hidden()

    await page.get_by_label("Select all on this page").check()
    await page.locator("#bulk").get_by_role("button", name="Resume").click()
    await dialog.get_by_role("button", name="Resume").click()
    await expect(rows.filter(has_text="enabled")).to_have_count(3)
    await expect(page.locator("#bulk")).to_be_hidden()
    await page.get_by_label("Select all on this page").check()
    await page.locator("#bulk").get_by_role("button", name="Delete").click()
    await dialog.get_by_role("button", name="Delete").click()
    await expect(rows).to_have_count(0)


async def test_action_on_many_jobs_whose_answer_was_lost_is_not_done_twice(
    console: Console, cluster: Cluster, name: str
) -> None:
    for one in (names := [f"{name}-a", f"{name}-b"]):
        await cluster.save(one, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}", watched=False)
    answers: list[bytes] = []

    async def lose(route: Route) -> None:
        answers.append(await (await route.fetch()).body())
        await route.abort()

    await page.route("**/api/v1/jobs/bulk", lose, times=1)
    await page.get_by_label("Select all on this page").check()
    await page.locator("#bulk").get_by_role("button", name="Run now").click()
    button = page.get_by_role("dialog").get_by_role("button", name="Run now")
    await button.click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("may or may not have been done")
    async with page.expect_response("**/api/v1/jobs/bulk") as again:
        await button.click()
    await expect(page.locator("#toasts")).to_contain_text("2")
    assert [await (await again.value).body()] == answers
    assert (await again.value).headers["idempotency-replayed"] == "true"

    async def have_run() -> bool:
        return all([await cluster.runs(job=one) for one in names])

    await wait_until(have_run, description="both have run")
    assert [len(await cluster.runs(job=one)) for one in names] == [1, 1]


async def test_jobs_of_which_no_answer_came_are_not_said_to_be_as_they_were(console: Console) -> None:
    page = await console.open("/jobs")
    calls: list[list[str]] = []

    async def lose_the_second(route: Route) -> None:
        calls.append(names := json.loads(route.request.post_data or "")["names"])
        done = {"results": [{"name": one, "ok": True, "message": "paused", "changed": True} for one in names]}
        await (route.fulfill(json=done) if len(calls) == 1 else route.fulfill(body="a proxy's"))

    await page.route("**/api/v1/jobs/bulk", lose_the_second)
    jobs = [{"name": f"no-{n}", "running": [], "revision": 1, "state": "enabled"} for n in range(250)]
    await page.evaluate(
        "async ([module, jobs]) => void (await import(module)).actOnAll('pause', jobs)",
        [await script_of_ours(page, "actions_on_all.js"), jobs],
    )
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(dialog).to_contain_text("100 jobs paused")
    await expect(dialog).to_contain_text("100 jobs: whether it was done is not known.")
    await expect(dialog).to_contain_text("50 jobs were not reached and stay as they are.")
    assert len(calls) == 2


async def test_run_that_began_after_its_job_was_picked_is_named_before_it_is_killed(
    console: Console, cluster: Cluster, name: str
) -> None:
    for job in (f"{name}-a", f"{name}-b"):
        await cluster.save(job, "exec sleep 1000", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    row = page.get_by_role("row").filter(has_text=f"{name}-a")
    await page.locator("#pick-all").check()
    await cluster.call("POST", f"/api/v1/jobs/{name}-a/run", {})
    await expect(row.locator(".c-state .tone-run")).to_be_visible()
    bar, dialog = page.locator("#bulk"), page.get_by_role("dialog")
    await bar.get_by_role("button", name="Delete").click()
    await expect(dialog.get_by_role("list")).to_contain_text(f"{name}-a")
    await dialog.get_by_role("button", name="Cancel").click()

    await page.locator("#search").fill(f"{name}-b")
    await expect(row).to_have_count(0)
    await bar.get_by_role("button", name="Kill").click()
    await expect(dialog).to_contain_text("One of them is not on this page: it may be running.")
    await expect(dialog).not_to_contain_text("No run is going.")
    await cluster.call("POST", f"/api/v1/jobs/{name}-a/kill", {})


async def test_duration_is_that_of_the_run_whose_result_is_shown(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await expect(row.locator(".c-took")).to_have_text("")
    await settled(page)
    held = asyncio.Queue[Route]()
    await page.route("**/api/v1/jobs?*", held.put)  # what is heard from now on is told by events
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    await expect(row.locator(".c-last")).to_contain_text("success")
    await expect(row.locator(".c-took")).to_contain_text("s")


async def test_all_that_match_are_acted_on_and_who_fails_is_named(
    console: Console, cluster: Cluster, name: str
) -> None:
    names = [f"{name}-{n:03d}" for n in range(104)]
    await asyncio.gather(*(cluster.save(one, "true", "@yearly", labels={"team": name}) for one in names))
    page = await console.open(f"/jobs?label=team%3D{name}")
    bar, dialog = page.locator("#bulk"), page.get_by_role("dialog")
    await page.get_by_label("Select all on this page").check()
    await expect(bar).to_contain_text("50 jobs selected")
    await bar.get_by_role("button", name="Select all 104 that match").click()
    await expect(bar).to_contain_text("All 104 jobs that match are selected")
    await cluster.call("DELETE", f"/api/v1/jobs/{names[-1]}")
    await bar.get_by_role("button", name="Pause").click()
    await expect(dialog).to_contain_text("104 jobs will not fire")
    await dialog.get_by_role("button", name="Pause").click()
    await expect(dialog).to_contain_text("103 jobs paused")
    await expect(dialog).to_contain_text(f"{names[-1]}: there is no job")
    await console.shoot(page, "bulk-failed")
    await dialog.get_by_role("button", name="Close").last.click()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#toasts")).to_contain_text("103 jobs resumed.")
    assert (await cluster.get("/api/v1/jobs", label=f"team={name}", state="paused"))["total"] == 0

    await page.goto(f"/jobs?q={names[0]}")
    await page.get_by_label(f"Select {names[0]}").check()
    await bar.get_by_role("button", name="Labels").click()
    await dialog.get_by_label("Labels to set").fill("tier=1, a b=c")
    await dialog.get_by_role("button", name="Labels").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("a b")
    await dialog.get_by_label("Labels to set").fill("tier=1")
    await dialog.get_by_label("Labels to remove").fill("team")
    await dialog.get_by_role("button", name="Labels").click()
    await expect(page.locator("#jobs .label")).to_have_text(["tier=1"])
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("#jobs .label")).to_have_text([f"team={name}"])


async def test_keyboard_alone_is_enough(console: Console, cluster: Cluster, name: str) -> None:
    for letter in "ab":
        await cluster.save(f"{name}-{letter}", "true", "@yearly")
    page = await console.open(f"/jobs?q={name}", own_context=True)
    await expect(page.locator("#jobs tbody tr")).to_have_count(2)
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name=f"{name}-b", exact=True)).to_be_focused()
    await page.keyboard.press("k")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/jobs/{name}-a")
    await settled(page)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts and verdicts")
    await console.shoot(page, "help")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.keyboard.press("e")
    await page.wait_for_url(f"**/jobs/{name}-a/edit")
    await settled(page)
    await page.keyboard.press("Escape")
    await page.clock.set_fixed_time(SystemClock().wall_ms())  # two keys that belong together are no 1.5 s apart
    await page.keyboard.press("g")
    await page.keyboard.press("w")
    await page.wait_for_url("**/workers")
    await settled(page)
    await page.keyboard.press("n")
    await page.wait_for_url("**/new")
    await expect(page.locator("#f-name")).to_be_focused()


async def test_key_whose_name_no_job_can_have_breaks_no_page(console: Console, cluster: Cluster) -> None:
    """Somebody has put it there with etcdctl; the first one is a byte that is no UTF-8."""
    names = ("\udcff", "a/b <i>c", "..", "x" * 300)
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        for foreign in names:
            await etcd.put(Keys("/etcron").job(foreign), b"no job")
        try:
            page = await console.open("/jobs?state=broken")
            rows = page.locator("#jobs tbody tr")
            await expect(rows).to_have_count(len(names))
            await expect(page.locator("#total")).to_have_text(f"{len(names)} jobs found")
            await expect(page.locator("#problem")).to_be_empty()
            assert await overflow(page) == 0
            for row in await rows.all():
                await expect(row.locator(".c-state")).to_have_text(" broken")
            await console.shoot_all(page, "impossible-names")
            for link in [await one.get_attribute("href") for one in await rows.get_by_role("link").all()]:
                answer = await page.request.get(str(link))
                assert answer.status < 500, link
            await rows.filter(has_text="<i>c").locator("[data-row-link]").click()
            await expect(page.get_by_role("heading", level=1)).to_have_text("a/b <i>c")
            await expect(page.locator("#problem")).not_to_be_empty()
            await settled(page)
            for path in ("/", "/jobs", "/runs", "/workers", "/system"):
                await page.goto(path)
                await settled(page)
            await page.goto("/jobs?state=broken")
            for left, foreign in ((3, ".."), (2, "<i>c")):
                row = rows.filter(has_text=foreign)
                await row.locator(".c-actions button").first.click()
                await row.locator("[data-action=delete]").click()
                await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
                await expect(rows).to_have_count(left)
            await page.locator("#pick-all").check()
            await page.locator("#bulk").get_by_role("button", name="Delete").click()
            await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
            await expect(rows).to_have_count(0)
        finally:
            for foreign in names:
                await etcd.txn(Txn([], [Delete(Keys("/etcron").job(foreign))]))


async def test_redrawn_row_keeps_the_focus(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    actions = page.get_by_role("button", name=f"Actions: {name}")
    await actions.focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name=f"Pause: {name}").press("Enter")
    await page.get_by_role("dialog").get_by_role("textbox").press("Enter")
    await expect(page.locator("#jobs .c-state").last).to_have_text(" paused")
    await expect(actions).to_be_focused()
    await cluster.save(name, "true", "@monthly", enabled=False)
    await expect(page.locator("#jobs .c-schedule").last).to_contain_text("@monthly")
    await expect(actions).to_be_focused()


async def test_a_first_fire_that_waits_or_goes_on_is_no_job_without_fires(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(f"{name}-waits", "true", "* * * * * * *", workers={"no": "such"})
    await cluster.save(f"{name}-goes", "sleep 600", "@yearly")
    await cluster.call("POST", f"/api/v1/jobs/{name}-goes/run", {})
    await cluster.save(f"{name}-new", "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")

    def last(job: str) -> Locator:
        return page.locator("#jobs tbody tr").filter(has_text=f"{name}-{job}").locator(".c-last")

    await expect(last("waits")).to_contain_text("waiting")
    await expect(last("waits")).to_contain_text("no live worker has the labels no=such")
    await expect(last("goes")).to_have_text("first run going")
    await expect(last("new")).to_have_text("no result yet")
    await console.shoot(page, "jobs-first-fires")
    for job in ("waits", "goes", "new"):
        await cluster.post("/job/delete", name=f"{name}-{job}")
    await cluster.post("/job/kill", name=f"{name}-goes")


async def test_a_pause_and_a_delete_are_taken_back(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(f"{name}-a", "true", "@yearly")
    await cluster.save(f"{name}-b", "true", "@yearly", enabled=False)
    await cluster.save(f"{name}-c", "echo kept", "@yearly", labels={"kept": "too"})
    page = await console.open("/livez", own_context=True)
    await page.clock.set_fixed_time(SystemClock().wall_ms())  # it can be taken back on the next page for 10 s
    await page.goto(f"/jobs?q={name}")
    states, dialog, undo = (
        page.locator("#jobs td.c-state"),
        page.get_by_role("dialog"),
        page.get_by_role("button", name="Undo"),
    )
    await expect(states).to_have_count(3)
    await page.locator("#pick-all").check()
    await page.locator("#bulk").get_by_role("button", name="Pause").click()
    await dialog.get_by_role("textbox").fill("the disk is replaced")
    await dialog.get_by_role("button", name="Pause").click()
    await undo.hover()  # so it stays
    await expect(states).to_have_text([" paused"] * 3)
    await undo.click()
    await expect(page.locator("#toasts")).to_contain_text("2 jobs resumed.")
    await expect(states).to_have_text([" enabled", " paused", " enabled"])  # the one that was paused before is

    await choose(page, "Delete", f"{name}-c")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(states).to_have_count(2)
    await console.shoot(page, "undo")
    await page.goto("/runs")  # it can be taken back on the next page, by a key
    await expect(undo).to_be_visible()
    await page.keyboard.press("z")
    await expect(page.locator("#toasts")).to_contain_text(f"{name}-c is back.")
    job = await cluster.get(f"/api/v1/jobs/{name}-c")
    assert (job["spec"]["command"], job["spec"]["labels"], job["state"]) == ("echo kept", {"kept": "too"}, "enabled")


async def test_jobs_are_sorted_by_the_heads_of_their_columns(console: Console, cluster: Cluster, name: str) -> None:
    for job, cron in (("a", "0 0 0 1 1 * 2098"), ("b", "0 0 0 1 1 * 2097"), ("c", "0 0 0 1 1 * 2099")):
        await cluster.save(f"{name}-{job}", "exit 3" if job == "c" else "true", cron)
    await cluster.call("POST", f"/api/v1/jobs/{name}-c/run", {})
    page = await console.open(f"/jobs?q={name}")
    names = page.locator("#jobs .row-name")
    await expect(page.locator("#jobs tbody tr").last).to_contain_text("failed")

    async def is_in(order: str, head: str, direction: str) -> None:
        await expect(names).to_have_text([f"{name}-{job}" for job in order])
        await expect(page.get_by_role("columnheader", name=head)).to_have_attribute("aria-sort", direction)

    await is_in("abc", "Name", "ascending")
    await page.get_by_role("button", name="Next fire").click()
    await is_in("bac", "Next fire", "ascending")
    await page.get_by_role("button", name="Next fire").press("Enter")
    await is_in("cab", "Next fire", "descending")
    await page.get_by_role("button", name="Last verdict").click()
    await is_in("cab", "Last verdict", "descending")
    await expect(page).to_have_url(re.compile(r"sort=-failure"))
    await page.go_back()
    await is_in("cab", "Next fire", "descending")
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.get_by_label("Sort by").select_option("Name, Z to A")
    await expect(names).to_have_text([f"{name}-{job}" for job in "cba"])


async def test_palette_goes_anywhere_by_keys_alone(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("/runs")
    await settled(page)
    await page.keyboard.press("Control+k")
    await page.keyboard.type(name)  # also what is typed before it is there
    palette = page.get_by_role("dialog")
    await expect(palette.get_by_role("combobox")).to_have_value(name)
    option = palette.get_by_role("option", name=name)
    await expect(option).to_have_attribute("aria-selected", "true")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "palette")
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/jobs/{name}")
    await settled(page)

    await page.keyboard.press("Control+k")
    await expect(palette.get_by_role("option", name=f"Pause: {name}")).to_be_visible()
    await page.keyboard.type("pause")
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog").get_by_role("textbox").press("Enter")
    await expect(page.locator("#state")).to_have_text(" paused")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("no such thing at all")
    await expect(palette.get_by_role("status")).to_have_text("Nothing found.")
    await page.keyboard.press("Escape")
    await expect(palette).to_have_count(0)
    run = (await cluster.call("POST", f"/api/v1/jobs/{name}/run", {}))["runId"]
    await page.keyboard.press("Control+k")
    await page.keyboard.type(run)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/runs/{quote(run)}")
    await expect(page.locator("#live")).to_have_text(" Live")  # its scripts are there
    await page.keyboard.press("Control+k")
    async with page.expect_response("**/api/v1/jobs?*"):
        await page.keyboard.type("workers")
    workers = palette.get_by_role("option", name="Workers")
    await expect(workers).to_be_visible()
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowDown")
    await expect(workers).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/workers")


async def test_palette_keeps_what_is_chosen_whatever_is_found_later(
    console: Console, cluster: Cluster, name: str
) -> None:
    job = f"{name}-job"
    await cluster.save(job, "true", "@yearly")
    page = await console.open("/runs")
    await settled(page)
    palette, held = page.get_by_role("dialog"), asyncio.Queue[Route]()
    await page.keyboard.press("Control+k")
    await page.keyboard.type(job)
    await expect(palette.get_by_role("option", name=job)).to_have_attribute("aria-selected", "true")
    await page.route("**/api/v1/jobs?*", held.put)
    await page.keyboard.type("@1700000000000")  # the id of a run: the job was found for what was typed before
    run = palette.get_by_role("option", name=f"{job}@1700000000000#1")
    await expect(run).to_have_attribute("aria-selected", "true")

    await palette.get_by_role("combobox").fill("")
    await palette.get_by_role("combobox").fill("job")
    while "q=job&" not in (answer := await held.get()).request.url:
        pass
    await page.keyboard.press("ArrowDown")
    new = palette.get_by_role("option", name="New job")
    await expect(new).to_have_attribute("aria-selected", "true")
    await answer.continue_()
    await expect(palette.get_by_role("group")).to_have_count(2)  # the jobs stand before the pages
    await expect(new).to_have_attribute("aria-selected", "true")


async def test_palette_opens_nothing_that_was_found_for_another_text(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open("/runs")
    await settled(page)
    palette, held = page.get_by_role("dialog"), asyncio.Queue[Route]()
    await page.keyboard.press("Control+k")
    await page.keyboard.type(name)
    await expect(palette.get_by_role("option", name=name)).to_have_attribute("aria-selected", "true")
    await page.route("**/api/v1/jobs?*", held.put)
    await palette.get_by_role("combobox").fill("nothing-like-it")
    await expect(palette.get_by_role("option")).to_have_count(0)
    while "nothing-like-it" not in (answer := await held.get()).request.url:
        pass
    await answer.fulfill(status=409, json={"code": "unavailable", "detail": "etcd does not answer"})
    await expect(palette.get_by_role("status")).to_have_text("etcd does not answer")
