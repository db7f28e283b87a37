"""The HTTP server below the application: nothing that a client sends is inflated, and all answers are alike.

* What is no HTTP request, too long a line, a garbled body: each is answered with 400, in our words and not in the
  library's, and leaves one line in the log.
* An address has so many connections at a time, and behind a proxy so many calls (``Crowd``).
* An answer is packed in gzip where the client takes that (RFC 9110, 12.5.3), and goes out piece by piece, as taken:
  a body is in memory until its client has taken it, and written in one go it would be so as often as there are clients.
  Who takes nothing is cut off, and all together hold a bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import hdrs, payload, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from manager.http.allowances import network_of
from manager.http.errors import Failure, Handler, RequestError, code_of, failure_of, problem, respond
from manager.http.guards import ADDRESS, UNKNOWN, add_headers
from manager.http.peers import OtherEnd, peer_of
from manager.http.tcp_owner import uid_at_once

_GZIP: Final = ("gzip", "x-gzip", "*")
"""Its names; the first that the client has named counts."""


def takes_gzip(request: web.BaseRequest) -> bool:
    """Whether the client names gzip among what it accepts, and prefers an answer as it is no more."""
    weights: dict[str, float] = {}
    for one in ",".join(request.headers.getall("Accept-Encoding", [])).lower().split(","):
        coding, _, parameters = one.partition(";")
        weights[coding.strip()] = _weight(parameters)
    gzip = next((weights[name] for name in _GZIP if name in weights), 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


@web.middleware
async def choose_coding(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Of answers that are worth packing: aiohttp, left to itself, packs also for who refuses that (``q=0``)."""
    response = await handler(request)
    if response.compression:
        response.enable_compression(web.ContentCoding.gzip if takes_gzip(request) else web.ContentCoding.identity)
    return response


def _weight(parameters: str) -> float:
    """1 where there is none, 0 where it is none."""
    name, _, value = parameters.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


_CROWD_RETRY_S = 5


class Crowd:
    """Counts who is there, by address (``network_of``)."""

    def __init__(self, most: int, *, but: Collection[str] = ()) -> None:
        """``but``: addresses of which there may be any number; they are not counted."""
        self._most = most
        self._but = frozenset(but)
        self._there = Counter[str]()

    def has_any(self, address: str) -> bool:
        """Whether of this one there may be any number."""
        return address in self._but

    def enter(self, address: str) -> bool:
        """Whether there is room for one more, who is there from now on."""
        if self.has_any(address):
            return True
        whose = network_of(address)
        if self._there[whose] >= self._most:
            return False
        self._there[whose] += 1
        return True

    def leave(self, address: str) -> None:
        if self.has_any(address):
            return
        whose = network_of(address)
        self._there[whose] -= 1
        if not self._there[whose]:
            del self._there[whose]

    def too_many(self, address: str) -> Failure:
        """Why there is no room."""
        detail = f"{address} has {self._most:,} connections, and may have no more (connectionsPerAddress); close some"
        return Failure(status=429, code="too-many", detail=detail, retry_s=_CROWD_RETRY_S)


def going_at_once(most: int) -> Middleware:
    """The middleware that counts calls: behind a proxy, one connection tells nothing of who is behind it.

    What did not come through a proxy is counted by its connections.
    """
    crowd = Crowd(most)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        address = request[ADDRESS]
        if address == request.remote:
            return await handler(request)
        if not crowd.enter(address):
            failure = crowd.too_many(address)
            raise RequestError(failure.status, failure.detail, code=failure.code, retry_s=failure.retry_s)
        try:
            return await handler(request)
        finally:
            crowd.leave(address)

    return middleware


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


_LIBRARY: Final = "aiohttp.server"
_SHOWN: Final = 200


class _OneLine(logging.Filter):
    """The library logs a traceback for each: anybody who can connect could fill the log with them."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, web.RequestPayloadError):
            error = error.__cause__  # the library reads on after the answer, and meets it again
        if not isinstance(error, HttpProcessingError):
            return True
        record.msg, record.args = "a request could not be read: %s", (error.message[:_SHOWN],)
        record.exc_info, record.exc_text = None, None
        record.levelno, record.levelname = logging.INFO, "INFO"
        record.__dict__["action"] = "request.malformed"
        return logging.getLogger(_LIBRARY).isEnabledFor(logging.INFO)


_ONE_LINE: Final = _OneLine()


def keep_malformed_quiet() -> None:
    """Have the library's log say so in one line; once or often."""
    logging.getLogger(_LIBRARY).addFilter(_ONE_LINE)


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
        self.other_end = OtherEnd()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        address = self._look_at(transport)
        connection = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        if not self._crowd.enter(address):
            self.force_close()  # nothing that it sends is read
            connection.write(_refusal(self._crowd.too_many(address)))
            connection.close()
            return
        self._address = address
        connection.set_write_buffer_limits(high=PIECE)
        super().connection_made(transport)

    def _look_at(self, transport: asyncio.BaseTransport) -> str:
        """The caller's address; from this machine, the system user: no user takes the share of another."""
        with contextlib.suppress(OSError):  # it has gone already
            self.other_end.peer = peer_of(transport.get_extra_info("socket"))
        if self.other_end.peer is not None:
            return str(self.other_end.peer)
        name = transport.get_extra_info("peername")
        address = str(name[0]) if isinstance(name, tuple) else UNKNOWN
        uid = None if self._crowd.has_any(address) else uid_at_once(transport)
        return address if uid is None else f"uid {uid}"

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
            raise exc  # no client is there to be answered
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
