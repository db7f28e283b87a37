"""``/api/v1`` and the probes, in their lasting shape. Errors are RFC 9457 problem documents; lists page by cursor."""

from __future__ import annotations

from aiohttp import web

from common.access.rights import Rights, Role
from common.errors import LoginNeededError, UnavailableError
from common.jobs.reader import in_zone
from manager.access.guard import NO_RIGHTS
from manager.access.needs import anonymous, needs
from manager.api import (
    alerts,
    audit,
    bindings,
    bulk,
    channels,
    crontab,
    events,
    explain,
    forecast,
    jobs,
    login,
    login_oidc,
    metrics,
    notices,
    output,
    overview,
    rules,
    run_now,
    runs,
    services,
    silences,
    statistics,
    system,
    timeline,
    tokens,
    users,
    versions,
    workers,
)
from manager.api import openapi as openapi
from manager.api.jobs import read_preview
from manager.console.pages import language_of
from manager.http.guards import KNOWS_US
from manager.http.inputs import read_object
from manager.parts import PARTS, answer
from manager.views.advice import preview


def add_routes(app: web.Application) -> None:
    """The calls of every file, the preview of a schedule, and the probes."""
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_post("/api/v1/schedule/preview", preview_schedule)
    for calls in (
        audit, bulk, crontab, jobs, runs, output, run_now, workers, versions, statistics, forecast, timeline, events,
        system, openapi, metrics, login, login_oidc, tokens, users, services, bindings, explain, channels, rules,
        silences, alerts, notices, overview,
    ):  # fmt: skip
        calls.add_routes(app)


@anonymous
async def livez(request: web.Request) -> web.Response:
    """This process answers; it says nothing about the servers behind it."""
    return answer({"status": "alive"})


@anonymous
async def readyz(request: web.Request) -> web.Response:
    """200 while jobs can be saved and listed, else 503; ``?verbose`` says what was seen of each server.

    An unknown caller, or one who uses another name of this manager, gets the status alone: problems name jobs.
    """
    seen_by = await _reader(request)
    report = await request.app[PARTS].health.look(seen_by or NO_RIGHTS)
    document = {"status": report.state} if seen_by is None else report.document(verbose="verbose" in request.query)
    return answer(document, status=503 if report.state == "unready" else 200)


async def _reader(request: web.Request) -> Rights | None:
    """What a caller of a probe may know; None: no more than whether all is well."""
    if not request[KNOWS_US]:
        return None
    try:
        rights = (await request.app[PARTS].access.caller(request)).rights
    except (LoginNeededError, UnavailableError):  # a probe is answered, whatever its credential is worth
        return None
    return rights if rights.has(Role.VIEWER) else None


@needs(Role.VIEWER)
async def preview_schedule(request: web.Request) -> web.Response:
    """The next fires of a schedule that need not be saved, in words and with warnings."""
    parts = request.app[PARTS]
    document = await read_object(request, parts.read_timeout_s)
    spec, n = read_preview(in_zone(document, parts.config.default_timezone))
    return answer(preview(spec, n, now_ms=parts.clock.wall_ms(), language=language_of(request)))
