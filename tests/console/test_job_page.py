"""A job's page: is it well, then its parts, one at a time."""

from __future__ import annotations

import re
from typing import Final

from playwright.async_api import Page, expect

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.console.console import AXE, Console, findings, script_of_ours, settled
from tests.support.cluster import Cluster
from tests.support.open_runs import record_of

MINUTE_MS: Final = 60_000


async def write(cluster: Cluster, records: list[RunRecord]) -> None:
    async with RunLog(cluster.log_store.uri) as runlog:
        await runlog.write(records)


def history(name: str, revision: int, *, failed: int) -> list[RunRecord]:
    """75 runs, one each minute; the newest ones failed, and since the given revision they take longer."""
    start_ms = SystemClock().wall_ms() // MINUTE_MS * MINUTE_MS - 80 * MINUTE_MS
    records = []
    for number in range(75):
        plan_ms, took_ms = start_ms + number * MINUTE_MS, 8000 + number * 211 % 4000 + (20_000 if number > 40 else 0)
        bad = number >= 75 - failed
        more = {"err": "exit status 3", "exit_code": 3} if bad else {"exit_code": 0}
        records.append(
            record_of(
                RunId.planned(name, plan_ms), Verdict.FAILED if bad else Verdict.SUCCESS,
                start_ms=plan_ms + number % 5 * 400, end_ms=plan_ms + number % 5 * 400 + (900 if bad else took_ms),
                revision=revision if number > 40 else revision - 1, worker=f"worker-{number % 2 + 1}",
                output="connecting ...\nmysqldump: Got error 1045\ndump is empty\n", **more,
            )
        )  # fmt: skip
    return records


async def open_tab(page: Page, name: str) -> None:
    await page.get_by_role("tab", name=name).click()
    await settled(page)


async def test_failing_job_says_since_when_and_why_and_what_its_runs_took(
    console: Console, cluster: Cluster, name: str
) -> None:
    fields = {"timezone": "Asia/Tokyo", "timeoutSeconds": 40}
    for command in ("dump --small", "dump --all --slowly"):
        await cluster.save(name, command, "0 0 3 * * * *", **fields)
    row = await cluster.get(f"/api/v1/jobs/{name}")
    records = history(name, row["revision"], failed=5)
    await write(cluster, records)
    page = await console.open(f"/jobs/{name}")
    await settled(page)
    health, chart = page.locator("#health"), page.locator("#durations")
    says = r"Failing for 5 runs since .*Last success .*Usually takes .*exit status 3.*91 % 55 of 60"
    await expect(health).to_contain_text(re.compile(says, re.DOTALL))
    zones = re.compile(r"Times in Europe/Berlin \(UTC.*schedule is in Asia/Tokyo \(UTC\+09:00\)")
    await expect(page.locator("#zones")).to_have_text(zones)
    await expect(health).to_contain_text("= 03:00:00 Asia/Tokyo")
    await expect(chart.locator(".dots .mark")).to_have_count(75)
    await expect(chart.locator(".chart-note")).to_contain_text(re.compile("Slower since revision .*Command"))
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "job-failing", whole=True)
    await page.emulate_media(media="print", color_scheme="light")
    await expect(page.get_by_role("button")).to_have_count(0)
    await console.shoot(page, "job-print", whole=True)
    await page.emulate_media(media="screen")

    # A period is chosen by drawing across the chart; the table says the same.
    await chart.locator("svg.chart").first.hover()  # it is drawn anew after the print, and has to be in view
    box = await chart.locator("svg.chart").first.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 30)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 30, steps=3)
    await page.mouse.up()
    await expect(chart.locator(".chart-note")).to_contain_text(re.compile("^Between "))
    await expect(chart.locator(".dots .mark")).not_to_have_count(75)
    assert 5 < await chart.locator(".dots .mark").count() < 30
    await chart.get_by_role("button", name="Newest").click()
    await expect(chart.locator(".dots .mark")).to_have_count(75)
    await chart.get_by_role("button", name=re.compile("as (a )?table", re.IGNORECASE)).click()
    await expect(chart.locator("tbody tr")).to_have_count(75)
    await expect(chart.locator("tbody tr").first).to_contain_text(re.compile("failed.*900 ms", re.DOTALL))

    # By keyboard: from bar to bar, and from part to part.
    bars = health.locator(".strip-large a")
    await expect(bars).to_have_count(60)
    await bars.last.focus()
    await page.keyboard.press("ArrowLeft")
    await expect(bars.nth(58)).to_be_focused()
    await expect(bars.nth(58)).to_have_attribute("aria-label", re.compile("^failed, .*, 900 ms$"))
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/runs/"))
    await page.go_back()
    await settled(page)
    await page.get_by_role("tab", name="Overview").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("tab", name="Runs")).to_be_focused()
    await expect(page).to_have_url(re.compile(r"#runs$"))
    await expect(page.locator("#recent tbody tr")).to_have_count(25)
    await console.shoot_all(page, "job-runs", whole=True)
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#calendar td.has-fires").nth(20)).to_be_visible()
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "job-schedule", whole=True)


