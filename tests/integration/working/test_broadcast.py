"""A worker's own sequences of broadcast jobs: where their marks stand, and what is recorded of an edit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from common.clock import SystemClock
from common.errors import EtcdError, EtcdInDoubtError, UnavailableError
from common.etcd import Change, Session
from common.protocol import boots
from common.protocol.keys import RunId, decode_mark, encode_mark
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.run import RunRecord
from common.protocol.txn import Delete, KeyValue, Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.background import running
from tests.support.clocks import OffClock
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.catalog import Catalog
from worker.plan.boot import Boot
from worker.plan.broadcast import Broadcast

pytestmark = pytest.mark.etcd

SECOND = "* * * * * * *"
EU = {"zone": "eu"}


class Own:
    """The sequences of one worker; its catalog is told by the test."""

    def __init__(self, world: World, session: Session, *, worker: str = "w1", boot: str | None = None) -> None:
        self.world, self.session, self.keys, self.clock = world, session, world.keys, SteppingClock()
        self.opened: list[str] = []
        self.records: list[RunRecord] = []
        self.catalog = Catalog(self.keys, on_changed=lambda name: self.broadcast.job_changed(name))
        self.broadcast = Broadcast(
            client=world.etcd, keys=self.keys, identity=WorkerIdentity(worker=worker, instance="i", host="h"),
            labels=EU, slots=4, catalog=self.catalog, on_open=self.opened.append,
            on_record=lambda record, _revision: self.records.append(record), clock=self.clock,
            boot=None if boot is None else Boot(id=boot),
        )  # fmt: skip

    async def save(
        self, *, anchor_ms: int, tell: bool = True, cron: str = SECOND, name: str = "job", **fields: Any
    ) -> KeyValue:
        kv = await self.world.save(name, cron=cron, mark_ms=anchor_ms, **({"broadcast": True} | fields))
        if tell:
            self.tell(kv, name)
        return kv

    def tell(self, kv: KeyValue | None, name: str = "job") -> None:
        self.catalog.on_changes([Change(key=self.keys.job(name), old_mod=None, new=kv)])

    async def delete(self, at_ms: int) -> None:
        """As a manager does: the job's mark says when."""
        await self.world.etcd.txn(Txn([], [
            Delete(self.keys.job("job")), Put(self.keys.mark("job"), encode_mark(at_ms))
        ]))  # fmt: skip
        self.tell(None)

    async def mark(self, sequence: str = "job~w1") -> int | None:
        kv = await self.world.etcd.get(self.keys.mark(sequence))
        return None if kv is None else decode_mark(kv.value)

    async def decided(self, mark_ms: int) -> None:
        """The scheduler has decided up to here."""
        await self.world.etcd.put(self.keys.mark("job~w1"), encode_mark(mark_ms))

    @property
    def planned(self) -> PlannedJob | None:
        return self.catalog.planned("job")

    async def open_at(self, kv: KeyValue) -> PlannedJob:
        """The sequence, once it is open at this revision of the job."""

        def is_open() -> bool:
            return self.planned is not None and self.planned.revision == kv.mod_revision

        await wait_until(is_open, description="the sequence is open")
        assert self.planned is not None
        return self.planned

    async def closed(self) -> None:
        await wait_until(lambda: "job" not in self.catalog.sequences, description="the sequence is closed")


@asynccontextmanager
async def own_sequences(world: World, *, worker: str = "w1", boot: str | None = None) -> AsyncIterator[Own]:
    session = await Session.open(
        world.etcd, key_of=lambda lease: world.keys.worker(worker, lease), value=b"{}", ttl=60, clock=SystemClock()
    )
    own = Own(world, session, worker=worker, boot=boot)
    async with running(own.broadcast.run()):
        yield own
    await session.close()


@pytest.fixture
async def own(world: World) -> AsyncIterator[Own]:
    async with own_sequences(world) as own:
        yield own


@pytest.fixture
def now_ms(own: Own) -> int:
    """A whole second, about now."""
    return own.clock.wall_ms() // 1000 * 1000


async def test_a_job_from_before_the_worker_began_is_owed_from_then_on(own: Own, now_ms: int) -> None:
    job = await own.save(anchor_ms=now_ms - 60_000)
    own.broadcast.begin(own.session, now_ms)
    sequence = await own.open_at(job)
    assert (sequence.sequence, sequence.anchor_ms, await own.mark()) == ("job~w1", now_ms, now_ms)
    assert await own.mark("job") == now_ms - 60_000, "the job's own mark is its saves' alone"


