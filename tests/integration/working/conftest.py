"""What the worker's tests stand on: one etcd and one log store for all that do not disturb them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.etcd import EtcdClient, Session
from common.runlog import RunLog
from tests.support.dead_mount import DeadMount, dead_mount
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import LogStore
from tests.support.meeting import Meeting
from tests.support.working import Place, World, term_of
from worker.lead.leader import Term


@pytest.fixture
def place(etcd_server: EtcdServer, log_store: LogStore, tmp_path: Path) -> Place:
    """Keys, documents and directories of this test alone."""
    return Place.new(tmp_path, etcd=etcd_server.endpoint, log_store=log_store.uri)


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with EtcdClient([place.etcd]) as etcd, RunLog(place.log_store, database=place.database) as runlog:
        yield World(place=place, etcd=etcd, runlog=runlog)


@pytest.fixture
async def meeting(place: Place) -> AsyncIterator[Meeting]:
    """A client of a steward before whose writes somebody else may come."""
    async with Meeting(place.etcd) as meeting:
        yield meeting


@pytest.fixture
async def term(world: World) -> AsyncIterator[Term]:
    """A term of office that lasts as long as the test."""
    session = await Session.open(
        world.etcd, key_of=lambda lease: world.keys.worker("steward", lease), value=b"{}", ttl=60, clock=SystemClock()
    )
    yield await term_of(world, session)
    await session.close()


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeadMount]:
    """Whoever touches it cannot be killed; a worker finds that out sooner than in ten seconds."""
    monkeypatch.setattr("worker.machine.tree.GIVE_UP_AFTER_KILL_S", 0.2)
    monkeypatch.setattr("worker.record.ending._ASK_S", 0.05)
    try:
        made = dead_mount(tmp_path / "dead", is_unkillable=True)
        mounted = made.__enter__()
    except OSError as error:
        pytest.skip(f"nothing can be mounted here: {error}")
    yield mounted
    made.__exit__(None, None, None)
