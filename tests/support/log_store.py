"""A real log store for tests: nx-27017, started, stopped, killed, frozen and restarted; it never outlives the run.

With ETCRON_TEST_MONGODB=URI all tests that do not disturb their log store use that one instead, with databases that
are dropped at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
from pymongo import MongoClient, settings_shared

from common.errors import UnavailableError
from common.runlog import RunLog
from tests.support.etcd_server import free_port
from tests.support.waiting import wait_until
from tests.support.warm import WARM, WarmProcess

PYMONGO_DROPS_A_SOCKET = r"ignore:unclosed <socket\.socket fd=\d+, family=\d+, type=1, proto=6, laddr:ResourceWarning"
"""A `filterwarnings` mark for tests in which the server is away. pymongo 4.20 forgets the socket of its monitor when it
is closed in the middle of a connect (pool_shared._async_create_connection handles no CancelledError)."""


# Each client notes the lines of its whole stack, for a warning that it was not closed; pytest's stacks are deep.
settings_shared.traceback = SimpleNamespace(format_stack=partial(traceback.format_stack, limit=12))  # type: ignore[assignment,attr-defined]

GIVEN = "ETCRON_TEST_MONGODB"
_PROGRAM = "cli.processes.embedded_log_store"
_DATABASES = f"etcron_test_{os.getpid()}_"
_numbers = itertools.count(1)


def new_database() -> str:
    """The name of a database that nobody else uses, nor any process beside this one."""
    return f"{_DATABASES}{os.getpid()}_{next(_numbers)}"


class LogStore(Protocol):
    """What most tests need of one."""

    @property
    def uri(self) -> str:
        """For clients."""


class GivenLogStore:
    """A server that is there already, and stays."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def clear(self) -> None:
        """Drops what the tests of this process have made."""
        with MongoClient[dict[str, Any]](self.uri) as client:
            for name in client.list_database_names():
                if name.startswith(_DATABASES):
                    client.drop_database(name)


def to_disturb(log_store: LogStore) -> LogStoreServer:
    """The same, where it is one that a test may come between; skips the test where it is not."""
    if not isinstance(log_store, LogStoreServer):
        pytest.skip("comes between etcron and its log store: not with one that was given")
    return log_store


def has_log_store() -> bool:
    """Whether pip's nx-27017 is there."""
    return importlib.util.find_spec("nx_27017") is not None


class LogStoreServer:
    """One server on a port of its own, also after a restart. An async context manager; or `destroy` it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.port = free_port()
        self._process: WarmProcess | None = None

    @property
    def uri(self) -> str:
        """For clients."""
        return f"mongodb://127.0.0.1:{self.port}/"

    @property
    def pid(self) -> int:
        """The server's process id; it must run."""
        assert self._process is not None, "the log store does not run"
        return self._process.pid

    def launch(self) -> None:
        """Starts the process, on the same port and data as before, without waiting for it."""
        assert self._process is None, "the log store runs already"
        assert has_log_store(), "no nx-27017: pip install nx-27017"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        beside = self.data_dir.with_suffix
        flags = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        flags += ["--log-file", str(beside(".log")), "--pid-file", str(beside(".pid"))]
        with beside(".out").open("ab") as out:
            self._process = WARM.start(_PROGRAM, flags, directory=self.data_dir, environ=os.environ, log=out.fileno())

    async def start(self) -> None:
        """Starts the server and waits until it serves; AssertionError with the end of its output when it does not."""
        self.launch()
        try:
            await wait_until(self._serves, description=f"the log store on port {self.port} serves")
        except AssertionError as error:
            tail = self.data_dir.with_suffix(".out").read_text(errors="replace")[-2000:]
            raise AssertionError(f"{error}\n{tail}") from None

    async def stop(self) -> None:
        """Ends the server in good order."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """Ends the server as a power cut would."""
        await self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freezes the process: its connections stay, and nothing answers."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a frozen process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def forget(self) -> None:
        """The data of a stopped server is gone."""
        assert self._process is None, "the log store runs"
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def destroy(self) -> None:
        """Ends the server at once and forgets its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        self.forget()

    async def __aenter__(self) -> LogStoreServer:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.destroy()

    async def _serves(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the log store has exited with {self._process.returncode}")
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            return await self._answers()
        return False

    async def _answers(self) -> bool:
        async with RunLog(self.uri, connect_timeout_ms=1000) as log:
            try:
                await log.ping()
            except UnavailableError:
                return False
        return True

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        await wait_until(lambda: process.poll() is not None, description="the log store has ended")


_serving: list[LogStore] = []


def serving_log_store(directory: Path) -> Iterator[LogStore]:
    """For a fixture: a log store for all tests that do not disturb it, of whatever folder: each has a database."""
    if _serving:
        yield _serving[0]
        return
    if uri := os.environ.get(GIVEN):
        given = GivenLogStore(uri)
        _serving.append(given)
        yield given
        _serving.clear()
        given.clear()
        return
    if not has_log_store():
        pytest.skip("no nx-27017: pip install nx-27017")
    server = LogStoreServer(directory)
    asyncio.run(server.start())
    _serving.append(server)
    yield server
    _serving.clear()
    server.destroy()
