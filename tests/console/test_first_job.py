"""What a new user does in the browser alone, from the first job to the last: each step is looked at."""

from __future__ import annotations

import itertools
import re

from playwright.async_api import Page, expect

from tests.console.console import Console, choose, settled
from tests.support.cluster import EVERY_SECOND, Cluster


class Story:
    """Numbers the screenshots of a story; each step in both widths and themes."""

    def __init__(self, console: Console, name: str) -> None:
        self.console = console
        self.name = name
        self.numbers = itertools.count(1)

    async def step(self, page: Page, what: str) -> None:
        await self.console.shoot_all(page, f"{self.name}-{next(self.numbers):02d}-{what}")


async def answer_dialog(page: Page, button: str, reason: str | None = None) -> None:
    dialog = page.get_by_role("dialog")
    if reason is not None:
        await dialog.get_by_role("textbox").fill(reason)
    await dialog.get_by_role("button", name=button, exact=True).click()
    await expect(dialog).to_have_count(0)


async def test_create_watch_fail_mend_kill_pause_delete(console: Console, cluster: Cluster, name: str) -> None:
    story = Story(console, "story")
    page = await console.open("/")
    await page.get_by_role("link", name="New job").click()

    # Typing an expression: words, warnings and next fires as one types.
    await page.get_by_label("Name").first.fill(name)
    await page.get_by_label("Command").fill("echo hello from the first job")
    expression = page.get_by_label("Expression")
    await expression.press_sequentially("* * * 3 *")
    await expect(page.locator("#preview")).to_contain_text("Next 5 fires")
    await expression.fill("* * * 3")
    await expect(page.locator("[data-errors=cronExpr]")).to_contain_text("has 4 fields")
    await story.step(page, "typing")
    await expression.fill(EVERY_SECOND)
    await expect(page.locator("#preview")).to_contain_text("Every second")
    await expect(page.locator("[data-errors=cronExpr]")).to_be_empty()
    await story.step(page, "typed")
    await page.get_by_role("button", name="Create the job").click()

    # It fires, and the page shows it by itself.
    await page.wait_for_url(f"**/jobs/{name}")
    await page.get_by_role("tab", name="Runs").click()
    await expect(page.locator("#recent").get_by_text("success").first).to_be_visible()
    await story.step(page, "fires")

    # Its log.
    await page.locator("#recent").get_by_role("link", name="success").first.click()
    await expect(page.locator("#output")).to_have_text("hello from the first job")
    await story.step(page, "log")

    # Make it fail, find out why.
    await page.get_by_role("link", name=name).click()
    await page.get_by_role("link", name="Edit").click()
    await page.wait_for_url("**/edit")
    await settled(page)
    await page.get_by_label("Command").fill("echo reading /nowhere; cat /nowhere/file")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    await page.goto(f"/jobs?q={name}")  # there may be more jobs than a page has
    row = page.get_by_role("row").filter(has_text=name)
    await expect(row.locator(".c-last")).to_contain_text("failed")
    await story.step(page, "failed")
    await page.get_by_role("button", name="Failing").click()
    await expect(page).to_have_url(re.compile(r"state=failing"))
    await expect(row).to_be_visible()
    await row.locator(".c-last").get_by_role("link").click()
    await expect(page.locator("#output")).to_contain_text("No such file or directory")
    await expect(page.locator("main")).to_contain_text("exit status 1")
    await story.step(page, "why")

    # Mend it, with a run that takes long.
    await page.goto(f"/jobs/{name}/edit")
    await settled(page)
    await page.get_by_label("Command").fill("echo mended; exec sleep 1000")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_url(f"**/jobs/{name}")

    # Kill it, knowing what one kills.
    await page.goto(f"/jobs?q={name}")  # there may be more jobs than a page has
    await expect(row.locator(".c-state")).to_have_text(re.compile(r"[2-9] s"))
    await choose(page, "Kill", name)
    await expect(page.get_by_role("dialog")).to_contain_text("This run will be stopped:")
    await expect(page.get_by_role("dialog")).to_contain_text("worker-1")
    await story.step(page, "kill")
    await answer_dialog(page, "Kill", "it hangs")
    await expect(row.locator(".strip .is-killed")).to_have_count(1)

    # Pause it with a reason.
    await choose(page, "Pause", name)
    await answer_dialog(page, "Pause", "moving the database")
    await expect(row.locator(".c-state")).to_contain_text("paused")
    await expect(row).to_contain_text("moving the database")
    await story.step(page, "paused")

    # Delete it.
    await choose(page, "Delete", name)
    await expect(page.get_by_role("dialog")).to_contain_text(f"Delete: {name}")
    await story.step(page, "delete")
    await answer_dialog(page, "Delete")
    await expect(row).to_have_count(0)
    await story.step(page, "deleted")


async def test_legacy_flows_are_behind_one_button(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}")
    row = page.get_by_role("row").filter(has_text=name)
    await expect(page.get_by_role("link", name="New job")).to_have_attribute("href", "/new")
    await expect(page.get_by_role("link", name="1 of 1 worker takes fires")).to_have_attribute("href", "/workers")
    await row.get_by_role("button", name=f"Actions: {name}").click()
    await expect(row.get_by_role("link", name=f"Edit: {name}")).to_have_attribute("href", f"/jobs/{name}/edit")
    await expect(row.get_by_role("link", name=f"Runs: {name}")).to_have_attribute("href", f"/jobs/{name}#log")
    await expect(row.get_by_role("button", name=f"Kill: {name}")).to_be_visible()
    await expect(row.get_by_role("button", name=f"Delete: {name}")).to_be_visible()
