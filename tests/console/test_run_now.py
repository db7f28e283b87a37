"""Run now: one click and a confirmation, or with arguments; the run's page shows its life and goes on by itself."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote, unquote

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until

IN_A_WEEK = """() => {
  const then = new Date(Date.now() + 7 * 86400e3);
  return new Date(then - then.getTimezoneOffset() * 60e3).toISOString().slice(0, 19);
}"""
"""As the field has it, also in a week in which the clocks change."""


async def open_dialog(page: Page, *, options: bool = True) -> Locator:
    """Run now, on a job's page or of the job that a list shows; with what is folded away."""
    menu = page.get_by_role("button", name="Actions: ")
    if "/jobs?" in page.url:
        await menu.click()
    await page.get_by_role("button", name="Run now").first.click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Run now")).to_be_focused()
    if options:
        await dialog.locator("summary").click()
    return dialog


async def ask(dialog: Locator) -> str:
    """Confirms; the address of the run that was asked for."""
    await dialog.get_by_role("button", name="Run now").click()
    link = dialog.get_by_role("link", name="Open the run")
    await expect(link).to_be_focused()
    return str(await link.get_attribute("href"))


async def test_one_click_in_the_list_and_a_confirmation_run_a_paused_job(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "echo it ran", "@yearly", enabled=False)
    page = await console.open(f"/jobs?q={name}")
    dialog = await open_dialog(page, options=False)
    await ask(dialog)
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/runs/**")
    await expect(page.locator("#state")).to_have_text(" success")
    await expect(page.locator("#output")).to_have_text("it ran")
    await expect(page.locator("#facts")).to_contain_text("manual")


async def test_run_that_nobody_has_waited_for_is_told_all_the_same(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    asked, closed = asyncio.Event(), asyncio.Event()

    async def late(route: Route) -> None:
        asked.set()
        await closed.wait()
        await route.continue_()

    await page.route(f"**/api/v1/jobs/{name}/run", late)
    dialog = await open_dialog(page, options=False)
    await dialog.get_by_role("button", name="Run now").click()
    await asked.wait()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    closed.set()
    await expect(page.locator("#toasts")).to_contain_text("Run requested.")


async def test_manager_that_is_out_of_reach_is_said_in_the_question(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    # A context of its own: nothing has been fetched for another test.
    page = await console.open(f"/jobs?q={name}", watched=False, own_context=True)
    await settled(page)
    await page.context.set_offline(True)
    dialog = await open_dialog(page, options=False)
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("The manager cannot be reached.")


@pytest.mark.parametrize("lost_by", ["network", "proxy"])
async def test_run_whose_answer_was_lost_is_asked_for_again_and_runs_once(
    console: Console, cluster: Cluster, name: str, lost_by: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs/{name}", watched=False)

    async def lose(route: Route) -> None:
        await route.fetch()
        await (route.abort() if lost_by == "network" else route.fulfill(status=502, body="<h1>Bad Gateway</h1>"))

    await page.route(f"**/api/v1/jobs/{name}/run", lose, times=1)
    dialog = await open_dialog(page)
    await dialog.get_by_role("button", name="Run now").click()
    said = "The manager cannot be reached." if lost_by == "network" else "The manager answered with HTTP status 502."
    await expect(dialog.get_by_role("alert")).to_have_text(
        f"{said} This may or may not have been done. If you ask for the same again here, it is not done twice."
    )
    await console.shoot_all(page, f"run-now-lost-by-{lost_by}")
    url = await ask(dialog)
    (run,) = await requested(cluster, name, count=1)
    assert url.endswith(quote(run))
    await dialog.get_by_role("button", name="Close").last.click()

    # Another wish is another run: with other words in the same dialog, and with the same in another one.
    await page.route(f"**/api/v1/jobs/{name}/run", lose, times=1)
    dialog = await open_dialog(page)
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.get_by_role("alert")).to_contain_text(said)
    await dialog.get_by_label("Reason").fill("another wish")
    await ask(dialog)
    await requested(cluster, name, count=3)


async def requested(cluster: Cluster, name: str, *, count: int) -> list[str]:
    """All runs of a job, once so many have ended."""

    async def ended() -> list[str]:
        return [str(run["id"]) for run in await cluster.runs(job=name)]

    async def are_there() -> bool:
        return len(await ended()) >= count

    await wait_until(are_there, description=f"{count} have run")
    runs = await ended()
    assert len(runs) == count
    return runs


async def test_arguments_and_environment_reach_the_run(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, 'echo "$1, $2, $LEVEL"', "@yearly")
    page = await console.open(f"/jobs/{name}")
    dialog = await open_dialog(page)
    await dialog.get_by_label("Arguments, one per line").fill("one word\n<b>two</b>")
    environment = dialog.get_by_label("Environment variables, one NAME=value per line")
    await environment.fill("no equals sign")
    await dialog.get_by_label("Reason").fill("to see it")
    await dialog.get_by_role("button", name="Run now").click()
    await expect(environment).to_be_focused()
    await expect(dialog).to_contain_text("no equals sign; As NAME=value")
    await environment.fill("A B=c")
    await dialog.get_by_role("button", name="Run now").click()
    await expect(environment).to_be_focused()
    await expect(dialog.locator("#run-env-error")).not_to_be_empty()
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "run-now-dialog")
    await environment.fill("LEVEL=a=b")
    await ask(dialog)
    await console.shoot(page, "run-now-asked")
    await page.keyboard.press("Enter")
    await expect(page.locator("#output")).to_have_text("one word, <b>two</b>, a=b")
    for step in ("Created", "Claimed", "Started", "Ended"):
        await expect(page.locator("#life li.is-reached").filter(has_text=step)).to_have_count(1)
    await expect(page.locator("#facts")).to_contain_text("CPU time")
    await console.shoot_all(page, "run-of-arguments")


