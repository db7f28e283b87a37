"""New and edit: errors at their fields, warnings while one types, and what happens when two people edit one job."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Route, expect

from tests.console.console import Console, settled
from tests.support.cluster import Cluster


async def spec_of(cluster: Cluster, name: str) -> dict[str, Any]:
    job = await cluster.get(f"/api/v1/jobs/{name}")
    spec: dict[str, Any] = job["spec"]
    return spec


async def test_each_error_stands_at_its_field(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("/new")
    await settled(page)
    await page.get_by_label("Name").first.fill("not a name")
    await page.get_by_label("Expression").fill("0 0 0 30 2 * *")
    await page.get_by_text("Overlap and timeout").click()
    await page.get_by_label("Timeout in seconds").fill("soon")
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.locator("[data-errors=name]")).to_contain_text("characters that a name cannot have")
    await expect(page.locator("[data-errors=command]")).to_contain_text("is empty")
    await expect(page.locator("[data-errors=cronExpr]")).not_to_be_empty()
    await expect(page.locator("[data-errors=timeoutSeconds]")).to_contain_text("a number of seconds")
    await expect(page.locator("#f-name")).to_be_focused()
    await expect(page.locator("#problem")).to_have_text("Not saved. Fix 4 fields.")
    await console.shoot(page, "errors-at-fields")

    await page.get_by_label("Name").first.fill(name)
    await expect(page.locator("[data-errors=name]")).to_be_empty()
    await page.get_by_label("Timeout in seconds").fill("5")
    await expect(page.locator("[data-errors=timeoutSeconds]")).to_be_empty()

    # What is said above the form goes with the last of them.
    await expect(page.locator("#problem")).to_have_text("Not saved. Fix 2 fields.")
    await page.locator("#f-command").fill("true")
    await page.locator("#f-cronExpr").fill("@yearly")
    await expect(page.locator("#problem")).to_be_empty()


@pytest.mark.parametrize(("typed", "said"), [("", "Give the job a name"), ("..", "characters that a name cannot have")])
async def test_name_that_fits_no_path_is_said_at_the_name_beside_the_other_errors(
    console: Console, typed: str, said: str
) -> None:
    page = await console.open("/new")
    await settled(page)
    await page.get_by_label("Name").first.fill(typed)
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.locator("[data-errors=name]")).to_contain_text(said)
    await expect(page.locator("[data-errors=command]")).to_contain_text("is empty")


async def test_taken_name_is_said_at_the_name(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "true", "@yearly")
    page = await console.open(f"/new?from={name}")
    await settled(page)
    await expect(page.get_by_label("Expression")).to_have_value("@yearly")
    await page.get_by_label("Name").first.fill(name)
    await page.get_by_role("button", name="Create the job").click()
    await expect(page.locator("[data-errors=name]")).to_contain_text("is taken")


async def test_preview_shows_words_offsets_and_changes_of_the_clocks(console: Console, cluster: Cluster) -> None:
    page = await console.open("/new")
    await settled(page)
    preview = page.locator("#preview")
    await page.get_by_role("button", name="0 30 6 * * MON-FRI *").click()
    await page.locator("#f-timezone").fill("America/New_York")
    await expect(preview).to_contain_text("At 06:30, Monday through Friday")
    await expect(preview.locator("tbody tr")).to_have_count(5)
    await expect(preview.locator("time[aria-live=off]")).to_have_count(5)  # else each second would be read aloud
    await expect(preview.locator("th").nth(1)).to_have_text("America/New_York")
    await expect(preview.locator("th").nth(2)).to_have_text("Local (Europe/Berlin)")
    await expect(preview.locator("tbody tr").first).to_contain_text(
        re.compile(r" 06:30:00 -0[45]:00.* 1[12]:30:00 \+0[12]:00")
    )
    await page.get_by_label("Expression").fill("0 30 2 * 3 SUN *")
    await expect(preview.locator(".tone-warn").first).to_be_visible()
    await console.shoot(page, "preview-of-a-change-of-the-clocks")
    await page.locator("#f-timezone").fill("Mars/Olympus")
    await expect(page.locator("[data-errors=timezone]")).not_to_be_empty()


async def test_stale_edit_shows_what_changed_and_takes_it_over(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo old", "@yearly")
    page = await console.open(f"/jobs/{name}/edit")
    await settled(page)
    await page.get_by_label("Command").fill("echo mine")
    await cluster.save(name, "echo old", "@monthly", timezone="Asia/Tokyo")
    await page.get_by_role("button", name="Save").click()
    conflict = page.locator("#conflict")
    await expect(conflict.get_by_role("row")).to_have_count(3)
    await expect(conflict.get_by_role("row").filter(has_text="Expression")).to_contain_text("@monthly")
    await expect(conflict.get_by_role("row").filter(has_text="Time zone")).to_contain_text("Asia/Tokyo")
    await console.shoot(page, "stale-edit")
    await page.get_by_label("Command").fill("echo mine, typed since")
    await conflict.get_by_role("button", name="Use their changes").click()
    await expect(page.get_by_label("Expression")).to_have_value("@monthly")
    await expect(page.get_by_label("Command")).to_have_value("echo mine, typed since")
    await page.get_by_role("button", name="Save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    saved = await spec_of(cluster, name)
    assert (saved["cronExpr"], saved["timezone"]) == ("@monthly", "Asia/Tokyo")
    assert saved["command"] == "echo mine, typed since"


async def test_stale_edit_can_overwrite(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo old", "@yearly")
    page = await console.open(f"/jobs/{name}/edit")
    await settled(page)
    await page.get_by_label("Command").fill("echo mine")
    await cluster.save(name, "echo theirs", "@monthly")
    await page.get_by_role("button", name="Save").click()
    await page.get_by_role("button", name="Overwrite with mine").click()
    await page.wait_for_url(f"**/jobs/{name}")
    saved = await spec_of(cluster, name)
    assert (saved["command"], saved["cronExpr"]) == ("echo mine", "@yearly")


async def test_what_is_typed_while_it_is_saved_is_not_left_behind(
    console: Console, cluster: Cluster, name: str
) -> None:
    page = await console.open("/new")
    await settled(page)
    await page.locator("#f-name").fill(name)
    await page.locator("#f-cronExpr").fill("@yearly")
    sent, typed = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        sent.set()
        await typed.wait()
        await route.continue_()

    await page.route(f"**/api/v1/jobs/{name}", slow, times=1)
    await page.locator("#f-command").fill("echo saved")
    await page.locator("#save").click()
    await sent.wait()
    await page.locator("#f-command").press_sequentially(", and more")
    async with page.expect_event("dialog") as asks:
        typed.set()
    assert (await asks.value).type == "beforeunload"
    await (await asks.value).dismiss()
    await expect(page.locator("#f-command")).to_have_value("echo saved, and more")
    assert (await spec_of(cluster, name))["command"] == "echo saved"
    await page.locator("#save").click()
    await page.wait_for_url(f"**/jobs/{name}")
    assert (await spec_of(cluster, name))["command"] == "echo saved, and more"
