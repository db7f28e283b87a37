"""What the command line's tests stand on: the real command, run against a real manager."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from tests.support.access import as_administrator
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a command came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Stdin:
    def __init__(self, text: str) -> None:
        self.buffer = io.BytesIO(text.encode())


@dataclass(frozen=True, slots=True)
class Etcron:
    """The command, with the server that it speaks to."""

    server: str
    monkeypatch: pytest.MonkeyPatch

    async def __call__(self, *arguments: str, stdin: str = "", server: str | None = None) -> Result:
        """Run `etcron ARGUMENTS`."""
        self.monkeypatch.setenv("ETCRON_SERVER", self.server if server is None else server)
        self.monkeypatch.setattr("sys.stdin", _Stdin(stdin))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = await asyncio.to_thread(_status, arguments)
        return Result(status=status, out=out.getvalue(), err=err.getvalue())

    async def ok(self, *arguments: str, stdin: str = "") -> Result:
        """The same, which must succeed."""
        result = await self(*arguments, stdin=stdin)
        assert result.status == 0, (arguments, result)
        return result


def _status(arguments: tuple[str, ...]) -> int:
    try:
        return main(arguments)
    except SystemExit as leaving:
        return int(str(leaving.code))


@pytest.fixture
def place(etcd_server: EtcdServer, log_store: LogStore) -> Place:
    """Keys and documents of this test alone."""
    return Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)


@pytest.fixture
async def manager(place: Place) -> AsyncIterator[Managed]:
    async with managing(place) as managed:
        yield managed


@pytest.fixture
def etcron(manager: Managed, monkeypatch: pytest.MonkeyPatch) -> Etcron:
    """The command, and the manager behind it."""
    return Etcron(server=str(manager.http.make_url("/")), monkeypatch=monkeypatch)


@pytest.fixture
async def administrator(etcron: Etcron, manager: Managed) -> None:
    """The command is an administrator's: channels are changed by nobody else, also where no login is asked for."""
    header = await as_administrator(manager)
    etcron.monkeypatch.setenv("ETCRON_TOKEN", header["Authorization"].removeprefix("Bearer "))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Writes a file into the test's folder; its path."""

    def write_file(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return os.fspath(path)

    return write_file
