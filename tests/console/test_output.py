"""Whatever a job is called and prints, the page shows it as text, and goes on answering."""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import quote

from playwright.async_api import Page, Route, expect

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import WATCH_INPUTS, Console, settled
from tests.support.cluster import EVERY_SECOND, Cluster
from tests.support.open_runs import record_of
from tests.support.waiting import wait_until

SCRIPT = "<script>window.pwned = 1</script>"
IMAGE = "<img src=x onerror=window.pwned=1>"
BREAKOUT = "\\033[2J\\033]8;;http://other.example\\033\\\\link \\033]0;title\\007 \\033[31"
"""Clears a terminal, makes a link, sets its title; and the beginning of a colour."""
LINES = 100_000
LONG_LINE = 5_000_000
HEAR_OF = """(job) => {
  const { port } = new SharedWorker(document.body.dataset.liveWorker, { type: "module", name: "etcron" });
  window.heard = new Promise((resolve) => {
    port.onmessage = ({ data: { name, data } }) => name === "runs" && job in data.jobs && resolve(true);
  });
}"""
"""`window.heard`: the page, which the worker of all tabs tells first, knows that a run of the job has changed."""
MOST_OUTPUT = 8 * 1024 * 1024


async def finished_run(cluster: Cluster, name: str, command: str, **fields: object) -> str:
    """The id of the first run of a job that fires every second until it has ended once."""
    await cluster.save(name, command, EVERY_SECOND, **fields)

    async def ended() -> list[str]:
        # A fire that was skipped, or missed, has a record too.
        return [str(run["id"]) for run in await cluster.runs(job=name) if run.get("startTime")]

    async def has_ended() -> bool:
        return bool(await ended())

    try:
        await wait_until(has_ended, description=f"{name} has run")
    finally:  # or its output, of megabytes a second, keeps the log store from all tests after this one
        await cluster.save(name, command, "@yearly", **fields)
    return (await ended())[0]


async def assert_nothing_was_executed(page: Page) -> None:
    assert await page.evaluate("typeof window.pwned") == "undefined"
    assert await page.locator("main img, main script").count() == 0


async def test_nothing_that_a_job_says_is_executed(console: Console, cluster: Cluster, name: str) -> None:
    command = (
        f"echo '{SCRIPT}'; echo '{IMAGE}'; printf '\\033[1;31mred\\033[0m \\342\\200\\256turned\\n{BREAKOUT}'; exit 1"
    )
    run = await finished_run(cluster, name, command, labels={"team": IMAGE}, env={"E": SCRIPT})
    await cluster.post("/job/save", job=json.dumps({"name": name, "command": SCRIPT, "cronExpr": "@yearly"}))
    page = await console.open("/")
    for path in (f"/jobs?q={name}", f"/jobs/{name}", f"/jobs/{name}/edit", "/runs", f"/runs/{quote(run, safe='')}"):
        await page.goto(path)
        await settled(page)
        await assert_nothing_was_executed(page)
    await expect(page.locator("#output")).to_contain_text(SCRIPT)
    await expect(page.locator("#output")).to_contain_text(IMAGE)
    await expect(page.locator("#output .ansi-bold.ansi-red")).to_have_text("red")
    for text in ("\u241b[2J", "\u241b]8;;http://other.example\u241b\\link", "\u241b]0;title\u2407", "\u241b[31"):
        await expect(page.locator("#output")).to_contain_text(text)
    assert await page.locator("#output a:not(.line-number)").count() == 0
    await expect(page.locator("#output")).to_contain_text("\u2426turned")
    await console.shoot(page, "hostile-output")

    await page.goto(f"/runs/{quote(SCRIPT, safe='')}")
    await expect(page.locator("#unknown")).not_to_be_empty()
    await expect(page.locator("#known")).to_be_hidden()
    await assert_nothing_was_executed(page)


async def test_command_is_shown_as_it_runs(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, "echo \u202edlrow\u2069; true\r\necho \u061cmore", "@yearly", env={"TO": "\u202egpj.exe"})
    page = await console.open(f"/jobs/{name}")
    await expect(page.locator("#facts .command")).to_have_text("echo \u2426dlrow\u2426; true\u240d\necho \u2426more")
    await page.get_by_role("tab", name="Definition").click()
    await expect(page.locator("#definition")).to_contain_text("TO=\u2426gpj.exe")
    await page.goto(f"/jobs/{name}/edit")
    await expect(page.get_by_label("Command")).to_have_value("echo \u202edlrow\u2069; true\necho \u061cmore")


