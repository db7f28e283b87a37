"""One etcd for all of these tests; each keeps to a prefix of its own."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from common.etcd import EtcdClient
from tests.support.etcd_server import EtcdServer, serving_etcd

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    yield from serving_etcd(tmp_path_factory.mktemp("deciding") / "etcd")


@pytest.fixture
async def client(etcd: EtcdServer) -> AsyncIterator[EtcdClient]:
    async with EtcdClient([etcd.endpoint]) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    return f"/deciding-{next(_numbers)}"
