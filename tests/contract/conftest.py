"""What the contract suites stand on: the real servers.

The etcd suite runs on every version that is there, or on the one that ETCD names. A test that disturbs its server asks
for `own_etcd`; all others share one server a version, and keep to a prefix of their own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.etcd import EtcdClient
from tests.support.etcd_server import VERSIONS, EtcdServer, chosen_etcd, etcd_of, unused_prefix


@pytest.fixture(scope="session", params=[os.environ["ETCD"]] if os.environ.get("ETCD") else list(VERSIONS))
def etcd_binary(request: pytest.FixtureRequest) -> Path:
    """The server program of one version."""
    binary = chosen_etcd() or etcd_of(request.param)
    if binary is None:
        pytest.skip(f"no etcd {request.param}: {VERSIONS[request.param]}")
    return binary


@pytest.fixture(scope="session")
def shared_etcd(etcd_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    """A server for all tests that do not disturb it."""
    server = EtcdServer(etcd_binary, tmp_path_factory.mktemp("etcd") / "shared")
    asyncio.run(server.start())
    yield server
    server.destroy()


@pytest.fixture
async def own_etcd(etcd_binary: Path, tmp_path: Path) -> AsyncIterator[EtcdServer]:
    """A server for one test, to do with as it likes."""
    async with EtcdServer(etcd_binary, tmp_path / "own") as server:
        yield server


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
async def client(shared_etcd: EtcdServer, clock: SystemClock) -> AsyncIterator[EtcdClient]:
    """A client of the shared server."""
    async with EtcdClient([shared_etcd.endpoint], clock=clock) as client:
        yield client


@pytest.fixture
async def own_client(own_etcd: EtcdServer, clock: SystemClock) -> AsyncIterator[EtcdClient]:
    """A client of the test's own server."""
    async with EtcdClient([own_etcd.endpoint], timeout=3.0, clock=clock) as client:
        yield client


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test uses, ending in a slash."""
    return f"{unused_prefix('test')}/"
