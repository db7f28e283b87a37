"""A TCP proxy that misbehaves on demand: what happens between two programs and their stores, on one machine.

Bytes that are held back are not lost: they go on when the mode is PASS again, as TCP's own retransmission would do.
"""

from __future__ import annotations

import asyncio
import contextlib
from enum import Enum, auto
from typing import Self

_CHUNK = 64 * 1024
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD = 9
"""Bytes before what an HTTP/2 frame carries: length, kind, flags, stream."""
_HEADERS = 1


class Mode(Enum):
    """What the proxy does with bytes and connections."""

    PASS = auto()
    DELAY = auto()
    """Everything arrives `delay_s` later."""
    SWALLOW = auto()
    """Nothing arrives, either way; connections stay open and new ones are taken."""
    ONE_WAY = auto()
    """Requests arrive, answers do not."""
    RESET = auto()
    """Connections are reset, new ones at once."""
    CUT_REPLY = auto()
    """The first answer to a call that begins from now on is dropped and its connection reset, after the server has done
    its work; then PASS."""


class Proxy:
    """Listens on a port of 127.0.0.1 and passes bytes to the target, as `mode` says. An async context manager.

    With `http2` such an answer is told from others, flow control and pings; without it any byte is an answer.
    """

    def __init__(self, target: str, *, http2: bool = True, delay_s: float = 0.1) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._http2 = http2
        self.delay_s = delay_s
        self.mode = Mode.PASS
        self.cuts = 0
        """How many answers were cut off."""
        self._changed = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._calls: set[_Calls] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

    @property
    def newest_call(self) -> int:
        """Rises with each HTTP/2 call that begins on a connection."""
        return max((calls.newest for calls in self._calls), default=0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def set(self, mode: Mode) -> None:
        """Changes the mode, also for the connections that there are."""
        self.mode = mode
        for calls in self._calls:
            calls.mark()
        self._wake()
        if mode is Mode.RESET:
            self.reset()

    def refuses(self) -> None:
        """No more connections; those that there are stay."""
        assert self._server is not None
        self._server.close()

    def reset(self) -> None:
        """Resets every connection that there is; the mode stays."""
        for writer in list(self._writers):
            _abort(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._writers.add(writer)
        try:
            await self._connect(reader, writer)
        except asyncio.CancelledError:
            pass  # the proxy is being closed; asyncio would log it
        finally:
            self._connections.discard(task)
            self._writers.discard(writer)
            _abort(writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode is Mode.RESET:
            return
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        except OSError:
            return
        self._writers.add(upstream_writer)
        calls = _Calls() if self._http2 else None
        if calls is not None:
            self._calls.add(calls)
        try:
            with contextlib.suppress(OSError, ExceptionGroup):
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pass_requests(reader, upstream_writer, calls))
                    both.create_task(self._pass_answers(upstream_reader, writer, calls))
        finally:
            if calls is not None:
                self._calls.discard(calls)
            self._writers.discard(upstream_writer)
            _abort(upstream_writer)

    async def _pass_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: _Calls | None
    ) -> None:
        while data := await reader.read(_CHUNK):
            if calls is not None:
                calls.requested(data)
            await self._delay()
            while not self._request_may_pass():
                await self._changed.wait()
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # ends the other direction too

    async def _pass_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, calls: _Calls | None
    ) -> None:
        while data := await reader.read(_CHUNK):
            answered = [] if calls is None else calls.answered(data)
            await self._delay()
            while not self._answer_may_pass():
                await self._changed.wait()
            if self.mode is Mode.CUT_REPLY and (calls is None or calls.any_new(answered)):
                self.cuts += 1
                self.mode = Mode.PASS
                break
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _delay(self) -> None:
        if self.mode is Mode.DELAY:
            await asyncio.sleep(self.delay_s)

    def _request_may_pass(self) -> bool:
        return self.mode is not Mode.SWALLOW

    def _answer_may_pass(self) -> bool:
        return self.mode not in (Mode.SWALLOW, Mode.ONE_WAY)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Calls:
    """The HTTP/2 calls of one connection: tells the answers to calls that begin from now on from all others.

    A watch that was asked for before may be answered at any time.
    """

    def __init__(self) -> None:
        self._requests, self._answers = _Frames(), _Frames()
        self.newest = 0
        self._before = 0

    def mark(self) -> None:
        """Calls that have begun by now are old."""
        self._before = self.newest

    def requested(self, data: bytes) -> None:
        """Bytes of the client."""
        self.newest = max([self.newest, *self._requests.headers(data)])

    def answered(self, data: bytes) -> list[int]:
        """The calls whose answers begin in these bytes of the server."""
        return self._answers.headers(data)

    def any_new(self, answered: list[int]) -> bool:
        """Whether one of these has begun since the mark."""
        return any(call > self._before for call in answered)


class _Frames:
    """Finds the headers among the HTTP/2 frames of one direction."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0
        self._preface = True

    def headers(self, data: bytes) -> list[int]:
        """The streams whose headers begin in these bytes (which continue the ones before)."""
        found = []
        while data:
            if self._skip:
                skipped = min(self._skip, len(data))
                self._skip -= skipped
                data = data[skipped:]
                continue
            missing = _HEAD - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) < _HEAD:
                continue
            if self._preface and self._head == _PREFACE[:_HEAD]:
                self._skip = len(_PREFACE) - _HEAD
            else:
                if self._head[3] == _HEADERS:
                    found.append(int.from_bytes(self._head[5:], "big") & 0x7FFFFFFF)
                self._skip = int.from_bytes(self._head[:3], "big")
            self._head, self._preface = b"", False
        return found


def _abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(RuntimeError):
        writer.transport.abort()
