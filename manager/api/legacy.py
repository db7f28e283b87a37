"""The six calls of the legacy API, in its shapes, so that its clients and its console go on unchanged.

Every answer is ``{"errno": 0, "msg": "success", "data": ...}``; an error has errno -1 and a fitting HTTP status.
Members beside these three are ours. Source: ``docs/reference/api.md``, *The legacy HTTP API*.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final, TypeVar

from aiohttp import web

from common.access.rights import Role
from common.jobs.reader import in_zone, parse_job
from common.jobs.reading import wrong
from common.jobs.values import JobName
from common.json_text import dumps
from common.protocol.edits import Stored
from manager.access.audited import annotate, annotate_change
from manager.access.needs import needs
from manager.http.errors import STREAMING
from manager.http.guards import DEADLINE
from manager.http.inputs import form_job, form_name, if_match, read_form
from manager.http.queries import Meaning, Parameter, Query, single, whole
from manager.parts import PARTS, allowance_key, answer, caller, cut, rights, while_allowed
from manager.views.inventory import is_seen
from manager.views.shapes import legacy_job, legacy_log, legacy_workers

T = TypeVar("T")

MAX_LOG_LIMIT: Final = 1_000
MAX_LOG_SKIP: Final = 1_000_000
_PIECE: Final = 65_536


def _log_name(texts: list[str]) -> str:
    name = single({}, JobName().read).read(texts)
    if name is None:
        raise wrong("is missing", "name=<the job's name>")
    return str(name)


class _LogQuery(Query):
    skip: Annotated[int, whole(0, MAX_LOG_SKIP, 0), Meaning("So many of the newest are left out.")]
    limit: Annotated[int, whole(1, MAX_LOG_LIMIT, 20), Meaning("So many at most.")]
    name: Annotated[str, Parameter(_log_name, {}), Meaning("Of this job.")]


def add_routes(app: web.Application) -> None:
    """The six calls."""
    app.router.add_post("/job/save", save)
    app.router.add_post("/job/delete", delete)
    app.router.add_post("/job/kill", kill)
    app.router.add_get("/job/list", list_jobs)
    app.router.add_get("/job/log", log)
    app.router.add_get("/worker/list", list_workers)


@needs(Role.EDITOR)
async def save(request: web.Request) -> web.Response:
    """Save a job; data is the job that it replaced, or null."""
    parts = request.app[PARTS]
    document = form_job(await read_form(request, parts.read_timeout_s))
    spec = parse_job(in_zone(document, parts.config.default_timezone))
    annotate(request, object=f"job {spec.name}")
    saved = await parts.jobs.save(spec, by=caller(request), rights=rights(request), if_match=if_match(request))
    before = saved.before.saved
    annotate_change(request, before.spec if before else None, saved.spec, revision=saved.revision)
    await parts.watching.has_seen(spec.name, saved.revision)
    return _success(
        _before(request, saved.before),
        msg="success" if saved.changed else "success: the same job was there already; nothing was written",
        warnings=list(saved.warnings),
        revision=saved.revision,
        timezone=spec.timezone,
    )


@needs(Role.EDITOR)
async def delete(request: web.Request) -> web.Response:
    """Delete a job; data is what was deleted, or null where there was none."""
    parts = request.app[PARTS]
    name = form_name(await read_form(request, parts.read_timeout_s))
    annotate(request, object=f"job {name}")
    deleted = await parts.jobs.delete(name, by=caller(request), rights=rights(request))
    before = deleted.before.saved
    annotate_change(request, before.spec if before else None, None, deleted=deleted.changed)
    if not deleted.changed:
        return _success(None, msg=f"success: there was no job {name}")
    await parts.watching.has_seen(name, deleted.revision)
    return _success(_before(request, deleted.before))


@needs(Role.OPERATOR)
async def kill(request: web.Request) -> web.Response:
    """Ask for the end of each run of this name that has begun; ``killed`` lists them."""
    parts = request.app[PARTS]
    name = form_name(await read_form(request, parts.read_timeout_s))
    annotate(request, object=f"job {name}")
    killed = [str(run) for run in await parts.kills.of_job(name, by=caller(request), rights=rights(request))]
    annotate(request, killed=killed[:20], count=len(killed))
    return _success(None, msg="success" if killed else f"success: no run of {name} was going", killed=killed)


@needs(Role.VIEWER)
async def list_jobs(request: web.Request) -> web.StreamResponse:
    """Every job that the caller may know of, sent as it is read: neither side holds all of them in memory."""
    async with aclosing(request.app[PARTS].inventory.jobs(rights(request))) as pages:
        return await _sent_as_read(request, pages, lambda stored: legacy_job(stored, rights(request)))


@needs(Role.VIEWER)
async def log(request: web.Request) -> web.StreamResponse:
    """The job's runs that started, newest start first, sent as they are read."""
    asked = _LogQuery.read(request, takes_others=True)
    found = request.app[PARTS].history.job_log(
        asked.name, rights(request), skip=asked.skip, limit=asked.limit, by=allowance_key(request)
    )
    async with aclosing(found) as pages:
        return await _sent_as_read(request, pages, legacy_log)


@needs(Role.VIEWER)
async def list_workers(request: web.Request) -> web.Response:
    """One text for each healthy worker: its address."""
    return _success(legacy_workers(await request.app[PARTS].inventory.live()))


async def _sent_as_read(
    request: web.Request, pages: AsyncIterator[list[T]], view: Callable[[T], Mapping[str, Any]]
) -> web.StreamResponse:
    """Cut off where the caller's right to it ends meanwhile: a slow one may take hours."""
    with while_allowed(request, lambda: cut(request)):
        return await _sent(request, pages, view)


async def _sent(
    request: web.Request, pages: AsyncIterator[list[T]], view: Callable[[T], Mapping[str, Any]]
) -> web.StreamResponse:
    response, text, comma = None, '{"errno":0,"msg":"success","data":[', ""
    async for page in pages:  # a server that is away is found before the answer begins
        for one in page:
            text, comma = f"{text}{comma}{dumps(view(one))}", ",\n"
            if len(text) >= _PIECE:
                if response is None:
                    response = web.StreamResponse()
                    response.content_type = "application/json"
                    await response.prepare(request)
                    request[STREAMING] = response
                if request.method == "HEAD":
                    return response
                await _write(request, response, text)
                text = ""
    if response is None:
        whole = web.Response(text=text + "]}", content_type="application/json")
        whole.enable_compression()
        return whole
    await _write(request, response, text + "]}")
    await response.write_eof()
    return response


async def _write(request: web.Request, response: web.StreamResponse, text: str) -> None:
    """A client that goes on taking some of it may take as long as it needs."""
    data, loop = text.encode(), asyncio.get_running_loop()
    for start in range(0, len(data), _PIECE):
        await response.write(data[start : start + _PIECE])
        request[DEADLINE].reschedule(loop.time() + request.app[PARTS].write_timeout_s)


def _before(request: web.Request, before: Stored) -> Mapping[str, Any] | None:
    """What a change has replaced, as the caller may see it."""
    return legacy_job(before, rights(request)) if before.job and is_seen(before, rights(request)) else None


def _success(data: Any, *, msg: str = "success", **more: Any) -> web.Response:
    return answer({"errno": 0, "msg": msg, "data": data, **more})
