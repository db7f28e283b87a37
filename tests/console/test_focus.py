"""The focus stays where the reader has put it: after a dialog, and while the page changes by itself."""

from __future__ import annotations

import asyncio

from playwright.async_api import Route, expect

from tests.console.console import Console, settled
from tests.support.cluster import EVERY_SECOND, Cluster


async def test_dialog_that_is_called_off_gives_the_focus_back(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    for action in ("Run now", "Pause", "Delete"):
        button = page.get_by_role("button", name=f"Actions: {name}")
        await button.focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name=f"{action}: {name}").press("Enter")
        dialog = page.get_by_role("dialog")
        await expect(dialog.locator(":focus")).to_have_count(1)
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(button).to_be_focused()


async def test_row_or_bar_that_goes_does_not_take_the_focus_along(
    console: Console, cluster: Cluster, name: str
) -> None:
    for number in range(3):
        await cluster.save(f"{name}-{number}", "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    await page.get_by_role("button", name=f"Actions: {name}-1").press("Enter")
    await page.get_by_role("button", name=f"Delete: {name}-1").press("Enter")
    await expect(page.get_by_role("dialog").locator(":focus")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.locator("#jobs tbody tr")).to_have_count(2)
    await expect(page.get_by_role("link", name=f"{name}-2", exact=True)).to_be_focused()
    await page.locator("#pick-all").check()
    await page.locator("#bulk").get_by_role("button", name="Pause").press("Enter")
    await expect(page.get_by_role("dialog").locator(":focus")).to_have_count(1)
    await page.keyboard.press("Enter")
    await expect(page.locator("#bulk")).to_be_hidden()
    await expect(page.locator("#pick-all")).to_be_focused()


async def test_double_click_asks_once(console: Console, cluster: Cluster, name: str) -> None:
    clicked_twice = asyncio.Event()

    async def after_both_clicks(route: Route) -> None:
        await clicked_twice.wait()
        await route.continue_()

    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    await page.route(f"**/api/v1/jobs/{name}", after_both_clicks)
    await page.get_by_role("button", name=f"Actions: {name}").click()
    delete = page.get_by_role("button", name=f"Delete: {name}")
    async with page.expect_response(f"**/api/v1/jobs/{name}"):
        await delete.evaluate("(item) => { item.click(); item.click(); }")
        clicked_twice.set()
    await expect(page.get_by_role("dialog")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_lists_that_change_by_themselves_keep_the_focus(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", EVERY_SECOND)
    page = await console.open(f"/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await row.locator("[data-pick]").check()
    for control in (page.locator("#bulk button").first, row.locator(".c-last a")):
        await control.focus()
        before = await row.locator(".c-last time").first.get_attribute("datetime")
        await expect(row.locator(".c-last time").first).not_to_have_attribute("datetime", str(before))
        async with page.expect_response("**/api/v1/jobs?*"):
            pass
        await expect(control).to_be_focused()
    await page.goto("/workers")
    await settled(page)
    await page.keyboard.press("j")
    link = page.get_by_role("link", name="worker-1")
    await expect(link).to_be_focused()
    try:
        async with page.expect_response("**/api/v1/workers"):
            await cluster.call("POST", "/api/v1/workers/worker-1/drain", {"reason": "a test"})
        await expect(link).to_be_focused()
    finally:
        await cluster.call("POST", "/api/v1/workers/worker-1/undrain", {})
    await cluster.post("/job/delete", name=name)


async def test_job_whose_run_has_ended_leaves_the_list_of_running_ones(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "sleep 600", "@yearly")
    page = await console.open(f"/jobs?state=running&q={name}")
    rows = page.locator("#jobs tbody tr")
    await settled(page)
    await expect(rows).to_have_count(0)
    answer = await page.request.post(f"/api/v1/jobs/{name}/run", data={})
    assert answer.status == 202
    await expect(rows).to_have_count(1)
    await cluster.post("/job/kill", name=name)
    await expect(rows).to_have_count(0)


async def test_year_that_no_date_has_is_said_at_its_field(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs/{name}")
    await settled(page)
    await page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    await dialog.locator("summary").click()
    await dialog.locator("#run-at").fill("20261-01-01T00:00:00")
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.locator("#run-at-error")).to_have_text("is not a date with a time")
    await dialog.locator("#run-at").fill("")
    await dialog.get_by_role("button", name="Run now").click()
    await expect(dialog.get_by_role("link", name="Open the run")).to_be_focused()
