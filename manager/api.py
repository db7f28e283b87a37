"""``/api/v1`` and the probes, in their lasting shape. Errors are RFC 9457 problem documents; lists page by cursor."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from common.errors import InvalidInputError, Problem
from common.nearest import nearest
from common.run import Verdict
from common.runlog import RunFilter
from manager.advice import preview
from manager.inputs import Fields, read_json
from manager.inventory import JobFilter, JobState
from manager.parts import PARTS, answer
from manager.views import job_view, run_view, worker_view

MAX_LIMIT: Final = 500
DEFAULT_LIMIT: Final = 50
MAX_PREVIEW: Final = 100
DEFAULT_PREVIEW: Final = 5
_MAX_EXPRESSION: Final = 16_384
_PREVIEW_FIELDS: Final = ("cronExpr", "timezone", "n", "name")


def add_routes(app: web.Application) -> None:
    """Our calls, and the probes."""
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_post("/api/v1/schedule/preview", preview_schedule)
    app.router.add_get("/api/v1/jobs", list_jobs)
    app.router.add_get("/api/v1/workers", list_workers)
    app.router.add_get("/api/v1/runs", list_runs)
    app.router.add_get("/api/v1/runs/{id}", show_run)


async def livez(request: web.Request) -> web.Response:
    """This process answers; it says nothing about the servers behind it."""
    return answer({"status": "alive"})


async def readyz(request: web.Request) -> web.Response:
    """200 while jobs can be saved and listed, else 503; ``?verbose`` says what was seen of each server."""
    report = await request.app[PARTS].health.look()
    verbose = "verbose" in request.query
    return answer(report.document(verbose=verbose), status=503 if report.state == "unready" else 200)


async def preview_schedule(request: web.Request) -> web.Response:
    """The next fires of an expression that need not be saved, in words and with warnings."""
    parts = request.app[PARTS]
    document = await read_json(request, parts.read_timeout_s)
    expr, timezone, n, name = _preview_input(document)
    return answer(preview(expr, timezone, n, job=name, now_ms=parts.clock.wall_ms()))


async def list_jobs(request: web.Request) -> web.Response:
    """A page of jobs in the order of their names, each with its next fire and its last result."""
    parts = request.app[PARTS]
    fields = Fields(request.query, known=("label", "q", "state", "cursor", "limit"))
    limit = fields.whole("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    wanted = JobFilter(
        text=(fields.text("q") or "").casefold(),
        labels=tuple(_label(text) for text in request.query.getall("label", []) if text),
        state=fields.choice("state", JobState),
    )
    fields.check()
    page = await parts.inventory.page(wanted, cursor=fields.text("cursor"), limit=limit)
    last = await parts.history.last_results(page.jobs)
    now_ms = parts.clock.wall_ms()
    return answer(
        {
            "items": [job_view(stored, (last or {}).get(stored.name), now_ms=now_ms) for stored in page.jobs],
            "nextCursor": page.next_cursor,
            "warnings": [] if last is not None else ["the log store cannot be reached: last results are not shown"],
        }
    )


async def list_workers(request: web.Request) -> web.Response:
    """Every session of a worker, with its newest beat; there are few, so there is one page."""
    seen = await request.app[PARTS].inventory.workers()
    return answer({"items": [worker_view(worker) for worker in seen], "nextCursor": None})


async def list_runs(request: web.Request) -> web.Response:
    """A page of records, newest plan time first, without output; skipped and missed fires are among them."""
    fields = Fields(request.query, known=("job", "status", "worker", "from", "to", "cursor", "limit"))
    limit = fields.whole("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    wanted = RunFilter(
        job=fields.text("job"),
        statuses=_statuses(fields, request.query.getall("status", [])),
        worker=fields.text("worker"),
        from_ms=fields.time_ms("from"),
        to_ms=fields.time_ms("to"),
    )
    fields.check()
    page = await request.app[PARTS].history.runs(wanted, cursor=fields.text("cursor"), limit=limit)
    return answer({"items": [run_view(item) for item in page.items], "nextCursor": page.next_cursor})


async def show_run(request: web.Request) -> web.Response:
    """One run with all its times and its output; one that is still open as etcd knows it."""
    return answer(await request.app[PARTS].history.run(request.match_info["id"]))


def _label(text: str) -> tuple[str, str | None]:
    """``team=billing``, or ``team`` for any value."""
    name, equals, value = text.partition("=")
    return name, value if equals else None


def _statuses(fields: Fields, texts: list[str]) -> frozenset[Verdict]:
    """Any of several: repeated, or separated by commas."""
    statuses = set()
    for text in filter(None, ",".join(texts).split(",")):
        try:
            statuses.add(Verdict(text))
        except ValueError:
            fields.fault("status", f"is {text[:60]!r}", f"one of: {', '.join(Verdict)}")
    return frozenset(statuses)


def _preview_input(document: dict[str, Any]) -> tuple[str, str, int, str]:
    problems = [
        Problem(field=name[:80], message="is not a field of a preview", remedy=_meant(name))
        for name in document
        if name not in _PREVIEW_FIELDS
    ]
    expr = document.get("cronExpr")
    timezone = document.get("timezone")
    name = document.get("name")
    n = document.get("n")
    if not isinstance(expr, str) or not expr.strip():
        problems.append(Problem(field="cronExpr", message="is missing", remedy="a text such as '0 */5 * * * * *'"))
    elif len(expr) > _MAX_EXPRESSION:
        message = f"is {len(expr):,} characters long"
        problems.append(Problem(field="cronExpr", message=message, remedy=f"at most {_MAX_EXPRESSION:,}"))
    for field, value in (("timezone", timezone), ("name", name)):
        if value is not None and not isinstance(value, str):
            problems.append(Problem(field=field, message="is not a text", remedy="a text, or leave it out"))
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_PREVIEW):
        remedy = f"a whole number from 1 to {MAX_PREVIEW}; {DEFAULT_PREVIEW} when left out"
        problems.append(Problem(field="n", message=f"is {str(n)[:40]}", remedy=remedy))
    if problems:
        raise InvalidInputError(problems)
    return str(expr), timezone or "UTC", n or DEFAULT_PREVIEW, name or ""


def _meant(name: str) -> str:
    meant = nearest(name[:80], _PREVIEW_FIELDS)
    return f"did you mean {meant}?" if meant else f"known: {', '.join(_PREVIEW_FIELDS)}"