async def test_definition_says_what_differs_and_versions_why_it_was_paused(
    console: Console, cluster: Cluster, name: str
) -> None:
    when = "0 30 2 * * * *"
    await cluster.save(name, "echo one two", when, timezone="Europe/Berlin")
    await cluster.save(name, "echo one three", when, timezone="Europe/Berlin", retry={"limit": 2}, overlap="queue")
    await cluster.call("POST", f"/api/v1/jobs/{name}/pause", {"reason": "the disk is full"})
    await cluster.call("POST", f"/api/v1/jobs/{name}/resume", {})
    page = await console.open(f"/jobs/{name}#versions")
    rows = page.locator("#versions tbody tr")
    await expect(rows).to_have_count(4)
    await expect(rows.nth(1)).to_contain_text("paused: the disk is full")
    await expect(page.locator("#versions")).not_to_contain_text("Fires as soon as it is saved")
    await expect(rows.nth(2).locator("del").first).to_have_text("two")
    await expect(rows.nth(2).locator("ins").first).to_have_text("three")
    await expect(rows.nth(2)).to_contain_text("Retries: 0 2")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "job-versions", whole=True)

    await page.get_by_role("tab", name="Definition").click()
    terms = page.locator("#definition dt")
    await expect(terms).to_have_text(
        ["Command", "Expression", "Time zone", "While the previous run is still going", "Retries"]
    )
    await page.get_by_role("button", name="Show defaults too").click()
    await expect(page.locator('#definition dd[data-key="timeoutSeconds"]')).to_have_text("off (default)")
    await expect(page.locator('#definition dd[data-key="workers"]')).to_have_text("any (default)")
    await console.shoot_all(page, "job-definition", whole=True)
    await page.get_by_role("button", name="Show defaults too").click()
    await expect(terms).to_have_count(5)
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#calendar .clocks")).to_contain_text("02:30 does not exist on")
    await expect(page.locator("#zones")).not_to_contain_text("The schedule is in")
    await console.shoot_all(page, "job-clocks", whole=True)


async def test_run_that_somebody_asked_for_is_among_the_runs_and_a_job_that_never_ran_says_so(
    console: Console, cluster: Cluster, name: str
) -> None:
    long = f"{name}-{'very-' * 14}long"
    await cluster.save(long, "true", "@yearly", description="Nothing has happened yet. " * 8)
    page = await console.open(f"/jobs/{long}")
    await expect(page.locator("#health")).to_contain_text("Has not run yet.")
    await expect(page.locator("#durations")).to_be_hidden()
    await console.shoot_all(page, "job-never-run", whole=True)
    an_hour_ago = SystemClock().wall_ms() - 60 * MINUTE_MS
    outage = {"range_end_ms": an_hour_ago + 12 * MINUTE_MS, "count": 38}
    await write(cluster, [record_of(RunId.planned(long, an_hour_ago), Verdict.MISSED, reason="late", **outage)])
    await cluster.call("POST", f"/api/v1/jobs/{long}/run", {"reason": "try it"})
    await expect(page.locator("#health")).to_contain_text("The last run succeeded")
    await expect(page.locator("#health")).to_contain_text(
        re.compile(
            r"38 fires were missed, [-\d: ]+\W [-\d: ]+: no worker could .*\..*100 % 1 of 1 runs that started",
            re.DOTALL,
        )
    )
    await page.get_by_role("tab", name="Runs").click()
    await expect(page.locator("#recent tbody tr").first).to_contain_text(
        re.compile("success.*API.*127.0.0.1", re.DOTALL)
    )
    await cluster.call("POST", f"/api/v1/jobs/{long}/pause", {"reason": "enough"})
    await page.get_by_role("tab", name="Overview").click()
    await expect(page.locator("#paused")).to_contain_text("enough")
    await console.shoot_all(page, "job-paused", whole=True)
    chinese = await console.open(f"/jobs/{long}", locale="zh-CN")
    await expect(chinese.locator("#health")).to_contain_text("最近一次运行成功")
    await settled(chinese)
    await console.shoot_all(chinese, "job-chinese", whole=True)


_AXES = """
async ([folder, most]) => {
  const { lengthAxis, plot } = await import(`${folder}charts/svg.js`);
  return most.map((one) => {
    const chart = plot({ label: "", width: 400, height: 220, left: 60, x: [0, 1], y: [0, one] });
    lengthAxis(chart);
    document.body.append(chart.svg);
    const marks = [...chart.svg.querySelectorAll("text")];
    const isCut = marks.some((mark) => mark.getBBox().x < -60);
    chart.svg.remove();
    return `${marks.map((mark) => mark.textContent).join(", ")}${isCut ? " cut" : ""}`;
  });
}
"""


async def test_marks_of_durations_are_whole_and_not_cut(console: Console) -> None:
    page = await console.open("/jobs/any")
    most = [7, 950, 4_000, 70_000, 300_000, 5_000_000, 20_000_000, 300_000_000, 90_000_000_000]
    assert await page.evaluate(_AXES, [await script_of_ours(page, ""), most]) == [
        "0, 2 ms, 4 ms, 6 ms", "0, 200 ms, 400 ms, 600 ms, 800 ms", "0, 1 s, 2 s, 3 s, 4 s",
        "0, 30 s, 60 s", "0, 2 min, 4 min", "0, 30 min, 60 min", "0, 2 h, 4 h", "0, 1 d, 2 d, 3 d",
        "0, 200 d, 400 d, 600 d, 800 d, 1,000 d",
    ]  # fmt: skip
