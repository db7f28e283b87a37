"""One etcd for all of these tests; each keeps to a prefix of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from common.etcd import EtcdClient
from tests.support.etcd_server import EtcdServer, serving_etcd
from tests.support.meeting import Meeting

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    yield from serving_etcd(tmp_path_factory.mktemp("deciding") / "etcd")


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
    return f"/deciding-{next(_numbers)}"
