"""Times in three ways, light and dark, two languages: each choice is kept."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.async_api import expect

from tests.console.console import Console, choose, settled
from tests.support.cluster import Cluster

KEEPS_NOTHING = """
const refuse = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };
for (const name of ["localStorage", "sessionStorage"]) Object.defineProperty(window, name, { get: refuse });
window.SharedWorker = class { constructor() { refuse(); } };
"""


async def test_times_are_shown_in_utc_mine_or_the_jobs_zone(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "0 0 12 1 1 * *", timezone="Asia/Tokyo")
    page = await console.open(f"/jobs/{name}#schedule")
    shown = page.locator("#upcoming tbody time").first
    await expect(shown).to_have_text(re.compile(r"^\d{4}-01-01 04:00:00$"))
    for button, time in (("UTC", "03:00:00"), ("Job's zone", "12:00:00"), ("Local", "04:00:00")):
        await page.get_by_role("button", name=button, exact=True).click()
        await expect(shown).to_have_text(re.compile(rf"^\d{{4}}-01-01 {time}$"))
    await page.get_by_role("button", name="Job's zone", exact=True).click()
    await page.reload()
    await expect(shown).to_have_text(re.compile(r"12:00:00$"))
    await expect(shown).to_have_attribute("title", re.compile(r"12:00:00 \+09:00 Asia/Tokyo"))


async def test_theme_is_kept_and_follows_the_system_otherwise(console: Console, cluster: Cluster) -> None:
    page = await console.open("/", theme="dark")
    root = page.locator("html")
    await expect(root).to_have_attribute("data-bs-theme", "dark")
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_label("Light").check()
    await expect(root).to_have_attribute("data-bs-theme", "light")
    await console.shoot(page, "settings")
    await page.goto("/workers")
    await expect(root).to_have_attribute("data-bs-theme", "light")


async def test_console_works_where_the_browser_keeps_nothing(console: Console, cluster: Cluster, name: str) -> None:
    """A setting of the reader's: each look at what is kept is refused. What is chosen holds for the page."""
    await cluster.save(name, "echo hello", "0 0 12 1 1 * *", timezone="Asia/Tokyo")
    run_id = (await cluster.call("POST", f"/api/v1/jobs/{name}/run", {}))["runId"]
    page = await console.open(f"/jobs/{name}#schedule", script=KEEPS_NOTHING)
    await expect(page.locator("#live")).to_have_text(" Live")
    await page.get_by_role("button", name="Job's zone", exact=True).click()
    await expect(page.locator("#upcoming tbody time").first).to_have_text(re.compile(r"12:00:00$"))
    await page.goto(f"/jobs?q={name}")
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_label("Dark").check()
    await expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    await page.get_by_role("button", name="Settings").click()
    await choose(page, "Pause", name)
    await page.get_by_role("dialog").get_by_role("button", name="Pause", exact=True).click()
    await expect(page.locator("#jobs td.c-state")).to_have_text(" paused")
    await page.goto(f"/runs/{quote(run_id)}")
    await expect(page.locator("#output")).to_contain_text("hello")
    await page.locator("#wrap").click()
    await expect(page.locator("#wrap")).to_have_attribute("aria-pressed", "false")


async def test_console_speaks_chinese(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/jobs?q={name}", locale="zh-CN")
    await expect(page.get_by_role("heading", level=1)).to_have_text("任务")
    await expect(page.locator("#jobs tbody tr")).to_contain_text("启用")
    await expect(page.locator("#total")).to_have_text("找到 1 个任务")
    await page.goto("/system")
    await settled(page)
    await page.get_by_role("button", name="设置").click()
    await page.get_by_label("English").check()
    await expect(page.get_by_role("heading", level=1)).to_have_text("System")


async def test_page_whose_texts_cannot_be_loaded_says_so(console: Console, cluster: Cluster) -> None:
    page = await console.open("/livez", watched=False)
    await page.route("**/i18n/en*.json", lambda route: route.fulfill(status=404, json={}))
    await page.goto("/jobs")
    await expect(page.get_by_role("alert").filter(has_text="could not be loaded")).to_be_visible()
