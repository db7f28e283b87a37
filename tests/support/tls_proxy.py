"""TLS in front of a server that has none: what arrives encrypted is passed on in the clear."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Self

_CHUNK = 64 * 1024


class TlsProxy:
    """Listens with TLS on a port of 127.0.0.1, for a target `host:port` without; an async context manager."""

    def __init__(self, target: str, context: ssl.SSLContext) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._context = context
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.handshakes = 0
        """How many clients have finished one."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self.handshakes += 1
        try:
            with contextlib.suppress(OSError, ExceptionGroup, asyncio.CancelledError):
                await self._pass_on(reader, writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, upstream_writer))
                both.create_task(_pump(upstream_reader, writer))
        finally:
            upstream_writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError  # ends the other direction too
