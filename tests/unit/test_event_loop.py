"""The event loop of the programs: names are looked up in threads of Python's, never in those of libuv."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from common.process.runtime import EventLoop


def no_thread(*arguments: Any, **options: Any) -> list[Any]:
    raise OSError("no thread")


async def begins_to_listen(host: str) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), host, 0):
        pass


async def connects(host: str) -> None:
    async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0) as server:
        _, writer = await asyncio.open_connection(host, server.sockets[0].getsockname()[1])
        writer.close()


@pytest.mark.parametrize("work", [begins_to_listen, connects])
def test_a_name_that_cannot_be_looked_up_is_an_error(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(work("localhost"))
        monkeypatch.setattr(socket, "getaddrinfo", no_thread)
        runner.run(work("127.0.0.1"))
        with pytest.raises(OSError, match="no thread"):
            runner.run(work("localhost"))


def test_of_a_names_addresses_the_first_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def two(_: str, port: int, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    with asyncio.Runner(loop_factory=EventLoop) as runner:
        runner.run(connects("somewhere"))
        with pytest.raises(ConnectionRefusedError):
            runner.run(_connects_to_nobody())


async def _connects_to_nobody() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        await asyncio.open_connection("somewhere", bound.getsockname()[1])