async def test_run_at_a_later_time_waits_and_can_be_ended_before(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs/{name}")
    dialog = await open_dialog(page)
    soon = await page.evaluate("new Date(Date.now() + 7 * 86400e3).getFullYear()")
    in_a_week = await page.evaluate(IN_A_WEEK)
    await dialog.get_by_label("Not before").fill(in_a_week)
    url = await ask(dialog)
    await expect(dialog).to_contain_text(f"It starts at {soon}")
    await dialog.get_by_role("button", name="Close").last.click()
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#upcoming tbody tr").filter(has_text="requested by")).to_contain_text("in 6 d 23 h")
    await page.goto(url)
    await expect(page.locator("#state")).to_have_text(" created")
    await expect(page.locator("#why")).to_contain_text("waiting for its time")
    await expect(page.locator("#life li").filter(has_text="Planned")).to_contain_text("in 6 d 23 h")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "run-created")
    await page.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("#state")).to_have_text(" killed")


async def test_second_one_with_the_same_key_is_said_to_be_the_first(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs/{name}")
    urls = []
    for said in ("Run requested.", "no second one was created"):
        dialog = await open_dialog(page)
        await dialog.get_by_label("Run once per key").fill("order-7")
        urls.append(await ask(dialog))
        await expect(dialog).to_contain_text(said)
        await dialog.get_by_role("button", name="Close").last.click()
        await expect(dialog).to_have_count(0)
    assert urls[0] == urls[1]
    assert unquote(urls[0]).startswith(f"/runs/{name}@r-")
    await page.get_by_role("tab", name="Runs").click()
    await expect(page.locator("#recent tbody tr")).to_have_count(1)
    await expect(page.locator("#recent tbody tr")).to_contain_text(re.compile("success.*manual"))


async def test_broadcast_runs_on_each_worker_and_is_shown_so(console: Console, cluster: Cluster, name: str) -> None:
    async with cluster.another_worker("worker-other"):
        await cluster.save(name, "exec sleep 1000", "@yearly", broadcast=True, slots=2, priority=5)
        page = await console.open(f"/jobs/{name}")
        await settled(page)
        await expect(page.locator("#facts")).to_contain_text("on every matching worker, 2 slots, priority 5")
        dialog = await open_dialog(page, options=False)
        await dialog.get_by_role("button", name="Run now").click()
        first = dialog.get_by_role("link", name="Open the run on worker-1")
        assert unquote(str(await first.get_attribute("href"))).startswith(f"/runs/{name}~worker-1@")
        await expect(dialog.get_by_role("link", name="Open the run on worker-other")).to_have_count(1)
        await dialog.get_by_role("button", name="Close").last.click()
        for worker in ("worker-1", "worker-other"):
            await expect(page.locator("#facts")).to_contain_text(re.compile(rf"running [\w ]+ s on {worker}"))
        await console.shoot_all(page, "job-broadcast")
        listed = await console.open(f"/jobs?q={name}")
        state = listed.locator("#jobs td.c-state")
        await expect(state).to_contain_text("and 1 more")
        await expect(state.get_by_title(re.compile("worker-1, worker-other")).first).to_be_visible()
        await page.get_by_role("button", name="Kill").click()
        await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
        await page.get_by_role("tab", name="Runs").click()
        await expect(page.locator("#recent tbody tr").filter(has_text="killed")).to_have_count(2)
