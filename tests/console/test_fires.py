"""Why did it not run? Each planned fire with its verdict and the reason in words; who would take those to come."""

from __future__ import annotations

import re

from playwright.async_api import expect

from tests.console.console import AXE, Console, findings, script_of_ours, settled
from tests.support.cluster import EVERY_SECOND, Cluster


async def test_each_verdict_has_its_reason_in_words(console: Console, cluster: Cluster, name: str) -> None:
    await cluster.save(f"{name}-closed", "true", EVERY_SECOND, calendar={"include": ["2001-01-01", "2199-01-01"]})
    await cluster.save(
        f"{name}-again", "exit 3", "*/2 * * * * * *", retry={"limit": 1, "delaySeconds": 0.1}, overlap="allow"
    )
    page = await console.open(f"/jobs/{name}-closed#runs")
    rows = page.locator("#recent tbody tr")
    await expect(rows.filter(has_text="skipped").first).to_contain_text("the calendar is closed on that day")
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#upcoming tbody tr").first).to_contain_text("closed by the calendar")

    await page.goto(f"/jobs/{name}-again#runs")
    first = rows.filter(has_text="attempts").first
    await expect(first).to_contain_text(re.compile(r"failed.*exit status 3.*attempts 1, 2", re.DOTALL))
    await expect(first).to_contain_text("retry")
    await console.shoot_all(page, "fires-attempts")
    await first.get_by_role("link", name="attempt 2").click()
    await expect(page.locator("#attempts [aria-current]")).to_contain_text("2")

    await cluster.save(f"{name}-over", "exec sleep 1000", "*/2 * * * * * *")
    await page.goto(f"/jobs/{name}-over#runs")
    # First: of the newest fires, which is what the page shows, it is one for 50 s.
    await expect(rows.filter(has_text="running")).to_contain_text("worker-1")
    skipped = rows.filter(has_text="skipped").first
    await expect(skipped).to_contain_text(f"the previous run was still going: {name}-over@")
    await console.shoot_all(page, "fires-overlap", whole=True)
    await page.goto(f"/jobs?q={name}")
    await expect(page.get_by_role("row").filter(has_text=f"{name}-over")).to_contain_text(
        "the previous run was still going"
    )
    await console.shoot_all(page, "list-of-reasons")
    for job in ("closed", "over", "again"):
        await cluster.call("POST", f"/api/v1/jobs/{name}-{job}/pause", {})
    await cluster.call("POST", f"/api/v1/jobs/{name}-over/kill", {})


async def test_fires_to_come_say_who_takes_them_or_why_no_worker_could(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(f"{name}-taken", "true", "@hourly")
    await cluster.save(f"{name}-nobody", "true", EVERY_SECOND, workers={"zone": ["mars", "moon"]})
    page = await console.open(f"/jobs/{name}-taken#schedule")
    upcoming = page.locator("#upcoming tbody tr")
    await expect(upcoming).to_have_count(10)
    await expect(upcoming.first).to_contain_text("worker-1")
    await page.goto(f"/jobs/{name}-nobody#schedule")
    nobody = "no live worker has the labels zone=mars or moon"
    await expect(page.locator("#upcoming .note")).to_have_text(nobody)
    await expect(upcoming.first).to_contain_text("no worker")
    await expect(page.locator("#overdue")).to_contain_text(re.compile(rf"overdue since .*: {nobody}", re.DOTALL))
    await page.get_by_role("tab", name="Runs").click()
    await expect(page.locator("#recent tbody tr").filter(has_text="waiting").first).to_contain_text(nobody)
    await page.get_by_role("tab", name="Overview").click()
    await expect(page.locator("#facts")).to_contain_text("zone=mars|moon")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "fires-nobody", whole=True)
    await cluster.post("/job/delete", name=f"{name}-nobody")


