"""Messages as pictures: they fit into 320 px, ask for nothing, and can be read by day and by night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
from playwright.async_api import Browser

from common.jobs.reader import parse_job
from common.notices.events import Event
from common.notices.joining import joined
from common.notices.notice import AlertedEvent, Group, Notice, NoticeKind, notice_id, trial_notice
from common.verdicts import EventKind
from manager.console.pages import templates_in
from manager.notices.plain import last_lines
from manager.notices.rendering import About, facts_of
from tests.console.console import AXE, ROOT, findings, overflow

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.browser]

AT = 1_790_000_000_000
DAY_MS = 86_400_000
OUTPUT = """\
\x1b[1mINFO\x1b[0m loading 18,442 rows from warehouse.finance.transactions_by_day_and_cost_centre_v3
\x1b[33mWARN\x1b[0m retrying in 5 s: connection refused (10.20.30.40:5432)
Traceback (most recent call last):
  File "/opt/reports/nightly.py", line 214, in main
    rows = warehouse.read("select * from finance.transactions where day = %s", [day])
psycopg.OperationalError: connection failed: server closed the connection unexpectedly
"""


def told(kind: EventKind, number: int = 0, **event: Any) -> AlertedEvent:
    made = Event(
        kind=kind, at_ms=AT, job=f"nightly-report-{number}" if number else "nightly-report", worker="worker-3",
        run="nightly-report@1790000000000#1", plan_ms=AT - 61_000, start_ms=AT - 60_700, end_ms=AT,
        zone="Europe/Berlin", **event,
    )  # fmt: skip
    return AlertedEvent(event=made, since_ms=AT - 2 * DAY_MS, last_ok_ms=AT - 3 * DAY_MS, in_a_row=3)


def notice(kind: NoticeKind, *events: AlertedEvent) -> Notice:
    return Notice(id=notice_id("x", "ops"), channel="ops", kind=kind, created_ms=AT, told=events)


JOB = parse_job({
    "name": "nightly-report", "command": "x", "cronExpr": "0 3 * * *", "timezone": "Europe/Berlin",
    "description": "What finance reads at seven. Call the data team if it is late.",
    "links": [{"title": "Runbook", "url": "https://wiki.example.org/reports/nightly"}],
})  # fmt: skip
NOTICES = {
    "failed": notice(NoticeKind.PROBLEM, told(EventKind.FAILED, err="exit status 3", exit_code=3)),
    "missed": notice(
        NoticeKind.PROBLEM, told(EventKind.MISSED, reason="no worker: none that is live has the labels gpu=a100")
    ),
    "recovered": notice(NoticeKind.RECOVERED, told(EventKind.RECOVERED)),
    "digest": joined([
        notice(NoticeKind.PROBLEM, *(told(EventKind.LOST, n, reason="its worker is gone") for n in range(1, 11))),
        Notice(
            id="y", channel="ops", kind=NoticeKind.PROBLEM, created_ms=AT,
            groups=(Group(kind=EventKind.LOST, worker="worker-3", count=170), Group(kind=EventKind.FAILED, count=32)),
        ),
    ]),
    "test": trial_notice("ops", by="ann", now_ms=AT),
    "worker": notice(NoticeKind.SYSTEM, AlertedEvent(event=Event(
        kind=EventKind.WORKER_DOWN, at_ms=AT, subject="worker-3", reason="nothing was heard of it for 10 s"))),
}  # fmt: skip


def page_of(name: str) -> str:
    one = NOTICES[name]
    is_of_a_run = one.kind in (NoticeKind.PROBLEM, NoticeKind.RECOVERED)
    about = About(
        now_ms=AT + 2_000, spec=JOB if is_of_a_run else None, next_ms=AT + DAY_MS if is_of_a_run else None,
        output=last_lines(OUTPUT) if name == "failed" else "",
    )  # fmt: skip
    facts = facts_of(one, about, "https://cron.example.org")
    templates = templates_in(ROOT / "webroot").overlay(autoescape=jinja2.select_autoescape(["html"]))
    return templates.get_template("notices/message.html").render(subject=f"[etcron] {facts['headline']}", **facts)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 800])
async def test_every_kind_of_message(browser: Browser, screenshots: Path | None, width: int, scheme: str) -> None:
    context = await browser.new_context(
        viewport={"width": width, "height": 700}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = await context.new_page()
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    for name in NOTICES:
        await page.set_content(page_of(name))
        if screenshots is not None:
            await page.screenshot(path=screenshots / f"mail-{name}-{width}-{scheme}.png", full_page=True)
        assert await overflow(page) <= 0, name
        if AXE.exists():
            assert await findings(page, is_mail=True) == [], name
    assert asked == []
    await context.close()
