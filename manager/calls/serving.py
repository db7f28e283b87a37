"""The HTTP server below the application: nothing that a client sends is inflated, and all answers are alike.

What is no HTTP never reaches the application: the library answers it, in its own words, if nobody else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web

from manager.calls.callers import UNKNOWN
from manager.calls.crowd import Crowd
from manager.calls.errors import Failure, code_of, failure_of, problem, respond
from manager.calls.guards import add_headers
from manager.calls.sending import PIECE


class Runner(web.AppRunner):
    """Serves an application by our own connections: at most so many of one address, but for those of proxies."""

    def __init__(
        self, app: web.Application, *, per_address: int, proxies: Collection[str] = (), **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._crowd = Crowd(per_address, but=proxies)

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await made.request_handler(request)
            except web.HTTPException as error:  # of the library, before any middleware
                if error.status < 400:
                    raise
                return respond(request, failure_of(error))

        return _Server(handle, crowd=self._crowd, request_factory=made.request_factory, **self._kwargs)


class _Server(web.Server):
    def __init__(self, handler: Any, *, crowd: Crowd, **options: Any) -> None:
        super().__init__(handler, **options)
        self._crowd = crowd

    def __call__(self) -> web.RequestHandler:
        # Inflated, a body of a few kilobytes takes gigabytes before any of our limits is looked at.
        return _Connection(self, crowd=self._crowd, loop=self._loop, auto_decompress=False, **self._kwargs)


class _Connection(web.RequestHandler):
    def __init__(self, server: _Server, *, crowd: Crowd, **options: Any) -> None:
        super().__init__(server, **options)
        self._crowd = crowd
        self._address: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else UNKNOWN
        connection = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        if not self._crowd.enter(address):
            self.force_close()  # nothing that it sends is read
            connection.write(_refusal(self._crowd.too_many(address)))
            connection.close()
            return
        self._address = address
        connection.set_write_buffer_limits(high=PIECE)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._address is not None:
            self._crowd.leave(self._address)
            self._address = None
        super().connection_lost(exc)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """As the library's, which logs it; but a problem document, without the library's words and its version."""
        if isinstance(exc, ConnectionError):
            raise exc  # nobody is there to be answered
        super().handle_error(request, status, exc, message)
        words = HTTPStatus(status).phrase.lower()
        remedy = (
            "send HTTP/1.1, with a head of at most 8 KiB a line" if status == 400 else "the manager's log says more"
        )
        response = respond(request, Failure(status=status, code=code_of(status), detail=f"{words}; {remedy}"))
        add_headers(response, request.path)
        response.force_close()
        return response


def _refusal(failure: Failure) -> bytes:
    """The whole of an answer to who has not asked anything yet."""
    response = problem(failure)
    add_headers(response, "/")
    assert isinstance(response.body, bytes)
    response.headers.update({"Connection": "close", "Content-Length": str(len(response.body))})
    lines = [f"HTTP/1.1 {failure.status} {HTTPStatus(failure.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + response.body
