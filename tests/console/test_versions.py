"""Versions: who changed what, any two of them field by field, the way back, and that of a deleted job."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import Page, Route, expect

from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.waiting import wait_until


async def open_versions(console: Console, cluster: Cluster, name: str) -> Page:
    """The page of a job with three versions: its command and its retries were changed, then its time zone."""
    await cluster.save(name, "echo first", "@yearly")
    await cluster.save(name, "echo second", "@yearly", retry={"limit": 3}, labels={"team": "b"})
    await cluster.save(name, "echo second", "@yearly", retry={"limit": 3}, labels={"team": "b"}, timezone="Asia/Tokyo")
    page = await console.open(f"/jobs/{name}")
    await settled(page)
    await page.get_by_role("tab", name="Versions").click()
    await expect(page.locator("#versions tbody tr")).to_have_count(3)
    return page


async def test_versions_are_listed_and_compared(console: Console, cluster: Cluster, name: str) -> None:
    page = await open_versions(console, cluster, name)
    rows, compared = page.locator("#versions tbody tr"), page.locator("#comparison tbody tr")
    await expect(rows.nth(0)).to_contain_text(re.compile(r"current.*api 127\.0\.0\.1.*saved.*Time zone", re.DOTALL))
    await page.route("**/compare?*", lambda _: None, times=1)
    await rows.nth(1).get_by_role("button", name="Compare").click()
    async with page.expect_event("requestfailed"):  # its answer would come after that of the next one
        await rows.nth(2).get_by_role("button", name="Compare").click()
    await expect(compared.filter(has_text="Command")).to_have_count(1)
    await expect(compared.filter(has_text="Command")).to_contain_text(re.compile("echo first.*echo second", re.DOTALL))
    await expect(compared.filter(has_text="Time zone")).to_contain_text(re.compile("UTC.*Asia/Tokyo", re.DOTALL))
    await page.get_by_label("with", exact=True).select_option(index=1)
    await expect(compared.filter(has_text="Time zone")).to_have_count(0)
    await expect(compared.filter(has_text="Command")).to_have_count(1)
    await expect(compared).to_have_count(3)  # of the retries their number alone
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "versions", whole=True)


async def test_double_click_on_restore_asks_once(console: Console, cluster: Cluster, name: str) -> None:
    clicked_twice = asyncio.Event()

    async def after_both_clicks(route: Route) -> None:
        await clicked_twice.wait()
        await route.continue_()

    page = await open_versions(console, cluster, name)
    await page.route("**/compare?*", after_both_clicks)
    answers: list[str] = []
    console.listen(page, "response", lambda answer: answers.append(answer.url))
    await page.locator("#versions").get_by_role("button", name="Restore").last.dblclick()
    clicked_twice.set()
    await wait_until(
        lambda: sum("/compare?" in url for url in answers) == 2, description="both clicks have been looked at"
    )
    await expect(page.get_by_role("dialog").locator(":focus")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_version_is_restored_unless_the_job_was_changed_meanwhile(
    console: Console, cluster: Cluster, name: str
) -> None:
    page = await open_versions(console, cluster, name)
    rows, dialog = page.locator("#versions tbody tr"), page.get_by_role("dialog")
    await rows.nth(2).get_by_role("button", name="Restore").click()
    await expect(dialog.get_by_role("row").filter(has_text="Command")).to_contain_text(
        re.compile("echo second.*echo first", re.DOTALL)
    )
    await console.shoot_all(page, "versions-restore")
    await cluster.save(name, "echo third", "@yearly")
    await dialog.get_by_role("button", name="Restore").click()
    await expect(page.locator("#toasts")).to_contain_text("Not restored")
    await expect(rows).to_have_count(4)
    await rows.nth(3).get_by_role("button", name="Restore").click()
    await dialog.get_by_role("button", name="Restore").click()
    await expect(page.locator("#facts")).to_contain_text("echo first")
    await expect(rows).to_have_count(5)
    await expect(rows.nth(0)).to_contain_text("restored")


async def test_deleted_job_is_not_restored_over_one_that_was_made_since(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "echo old", "@yearly")
    await cluster.post("/job/delete", name=name)
    page = await console.open(f"/jobs/{name}")
    await page.locator("#versions").get_by_role("button", name="Restore").click()
    await cluster.save(name, "echo new", "@yearly")
    await page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    await expect(page.locator("#toasts")).to_contain_text("Not restored: the job was changed in the meantime.")
    assert (await cluster.get(f"/api/v1/jobs/{name}"))["spec"]["command"] == "echo new"


async def test_deleted_job_is_at_its_address_and_comes_back(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo back again", "@yearly")
    await cluster.post("/job/delete", name=name)
    page = await console.open(f"/jobs/{name}")
    await expect(page.locator("#deleted")).to_contain_text("Deleted by api 127.0.0.1")
    await expect(page.get_by_role("button", name="Delete")).to_have_count(0)
    await expect(page.locator("#versions tbody tr")).to_have_count(1)
    if AXE.exists():
        assert await findings(page) == []
    await page.get_by_role("tab", name="Definition").click()
    await expect(page.locator("#definition")).to_contain_text("echo back again")
    await console.shoot_all(page, "job-deleted", whole=True)
    await page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    async with page.expect_response("**/versions"):
        await page.evaluate("window.dispatchEvent(new Event('pageshow'))")  # it was left, and is back: it looks again
    await expect(page.locator("#versions")).to_be_hidden()
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#upcoming")).to_contain_text("the job is deleted")
    await page.get_by_role("tab", name="Versions").click()
    await page.locator("#versions").get_by_role("button", name="Restore").click()
    await page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    await expect(page.locator("#facts")).to_contain_text("echo back again")
    await expect(page.locator("#deleted")).to_have_count(0)

    await page.goto(f"/jobs/{name}-never")
    await expect(page.locator("#missing")).to_contain_text("there is no job")
    await expect(page.locator("#job")).to_be_hidden()
    await expect(page.locator("#missing a")).to_have_count(2)
    await console.shoot_all(page, "job-unknown")
