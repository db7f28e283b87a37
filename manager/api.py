"""``/api/v1`` and the probes, in their lasting shape. Errors are RFC 9457 problem documents; lists page by cursor."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from common.errors import EtcdError, InvalidInputError, Problem, UnavailableError
from common.nearest import nearest
from manager import bulk_api, events_api, jobs_api, openapi_api, runs_api, system, versions_api
from manager.advice import preview
from manager.inputs import read_members
from manager.parts import PARTS, answer
from manager.views import worker_view

MAX_PREVIEW: Final = 100
DEFAULT_PREVIEW: Final = 5
_MAX_EXPRESSION: Final = 16_384
_PREVIEW_FIELDS: Final = ("cronExpr", "timezone", "n", "name")


def add_routes(app: web.Application) -> None:
    """Our calls, and the probes."""
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_post("/api/v1/schedule/preview", preview_schedule)
    app.router.add_get("/api/v1/workers", list_workers)
    for calls in (bulk_api, jobs_api, runs_api, versions_api, events_api, system, openapi_api):
        calls.add_routes(app)


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
    document = await read_members(request, parts.read_timeout_s)
    expr, timezone, n, name = _preview_input(document)
    return answer(preview(expr, timezone, n, job=name, now_ms=parts.clock.wall_ms()))


async def list_workers(request: web.Request) -> web.Response:
    """Every session of a worker, with its newest beat; there are few, so there is one page."""
    parts = request.app[PARTS]
    warnings: list[str] = []
    try:
        seen = await parts.inventory.workers()
    except (EtcdError, UnavailableError):
        if not parts.watching.warnings and not parts.watching.workers:
            raise
        seen = parts.inventory.seen(parts.watching.workers.values(), {})
        warnings = parts.watching.warnings or ["etcd does not answer: workers are shown as they were last seen"]
    return answer({"items": [worker_view(worker) for worker in seen], "nextCursor": None, "warnings": warnings})


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
