"""Who is let in while etcd, or the log store, is away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from common.access.rights import Role
from manager.access.directory import CHANGES_S, READS_S
from manager.watch.events import Pace
from tests.support.access import Accessing, kept_of
from tests.support.clocks import OffClock
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.event_stream import listening
from tests.support.log_store import LogStore, LogStoreServer
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.waiting import wait_until

PASSWORD = "correct horse battery"


class LaterClock(OffClock):
    """All clocks but the event loop's own go on when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.later_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s

    def passes(self, seconds: float) -> None:
        self.later_s += seconds
        self.offset_ms += round(seconds * 1000)


@pytest.fixture
def clock() -> LaterClock:
    return LaterClock()


@pytest.fixture
async def own_etcd(tmp_path: Path) -> AsyncIterator[EtcdServer]:
    async with EtcdServer(usual_etcd(), tmp_path / "etcd") as server:
        yield server


@pytest.fixture
async def alone(own_etcd: EtcdServer, log_store: LogStore, clock: LaterClock) -> AsyncIterator[Managed]:
    """A manager on an etcd that the test stops."""
    place = Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with managing(place, auth="required", clock=clock) as managed:
        yield managed


async def test_reading_goes_on_for_five_minutes_and_changes_for_ten_seconds(
    alone: Managed, own_etcd: EtcdServer, clock: LaterClock
) -> None:
    access = Accessing(alone)
    headers = await access.user("alice", Role.ADMIN)
    await alone.save('{"name": "j", "command": "true", "cronExpr": "0 0 0 1 1 * *"}', **headers)
    await own_etcd.stop()
    clock.passes(CHANGES_S + 1)

    async with alone.http.get("/api/v1/jobs", headers=headers) as response:
        listed = await response.json()
        assert response.status == 200, listed
    assert [row["name"] for row in listed["items"]] == ["j"]
    assert "etcd cannot be reached" in listed["warnings"][0]
    problem = await problem_of(await alone.http.post("/api/v1/jobs/j/pause", json={}, headers=headers), 503)
    assert "a right may have been taken away" in problem["detail"]

    async with listening(alone, headers) as stream:
        await stream.until("health")
        clock.passes(READS_S)
        await problem_of(await alone.http.get("/api/v1/jobs", headers=headers), 503)
        await stream.rest()  # it ends

    await own_etcd.start()
    await wait_until(lambda: alone.parts.directory.silent_s < 5, description="etcd to be heard of again")
    async with alone.http.get("/api/v1/jobs", headers=headers) as response:
        assert response.status == 200


async def test_owner_whom_no_word_of_etcd_lets_in_keeps_a_stream_however_long_it_is_silent(
    own_etcd: EtcdServer, log_store: LogStore, clock: LaterClock
) -> None:
    place = Place.new(etcd=own_etcd.endpoint, log_store=log_store.uri)
    async with managing(place, auth="required", clock=clock, trustOwner=True, pace=Pace(heartbeat_s=0.1)) as manager:
        headers = await Accessing(manager).user("alice", Role.ADMIN)
        async with listening(manager, headers) as alices, listening(manager, {}) as owners:
            for stream in (alices, owners):
                await stream.until("health")
            await own_etcd.stop()
            clock.passes(READS_S + 1)
            await alices.rest()  # it ends: all have been looked at
            async with manager.http.get("/api/v1/jobs") as response:
                assert response.status == 200, await response.text()
            after_ms = clock.wall_ms()
            while (await owners.until("ping")).data["nowMs"] <= after_ms:
                pass


async def test_token_that_ends_while_etcd_is_away_is_refused_at_once(
    alone: Managed, own_etcd: EtcdServer, clock: LaterClock
) -> None:
    access = Accessing(alone)
    await access.user("alice", Role.VIEWER)
    headers = await access.token("user:alice", expires_in_ms=60_000)
    await own_etcd.stop()
    clock.passes(59)
    async with alone.http.get("/api/v1/whoami", headers=headers) as response:
        assert response.status == 200
    clock.passes(1)
    async with alone.http.get("/api/v1/whoami", headers=headers) as response:
        assert response.status == 401


async def test_somebody_logs_in_while_the_log_store_is_away(place: Place, tmp_path: Path) -> None:
    async with (
        LogStoreServer(tmp_path / "store") as own_store,
        managing(replace(place, log_store=own_store.uri), auth="required") as manager,
    ):
        access = Accessing(manager)
        await access.user("alice", Role.VIEWER, password=await kept_of(PASSWORD))
        await own_store.stop()
        body = {"name": "alice", "password": PASSWORD}
        async with manager.http.post("/api/v1/login", json=body) as response:
            assert response.status == 200, await response.text()
