"""``/api/v1/workers``: those there are, which of them take nothing new, and which are remembered no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from common.access.rights import Rights, Role
from common.errors import EtcdError, NotFoundError, UnavailableError
from common.protocol.clocks import Clocks
from common.runlog import AuditFilter
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.cluster.clocks import clock_view
from manager.http.bodies import REASON
from manager.parts import PARTS, Parts, answer, caller, rights
from manager.use_cases.drains import Drained
from manager.views import one_worker
from manager.views.inventory import SeenWorker
from manager.views.shapes import drain_view, healthy, worker_view

_WORKERS: Final = "/api/v1/workers"
_WORKER: Final = f"{_WORKERS}/{{name}}"


def add_routes(app: web.Application) -> None:
    """The calls that list workers, show one, drain one and take it back, and forget one."""
    app.router.add_get(_WORKERS, list_workers)
    app.router.add_get(_WORKER, show_worker)
    app.router.add_get(f"{_WORKER}/history", show_worker_history)
    app.router.add_post(f"{_WORKER}/drain", drain_worker)
    app.router.add_post(f"{_WORKER}/undrain", undrain_worker)
    app.router.add_delete(_WORKER, forget_worker)


@needs(Role.VIEWER)
async def list_workers(request: web.Request) -> web.Response:
    """Every session of a worker, with its newest beat; there are few, so there is one page."""
    parts = request.app[PARTS]
    seen, clocks, warnings = await _seen(parts)
    items = [_view(parts, worker, clocks, rights(request)) for worker in seen]
    return answer({"items": items, "nextCursor": None, "warnings": warnings})


@needs(Role.VIEWER)
async def show_worker(request: web.Request) -> web.Response:
    """One worker, live or remembered, what runs there, and the jobs that no other live one fits. 404: unknown."""
    parts = request.app[PARTS]
    await parts.watching.ready()
    seen, clocks, warnings = await _seen(parts)
    worker = _named(seen, request.match_info["name"])
    own = one_worker.able(worker)
    others = [one_worker.Able(one.labels, one.slots) for one in healthy(seen) if one.worker != worker.name]
    catalog, may, now_ms = parts.watching.catalog, rights(request), parts.clock.wall_ms()
    return answer({
        **_view(parts, worker, clocks, may),
        "running": await one_worker.running(
            parts.watching, parts.ending, parts.history, request.match_info["name"], may, now_ms=now_ms
        ),
        "onlyThere": None if own is None else await one_worker.only_there(catalog, own, others, may),
        "isAlone": not others, "warnings": warnings,
    })  # fmt: skip


@needs(Role.VIEWER)
async def show_worker_history(request: web.Request) -> web.Response:
    """What its last day's runs came to, the slots that they used, and what happened to it.

    Events are of the system: callers who may not see everything have none. 503: the log store is away.
    """
    parts, name, may = request.app[PARTS], request.match_info["name"], rights(request)
    await parts.watching.ready()
    worker = _named((await _seen(parts))[0], name)
    day = await one_worker.day_of(parts.history, parts.watching, name, may, now_ms=parts.clock.wall_ms())
    if not may.sees_all:
        return answer({**day, "events": None})
    alerts = [*await parts.alerts.open(), *await parts.alerts.ended()]
    page = await parts.runlog.audit(
        AuditFilter(object=f"worker {name}"), cursor=None, limit=one_worker.MOST_EVENTS,
        deadline_seconds=parts.write_timeout_s,
    )  # fmt: skip
    return answer({**day, "events": one_worker.events_of(worker, alerts, [entry for entry, _ in page.items])})


async def _seen(parts: Parts) -> tuple[Sequence[SeenWorker], Clocks | None, list[str]]:
    """All workers, and warnings where etcd is away: then they are as they were last seen."""
    try:
        fleet = await parts.inventory.fleet()
        return fleet.workers, fleet.clocks, []
    except (EtcdError, UnavailableError):
        if not parts.watching.warnings and not parts.watching.workers:
            raise
    warnings = parts.watching.warnings or ["etcd does not answer: workers are shown as they were last seen"]
    return parts.inventory.seen(parts.watching.workers.values(), {}), None, warnings


def _named(seen: Sequence[SeenWorker], name: str) -> SeenWorker:
    """By its newest session."""
    found = [worker for worker in seen if worker.name == name]
    if not found:
        raise NotFoundError(f"there is no worker {name[:80]!r}: none of this name is remembered")
    return max(found, key=lambda worker: worker.member.since_ms if worker.member else 0)


def _view(parts: Parts, worker: SeenWorker, clocks: Clocks | None, may: Rights) -> dict[str, Any]:
    view = worker_view(worker, sees_all=may.sees_all)
    return {**view, **clock_view(clocks, worker.name, parts.clock_guard.max_skew_ms)}


@needs(Role.ADMIN, everywhere=True)
async def drain_worker(request: web.Request) -> web.Response:
    """It takes nothing new; what runs there goes on. 404: no worker of this name is live."""
    parts, name = request.app[PARTS], request.match_info["name"]
    reason = (await REASON.read(request, parts.read_timeout_s)).reason
    annotate(request, reason=reason)
    done = await parts.drains.drain(name, by=caller(request), rights=rights(request), reason=reason)
    annotate(request, changed=done.changed)
    what = "takes no new fires; what runs there goes on" if done.changed else "was drained already"
    return answer(_document(name, done, what))


@needs(Role.ADMIN, everywhere=True)
async def undrain_worker(request: web.Request) -> web.Response:
    """It takes fires again; one that was not drained is left as it is, and the answer says so."""
    parts, name = request.app[PARTS], request.match_info["name"]
    annotate(request, reason=(await REASON.read(request, parts.read_timeout_s)).reason)
    done = await parts.drains.undrain(name, by=caller(request), rights=rights(request))
    annotate(request, changed=done.changed)
    return answer(_document(name, done, "takes fires again" if done.changed else "was not drained"))


@needs(Role.ADMIN, everywhere=True)
async def forget_worker(request: web.Request) -> web.Response:
    """One that is not live is remembered no more. 404: none of this name is remembered; 409: it is live."""
    parts, name = request.app[PARTS], request.match_info["name"]
    await parts.drains.forget(name, by=caller(request), rights=rights(request))
    return answer({"name": name, "message": f"{name} is forgotten"})


def _document(name: str, done: Drained, what: str) -> dict[str, Any]:
    drained = None if done.drain is None else drain_view(done.drain)
    return {"name": name, "drained": drained, "changed": done.changed, "message": f"{name} {what}"}
