"""``/api/v1/workers``: those there are, which of them take nothing new, and which are remembered no more."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import EtcdError, UnavailableError
from manager.access.audited import say
from manager.access.needs import needs
from manager.cluster.clocks import clock_view
from manager.http.bodies import REASON
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.drains import Drained
from manager.views.shapes import drain_view, worker_view

_WORKERS: Final = "/api/v1/workers"
_WORKER: Final = f"{_WORKERS}/{{name}}"


def add_routes(app: web.Application) -> None:
    """The calls that list workers, drain one and take it back, and forget one."""
    app.router.add_get(_WORKERS, list_workers)
    app.router.add_post(f"{_WORKER}/drain", drain_worker)
    app.router.add_post(f"{_WORKER}/undrain", undrain_worker)
    app.router.add_delete(_WORKER, forget_worker)


@needs(Role.VIEWER)
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


@needs(Role.ADMIN, everywhere=True)
async def drain_worker(request: web.Request) -> web.Response:
    """It takes nothing new; what runs there goes on. 404: no worker of this name is live."""
    parts, name = request.app[PARTS], request.match_info["name"]
    reason = (await REASON.read(request, parts.read_timeout_s)).reason
    say(request, reason=reason)
    done = await parts.drains.drain(name, by=caller(request), rights=rights(request), reason=reason)
    said = "takes no new fires; what runs there goes on" if done.changed else "was drained already"
    return answer(_document(name, done, said))


@needs(Role.ADMIN, everywhere=True)
async def undrain_worker(request: web.Request) -> web.Response:
    """It takes fires again; one that was not drained is left as it is, and the answer says so."""
    parts, name = request.app[PARTS], request.match_info["name"]
    say(request, reason=(await REASON.read(request, parts.read_timeout_s)).reason)
    done = await parts.drains.undrain(name, by=caller(request), rights=rights(request))
    return answer(_document(name, done, "takes fires again" if done.changed else "was not drained"))


@needs(Role.ADMIN, everywhere=True)
async def forget_worker(request: web.Request) -> web.Response:
    """One that is not live is remembered no more. 404: none of this name is remembered; 409: it is live."""
    parts, name = request.app[PARTS], request.match_info["name"]
    await parts.drains.forget(name, by=caller(request), rights=rights(request))
    return answer({"name": name, "message": f"{name} is forgotten"})


def _document(name: str, done: Drained, said: str) -> dict[str, Any]:
    drained = None if done.drain is None else drain_view(done.drain)
    return {"name": name, "drained": drained, "changed": done.changed, "message": f"{name} {said}"}
