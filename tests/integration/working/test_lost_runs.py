"""Runs whose worker is gone, as the steward judges them. The clock moves only when told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from common.errors import EtcdRefusedError, UnavailableError
from common.etcd import Change, EtcdClient
from common.protocol.keys import RunId
from common.protocol.request import Origin
from common.protocol.run import OUT_OF_TOUCH, EntryState, RunEntry, RunRecord, Trigger, final_entry
from common.protocol.txn import Delete, KeyValue, Operation, Put, Txn
from common.verdicts import Verdict
from tests.support.meeting import Meeting
from tests.support.working import SteppingClock, World
from worker.catalog import Catalog
from worker.lead.leader import Term
from worker.lead.lost_runs import FINAL_PATIENCE_S, STORE_PAUSE_S, LeftRunSettlement, LostRuns
from worker.members import Members
from worker.record.follow_up_reader import FollowUpReader
from worker.record.settlement import Settlement

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


class Store:
    """A log store that holds what the test says, or is away."""

    def __init__(self) -> None:
        self.records: dict[str, RunRecord] = {}
        self.away = False
        self.asked: list[int] = []

    async def find(self, run_ids: Sequence[RunId], *, deadline_seconds: float) -> Mapping[str, RunRecord]:
        self.asked.append(len(run_ids))
        if self.away:
            raise UnavailableError
        return {str(run_id): self.records[str(run_id)] for run_id in run_ids if str(run_id) in self.records}


class Delivered:
    """What the steward would have delivered."""

    def __init__(self) -> None:
        self.records: list[RunRecord] = []
        self.on_the_way: set[RunId] = set()

    def deliver_final(self, record: RunRecord, revision: int) -> None:
        self.records.append(record)

    def is_delivering(self, run_id: RunId) -> bool:
        return run_id in self.on_the_way


class Office:
    """The duty, and all that it looks at."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term = world, term
        self.clock, self.store, self.delivered = SteppingClock(), Store(), Delivered()
        self.members = Members(world.keys, "w1", on_changed=lambda: None)
        self.follow_ups = FollowUpReader(world.etcd, world.keys, Catalog(world.keys, on_changed=lambda _: None))
        self.duty = self.another()

    def another(self) -> LostRuns:
        settlement = cast(Settlement, self.delivered)
        left_runs = LeftRunSettlement(
            client=self.world.etcd, keys=self.world.keys, worker="w1", follow_ups=self.follow_ups,
            settlement=settlement, clock=self.clock,
        )  # fmt: skip
        duty = LostRuns(
            client=self.world.etcd, keys=self.world.keys, members=self.members, settlement=settlement,
            left_runs=left_runs, store=self.store, clock=self.clock,
        )  # fmt: skip
        duty.begin()
        return duty

    async def look(self, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        await self.duty.perform(self.term)

    async def see_session(self, key: str, kv: KeyValue | None) -> None:
        self.members.on_changes([Change(key=key, old_mod=None, new=kv)])

    async def entry(self, run: KeyValue) -> RunEntry | None:
        kv = await self.world.etcd.get(run.key)
        return RunEntry.from_json(kv.value) if kv else None

    async def is_locked(self) -> bool:
        return await self.world.has(self.world.keys.lock("job"))


@pytest.fixture
def office(world: World, term: Term) -> Office:
    return Office(world, term)


def is_final(entry: RunEntry | None) -> bool:
    return entry is not None and entry.state is EntryState.FINAL


async def test_lost_after_lost_after_and_not_before(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=60_000)
    await office.look()
    await office.look(59.5)
    assert not is_final(await office.entry(run))
    assert await office.is_locked()
    await office.look(0.6)
    entry = await office.entry(run)
    assert is_final(entry)
    assert not await office.is_locked()
    (record,) = office.delivered.records
    assert (record.status, record.reason, record.worker) == (Verdict.LOST, "worker gone", "gone")
    assert record.fence == run.create_revision


@pytest.mark.parametrize(
    ("since_the_claim", "known"),
    [
        pytest.param("nothing", ("echo old", {"team": "a"}), id="and the job is as it was"),
        pytest.param("saved", ("", {}), id="and the job is another"),
        pytest.param("deleted", ("", {}), id="and the job is gone"),
    ],
)
async def test_lost_run_whose_claim_is_older_than_the_history_of_etcd(
    office: Office, world: World, since_the_claim: str, known: tuple[str, dict[str, str]]
) -> None:
    job = await world.save(command="echo old", labels={"team": "a"})
    await world.open_run(lost_after_ms=1000, revision=job.mod_revision)
    if since_the_claim == "saved":
        await world.save(command="echo new", labels={"team": "b"})
    elif since_the_claim == "deleted":
        await world.etcd.delete(world.keys.job("job"))
    await world.etcd.compact(await world.etcd.put(f"{world.keys.prefix}elsewhere", b""))
    await office.look()
    await office.look(2)
    (record,) = office.delivered.records
    assert (record.command, record.labels) == known


async def test_lost_run_has_the_command_that_it_was_claimed_with(office: Office, world: World) -> None:
    job = await world.save(command="echo old", labels={"team": "a"})
    await world.open_run(lost_after_ms=1000, revision=job.mod_revision)
    await world.save(command="echo new", labels={"team": "b"})
    await office.look()
    await office.look(2)
    (record,) = office.delivered.records
    assert (record.command, record.labels) == ("echo old", {"team": "a"})


async def test_a_run_key_that_changed_is_counted_anew(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=60_000)
    await office.look()
    await office.look(50)
    await world.etcd.put(run.key, run.value)
    await office.look(9)
    await office.look(50)
    assert not is_final(await office.entry(run))
    await office.look(11)
    assert is_final(await office.entry(run))


async def test_a_new_steward_counts_afresh(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=60_000)
    await office.look()
    office.clock.advance(59)
    office.duty = office.another()
    await office.look()
    await office.look(59)
    assert not is_final(await office.entry(run))
    office.duty.begin()
    await office.look(2)
    assert not is_final(await office.entry(run))


async def test_a_session_that_has_a_key_is_not_gone_whatever_its_value(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=1000)
    key = world.keys.worker("gone", "123abc")
    await world.etcd.put(key, b"garbage, and under no lease")
    await office.see_session(key, await world.etcd.get(key))
    await office.look()
    await office.look(5)
    assert not is_final(await office.entry(run))
    await office.see_session(key, None)  # the steward's own watch is wrong: etcd knows better
    await office.look(0.1)
    await office.look(5)
    assert not is_final(await office.entry(run))
    await world.etcd.delete(key)
    await office.look(5)
    await office.look(5)
    assert is_final(await office.entry(run))


async def test_a_session_that_the_watch_has_not_seen_counts_as_gone_only_once_its_key_is(
    office: Office, world: World
) -> None:
    run = await world.open_run(lost_after_ms=60_000)
    key = world.keys.worker("gone", "123abc")
    await world.etcd.put(key, b"under no lease, but there")
    await office.look()  # the steward's watch is behind: it knows nothing of that session
    await office.look(59)
    await world.etcd.delete(key)
    await office.look()
    await office.look(59)
    assert not is_final(await office.entry(run)), "the time counts from when it was really gone"
    await office.look(2)
    assert is_final(await office.entry(run))


async def test_never_means_never(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=None)
    await office.look()
    await office.look(1_000_000)
    assert not is_final(await office.entry(run))


async def test_a_record_in_the_log_store_is_the_verdict(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=1000)
    run_id = world.keys.run_of(run.key)
    office.store.records[str(run_id)] = RunRecord(run_id=run_id, status=Verdict.SUCCESS)
    await office.look()
    await office.look(2)
    assert await office.entry(run) is None
    assert not await office.is_locked()
    assert office.delivered.records == []


async def test_store_away_what_holds_its_lock_is_settled_and_what_has_ended_waits(office: Office, world: World) -> None:
    holding = await world.open_run(lost_after_ms=1000)
    allowed = await world.open_run(name="allow", locked=False, lost_after_ms=1000)
    ended = await world.open_run(name="ended", locked=False, state=EntryState.ENDED, lost_after_ms=1000)
    unlocked = await world.open_run(name="unlocked", lost_after_ms=1000)
    await world.etcd.delete(world.keys.lock("unlocked"))
    office.store.away = True
    await office.look()
    await office.look(2)
    assert is_final(await office.entry(holding))
    assert is_final(await office.entry(allowed))
    assert not is_final(await office.entry(ended))
    assert not is_final(await office.entry(unlocked))
    assert office.store.asked == [4]
    await office.look(1)
    assert office.store.asked == [4], "the store is left alone for a while"
    office.store.away = False
    await office.look(STORE_PAUSE_S)
    assert office.store.asked == [4, 2]
    assert is_final(await office.entry(ended))
    assert is_final(await office.entry(unlocked))
    assert {one.reason for one in office.delivered.records} == {"worker gone", "result not delivered"}


async def test_somebody_elses_lock_is_not_freed(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=1000)
    await world.etcd.delete(world.keys.lock("job"))
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")
    await office.look()
    await office.look(2)
    assert is_final(await office.entry(run))
    assert await office.is_locked()


async def test_final_keys_are_delivered_after_a_minute_and_not_twice_at_a_time(office: Office, world: World) -> None:
    run_id = RunId.planned("job", 5000)
    record = RunRecord(run_id=run_id, status=Verdict.SKIPPED, reason="edited")
    await world.etcd.put(world.keys.run(run_id), final_entry(record).to_json())
    await office.look()
    await office.look(FINAL_PATIENCE_S - 1)
    assert office.delivered.records == []
    await office.look(2)
    assert [one.run_id for one in office.delivered.records] == [run_id]
    office.delivered.on_the_way.add(run_id)
    await office.look(100)
    assert len(office.delivered.records) == 1
    office.delivered.on_the_way.clear()
    await office.look(100)
    assert len(office.delivered.records) == 2


async def test_a_dead_worker_with_many_runs_costs_one_question(office: Office, world: World) -> None:
    runs = [await world.open_run(name=f"j{number}", lost_after_ms=1000) for number in range(60)]
    office.store.away = True
    await office.look()
    await office.look(2)
    assert office.store.asked == [60]
    assert all([is_final(await office.entry(run)) for run in runs])


@pytest.mark.parametrize(
    "value",
    [
        b"\xff\xfe", b"[" * 100_000, b"null", b"[]", b'{"state":"open","lostAfterMs":"soon","session":"1"}',
        b'{"state":"open","session":["a"],"lostAfterMs":1}', b'{"state":"final"}', b'{"state":"final","record":{}}',
    ],
)  # fmt: skip
async def test_garbage_is_set_aside_once_and_harms_nobody(
    office: Office, world: World, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    await world.etcd.put(world.keys.run(RunId.planned("bad", 1)), value)
    await world.etcd.put(world.keys.runs + "bad/not-a-run", b"{}")
    run = await world.open_run(lost_after_ms=1000)
    for _ in range(4):
        await office.look(6)
    assert is_final(await office.entry(run))
    said = [line for line in caplog.records if getattr(line, "action", "") == "run.set_aside"]
    assert len(said) == 2


async def test_what_etcd_refused_to_write_is_lost_since_when_it_was(
    office: Office, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await world.open_run(lost_after_ms=60_000)
    await office.look()
    with monkeypatch.context() as patch:
        patch.setattr(office.world.etcd, "txn", _refusing(office.world.etcd))
        await office.look(60.5)
    assert not is_final(await office.entry(run))
    await office.look(5.5)
    assert is_final(await office.entry(run))


def _refusing(client: EtcdClient) -> Any:
    usual = client.txn

    async def txn(transaction: Txn) -> Any:
        if any(operation.writes for operation in transaction.then):
            raise EtcdRefusedError("etcdserver: too many requests")
        return await usual(transaction)

    return txn


async def test_two_stewards_at_once_do_no_harm(office: Office, world: World, term: Term) -> None:
    run = await world.open_run(lost_after_ms=1000)
    other = office.another()
    await office.look()
    await other.perform(term)
    office.clock.advance(2)
    await office.duty.perform(term)
    await other.perform(term)
    assert len(office.delivered.records) == 1
    assert is_final(await office.entry(run))


@pytest.mark.parametrize("what", ["session", "run", "lock"])
async def test_a_run_is_lost_only_if_all_is_as_it_was_when_looked_at(
    world: World, term: Term, meeting: Meeting, what: str
) -> None:
    """Its worker has put its session's key again, or has taken the run over; or has ended it and freed its lock."""
    office = Office(replace(world, etcd=meeting), term)
    run = await world.open_run(lost_after_ms=1000)
    lock = world.keys.lock("job")
    steps: dict[str, list[Operation]] = {
        "session": [Put(world.keys.worker("gone", "123abc"), b"its session")],
        "run": [Put(run.key, run.value)],
        "lock": [Delete(lock), Put(lock, b"another run")],
    }
    await office.look()
    await meeting.writes_nothing(world.place.prefix, lambda: office.look(2), after=[steps[what]])
    assert office.delivered.records == []


async def test_who_leads_no_more_changes_nothing(office: Office, world: World) -> None:
    run = await world.open_run(lost_after_ms=1000)
    await office.look()
    await world.etcd.delete(world.keys.steward)
    await office.look(2)
    assert not is_final(await office.entry(run))
    assert office.delivered.records == []


# What follows


async def lost(office: Office, world: World, **changes: Any) -> KeyValue:
    """A run of the job as it is, whose worker is gone; the steward has looked at it once."""
    job = await world.etcd.get(world.keys.job("job"))
    assert job is not None
    run = await world.open_run(lost_after_ms=1000, **({"revision": job.mod_revision} | changes))
    await office.look()
    return run


def next_of(run: KeyValue, world: World) -> RunId:
    run_id = world.keys.run_of(run.key)
    return RunId(run_id.job, run_id.fire, run_id.attempt + 1)


@pytest.mark.parametrize("locked", [True, False])
async def test_lost_run_is_run_again_once_by_two_stewards(
    office: Office, world: World, term: Term, locked: bool
) -> None:
    await world.save(onWorkerLost="rerun", overlap="skip" if locked else "allow")
    run = await lost(office, world, locked=locked, args=("x",))
    other = office.another()
    await other.perform(term)
    office.clock.advance(2)
    await office.duty.perform(term)
    assert is_final(await office.entry(run))
    [request] = await world.requests()
    assert (request.run_id, request.origin) == (next_of(run, world), Origin.RERUN)
    assert (request.trigger, request.args) == (Trigger.RERUN, ("x",))
    assert request.not_before_ms <= office.clock.wall_ms()
    await world.etcd.delete(world.keys.request(request.run_id))  # claimed, run, and over
    await other.perform(term)
    await office.look(10)
    assert await world.requests() == []


@pytest.mark.parametrize("state", [EntryState.ENDED, EntryState.OPEN])
async def test_run_that_had_ended_is_not_run_again(office: Office, world: World, state: EntryState) -> None:
    await world.save(onWorkerLost="rerun", overlap="allow")
    run = await lost(office, world, state=state, locked=state is EntryState.OPEN)
    await world.etcd.delete(world.keys.lock("job"))  # of a run that took one: the sign of its end
    await office.look(2)
    assert is_final(await office.entry(run))
    assert office.delivered.records[0].reason == "result not delivered"
    assert await world.requests() == []


async def test_run_whose_end_somebody_wished_is_not_run_again(office: Office, world: World) -> None:
    await world.save(onWorkerLost="rerun")
    run = await lost(office, world)
    await world.kill(world.keys.run_of(run.key))
    await office.look(2)
    assert is_final(await office.entry(run))
    assert await world.requests() == []


@pytest.mark.parametrize(("status", "reason", "expected"), [
    (Verdict.SUCCESS, None, []), (Verdict.FAILED, None, [Origin.RETRY]), (Verdict.KILLED, "enough", []),
    (Verdict.KILLED, OUT_OF_TOUCH, [Origin.RERUN]),
])  # fmt: skip
async def test_record_that_is_found_decides_what_follows(
    office: Office, world: World, status: Verdict, reason: str | None, expected: list[Origin]
) -> None:
    """It is not run again but where it was killed because its worker was out of touch."""
    await world.save(onWorkerLost="rerun", retry={"limit": 1})
    run = await lost(office, world)
    run_id = world.keys.run_of(run.key)
    office.store.records[str(run_id)] = RunRecord(run_id=run_id, status=status, reason=reason, end_ms=5000)
    await office.look(2)
    assert await office.entry(run) is None
    assert not await office.is_locked()
    assert [one.origin for one in await world.requests()] == expected


async def test_chain_goes_on_after_a_lost_run(office: Office, world: World) -> None:
    await world.save(after="10s")
    await lost(office, world)
    before_ms = office.clock.wall_ms()
    await office.look(2)
    link = await world.link()
    assert link is not None
    assert link.plan_ms >= before_ms + 12_000
    assert not await office.is_locked()


@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("what", ["paused", "made again"])
async def test_job_that_was_paused_or_made_again_meanwhile_is_not_run_again(
    world: World, term: Term, meeting: Meeting, what: str, meanwhile: bool
) -> None:
    office = Office(replace(world, etcd=meeting), term)
    await world.save(onWorkerLost="rerun")
    run = await lost(office, world)

    async def change() -> None:
        if what == "made again":
            await world.etcd.delete(world.keys.job("job"))
        await world.save(onWorkerLost="rerun", enabled=what != "paused")

    if meanwhile:
        meeting.event = change
    else:
        await change()
    await office.look(2)
    assert is_final(await office.entry(run))
    assert not await office.is_locked()
    assert await world.requests() == []
