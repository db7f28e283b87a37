"""A TCP proxy that misbehaves on demand: what happens between two programs and their stores, on one machine.

Bytes that are held back are not lost: they go on when the mode is PASS again, as TCP's own retransmission would do.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from enum import Enum, auto
from typing import Self

_CHUNK = 64 * 1024
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
    """The next answer is dropped and its connection reset, after the server has done its work; then PASS."""


class Proxy:
    """Listens on a port of 127.0.0.1 and passes bytes to the target, as `mode` says. An async context manager.

    With `http2` an answer is told from flow control and pings (for CUT_REPLY); without it any byte is an answer.
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
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def endpoint(self) -> str:
        """`host:port` for clients."""
        return f"127.0.0.1:{self.port}"

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
        self._wake()
        if mode is Mode.RESET:
            self.reset()

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
        answers = _Answers() if self._http2 else None
        try:
            with contextlib.suppress(OSError, ExceptionGroup):
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, upstream_writer, self._request_may_pass, None))
                    both.create_task(self._pump(upstream_reader, writer, self._answer_may_pass, answers))
        finally:
            self._writers.discard(upstream_writer)
            _abort(upstream_writer)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        may_pass: Callable[[], bool],
        answers: _Answers | None,
    ) -> None:
        is_answer = may_pass == self._answer_may_pass
        while data := await reader.read(_CHUNK):
            begins = answers.begins(data) if answers is not None else is_answer
            if self.mode is Mode.DELAY:
                await asyncio.sleep(self.delay_s)
            while not may_pass():
                await self._changed.wait()
            if self.mode is Mode.CUT_REPLY and is_answer and begins:
                self.cuts += 1
                self.mode = Mode.PASS
                break
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # ends the other direction too

    def _request_may_pass(self) -> bool:
        return self.mode is not Mode.SWALLOW

    def _answer_may_pass(self) -> bool:
        return self.mode not in (Mode.SWALLOW, Mode.ONE_WAY)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class _Answers:
    """Finds the beginning of answers among the HTTP/2 frames that a server sends."""

    def __init__(self) -> None:
        self._head = b""
        self._skip = 0

    def begins(self, data: bytes) -> bool:
        """Whether an answer begins in these bytes (which continue the ones before)."""
        found = False
        while data:
            if self._skip:
                skipped = min(self._skip, len(data))
                self._skip -= skipped
                data = data[skipped:]
                continue
            missing = 9 - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == 9:
                found = found or self._head[3] == _HEADERS
                self._skip = int.from_bytes(self._head[:3], "big")
                self._head = b""
        return found


def _abort(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(RuntimeError):
        writer.transport.abort()
