"""The console in Chinese: nothing is left in English on any page, whatever has said it, and each page fits."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from common.protocol.keys import RunId
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import NARROW, WIDE, Console, overflow, settled
from tests.console.test_every_page import untold_on
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.open_runs import now_ms, record_of
from tests.support.waiting import wait_until

_LEFT_IN_ENGLISH = """
() => {
  // Names, values, expressions, times, addresses and output are as they are; so is what a user has written.
  const own = "code, pre, kbd, time, script, style, noscript, svg, option[value*='/'], .settings, " +
    "[data-own], .c-name, .c-host, .c-version, .c-labels, .c-worker, .c-job, .brand, [data-kind] input";
  const ROW = "tr, li, .group-of";
  const mine = "%s"; // rows of other tests' jobs have what these have written
  const isSentence = (text) => /[a-z]{3,} [a-z]{3,} [a-z]{2,}/.test(text.replace(/etcron( [a-z-]+)+/g, ""));
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const text = node.textContent.trim();
    const isLeft = /[\\u4e00-\\u9fff]/.test(text) ? isSentence(text) : /[A-Za-z]{3,}[ '][A-Za-z]{2,}/.test(text);
    const holder = node.parentElement;
    const isOthers = mine && holder.closest(ROW) && !holder.closest(ROW).textContent.includes(mine);
    if (isLeft && !isOthers && holder.checkVisibility() && !holder.closest(own)) found.push(text);
  }
  const said = [...document.querySelectorAll("[aria-label], [title], [placeholder]")].flatMap((one) =>
    ["aria-label", "title", "placeholder"].map((name) => one.getAttribute(name) ?? ""));
  return [...found, ...said.filter(isSentence)];
}
"""
PATHS = (
    "/", "/jobs?label={label}", "/new", "/crontab", "/jobs/{name}", "/jobs/{name}#runs", "/jobs/{name}#schedule",
    "/jobs/{name}#versions", "/jobs/{name}#definition", "/jobs/{name}/edit", "/jobs/{name}-odd", "/runs?job={name}",
    "/runs?group=error", "/runs/{run}", "/workers", "/workers/worker-1", "/timeline", "/alerts", "/notifications",
    "/system", "/jobs/nothing-like-it", "/runs/nothing-like-it@1%231",
)  # fmt: skip


async def left_in_english(page: Page, mine: str = "") -> list[str]:
    """The texts of the page that are in English and are nobody's name, value or output."""
    found: list[str] = await page.evaluate(_LEFT_IN_ENGLISH % mine)
    return found


@pytest.mark.slow
async def test_no_page_is_left_in_english_and_a_screen_reader_is_told_what_each_thing_is(
    console: Console, cluster: Cluster, name: str
) -> None:
    """With a run that failed, one that could not start, and a fire that no worker takes."""
    labels = {"labels": {"of": name}, "timezone": "Europe/Berlin"}
    await cluster.save(f"{name}-odd", "true", "0 0 0 1 1 * *", **labels)
    await cluster.save(f"{name}-nobody", "true", EVERY_SECOND, workers={"gpu": "a100"}, **labels)
    await cluster.save(f"{name}-user", "true", EVERY_SECOND, user="nobody-there", **labels)
    await cluster.save(f"{name}-paused", "true", "0 30 2 1 * MON *", enabled=False, **labels)
    await cluster.save(name, "echo one; exit 3", EVERY_SECOND, **labels)

    async def has_failed() -> bool:
        found = [await cluster.runs(job=one, status="failed") for one in (name, f"{name}-user")]
        return all(found)

    await wait_until(has_failed, description="they have failed")
    await cluster.save(name, "echo one; exit 3", "0 30 2 1 * MON *", **labels)
    await cluster.save(f"{name}-user", "true", "0 30 2 1 * MON *", user="nobody-there", **labels)
    run = (await cluster.runs(job=f"{name}-user", status="failed"))[0]["id"]
    page = await console.open("/livez", locale="zh-CN", own_context=True)
    await page.clock.install()
    session = await page.context.new_cdp_session(page)
    left: dict[str, object] = {}
    for path in PATHS:
        at = path.format(name=name, label=quote(f"of={name}"), run=quote(run, safe=""))
        if "#" in at:
            await page.goto("about:blank")  # a part of the page that one is on is another page here
        await page.goto(at)
        await settled(page)
        await expect(page.locator("#live")).to_have_text(" 实时")
        if found := await left_in_english(page, "" if name in at else name):
            left[path] = found
        if untold := await untold_on(page, session):
            left[f"{path}, read aloud"] = untold
        await page.set_viewport_size({"width": NARROW, "height": 800})
        if wider := await overflow(page):
            left[f"{path}, narrow"] = f"{wider} px wider than the window"
        await page.set_viewport_size({"width": WIDE, "height": 800})
        await console.shoot(page, f"chinese{path.split('?')[0].replace('/', '-')}", whole=True)
    assert left == {}


async def test_what_is_wrong_with_a_job_is_told_in_chinese(console: Console, name: str) -> None:
    page = await console.open("/new", locale="zh-CN")
    await page.get_by_label("名称", exact=True).first.fill("备份")
    await page.locator("#f-command").fill("true")
    await page.locator("#f-cronExpr, [data-kind=expressions] input").first.fill("0 0 25 * * * *")
    await page.get_by_role("button", name="创建任务").click()
    fault = page.locator("[data-errors=name]")
    await expect(fault).to_contain_text("'备份' 含有名称不允许的字符")
    await expect(page.locator("main")).to_contain_text("小时 25 不在 0 到 23 之间")
    await expect(page.locator("#problem")).to_contain_text("未保存。请修正 2 个字段。")
    assert await left_in_english(page) == []
    await console.shoot(page, "chinese-mistakes", whole=True)


async def test_words_that_could_not_be_loaded_are_asked_for_again(console: Console) -> None:
    page = await console.open("/livez", locale="zh-CN", own_context=True)
    words = "**/i18n/messages*.json"
    await page.route(words, lambda route: route.fulfill(body="{"))
    await page.goto("/new")
    await page.get_by_label("名称", exact=True).first.fill("备份")
    await page.locator("#f-command").fill("true")
    create = page.get_by_role("button", name="创建任务")
    await create.click()
    await expect(page.locator("[data-errors=name]")).to_contain_text("'备份' has characters")
    await page.unroute(words)

    async def is_told_in_chinese() -> bool:
        await page.clock.fast_forward(10_000)
        await create.click()
        return "'备份' 含有名称不允许的字符" in (await page.locator("[data-errors=name]").text_content() or "")

    await wait_until(is_told_in_chinese, description="the table is asked for again")


async def test_an_error_that_is_too_long_for_its_group_is_told_in_chinese_to_where_it_is_cut(
    console: Console, cluster: Cluster, name: str
) -> None:
    worker = "w" * 150
    allow = "add it to allowedUsers in the configuration of that worker, or change the job's user"
    err = f'could not be started: user "app" is not allowed on worker {worker}: {allow}'
    async with RunLog(cluster.log_store.uri) as runlog:
        run = RunId.planned(name, now_ms())
        await runlog.write([record_of(run, Verdict.FAILED, err=err, output="", start_ms=None, end_ms=None)])
    page = await console.open(f"/runs?group=error&q={name}", locale="zh-CN")
    group = page.locator(".group-of")
    await expect(group).to_contain_text(f"工作节点 {worker} 不允许用户“app”")
    await expect(group.locator("strong")).to_have_text(re.compile("…$"))
    assert await left_in_english(page) == []
