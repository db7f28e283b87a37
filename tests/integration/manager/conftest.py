"""What the manager's tests stand on: one etcd and one log store for all that do not disturb them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.managing import Managed, Place, managing


@pytest.fixture
def place(etcd_server: EtcdServer, log_store: LogStore) -> Place:
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
