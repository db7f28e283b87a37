"""Elections and an etcd that is frozen for 8 s end no command, lose no record, and start nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped,unused-ignore]
import grpc.aio  # type: ignore[import-untyped,unused-ignore]
import pytest
from aetcd import rpc

from common.clock import SystemClock
from common.etcd import EtcdClient, _rpc
from common.runlog import RunLog
from tests.support.cluster import EVERY_SECOND, covered, planned_between
from tests.support.etcd_server import EtcdServer, cluster, usual_etcd
from tests.support.log_store import LogStore
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.slow]

JOBS = ("a", "b", "c")
FROZEN_S = 8.0


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[list[EtcdServer]]:
    servers = cluster(usual_etcd(), tmp_path / "members")
    for server in servers:
        server.launch()
    try:
        await asyncio.gather(*(server.wait_ready() for server in servers))
        yield servers
    finally:
        for server in servers:
            server.destroy()


async def leader_of(client: EtcdClient) -> tuple[str, int]:
    """The leader's endpoint, and the id of another member."""
    states = [await client.status(endpoint) for endpoint in client.endpoints]
    leader = states[0].leader
    [endpoint] = [state.endpoint for state in states if state.member == leader]
    return endpoint, next(state.member for state in states if state.member != leader)


async def move_leader(client: EtcdClient) -> None:
    """Have another member lead, as `etcdctl move-leader` does."""
    endpoint, other = await leader_of(client)
    async with grpc.aio.insecure_channel(endpoint) as channel:
        request = _rpc.messages.MoveLeaderRequest(targetID=other)
        await rpc.MaintenanceStub(channel).MoveLeader(request, timeout=5)
    assert (await client.status()).leader == other


class Evidence:
    """What the commands have written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def command(self) -> str:
        return f'echo "$ETCRON_JOB $ETCRON_PLAN_MS" >> {self.path}'

    def starts(self) -> list[tuple[str, int]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(job, int(plan)) for job, plan in map(str.split, lines)]

    async def beyond(self, plan_ms: int) -> int:
        """Returns once each job has started a fire later than this one: the newest that all have started."""

        def newest() -> int:
            starts = self.starts()
            return min(max((plan for job, plan in starts if job == name), default=0) for name in JOBS)

        await wait_until(lambda: newest() > plan_ms, description=f"all have fired after {plan_ms}")
        return newest()


async def test_elections_and_a_frozen_etcd_end_no_command_and_lose_no_record(
    members: list[EtcdServer], log_store: LogStore, tmp_path: Path
) -> None:
    endpoints = tuple(server.endpoint for server in members)
    place = Place.new(tmp_path, etcd=endpoints[0], log_store=log_store.uri)
    evidence, gate, ended = Evidence(tmp_path / "evidence"), tmp_path / "gate", tmp_path / "ended"
    async with (
        EtcdClient(endpoints) as etcd, RunLog(place.log_store, database=place.database) as runlog,
        working(place, etcd_endpoints=endpoints, etcd_dial_timeout_ms=5000, lease_ttl_s=10) as worker,
    ):  # fmt: skip
        world = World(place=place, etcd=etcd, runlog=runlog)
        await worker.deciding()
        for name in JOBS:
            await world.save(name, evidence.command, EVERY_SECOND)
        long = await world.save("long", f"trap 'touch {ended}' TERM; until [ -e {gate} ]; do sleep 0.05; done")
        run_id = await world.ask(long, SystemClock().wall_ms(), name="long")
        first_ms = await evidence.beyond(0) + 1000
        for _ in range(2):
            before = await evidence.beyond(first_ms)
            await move_leader(etcd)
            await evidence.beyond(before + 1000)

        for server in members:
            await server.pause()
        thaw = asyncio.get_running_loop().time() + FROZEN_S
        await wait_until(lambda: asyncio.get_running_loop().time() >= thaw, description="8 s")
        for server in members:
            server.resume()
        last_ms = await evidence.beyond(SystemClock().wall_ms() + 1000) - 2000

        assert worker.running(), "the command that went on all the time"
        assert not ended.exists()
        gate.touch()
        record = await world.record(run_id)
        assert (record["status"], record["worker"]) == ("success", "w1")
        await recorded_once(world, first_ms, last_ms)
    assert max(Counter(evidence.starts()).values()) == 1


async def recorded_once(world: World, first_ms: int, last_ms: int) -> None:
    """Each fire of the window has one record, of a kind that an outage explains."""
    records: list[dict[str, Any]] = []

    def missing() -> set[tuple[str, int]]:
        window = planned_between(first_ms, last_ms)
        return {(job, plan) for job in JOBS for plan in window if not covered(records, job)[plan]}

    async def complete() -> bool:
        records[:] = (await world.runlog.runs(limit=500)).items
        return not missing()

    await wait_until(complete, description="every fire has a record")
    for job in JOBS:
        assert set(covered(records, job).values()) == {1}
    assert {record["status"] for record in records} <= {"success", "missed", "skipped"}
