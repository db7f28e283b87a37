"""One etcd for these tests and no others: they count what it does. Each keeps to a prefix of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from common.etcd import EtcdClient
from tests.support.etcd_server import EtcdServer, own_etcd, unused_prefix
from tests.support.meeting import Meeting


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    yield from own_etcd(tmp_path_factory.mktemp("deciding") / "etcd")


@pytest.fixture
async def client(etcd: EtcdServer) -> AsyncIterator[EtcdClient]:
    async with EtcdClient([etcd.endpoint]) as client:
        yield client


@pytest.fixture
async def meeting(etcd: EtcdServer) -> AsyncIterator[Meeting]:
    """A client before whose writes somebody else may come."""
    async with Meeting(etcd.endpoint) as meeting:
        yield meeting


@pytest.fixture
def prefix() -> str:
    return unused_prefix("deciding")
