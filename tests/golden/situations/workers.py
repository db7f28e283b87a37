"""What a worker does beside its fires: sessions, the election, requests, its former life, its own sequences."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from common.clock import SystemClock
from common.errors import ConfigError
from common.etcd import Election, EtcdClient, EtcdUser, Mirror
from common.etcd.access import check_access
from common.protocol import permissions
from common.protocol.keys import RunId, Watched
from common.protocol.member import Member
from common.protocol.request import Origin, Request
from common.protocol.run import RunRecord, Trigger
from common.verdicts import Verdict
from tests.golden.stage import NOON, Stage, situation, touching
from tests.integration.working import test_broadcast
from tests.support.background import running
from tests.support.etcd_auth import PASSWORD, USER, Admin
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.working import SteppingClock, World, working
from tests.support.workshop import ME, workshop
from worker.catalog import Catalog
from worker.kills import Kills
from worker.lead.sweeping import COMPARE_EVERY_S, Sweeping
from worker.machine.left_groups import LeftGroup, LeftGroups, write_left
from worker.machine.processes import read_process
from worker.members import Members
from worker.record.adoption import Adoption
from worker.record.follow_up_reader import FollowUpReader

PLAN = NOON - 60_000


# Sessions


@situation
async def access_is_checked(stage: Stage) -> None:
    async with stage.client() as client, stage.recorded():
        await check_access(client, permissions.of_worker(stage.prefix))


@situation
async def access_that_is_refused_is_looked_at_one_by_one(stage: Stage) -> None:
    async with EtcdServer(usual_etcd(), stage.directory / "etcd-with-users") as server:
        async with Admin(server.endpoint) as admin:
            await admin.enable(f"{stage.prefix}/jobs/")
        user = EtcdUser(name=USER, password=lambda: PASSWORD)
        needed = permissions.of_worker(stage.prefix)[:2]
        async with EtcdClient([server.endpoint], user=user, clock=SystemClock()) as client, stage.recorded():
            with pytest.raises(ConfigError, match="drains"):
                await check_access(client, needed)


@situation
async def session_opens_changes_its_value_and_attaches_its_key_again(stage: Stage) -> None:
    async with stage.client() as client, stage.recorded(), stage.session(client) as session:
        await session.update_value(b'{"changed":true}')
        await client.put(session.key, b"detached")
        async with running(session.run()):

            async def is_attached() -> bool:
                kv = await client.get(session.key)
                return kv is not None and kv.lease == session.lease_id

            await wait_until(is_attached, description="the key is under its lease again")


@situation
async def leader_is_elected_and_stands_down(stage: Stage) -> None:
    async with stage.client() as client, stage.session(client) as session:
        election = Election(client, session, f"{stage.prefix}/leader/steward", b"w1", clock=SystemClock())
        async with stage.recorded(
            lambda told: told["answer"] == "then"
        ):  # it asks anew as soon as it hears of its own write
            async with running(election.run()):
                await election.gained.wait()
            await election.stand_down(600)


@situation
async def leader_without_a_lease_is_swept(stage: Stage) -> None:
    async with stage.client() as client, stage.session(client) as session:
        key = f"{stage.prefix}/leader/steward"
        await client.put(key, b"w2")
        election = Election(client, session, key, b"w1", clock=SystemClock())
        deletion = [{"delete": "leader/steward"}]
        async with stage.recorded(lambda told: told["then"] == deletion), running(election.run()):
            await election.gained.wait()


@situation
async def worker_begins_and_beats(stage: Stage) -> None:
    def wanted(told: dict[str, Any]) -> bool:
        is_late = '"problem": "stopping"' in json.dumps(told)  # a beat while it stops, where that takes long enough
        return touching("workers/")(told) or (touching("beats/")(told) and not is_late)

    async with stage.world() as world:

        async def beats() -> bool:
            return await world.has(world.keys.beat("w1"))

        async with stage.recorded(wanted), working(world.place) as worker:
            await worker.deciding()
            await wait_until(beats, description="it beats")


@situation
async def worker_begins_beside_its_own_session_of_before(stage: Stage) -> None:
    async with stage.world() as world:
        await of_instance(world)
        member = Member(worker="w1", session="77", instance="golden", host="h", address="a", slots=1)
        await world.etcd.put(world.keys.worker("w1", "77"), member.to_json())
        async with stage.recorded(touching("workers/")), working(world.place) as worker:
            await worker.deciding()


@situation
async def session_of_another_without_a_lease_is_deleted_before_a_worker_begins(stage: Stage) -> None:
    clock = SteppingClock()
    async with stage.world() as world:
        member = Member(worker="w1", session="77", instance="another", host="h", address="a", slots=1)
        key = world.keys.worker("w1", "77")
        await world.etcd.put(key, member.to_json())

        async def is_gone() -> bool:
            clock.advance(5)
            return not await world.has(key)

        deletion = [{"delete": "workers/w1/77"}]
        async with stage.recorded(lambda told: told["then"] == deletion), working(world.place, clock=clock):
            await wait_until(is_gone, description="it is deleted")


async def of_instance(world: World) -> None:
    """The worker that is about to begin is this one, as it was before."""
    (world.place.directory / "w1").mkdir(exist_ok=True)
    (world.place.directory / "w1" / "instance").write_text("golden")


# Requests


async def claimed(
    stage: Stage, *, job: dict[str, Any] | None = None, fire: str = str(PLAN), losing: int = 0, **fields: Any
) -> None:
    """A worker finds a request, claims it, runs it, and forgets it."""
    async with stage.world() as world:
        kv = await world.save(mark_ms=PLAN, **(job or {}))
        values: dict[str, Any] = {"run_id": RunId("job", fire), "origin": Origin.OFFERED} | fields
        request = Request(
            job_create_revision=kv.create_revision, plan_ms=PLAN, dispatch_ms=PLAN, not_before_ms=NOON, **values
        )
        await world.etcd.put(request.key(world.keys), request.to_json())

        async def is_over() -> bool:
            return await world.runlog.run(str(request.run_id)) is not None and not await world.entries()

        async with stage.recorded(touching("requests/"), losing=losing), working(world.place):
            await wait_until(is_over, description="it has run")


@situation
async def request_is_claimed_and_run(stage: Stage) -> None:
    await claimed(stage)


@situation
async def request_is_claimed_without_a_lock_and_run(stage: Stage) -> None:
    await claimed(stage, job={"overlap": "allow"})


@situation
async def claim_of_a_request_is_in_doubt(stage: Stage) -> None:
    await claimed(stage, losing=1)


@situation
async def retry_is_claimed_and_run(stage: Stage) -> None:
    run_id = RunId.planned("job", PLAN, 2)
    await claimed(stage, run_id=run_id, origin=Origin.RETRY, mark_ms=PLAN, trigger=Trigger.RETRY, avoid="w2")


@situation
async def run_that_a_user_asked_for_is_claimed_and_run(stage: Stage) -> None:
    asked: dict[str, Any] = {"args": ("a b",), "env": {"A": "b"}, "by": "me", "note": "because", "create_ms": NOON - 1}
    await claimed(stage, fire="r-1-a", origin=Origin.RUN_NOW, trigger=Trigger.API, **asked)


@situation
async def link_of_a_chain_is_claimed_and_run(stage: Stage) -> None:
    await claimed(stage, job={"after": "1h"}, origin=Origin.CHAIN)


# Another session, and a former life


class NothingStored:
    """A log store without any record."""

    async def find(self, run_ids: Sequence[RunId], *, deadline_seconds: float) -> Mapping[str, RunRecord]:
        return {}


@situation
async def run_is_taken_over_under_a_new_session(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        await shop.started(await shop.claim())
        adoption = Adoption(
            client=shop.client, keys=shop.keys, identity=ME, table=shop.table, kills=shop.kills,
            settlement=shop.settlement, follow_ups=FollowUpReader(shop.client, shop.keys, shop.catalog),
            refusals=shop.refusals, store=NothingStored(), ending=shop.ending, on_lost=lambda _: None,
            is_clock_off=lambda: False, clock=shop.clock,
        )  # fmt: skip
        async with stage.session(shop.client) as session, stage.recorded():
            await adoption.readopt(session)


async def settled(
    stage: Stage,
    status: Verdict | None,
    *,
    job: dict[str, Any] | None = None,
    ending: subprocess.Popen[bytes] | None = None,
    **entry: Any,
) -> None:
    """A worker begins that had left a run open; with `status` the log store has its record.

    `ending`: leads the run's group, and lives; it is ended once the worker has taken the run over.
    """
    async with stage.world() as world:
        await of_instance(world)
        kv = await world.save(**(job or {}))
        run_id = RunId.planned("job", PLAN)
        values: dict[str, Any] = {
            "worker": "w1",
            "instance": "golden",
            "lost_after_ms": 300_000,
            "revision": kv.mod_revision,
        } | entry
        await world.open_run(PLAN, **values)
        if status is not None:
            exit_code = 0 if status is Verdict.SUCCESS else 1
            record = RunRecord(run_id=run_id, status=status, exit_code=exit_code, end_ms=NOON, plan_ms=PLAN)
            await world.runlog.write([record])
        # A log store that does not answer soon has nothing, and on a busy machine none may.
        stage.patch.setattr("worker.record.adoption._STORE_DEADLINE_S", PATIENCE_S)

        async def is_over() -> bool:
            return not await world.has(world.keys.run(run_id))

        def wanted(told: dict[str, Any]) -> bool:
            return touching("runs/")(told) or touching("locks/")(told)

        async with stage.recorded(wanted):
            if ending is not None:
                group = LeftGroup(
                    run=str(run_id), leader=ending.pid, since_ms=NOON, leader_started=started_of(ending.pid)
                )  # fmt: skip
                recorded = frozenset() if status is None else frozenset({group.run})
                write_left(world.place.directory / "w1", LeftGroups(groups=[group], recorded=recorded))
            async with working(world.place, mongodb_connect_timeout_ms=round(PATIENCE_S * 1000)) as worker:
                if ending is not None:
                    await worker.deciding()
                    ending.kill()
                await wait_until(is_over, description="it is settled")


@situation
async def run_of_a_former_life_is_lost(stage: Stage) -> None:
    await settled(stage, None)


@situation
async def run_of_a_former_life_without_a_lock_is_lost(stage: Stage) -> None:
    await settled(stage, None, job={"overlap": "allow"}, locked=False)


@situation
async def run_of_a_former_life_whose_record_is_stored_is_settled(stage: Stage) -> None:
    await settled(stage, Verdict.SUCCESS)


@situation
async def run_of_a_former_life_without_a_lock_is_settled_and_tried_again(stage: Stage) -> None:
    job = {"overlap": "allow", "retry": {"limit": 2, "delaySeconds": 600}}
    await settled(stage, Verdict.FAILED, job=job, locked=False)


def started_of(pid: int) -> int:
    process = read_process(pid)
    assert process is not None
    return process.started


@situation
async def run_of_a_former_life_that_is_ending_is_kept_and_settled_when_it_is_over(stage: Stage) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as ending:
        try:
            await settled(stage, Verdict.SUCCESS, ending=ending)
        finally:
            ending.kill()


# Its own sequences of broadcast jobs


@asynccontextmanager
async def own_sequences(stage: Stage) -> AsyncIterator[test_broadcast.Own]:
    """They begin at noon; there is a job that fires each second."""
    async with stage.world() as world, test_broadcast.own_sequences(world) as own:
        own.broadcast.begin(own.session, NOON)
        yield own


@situation
async def own_sequence_is_opened(stage: Stage) -> None:
    async with own_sequences(stage) as own:
        kv = await own.save(anchor_ms=NOON, tell=False)
        async with stage.recorded():
            own.tell(kv)
            await own.open_at(kv)


@situation
async def run_for_the_boot_of_a_machine_is_asked_for(stage: Stage) -> None:
    async with stage.world() as world, test_broadcast.own_sequences(world, boot="boot-1") as own:
        own.broadcast.begin(own.session, NOON)
        kv = await own.save(anchor_ms=test_broadcast.LONG_AGO_MS, cron="@reboot", tell=False)
        stage.stop_clock()
        async with stage.recorded():
            own.tell(kv)
            await wait_until(lambda: "job" in own.broadcast.asked_at_boot, description="it is asked for")


@situation
async def own_sequence_of_a_job_that_is_edited_is_moved_on(stage: Stage) -> None:
    async with own_sequences(stage) as own:
        await own.open_at(await own.save(anchor_ms=NOON))
        kv = await own.save(anchor_ms=NOON + 3500, command="false", tell=False)
        async with stage.recorded():
            own.tell(kv)
            await own.open_at(kv)


@situation
async def own_sequence_of_a_job_that_is_deleted_is_closed(stage: Stage) -> None:
    async with own_sequences(stage) as own:
        await own.open_at(await own.save(anchor_ms=NOON))
        async with stage.recorded():
            await own.delete(NOON + 3500)
            await own.closed()


# What watchers have missed


class Deaf:
    """A mirror that knows other keys than etcd has, or has found out that it had missed some."""

    def __init__(self, prefix: str, *, known: int, misses: int = 0) -> None:
        self.prefix, self.known, self.misses = prefix, known, 0
        self._later = misses

    def __len__(self) -> int:
        return self.known

    def resync(self, why: str) -> None:
        self.misses = self._later


async def sentinel_is_put(stage: Stage, *, looks: int, known: int, misses: int = 0) -> None:
    async with stage.world() as world, stage.term(world) as term:
        clock, keys = SteppingClock(), world.keys
        duty = Sweeping(
            client=world.etcd, keys=keys, catalog=Catalog(keys, on_changed=lambda _: None),
            kills=Kills(keys, on_kill=lambda _: None), members=Members(keys, "w1", on_changed=lambda: None), ttl_s=2,
            mirrors={Watched.JOBS: cast(Mirror, Deaf(keys.jobs, known=known, misses=misses))}, compaction_minutes=1,
            clock=clock,
        )  # fmt: skip
        duty.begin()
        async with stage.recorded():
            for _ in range(looks):
                await duty.perform(term)
                clock.advance(COMPARE_EVERY_S + 1)


@situation
async def sentinel_is_put_where_the_count_does_not_match(stage: Stage) -> None:
    await sentinel_is_put(stage, looks=2, known=1)


@situation
async def sentinel_is_put_where_something_was_missed(stage: Stage) -> None:
    await sentinel_is_put(stage, looks=3, known=0, misses=1)
