"""A crontab that is pasted: each line is told, in the reader's language, and its jobs are saved in one step."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Route, expect

from tests.console.console import Console, findings, overflow, settled
from tests.support.cluster import Cluster

TEXT = """\
# nightly
30 2 * * * /usr/local/bin/{name} --full
5/10 * * * * /usr/local/bin/start
61 * * * * /bin/late
"""
MAILED = "MAILTO=ops\n* * * *\n1 2 * * * a\n1 3 * * * b\n"


async def test_paste_preview_mend_and_save(console: Console, cluster: Cluster, name: str) -> None:
    page = await console.open("/jobs")
    await page.get_by_role("link", name="Paste a crontab").first.click()
    text = page.get_by_label("Crontab", exact=True)
    await expect(text).to_be_focused()
    await expect(page.get_by_label("Time zone of its machine")).to_have_value("Europe/Berlin")
    await page.get_by_label("Time zone of its machine").fill("Mars")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#problem")).to_contain_text("Time zone of its machine: 'Mars' is not a known time zone")
    await page.get_by_label("Time zone of its machine").fill("Europe/Berlin")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#problem")).to_be_empty()
    await page.get_by_label("Time zone of its machine").fill("Mars")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("#problem")).not_to_be_empty()
    await page.get_by_label("Time zone of its machine").fill("Europe/Berlin")

    await text.fill(TEXT.format(name=name))
    await page.get_by_label("Labels of the jobs").fill("team=billing, host=web-1")
    await page.get_by_role("button", name="Preview").click()
    told = page.locator("#told")
    await expect(told.get_by_role("heading")).to_have_text("1 new job, 2 refused, 4 lines")
    await expect(page.locator("#problem")).to_be_empty()
    rows = told.locator("tbody tr")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(0)).to_contain_text("At 02:30, as the worker's user")
    await expect(rows.nth(1)).to_contain_text("5/10 is 5 alone to most crons")
    await expect(rows.nth(2)).to_contain_text("Minute 61 is not between 0 and 59; write 0-59")
    assert await findings(page) == []
    await console.shoot_all(page, "crontab-preview", whole=True)

    await text.fill(TEXT.format(name=name).replace("61 *", "5 *"))
    await expect(told).to_be_hidden()  # nobody saves what was not looked at
    await page.get_by_role("button", name="Preview").click()
    await told.get_by_role("button", name="Create 2 jobs").click()
    await expect(told.get_by_role("heading", level=2)).to_have_text("2 jobs created, paused")
    await expect(page.locator("#announcer")).to_have_text("2 jobs created, paused")
    await expect(rows).to_have_count(1)  # what is still to be done by hand
    await expect(rows).to_contain_text(re.compile(r"3\s*5/10 .*/bin/start.*Refused.*5/10 is 5 alone", re.DOTALL))
    assert await findings(page) == []
    await console.shoot_all(page, "crontab-saved")
    job = told.get_by_role("link", name=name)
    saved = await cluster.get(f"/api/v1/jobs/{await job.text_content()}")
    assert (saved["state"], saved["spec"]["labels"]) == ("paused", {"team": "billing", "host": "web-1"})
    await page.get_by_role("button", name="Preview").click()
    await expect(told).to_contain_text("There is a job of this name: it stays as it is")
    await expect(told.get_by_role("button")).to_have_count(0)
    await job.click()
    await settled(page)
    await expect(page.locator("h1")).to_contain_text(name)


async def test_what_is_told_is_of_the_text_that_stands_there_and_what_was_saved_is_told(
    console: Console, cluster: Cluster, name: str
) -> None:
    """The user goes on typing while the manager reads, and while it saves."""
    page = await console.open("/crontab")
    held: asyncio.Queue[Route] = asyncio.Queue()
    await page.route(re.compile("/api/v1/crontab(/preview)?$"), held.put)
    text, told, look = page.get_by_label("Crontab", exact=True), page.locator("#told"), page.locator("#look")
    await text.fill(f"30 2 * * * /usr/local/bin/{name} --old")
    await look.click()
    answer = await held.get()
    await text.fill(f"30 2 * * * /usr/local/bin/{name}")
    await answer.continue_()
    await expect(look).not_to_have_attribute("aria-disabled", "true")
    await expect(told).to_be_hidden()
    await look.click()
    await (await held.get()).continue_()
    await told.get_by_role("button", name="Create 1 job").click()
    answer = await held.get()
    await text.press_sequentially(" ")
    await expect(told).to_be_hidden()
    await answer.continue_()
    await expect(told.get_by_role("heading", level=2)).to_have_text("1 job created, paused")


async def test_text_whose_jobs_were_not_saved_is_not_left_without_a_question(console: Console, name: str) -> None:
    page = await console.open("/crontab")
    await page.get_by_label("Crontab", exact=True).press_sequentially(f"30 2 * * * /usr/local/bin/{name}")
    async with page.expect_event("dialog") as asks:
        await page.evaluate("setTimeout(() => location.assign('/jobs'))")
        question = await asks.value
        assert question.type == "beforeunload"
        await question.dismiss()
    refused = {"results": [{"name": name, "ok": False, "message": "the name is taken"}]}
    await page.route("**/api/v1/crontab", lambda route: route.fulfill(json=refused), times=1)
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Create 1 job").click()
    await expect(page.locator("#told")).to_contain_text("the name is taken")
    assert not await page.evaluate("dispatchEvent(new Event('beforeunload', { cancelable: true }))")
    await page.get_by_role("button", name="Preview").click()
    await page.get_by_role("button", name="Create 1 job").click()
    asked: list[str] = []
    console.listen(page, "dialog", lambda one: asked.append(one.type))
    await page.get_by_role("link", name="Go to the jobs").click()
    await page.wait_for_url("**/jobs?state=paused")
    assert asked == []


@pytest.mark.parametrize("width", [1280, 390])
async def test_lines_are_told_in_chinese(console: Console, width: int) -> None:
    page = await console.open("/crontab", width=width, locale="zh-CN")
    await page.get_by_label("crontab", exact=True).fill(TEXT.format(name="x") + MAILED)
    await page.get_by_role("button", name="预览").click()
    rows = page.locator("#told tbody tr")
    await expect(rows.nth(1)).to_contain_text("5/10 在多数 cron 里只是 5")
    await expect(rows.nth(2)).to_contain_text("分 61 不在 0 到 59 之间")
    await expect(rows.nth(3)).to_contain_text("以下任务把输出和失败发送到渠道 mail-ops")
    await expect(rows.nth(4)).to_contain_text("它没有五个字段和命令")
    await expect(page.locator("#told .note")).to_contain_text(re.compile("第 7、8 行.没有通知"))
    await expect(rows.nth(5)).not_to_contain_text("没有通知")
    assert await overflow(page) == 0
    await console.shoot(page, f"crontab-zh-{width}", whole=True)


async def test_preview_that_is_asked_for_before_the_page_is_ready_comes_and_the_text_stays(console: Console) -> None:
    page = await console.open("/livez")
    waiting: asyncio.Queue[Route] = asyncio.Queue()
    await page.route("**/api/v1/whoami", waiting.put, times=1)
    await page.goto("/crontab")
    first = await waiting.get()
    text = page.get_by_label("Crontab", exact=True)
    await text.fill(TEXT.format(name="x"))
    await page.get_by_role("button", name="Preview").click()
    await first.continue_()
    await expect(page.locator("#told tbody tr")).to_have_count(3)
    await expect(text).to_have_value(TEXT.format(name="x"))