async def test_range_of_fires_is_chosen_paged_and_kept_in_the_url(
    console: Console, cluster: Cluster, name: str
) -> None:
    await cluster.save(name, "true", EVERY_SECOND, enabled=False)
    page = await console.open(f"/jobs/{name}#runs")
    rows = page.locator("#recent tbody tr")
    await page.get_by_role("button", name="From … to").click()
    await expect(page.get_by_label("From (Europe/Berlin)")).to_be_focused()
    await page.get_by_label("From (Europe/Berlin)").fill("2035-01-01T12:00:00")
    await page.get_by_label("to", exact=True).fill("2035-01-01T12:00:39")
    await page.get_by_role("button", name="Show").click()
    await expect(rows).to_have_count(25)
    await expect(rows.first).to_contain_text(re.compile(r"not while paused.*the job was paused.*12:00:39", re.DOTALL))
    pages = page.get_by_role("navigation", name="Pages of fires")
    await pages.get_by_role("button", name="Next page").click()
    await expect(rows).to_have_count(15)
    await expect(rows.last).to_contain_text("12:00:00")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "fires-range", whole=True)
    await pages.get_by_role("button", name="Previous page").click()
    await expect(rows).to_have_count(25)
    await page.reload()
    await expect(rows.first).to_contain_text("12:00:39")
    await page.get_by_role("button", name="Last day").click()
    await expect(page).to_have_url(re.compile(r"\?fires=day#runs$"))
    await expect(page.locator("#range-form")).to_be_hidden()
    await page.get_by_role("button", name="Newest").click()
    await expect(page).to_have_url(re.compile(rf"/jobs/{name}#runs$"))


async def test_other_triggers_and_commands_without_a_shell_are_shown(
    console: Console, cluster: Cluster, name: str
) -> None:
    jobs = {
        "delay": {"after": "1h", "command": ["printf", "%s\\n", "two words", ""]},
        "rate": {"every": "45m", "offset": "5m", "command": "true"},
        "once": {"at": "2035-01-01T00:00:00", "timezone": "Asia/Kolkata", "command": "true"},
        "many": {"cronExpr": ["0 0 9 * * MON-FRI *", "0 0 10 * * SAT *"], "command": "true", "labels": {"team": "b"}},
    }
    for kind, fields in jobs.items():
        await cluster.call("PUT", f"/api/v1/jobs/{name}-{kind}", fields)
    page = await console.open(f"/jobs?q={name}")
    row = page.locator("#jobs tbody tr")
    await expect(row).to_have_count(4)
    for kind, words in (("delay", "1 hour after the last run ended"), ("rate", "Every 45 minutes, 5 minutes past")):
        await expect(row.filter(has_text=f"{name}-{kind}")).to_contain_text(words)
    await expect(row.filter(has_text=f"{name}-once")).to_contain_text("Once at 2035-01-01 00:00")
    await console.shoot_all(page, "list-of-triggers")
    await page.goto(f"/jobs/{name}-delay")
    await settled(page)
    await expect(page.locator("#facts .arguments li")).to_have_text(["printf", "%s\\n", "two words", '""'])
    await page.get_by_role("tab", name="Schedule").click()
    await expect(page.locator("#upcoming")).to_contain_text("1 hour after the last run ended")
    await page.get_by_role("tab", name="Definition").click()
    await expect(page.locator("#definition")).to_contain_text("1h")
    if AXE.exists():
        assert await findings(page) == []
    await console.shoot_all(page, "job-after", whole=True)


_APART = """
async (folder) => {
  const { apart, whyApart } = await import(`${folder}verdicts.js`);
  const of = ({ cause, workers }) => [cause, ...workers.map((one) => one.join(" | "))];
  const many = ["w1: full", "w2: full", "w3: full", "w4: full", "w5: full"].join("; ");
  const box = document.createElement("div");
  box.append(...whyApart({ verdict: "waiting", reason: `no worker that fits takes fires: ${many}` }));
  return {
    apart: [
      "no matching worker takes fires: w1: drained by ada: disks; till noon; w2 (gpu=a100) has been gone since 10:00",
      "no worker could take it: no worker that fits takes fires: w1: disk full",
      "no worker could take it: no live worker has the labels gpu=a100", "exit status 3; takes fires: no",
    ].map((text) => of(apart(text))),
    shown: box.querySelectorAll(":scope > ul > li").length, folded: box.querySelectorAll("details li").length,
    says: box.firstChild.textContent, more: box.querySelector("summary").textContent,
  };
}
"""


async def test_what_is_in_the_way_of_several_workers_stands_apart(console: Console) -> None:
    page = await console.open("/jobs")
    assert await page.evaluate(_APART, await script_of_ours(page, "")) == {
        "apart": [
            ["no matching worker takes fires", "w1 | drained by ada: disks; till noon",
             "w2 (gpu=a100) | has been gone since 10:00"],
            ["no worker could take it: no worker that fits takes fires", "w1 | disk full"],
            ["no worker could take it: no live worker has the labels gpu=a100"],
            ["exit status 3; takes fires: no"],
        ],
        "shown": 3, "folded": 2, "says": "no matching worker takes fires", "more": "and 2 more workers",
    }  # fmt: skip
