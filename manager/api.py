"""``/api/v1`` and the probes, in their lasting shape. Errors are RFC 9457 problem documents; lists page by cursor."""

from __future__ import annotations

from aiohttp import web

from common.errors import EtcdError, UnavailableError
from manager.calls.guards import KNOWS_US
from manager.calls.inputs import read_object
from manager.cluster.clock_views import clock_view
from manager.console.texts import language_of
from manager.editing.advice import preview
from manager.handlers import (
    bulk_api,
    drains_api,
    events_api,
    jobs_api,
    metrics_api,
    run_now_api,
    runs_api,
    statistics_api,
    system,
    versions_api,
)
from manager.handlers.previews import read_preview
from manager.openapi import handler as openapi
from manager.parts import PARTS, answer
from manager.views import worker_view


def add_routes(app: web.Application) -> None:
    """Our calls, and the probes."""
    app.router.add_get("/livez", livez)
    app.router.add_get("/readyz", readyz)
    app.router.add_post("/api/v1/schedule/preview", preview_schedule)
    app.router.add_get("/api/v1/workers", list_workers)
    for calls in (
        bulk_api, jobs_api, runs_api, run_now_api, drains_api, versions_api, statistics_api, events_api, system,
        openapi, metrics_api,
    ):  # fmt: skip
        calls.add_routes(app)


async def livez(request: web.Request) -> web.Response:
    """This process answers; it says nothing about the servers behind it."""
    return answer({"status": "alive"})


async def readyz(request: web.Request) -> web.Response:
    """200 while jobs can be saved and listed, else 503; ``?verbose`` says what was seen of each server.

    Whoever calls this manager by another name hears the status alone: problems name jobs and workers.
    """
    report = await request.app[PARTS].health.look()
    document = report.document(verbose="verbose" in request.query) if request[KNOWS_US] else {"status": report.state}
    return answer(document, status=503 if report.state == "unready" else 200)


async def preview_schedule(request: web.Request) -> web.Response:
    """The next fires of a schedule that need not be saved, in words and with warnings."""
    parts = request.app[PARTS]
    document = await read_object(request, parts.read_timeout_s)
    spec, n = read_preview(document)
    return answer(preview(spec, n, now_ms=parts.clock.wall_ms(), language=language_of(request)))


async def list_workers(request: web.Request) -> web.Response:
    """Every session of a worker, with its newest beat; there are few, so there is one page."""
    parts = request.app[PARTS]
    warnings: list[str] = []
    try:
        seen, clocks = await parts.inventory.workers(), await parts.inventory.clocks()
    except (EtcdError, UnavailableError):
        if not parts.watching.warnings and not parts.watching.workers:
            raise
        seen, clocks = parts.inventory.seen(parts.watching.workers.values(), {}), None
        warnings = parts.watching.warnings or ["etcd does not answer: workers are shown as they were last seen"]
    bound_ms = parts.clock_guard.max_skew_ms
    items = [{**worker_view(worker), **clock_view(clocks, worker.name, bound_ms)} for worker in seen]
    return answer({"items": items, "nextCursor": None, "warnings": warnings})