async def test_a_job_that_is_saved_later_is_owed_from_its_save_on(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    job = await own.save(anchor_ms=now_ms + 500)
    assert (await own.open_at(job)).anchor_ms == now_ms + 500
    assert await own.mark() == now_ms + 500


async def test_what_an_edit_takes_the_place_of_is_one_record(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.decided(now_ms + 2000)
    job = await own.save(anchor_ms=now_ms + 5500, command="false")
    await own.open_at(job)
    (record,) = own.records
    assert (record.run_id, record.status, record.reason) == (
        RunId.planned("job~w1", now_ms + 3000), Verdict.SKIPPED, "edited"
    )  # fmt: skip
    assert (record.range_end_ms, record.count, record.worker) == (now_ms + 5000, 3, "w1")
    assert record.to_document()["jobName"] == "job"
    assert await own.mark() == now_ms + 5500
    assert await own.world.has(own.keys.run(record.run_id))


async def test_an_edit_when_all_was_decided_leaves_no_record(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.decided(now_ms + 6000)
    job = await own.save(anchor_ms=now_ms + 5500, command="false")
    assert (await own.open_at(job)).anchor_ms == now_ms + 6000
    assert not own.records
    assert await own.mark() == now_ms + 6000, "a mark never goes back"


async def test_pausing_and_resuming(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    paused = await own.save(anchor_ms=now_ms + 1000, enabled=False)
    assert not (await own.open_at(paused)).spec.enabled
    assert [(record.reason, record.plan_ms) for record in own.records] == [("paused", now_ms + 1000)]
    resumed = await own.save(anchor_ms=now_ms + 60_000)
    await own.open_at(resumed)
    assert len(own.records) == 1, "what was paused planned nothing"
    assert await own.mark() == now_ms + 60_000


async def test_a_deletion_is_recorded_up_to_its_time(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.delete(now_ms + 2100)
    await own.closed()
    assert [(one.reason, one.plan_ms, one.range_end_ms) for one in own.records] == [
        ("deleted", now_ms + 1000, now_ms + 2000)
    ]
    again = await own.save(anchor_ms=now_ms + 9000)
    await own.open_at(again)
    assert len(own.records) == 1
    assert await own.mark() == now_ms + 9000


@pytest.mark.parametrize(
    "fields", [{"broadcast": False}, {"workers": {"zone": "us"}}, {"slots": 5}], ids=["any", "elsewhere", "too big"]
)
async def test_a_job_that_is_not_this_workers_any_more_is_closed(own: Own, now_ms: int, fields: dict[str, Any]) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms, workers={"zone": ["eu", "us"]}))
    await own.save(anchor_ms=now_ms + 1500, **fields)
    await own.closed()
    assert [(one.reason, one.plan_ms) for one in own.records] == [("edited", now_ms + 1000)]
    assert (own.planned is None) == (fields != {"broadcast": False}), "as any other job it is decided by rank"


@pytest.mark.parametrize("fields", [{"workers": {"zone": "us"}}, {"slots": 5}], ids=["elsewhere", "too big"])
async def test_a_job_that_does_not_fit_gets_no_mark(own: Own, now_ms: int, fields: dict[str, Any]) -> None:
    await own.save(anchor_ms=now_ms, **fields)
    own.broadcast.begin(own.session, now_ms)
    await wait_until(lambda: own.opened == ["job"], description="it was looked at")
    assert own.planned is None
    assert await own.mark() is None


async def test_beginning_anew_owes_nothing_of_the_time_between(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    job = await own.save(anchor_ms=now_ms)
    await own.open_at(job)
    own.broadcast.end()
    own.broadcast.begin(own.session, now_ms + 60_000)
    assert own.planned is None, "nothing is decided before the mark has moved"
    assert (await own.open_at(job)).anchor_ms == now_ms + 60_000
    assert not own.records
    assert await own.mark() == now_ms + 60_000


async def test_nothing_is_written_where_nothing_is_owed(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    own.broadcast.end()
    job = await own.save(anchor_ms=now_ms + 5000)
    own.broadcast.begin(own.session, now_ms + 6000)
    await own.open_at(job)
    assert not own.records, "it was edited while nothing was owed"
    assert await own.mark() == now_ms + 6000


async def test_of_two_edits_at_once_the_last_is_open_and_nothing_is_recorded_twice(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.save(anchor_ms=now_ms + 2000, command="false")
    job = await own.save(anchor_ms=now_ms + 4000, command="exit 2")
    await own.open_at(job)
    fires = [at for one in own.records for at in range(one.plan_ms, (one.range_end_ms or one.plan_ms) + 1, 1000)]
    assert fires == [now_ms + second * 1000 for second in (1, 2, 3, 4)]
    assert await own.mark() == now_ms + 4000


async def test_a_job_that_etcd_knows_in_a_newer_revision_waits_for_it(world: World, meeting: Meeting) -> None:
    async with own_sequences(replace(world, etcd=meeting)) as own:
        now_ms = own.clock.wall_ms() // 1000 * 1000
        own.broadcast.begin(own.session, now_ms)
        old = await own.save(anchor_ms=now_ms, tell=False)
        job = await own.save(anchor_ms=now_ms + 1000, command="false", tell=False)
        tries: list[int] = []

        async def count() -> None:
            tries.append(1)
            meeting.event = count

        meeting.event = count
        own.tell(old)
        await wait_until(lambda: len(tries) >= 2, description="it tries again: etcd has refused it")
        assert (own.planned, await own.mark()) == (None, None)
        own.tell(job)
        assert (await own.open_at(job)).anchor_ms == now_ms + 1000


async def test_a_mark_that_moves_on_while_an_edit_is_seen_to_does_not_go_back(world: World, meeting: Meeting) -> None:
    async with own_sequences(replace(world, etcd=meeting)) as own:
        now_ms = own.clock.wall_ms() // 1000 * 1000
        own.broadcast.begin(own.session, now_ms)
        await own.open_at(await own.save(anchor_ms=now_ms))
        meeting.event = lambda: own.decided(now_ms + 5000)
        await own.open_at(await own.save(anchor_ms=now_ms + 2000, command="false"))
        assert (await own.mark(), own.records) == (now_ms + 5000, [])


async def test_a_run_key_in_the_way_of_the_record_is_passed_over(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.world.open_run(now_ms + 1000, name="job~w1", locked=False)
    job = await own.save(anchor_ms=now_ms + 3000, command="false")
    await own.open_at(job)
    assert [(one.plan_ms, one.count) for one in own.records] == [(now_ms + 2000, 2)]


async def test_a_mark_that_cannot_be_read_is_put_anew(own: Own, now_ms: int) -> None:
    await own.world.etcd.put(own.keys.mark("job~w1"), b"garbage")
    own.broadcast.begin(own.session, now_ms)
    job = await own.save(anchor_ms=now_ms)
    await own.open_at(job)
    assert await own.mark() == now_ms


async def test_a_job_that_cannot_be_read_is_closed(own: Own, now_ms: int) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    await own.world.etcd.put(own.keys.job("job"), b"garbage")
    own.tell(await own.world.etcd.get(own.keys.job("job")))
    await own.closed()
    assert own.planned is None
    job = await own.save(anchor_ms=now_ms + 1000)
    await own.open_at(job)


@pytest.mark.parametrize("error", [EtcdInDoubtError("no answer"), UnavailableError("away"), EtcdError("no space")])
@pytest.mark.parametrize("carried_out", [True, False])
async def test_whatever_etcd_says_it_is_tried_again(
    own: Own, now_ms: int, monkeypatch: pytest.MonkeyPatch, error: Exception, carried_out: bool
) -> None:
    own.broadcast.begin(own.session, now_ms)
    await own.open_at(await own.save(anchor_ms=now_ms))
    job = await own.save(anchor_ms=now_ms + 2000, command="false", tell=False)
    txn, failures = own.world.etcd.txn, [error] if carried_out else [error, error]

    async def failing(transaction: Txn) -> TxnResult:
        if failures and any(operation.writes for operation in transaction.then):
            if carried_out:
                await txn(transaction)
            raise failures.pop()
        return await txn(transaction)

    monkeypatch.setattr(own.world.etcd, "txn", failing)
    own.tell(job)
    await own.open_at(job)
    assert await own.mark() == now_ms + 2000
    entry = await own.world.entry(RunId.planned("job~w1", now_ms + 1000))
    assert entry is not None, "recorded once; the steward delivers what nobody knows of"
    assert (entry.record and entry.record.count) == 2
    assert len(own.records) == (0 if carried_out else 1)


async def test_a_session_that_is_over_writes_nothing(own: Own, now_ms: int) -> None:
    job = await own.save(anchor_ms=now_ms)
    await own.world.etcd.lease_revoke(own.session.lease_id)
    own.broadcast.begin(own.session, now_ms)
    own.broadcast.job_changed("job")
    async with own_sequences(own.world) as successor:
        successor.broadcast.begin(successor.session, now_ms + 7000)
        successor.tell(job)
        await successor.open_at(job)
    assert await own.mark() == now_ms + 7000
    assert own.planned is None


# When the machine boots

LONG_AGO_MS = 1_000_000_000_000


async def runs_asked_for(world: World) -> list[str]:
    """Of which sequences."""
    found = []
    async for page in world.etcd.read_prefix(world.keys.requests):
        found += [world.keys.run_of(kv.key).job for kv in page.kvs]
    return found


async def begins_after(world: World, boot: str, *, worker: str = "w1", jobs: tuple[str, ...] = ("job",)) -> None:
    """A worker starts after this boot, looks at the jobs, and ends."""
    async with own_sequences(world, worker=worker, boot=boot) as own:
        for name in jobs:
            own.tell(await world.etcd.get(own.keys.job(name)), name)
        own.broadcast.begin(own.session, own.clock.wall_ms())
        await wait_until(
            lambda: "job" in own.broadcast.asked_at_boot and own.catalog.sequences.keys() == set(jobs),
            description="it is asked for, now or before",
        )


async def save_for_boots(world: World, name: str = "job", *, anchor_ms: int = LONG_AGO_MS, **fields: Any) -> None:
    await world.save(name, cron="@reboot", mark_ms=anchor_ms, broadcast=True, **fields)


async def test_it_runs_once_for_a_boot_whoever_starts_again(world: World) -> None:
    await save_for_boots(world)
    await begins_after(world, "boot-1")
    assert await runs_asked_for(world) == ["job~w1"]
    await begins_after(world, "boot-1")
    await begins_after(world, "boot-1", worker="another-on-this-machine")
    assert await runs_asked_for(world) == ["job~w1"]
    await begins_after(world, "boot-2")
    await begins_after(world, "boot-of-another-machine", worker="w2")
    assert await runs_asked_for(world) == ["job~w1", "job~w1", "job~w2"]


async def test_it_runs_once_for_a_boot_also_where_its_run_is_over_and_the_clock_was_set(world: World) -> None:
    await save_for_boots(world)
    await begins_after(world, "boot-1")
    async for page in world.etcd.read_prefix(world.keys.requests):
        await world.etcd.txn(Txn([], [Delete(kv.key) for kv in page.kvs]))
    for anchor_ms in (LONG_AGO_MS - 1, LONG_AGO_MS + 1):
        await save_for_boots(world, anchor_ms=anchor_ms)  # as seen by clocks that were set since
        await begins_after(world, "boot-1")
    assert await runs_asked_for(world) == []


async def test_a_job_that_was_saved_since_the_boot_or_is_paused_waits_for_the_next(world: World) -> None:
    await save_for_boots(world)
    await save_for_boots(world, "later", anchor_ms=SystemClock().wall_ms())
    await save_for_boots(world, "paused", enabled=False)
    await begins_after(world, "boot-1", jobs=("later", "paused", "job"))
    assert await runs_asked_for(world) == ["job~w1"]


async def test_a_machine_whose_clock_is_set_after_its_boot_runs_what_was_saved_before(
    place: Place, world: World
) -> None:
    await save_for_boots(world)
    await save_for_boots(world, "later", anchor_ms=SystemClock().wall_ms())
    clock = OffClock(LONG_AGO_MS - 86_400_000 - SystemClock().wall_ms())
    async with working(place, clock=clock) as worker:
        broadcast, opened = worker.parts.broadcast, worker.parts.catalog.sequences
        await wait_until(lambda: opened.keys() == {"job", "later"}, description="both have been looked at")
        assert broadcast.asked_at_boot == set()
        clock.offset_ms = 0
        worker.parts.clock_watch.look()
        await wait_until(lambda: broadcast.asked_at_boot == {"job"}, description="it is asked for")
        await wait_until(lambda: broadcast._ahead == set(), description="the other one is looked at")
        assert broadcast.asked_at_boot == {"job"}


async def test_an_answer_that_is_lost_asks_for_nothing_twice(world: World) -> None:
    await save_for_boots(world)
    kv = await world.etcd.get(world.keys.job("job"))
    assert kv is not None
    async with own_sequences(world) as own:
        job = read_job("job", kv)
        for now_ms in (1, 2):
            txn = boots.ask(own.keys, job, worker="w1", boot_id="boot", now_ms=now_ms, session=own.session)
            assert boots.read(await world.etcd.txn(txn)) is (boots.Asked.NOW if now_ms == 1 else boots.Asked.BEFORE)
        other = replace(job, revision=job.revision + 1)
        txn = boots.ask(own.keys, other, worker="w1", boot_id="other", now_ms=3, session=own.session)
        assert boots.read(await world.etcd.txn(txn)) is boots.Asked.NOT


@pytest.mark.logstore
async def test_a_worker_that_starts_again_runs_nothing_for_the_same_boot(place: Place, world: World) -> None:
    await save_for_boots(world)
    async with working(place) as worker:
        await worker.deciding()

        async def has_run() -> bool:
            return [one["status"] for one in await world.records()] == ["success"]

        await wait_until(has_run, description="it has run")
    await save_for_boots(world, "other")
    async with working(place) as worker:
        await worker.deciding()
        await wait_until(
            lambda: worker.parts.broadcast.asked_at_boot == {"job", "other"}, description="both are looked at"
        )

        async def other_has_run() -> bool:
            return len(await world.records("other")) == 1

        await wait_until(other_has_run, description="the other one has run")
        assert len(await world.records()) == 1
