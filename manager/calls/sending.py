"""How answers go out: piece by piece, as they are taken; who takes nothing is cut off, and all together hold a bound.

A body is in memory until its client has taken it. Written in one go it would be so as often as there are clients.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, payload, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.typedefs import Middleware

from manager.calls.errors import Failure, Handler, respond

PIECE: Final = 65_536
"""So much is written at once, and waits in the connection's buffer."""
MOST_HELD_BYTES: Final = 64 * 2**20
"""Of bodies beyond a piece that wait to be taken, of all clients; one alone may be larger."""
_RETRY_S: Final = 5


def paced(seconds: float) -> Middleware:
    """The middleware that sends long bodies; each piece has to be taken within so many seconds."""
    held = 0

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal held
        response = await handler(request)
        if request.method == "HEAD":
            return response
        body = response.body if isinstance(response, web.Response) and not response.prepared else None
        if not isinstance(response, web.Response) or not isinstance(body, bytes) or len(body) <= PIECE:
            return response
        size = len(body)
        if held and held + size > MOST_HELD_BYTES:
            detail = f"too many long answers wait to be taken ({held:,} of {MOST_HELD_BYTES:,} bytes); try again"
            return respond(request, Failure(status=503, code="too-many-answers", detail=detail, retry_s=_RETRY_S))
        response.body = _Pieces(body, response.headers[hdrs.CONTENT_TYPE], seconds)
        del body
        held += size
        try:
            await response.prepare(request)
            await response.write_eof()
        except TimeoutError as error:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionError("it takes nothing") from error
        finally:
            held -= size
        return response

    return middleware


class _Pieces(payload.Payload):
    """A body that is written as it is taken."""

    def __init__(self, body: bytes, content_type: str, seconds: float) -> None:
        super().__init__(body, content_type=content_type)
        self._size = len(body)
        self._seconds = seconds

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        body = memoryview(self._value)
        for start in range(0, len(body), PIECE):
            async with asyncio.timeout(self._seconds):
                await writer.write(body[start : start + PIECE])
                await writer.drain()
