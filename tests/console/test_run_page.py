"""The page of a run: what it prints while it prints it, its attempts, its lines; and one that there is not."""

from __future__ import annotations

import re
from urllib.parse import quote

from playwright.async_api import Route, expect

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import Trigger
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import AXE, Console, findings, settled
from tests.support.cluster import Cluster
from tests.support.open_runs import record_of
from tests.support.waiting import wait_until

TALKS = r"""printf '\033[32mready\033[0m\n'; seq -f 'line %g' 300; echo '::progress 40% copying'
for i in $(seq 1 600); do echo "more $i"; sleep 0.3; done"""
IS_AT_END = """() => {
  const box = document.getElementById("output");
  return box.scrollHeight - box.scrollTop - box.clientHeight < 30;
}"""


def path_of(run: RunId | str) -> str:
    return f"/runs/{quote(str(run), safe='')}"


async def test_a_run_is_seen_while_it_goes(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(name, TALKS, "@yearly")
    asked = await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open(path_of(asked["runId"]))
    output = page.locator("#output")
    await expect(page.locator("#facts .command")).to_contain_text("seq -f 'line %g' 300")
    await expect(page.locator("#facts")).to_contain_text("worker-1")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text(re.compile(rf"^{name} \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d"))
    await expect(page.locator(".run-id")).to_have_text(asked["runId"])
    await expect(output).to_contain_text("ready")
    await expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "40")
    await expect(page.locator("#progress")).to_contain_text("copying")
    await expect(page.locator("#output-size")).to_have_text("1 progress line not shown")
    await expect(output).to_contain_text("more 2")
    await page.wait_for_function(IS_AT_END)  # it follows
    await console.shoot_all(page, "run-live")
    await output.hover()
    await page.mouse.wheel(0, -2000)
    await expect(page.locator("#new-lines")).to_contain_text("new line")
    assert not await page.evaluate(IS_AT_END)
    if AXE.exists():
        assert await findings(page) == []
    await page.mouse.wheel(0, -20_000)
    await expect(output.locator(".ansi-green")).to_have_text("ready")
    await console.shoot(page, "run-live-new-lines")
    await page.locator("#new-lines").click()
    await expect(page.locator("#new-lines")).to_be_hidden()
    await page.wait_for_function(IS_AT_END)
    await page.locator("#find").fill("line 120")
    await expect(page.locator("#found")).to_have_text("1 of 1")
    await page.locator("#kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("#state")).to_have_text(" killed")
    await expect(page.get_by_role("button", name="Run now")).to_be_visible()
    await expect(page.locator("#follow")).to_be_hidden()
    await expect(output).to_contain_text("line 300")
    await expect(output).not_to_contain_text("::progress")
    await expect(page.locator("#output-size")).to_contain_text("KB, 1 progress line not shown")
    await expect(page.locator("#life li").first).to_contain_text("Created")


async def test_run_can_be_started_again_though_its_job_was_not_read_at_first(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", "@yearly")
    asked = await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open("about:blank", watched=False)
    calls = re.compile(rf"/api/v1/jobs/{name}$")
    await page.route(calls, lambda route: route.fulfill(status=503))
    await page.goto(path_of(asked["runId"]))
    await expect(page.locator("#state")).to_have_text(" success")
    await page.unroute(calls)
    await page.locator("#again").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def test_run_can_be_started_again_though_a_kill_came_while_its_job_was_read(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "sleep 600", "@yearly")
    asked = await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open("about:blank", watched=False)
    reads: list[Route] = []

    async def answer(route: Route) -> None:
        reads.append(route)
        if len(reads) == 1:
            await route.fulfill(status=503)
        elif len(reads) > 2:  # the second read is under way until it is given up
            await route.continue_()

    await page.route(re.compile(rf"/api/v1/jobs/{name}$"), answer)
    await page.goto(path_of(asked["runId"]))
    await page.locator("#kill").click()
    await wait_until(lambda: len(reads) == 2, description="the job is read once more")
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("#state")).to_have_text(" killed")
    await expect(page.locator("#again")).to_be_visible()


async def test_what_was_seen_of_a_run_that_is_lost_stays(console: Console, cluster: Cluster, name: str) -> None:
    """Its worker was killed, say: then the record has no output."""
    await cluster.save(name, TALKS, "@yearly")
    asked = await cluster.call("POST", f"/api/v1/jobs/{name}/run", {})
    page = await console.open(path_of(asked["runId"]))
    await expect(page.locator("#output")).to_contain_text("more 2")

    async def lose(route: Route) -> None:
        answer = await route.fetch()
        lost = {"state": "finished", "status": "lost", "output": "", "outputBytes": 0}
        await route.fulfill(response=answer, json={**await answer.json(), **lost})

    await page.route(re.compile(r"/api/v1/runs/[^/]*$"), lose)
    await cluster.call("POST", f"/api/v1/runs/{quote(asked['runId'], safe='')}/kill", {})
    await expect(page.locator("#cut")).to_contain_text("This is what this page has seen while it ran")
    await expect(page.locator("#output")).to_contain_text("more 2")


async def test_attempts_know_each_other_and_none_is_late_by_the_pause_before_it(
    console: Console, cluster: Cluster, name: str
) -> None:
    now = SystemClock().wall_ms()
    first = RunId.planned(name, now - 600_000)
    runs = [first, first.next_attempt, first.next_attempt.next_attempt]
    lines = "\n".join(f"step {number}" for number in range(1, 400))
    output = f"{lines}\n\033[31mERROR\033[0m: disk full\n{lines}\nthe very end\n"
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write([
            record_of(
                run, Verdict.FAILED, exit_code=3, err="exit status 3", output=output, output_bytes=len(output),
                due_ms=first_ms if number else None, start_ms=first_ms + 20, end_ms=first_ms + 90_000, command="backup",
                trigger=Trigger.RETRY if number else Trigger.SCHEDULE, worker="worker-1",
            )
            for number, run in enumerate(runs)
            if (first_ms := (run.plan_ms or 0) + number * 120_000)
        ])  # fmt: skip
    page = await console.open(path_of(runs[2]))
    await expect(page.locator("#facts [data-key='column.lateness']")).to_contain_text("20 ms")
    await expect(page.locator("#output").get_by_text("the very end", exact=True)).to_be_in_viewport()
    await page.wait_for_function(IS_AT_END)  # what failed opens at its end
    await expect(page.locator("#why")).to_contain_text(re.compile("exit status 3.*the very end"))
    await console.shoot_all(page, "run-failed", whole=True)
    await page.get_by_role("button", name="First error").click()
    await expect(page.locator(".line.is-target")).to_contain_text("ERROR: disk full")
    await expect(page).to_have_url(re.compile("#L400$"))
    if AXE.exists():
        assert await findings(page) == []
    # The numbers of the lines are one stop of Tab; arrow keys move among them.
    number = page.locator(".line.is-target .line-number")
    await page.locator("#output").focus()
    await page.keyboard.press("Tab")
    await expect(page.locator(".line-number:focus")).to_have_count(1)
    await page.keyboard.press("Home")
    await expect(page.get_by_role("link", name="Line 1", exact=True)).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("#L2$"))
    await expect(number).to_have_attribute("data-number", "2")
    await page.keyboard.press("End")
    await page.keyboard.press("ArrowUp")
    await expect(page.get_by_role("link", name="Line 799", exact=True)).to_be_focused()
    link = page.url.replace("#L2", "#L400")
    await page.goto("about:blank")
    await page.goto(link.replace("#L400", "#L399"))
    await expect(page.locator(".line.is-target")).to_contain_text("step 399")
    await expect(page.locator(".line.is-target")).to_be_in_viewport()
    await page.get_by_label("Attempts").get_by_role("link", name="Attempt 1").click()
    await expect(page).to_have_url(console.base + path_of(first))
    await expect(page.get_by_label("Attempts").get_by_role("link")).to_have_count(2)
    await page.goto(f"/runs?q={name}")
    await expect(page.locator("#runs tbody tr")).to_have_count(3)
    await expect(page.locator("#runs")).not_to_contain_text("late")


async def test_a_run_that_there_is_not_has_no_skeleton(console: Console, name: str) -> None:
    page = await console.open(path_of(f"{name}@1700000000000#1"))
    await settled(page)
    await expect(page.locator("#unknown")).to_contain_text("its record has been removed")
    await expect(page.get_by_role("heading", name="Output")).to_be_hidden()
    await expect(page.locator("#unknown").get_by_role("link", name=f"Job {name}")).to_be_visible()
    await console.shoot_all(page, "run-unknown")
