"""``GET /api/v1/events``: live events for a browser, for as long as it listens and keeps up."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from common.access.rights import Role
from manager.access.needs import needs
from manager.http.errors import STREAMING
from manager.http.guards import DEADLINE
from manager.parts import PARTS, allowance_key, cut, rights, while_allowed
from manager.watch.events import Client

_TAKEN_S: Final = 20.0
"""How long one batch of events may take to be taken; then the connection is cut."""


def add_routes(app: web.Application) -> None:
    """The stream."""
    app.router.add_get("/api/v1/events", stream_events)


def prepare(app: web.Application) -> None:
    """When the application ends, every stream does."""
    app.on_shutdown.append(_end_streams)


@needs(Role.VIEWER)
async def stream_events(request: web.Request) -> web.StreamResponse:
    """Server-sent events until the browser goes or falls behind, its user may not listen so any more, or the manager
    stops.
    """
    hub = request.app[PARTS].events
    response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
    response.content_type = "text/event-stream"
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    client = hub.join(lambda: cut(request), rights(request), by=allowance_key(request))
    try:
        with while_allowed(request, client.revoke):
            await _stream(request, response, client)
    except (TimeoutError, ConnectionError):
        cut(request)  # it takes nothing any more, or has gone
    finally:
        hub.leave(client)
    return response


async def _stream(request: web.Request, response: web.StreamResponse, client: Client) -> None:
    request[DEADLINE].reschedule(None)
    await response.prepare(request)
    request[STREAMING] = response
    while (events := await client.next()) is not None:
        client.is_writing = True
        async with asyncio.timeout(_TAKEN_S):
            await response.write(events)
        client.is_writing = False
    await response.write_eof()


async def _end_streams(app: web.Application) -> None:
    app[PARTS].events.close()