async def test_page_answers_with_100_000_lines_and_a_line_of_5_mb(
    console: Console, cluster: Cluster, name: str
) -> None:
    command = f"seq -f 'line %g' {LINES}; head -c {LONG_LINE} /dev/zero | tr '\\0' x; echo; echo '{IMAGE} the end'"
    run = await finished_run(cluster, name, command, outputLimitBytes=MOST_OUTPUT)
    page = await console.open(f"/runs/{quote(run, safe='')}")
    output = page.locator("#output")
    await expect(output).to_have_attribute("data-complete", re.compile(r"\d+"))
    length = await output.evaluate("(box) => box.textContent.length")
    assert length > LINES * len("line 1\n") + LONG_LINE
    await page.evaluate(WATCH_INPUTS)
    await page.get_by_role("button", name="Wrap").click()
    await page.get_by_role("button", name="Wrap").click()
    await output.evaluate("(box) => { box.scrollTop = box.scrollHeight }")
    await page.locator("#find").press_sequentially("the end")
    await expect(page.locator("#found")).to_have_text("1 of 1")
    await page.locator("#find").fill("line 5")
    await expect(page.locator("#found")).to_have_text("1 of 5,000+")
    await page.locator("#find").press("Shift+Enter")
    await expect(page.locator("#found")).to_have_text("5,000 of 5,000+")
    await assert_nothing_was_executed(page)
    slowest = await page.evaluate("Math.max(...window.inputs)")
    print(f"the slowest input was answered within {slowest:.0f} ms")  # noqa: T201
    await console.shoot(page, "long-output")


async def test_a_page_that_loads_again_leaves_the_place_that_was_found(
    console: Console, cluster: Cluster, name: str
) -> None:
    run = await finished_run(cluster, name, "seq -f 'line %g' 20")
    page = await console.open("/livez")
    asked, has_heard, has_stepped = asyncio.Event(), asyncio.Event(), asyncio.Event()
    turns = iter((has_heard,))

    async def in_its_turn(route: Route) -> None:
        asked.set()
        await next(turns, has_stepped).wait()
        await route.continue_()

    path = f"/runs/{quote(run, safe='')}"
    await page.route(f"**/api/v1{path}", in_its_turn)
    await page.goto(path)
    await asked.wait()
    await page.evaluate(HEAR_OF, name)
    await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    await page.evaluate("window.heard")  # before the page has loaded: it loads once more
    has_heard.set()
    await page.locator("#find").fill("line")
    await expect(page.locator("#found")).to_have_text("1 of 20")
    await page.locator("#find").press("Enter")
    await expect(page.locator("#found")).to_have_text("2 of 20")
    async with page.expect_response(f"**/api/v1{path}") as again:
        has_stepped.set()
    await (await again.value).finished()
    await settled(page)
    await page.locator("#find").press("Enter")
    await expect(page.locator("#found")).to_have_text("3 of 20")


async def test_cut_output_is_marked_and_downloads_are_files(console: Console, cluster: Cluster, name: str) -> None:
    run = await finished_run(cluster, name, "seq 10000", outputLimitBytes=1000)
    page = await console.open(f"/runs/{quote(run, safe='')}", permissions=["clipboard-read", "clipboard-write"])
    await expect(page.locator("#cut")).to_contain_text("a line marks the gap")
    await expect(page.locator("#output pre.cut")).to_have_count(1)
    await console.shoot(page, "cut-output")
    await page.get_by_role("button", name="Copy").click()
    await expect(page.locator("#toasts")).to_contain_text("Output copied.")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("1\n2\n3\n")
    assert copied.endswith("9999\n10000\n")
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download").click()
    assert (await (await downloading.value).path()).read_text() == copied


async def test_run_that_was_lost_is_not_said_to_have_never_started(
    console: Console, cluster: Cluster, name: str
) -> None:
    run = RunId.planned(name, SystemClock().wall_ms())
    lost = record_of(run, Verdict.LOST, start_ms=None, end_ms=None, output="", reason="worker restarted")
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write([lost])
    page = await console.open(f"/runs/{quote(str(run), safe='')}")
    await expect(page.locator("#output")).to_contain_text("The command may have run in part or to its end.")
