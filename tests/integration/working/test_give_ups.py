"""Runs that users give up, as the steward settles them. The clock moves only when told."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import cast

import pytest

from common.clock import SystemClock
from common.etcd import Change, EtcdClient
from common.protocol.give_up import GiveUp
from common.protocol.keys import RunId, Watched
from common.protocol.kill import OVERDUE_MS, Kill
from common.protocol.run import EntryState, RunRecord
from common.protocol.txn import Delete, KeyValue, Operation, Put, Txn
from common.timings import START_OVER_S
from common.verdicts import Verdict
from tests.integration.working.test_lost_runs import Delivered, Store
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.catalog import Catalog
from worker.lead.give_ups import GiveUps
from worker.lead.leader import Term
from worker.lead.lost_runs import LeftRunSettlement
from worker.record.follow_up_reader import FollowUpReader
from worker.record.settlement import Settlement

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

DAY_S = 86_400


class Office:
    """The duty, and all that it looks at."""

    def __init__(self, world: World, term: Term) -> None:
        self.world, self.term = world, term
        self.clock, self.store, self.delivered = SteppingClock(), Store(), Delivered()
        self.catalog = Catalog(world.keys, on_changed=lambda _: None)
        left_runs = LeftRunSettlement(
            client=world.etcd, keys=world.keys, worker="w1", clock=self.clock,
            follow_ups=FollowUpReader(world.etcd, world.keys, self.catalog),
            settlement=cast(Settlement, self.delivered),
        )  # fmt: skip
        self.duty = GiveUps(
            client=world.etcd, keys=world.keys, catalog=self.catalog, left_runs=left_runs, store=self.store,
            clock=self.clock,
        )  # fmt: skip

    async def watched(self) -> None:
        """What a watch shows of the wishes."""
        (there,) = await self.world.etcd.read_prefixes(self.world.keys.give_ups)
        self.duty.on_changes([Change(key=kv.key, old_mod=None, new=kv) for kv in there])

    async def look(self, after_s: float = 0.0) -> None:
        self.clock.advance(after_s)
        await self.watched()
        await self.duty.perform(self.term)

    async def look_until_nothing_starts(self) -> None:
        await self.look()
        await self.look(START_OVER_S + 0.1)

    async def wish(self, run: KeyValue, *, at_ms: int | None = None) -> str:
        run_id = self.world.keys.run_of(run.key)
        wish = GiveUp(run_id=run_id, by="ann", at_ms=at_ms or self.clock.wall_ms(), reason="it burned")
        await self.world.etcd.put(self.world.keys.give_up(run_id), wish.to_json())
        return self.world.keys.give_up(run_id)

    async def session_is_live(self) -> str:
        key = self.world.keys.worker("gone", "123abc")
        await self.world.etcd.put(key, b"{}")
        return key

    async def kill(self, run: KeyValue, *, ago_ms: int) -> None:
        run_id, keys = self.world.keys.run_of(run.key), self.world.keys
        await self.world.etcd.put(keys.kill(run_id), old_kill(run_id, self.clock.wall_ms() - ago_ms).to_json())

    async def is_locked(self) -> bool:
        return await self.world.has(self.world.keys.lock("job"))


def old_kill(run_id: RunId, at_ms: int) -> Kill:
    return Kill(run_id=run_id, by="ann", at_ms=at_ms, reason="enough")


@pytest.fixture
def office(world: World, term: Term) -> Office:
    return Office(world, term)


async def test_run_of_a_worker_that_is_gone_frees_its_lock_and_says_who_gave_it_up(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    await office.look_until_nothing_starts()
    assert await office.is_locked(), "never means never"
    wish = await office.wish(run)
    await office.look_until_nothing_starts()
    assert not await office.is_locked()
    (record,) = office.delivered.records
    assert (record.status, record.reason) == (Verdict.LOST, "given up by ann: it burned")
    await office.look()
    assert not await office.world.has(wish), "what is settled is swept"


async def test_nothing_is_settled_while_its_claim_may_still_be_started(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    await office.wish(run)
    await office.look()
    await office.look(START_OVER_S - 0.5)
    await office.world.etcd.put(run.key, run.value)  # stamped anew
    await office.look(1)
    await office.look(START_OVER_S - 0.5)
    assert await office.is_locked()
    await office.look(1)
    assert not await office.is_locked()


async def test_record_in_the_log_store_is_the_verdict(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    run_id = office.world.keys.run_of(run.key)
    office.store.records[str(run_id)] = RunRecord(run_id=run_id, status=Verdict.SUCCESS)
    await office.wish(run)
    await office.look_until_nothing_starts()
    assert office.delivered.records == []
    assert not await office.is_locked()
    assert not await office.world.has(run.key)


async def test_log_store_away_frees_a_lock_and_what_has_ended_waits_for_its_record(office: Office) -> None:
    holding = await office.world.open_run(lost_after_ms=None)
    ended = await office.world.open_run(name="ended", locked=False, state=EntryState.ENDED, lost_after_ms=None)
    for run in (holding, ended):
        await office.wish(run)
    office.store.away = True
    await office.look_until_nothing_starts()
    assert [record.run_id.job for record in office.delivered.records] == ["job"]
    office.store.away = False
    await office.look(1)
    assert [record.run_id.job for record in office.delivered.records] == ["job", "ended"]


@pytest.mark.parametrize(
    ("grace_s", "ago_ms", "is_given_up"),
    [
        (None, None, False),
        (None, OVERDUE_MS - 20_000, False),
        (None, OVERDUE_MS, True),
        (30, OVERDUE_MS + 10_000, False),
        (30, OVERDUE_MS + 30_000, True),
    ],
)
async def test_run_of_a_live_worker_is_given_up_only_where_a_kill_has_been_pending_for_a_minute_beyond_the_grace(
    office: Office, grace_s: int | None, ago_ms: int | None, is_given_up: bool
) -> None:
    if grace_s is not None:
        kv = await office.world.save(killGraceSeconds=grace_s)
        office.catalog.on_changes([Change(key=kv.key, old_mod=None, new=kv)])
    run = await office.world.open_run(lost_after_ms=None)
    await office.session_is_live()
    if ago_ms is not None:
        await office.kill(run, ago_ms=ago_ms)
    wish = await office.wish(run)
    await office.look_until_nothing_starts()
    assert await office.is_locked() is not is_given_up
    await office.look()
    assert not await office.world.has(wish), "a refused wish does not wait for a moment at which the run is not well"


async def test_wish_waits_where_the_kill_is_overdue_by_the_clock_of_the_manager_alone(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    await office.session_is_live()
    await office.kill(run, ago_ms=OVERDUE_MS - 8000)
    await office.wish(run)
    await office.look_until_nothing_starts()
    assert await office.is_locked()
    office.clock.advance(8)
    await office.look_until_nothing_starts()
    assert not await office.is_locked()


async def test_kill_that_is_older_than_the_run_says_nothing_of_it(office: Office) -> None:
    run_id = RunId.planned("job", 1_790_000_000_000)
    kill = old_kill(run_id, office.clock.wall_ms() - 2 * OVERDUE_MS)
    await office.world.etcd.put(office.world.keys.kill(run_id), kill.to_json())
    run = await office.world.open_run(lost_after_ms=None)
    await office.session_is_live()
    await office.wish(run)
    await office.look_until_nothing_starts()
    assert await office.is_locked()


@pytest.mark.parametrize("what", ["session", "wish", "lock", "run"])
async def test_what_changes_between_look_and_verdict_is_seen(
    world: World, term: Term, meeting: Meeting, what: str
) -> None:
    office = Office(replace(world, etcd=meeting), term)
    run = await world.open_run(lost_after_ms=None)
    changes: dict[str, Operation] = {
        "session": Put(world.keys.worker("gone", "123abc"), b"{}"),
        "wish": Delete(await office.wish(run)),
        "lock": Delete(world.keys.lock("job")),
        "run": Put(run.key, run.value),
    }
    await office.look()
    office.clock.advance(START_OVER_S + 0.1)
    await meeting.writes_nothing(world.place.prefix, office.look, after=[[changes[what]]])
    assert office.delivered.records == []


async def test_wish_is_swept_where_its_run_is_gone_or_newer_or_it_is_a_day_old(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    aged = await office.wish(run, at_ms=office.clock.wall_ms() - (DAY_S + 1) * 1000)
    other = await office.world.open_run(name="other", lost_after_ms=None)
    orphan = await office.wish(other)
    await office.world.etcd.delete(other.key)
    newer_wish = office.world.keys.give_up(RunId.planned("newer", 1_790_000_000_000))
    await office.world.etcd.put(newer_wish, b'{"by":"b","atMs":1,"reason":"c"}')
    await office.world.open_run(name="newer", lost_after_ms=None)
    await office.look()
    for wish in (aged, orphan, newer_wish):
        assert not await office.world.has(wish)
    assert await office.is_locked()


async def test_wish_that_cannot_be_read_harms_no_other(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    keys = office.world.keys
    await office.world.etcd.put(keys.give_ups + "garbage", b"{}")
    await office.world.etcd.put(keys.give_up(RunId.planned("a", 1)), b"[]")
    await office.wish(run)
    await office.look_until_nothing_starts()
    assert not await office.is_locked()


async def test_etcd_is_asked_nothing_while_the_watch_shows_no_wish_but_once_a_minute(office: Office) -> None:
    run = await office.world.open_run(lost_after_ms=None)
    await office.look()
    key = await office.wish(run)
    await office.watched()
    office.duty.on_changes([Change(key=key, old_mod=1, new=None)])
    client, office.duty._client = office.duty._client, cast(EtcdClient, None)
    office.clock.advance(59)
    await office.duty.perform(office.term)
    office.duty._client = client
    for _ in range(2):
        assert await office.is_locked()
        office.clock.advance(60)
        await office.duty.perform(office.term)
    assert not await office.is_locked()


async def test_live_worker_that_could_not_end_a_run_learns_that_it_was_given_up(place: Place, world: World) -> None:
    """Its command ignores TERM, and has an hour; the lock passes on meanwhile, and its record still comes."""
    keys = world.keys
    heedless, done = place.directory / "heedless", place.directory / "done"
    command = f"trap '' TERM; touch {heedless}; until [ -e {done} ]; do sleep 0.1; done"
    job = await world.save(command=command, killGraceSeconds=3600, lostAfterSeconds="never")
    run_id = await world.ask(job, SystemClock().wall_ms())
    async with AsyncExitStack() as ends:
        worker = await ends.enter_async_context(working(place))
        ends.callback(done.touch)
        await worker.deciding()
        await wait_until(heedless.exists, description="it heeds no TERM")
        kill = old_kill(run_id, SystemClock().wall_ms() - 3_600_000 - OVERDUE_MS)
        await world.etcd.txn(Txn([], [Put(keys.kill(run_id), kill.to_json()), Put(keys.seen(Watched.KILLS), b"")]))
        wish = GiveUp(run_id=run_id, by="ann", at_ms=SystemClock().wall_ms(), reason="stuck")
        await world.etcd.put(keys.give_up(run_id), wish.to_json())
        assert (await world.record(run_id))["reason"] == "given up by ann: stuck"
        assert not await world.has(keys.lock(run_id.job))
        assert worker.running() == [run_id]
        done.touch()
        await wait_until(lambda: len(worker.parts.table) == 0, description="it is not the worker's any more")

        async def has_its_own_record() -> bool:
            return bool((await world.record(run_id))["status"] == Verdict.KILLED)

        await wait_until(has_its_own_record, description="the record of its end replaces `lost`")
