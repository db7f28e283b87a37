"""``GET /api/v1/runs/{id}/output``: what a run has printed, as JSON, as a stream while it goes, as text or a file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import Problem
from common.jobs.reading import check, shown, wrong
from manager.access.needs import needs
from manager.api.schemas import COUNT, TEXT, TRUTH, Schema, header, record
from manager.http.errors import STREAMING
from manager.http.guards import DEADLINE
from manager.http.queries import Meaning, Parameter, Query, whole
from manager.parts import PARTS, allowance_key, answer, cut, rights, while_allowed
from manager.views.output import OutputEvent
from manager.watch.events import spell

_TAKEN_S: Final = 20.0
"""How long an event may take to be taken; then the connection is cut."""
_ALIVE_S: Final = 10.0
"""A line comes so often at least."""
_PLACE: Final = "Last-Event-ID"
_DIGITS: Final = 15
_HEADERS: Final = {
    # Whatever a command has printed: no browser may take it for a page of ours.
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}
_TRUTHS: Final = {"": False, "false": False, "0": False, "true": True, "1": True}
_STREAMS: Final = web.AppKey("output streams", set[asyncio.Timeout])
LAST_EVENT_ID: Final = header(
    _PLACE, "With `follow`: how many bytes are known already, the `id` of the last event.", "^[0-9]{0,15}$"
)
OUTPUT: Final[Schema] = record(
    {"text": TEXT, "offset": COUNT, "printed": COUNT, "truncated": TRUTH, "ended": TRUTH, "live": TRUTH},
    {"progress": record({"percent": {"type": "number"}, "text": TEXT})},
)


def _truth(texts: list[str]) -> bool:
    text = texts[0] if texts else ""
    if text not in _TRUTHS:
        raise wrong(f"is {shown(text)}", "true or false")
    return _TRUTHS[text]


class OutputQuery(Query):
    tail: Annotated[int, whole(0, 10_000, 0), Meaning("The last lines alone, so many; 0: all of it.")]
    follow: Annotated[
        bool, Parameter(_truth, {"type": "boolean", "default": False}),
        Meaning("A stream of events, up to the run's end."),
    ]  # fmt: skip
    download: Annotated[int, whole(0, 1, 0), Meaning("1: as a file, of a run that has ended.")]


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/runs/{id}/output", send_output)


def prepare(app: web.Application) -> None:
    """The streams of the application are known, and end with it."""
    app[_STREAMS] = set()
    app.on_shutdown.append(_end_streams)


@needs(Role.VIEWER)
async def send_output(request: web.Request) -> web.StreamResponse:
    """JSON; with ``follow`` server-sent events; as plain text, in a sandbox, where that is accepted by name, or with
    ``download``.
    """
    asked, run = OutputQuery.read(request), request.match_info["id"]
    if asked.follow:
        others = [name for name in ("tail", "download") if getattr(asked, name)]
        remedy = "leave one of them out"
        check([Problem(field=name, message="does not go with follow", remedy=remedy) for name in others])
        return await _follow(request, run)
    if asked.download or "text/plain" in request.headers.get("Accept", ""):
        return await _as_text(request, run, as_file=bool(asked.download))
    outputs = request.app[PARTS].outputs
    return answer(await outputs.now(run, rights(request), by=allowance_key(request), lines=asked.tail or None))


async def _as_text(request: web.Request, run: str, *, as_file: bool) -> web.Response:
    output = await request.app[PARTS].history.output(run, rights(request))
    headers = dict(_HEADERS)
    if as_file:
        # A name that every system takes: what is not plain in the id becomes `_`.
        plain = "".join(char if char.isascii() and (char.isalnum() or char in "._-") else "_" for char in run)
        headers["Content-Disposition"] = f'attachment; filename="{plain[:150]}.txt"'
    body = output.encode(errors="replace")
    return web.Response(body=body, content_type="text/plain", charset="utf-8", headers=headers)


async def _follow(request: web.Request, run: str) -> web.StreamResponse:
    """Until the run's record can be read, the client goes or takes nothing, or may not see the run any more."""
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = "text/event-stream"
    streams = request.app[_STREAMS]
    events = request.app[PARTS].outputs.follow(run, rights(request), by=allowance_key(request), place=_place(request))
    async with aclosing(events):
        first = await anext(events)  # what is to be refused is refused before there is a stream
        request[DEADLINE].reschedule(None)
        end = asyncio.timeout(None)
        streams.add(end)
        try:
            async with end:
                with while_allowed(request, lambda: _end(end)):
                    await response.prepare(request)
                    request[STREAMING] = response
                    if request.method != "HEAD":
                        await _send(request, response, first, events)
        except (TimeoutError, ConnectionError):
            if not end.expired():
                cut(request)  # it takes nothing any more, or has gone
                return response
        finally:
            streams.discard(end)
    await response.write_eof()
    return response


async def _send(
    request: web.Request, response: web.StreamResponse, first: OutputEvent, events: AsyncGenerator[OutputEvent]
) -> None:
    clock = request.app[PARTS].clock
    await _write(response, b"retry: 2000\n" + _spelled(first))
    written = clock.monotonic()
    async for event in events:
        if request.transport is None:
            raise ConnectionResetError("it has gone")
        if event.kind or clock.monotonic() - written >= _ALIVE_S:
            await _write(response, _spelled(event))
            written = clock.monotonic()


async def _write(response: web.StreamResponse, event: bytes) -> None:
    async with asyncio.timeout(_TAKEN_S):
        await response.write(event)


def _spelled(event: OutputEvent) -> bytes:
    if not event.kind:
        return b":\n\n"
    return (b"" if event.place is None else b"id: %d\n" % event.place) + spell(event.kind, event.data)


def _place(request: web.Request) -> int:
    text = request.headers.get(_PLACE, "") or "0"
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
    remedy = f"the id of the last event, a number of at most {_DIGITS} digits"
    check([] if is_number else [Problem(field=_PLACE, message=f"is {shown(text)}", remedy=remedy)])
    return int(text)


def _end(stream: asyncio.Timeout) -> None:
    stream.reschedule(asyncio.get_running_loop().time())


async def _end_streams(app: web.Application) -> None:
    for stream in app[_STREAMS]:
        _end(stream)
