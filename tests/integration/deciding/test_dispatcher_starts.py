"""From a claim to its start, or to a truthful end without one; real etcd, no processes, time moves only when told."""

from __future__ import annotations

import pytest
from msgspec import structs

import worker.dispatcher
from common.clock import SystemClock
from common.etcd import Session
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunRecord, final_entry
from common.verdicts import Verdict
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until
from tests.support.workshop import NOON, SECOND, Workshop, workshop
from worker.admission import Reason
from worker.runs import Phase


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.dispatcher, "_RETRY_S", 0.02)


async def quiet(shop: Workshop) -> None:
    """The loops have had their turn."""
    for _ in range(5):
        await shop.client.get(shop.keys.prefix)


async def test_starts_at_its_dispatch_time_and_not_before(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 200)
        shop.passes(199)
        await quiet(shop)
        assert shop.executor.started == []
        shop.passes(1)
        await shop.started(run)
        [launch] = shop.executor.launches
        assert (launch.spec.command, launch.fence, launch.plan_ms) == ("run job", run.fence, NOON + 200)
        assert run.schedule_ms == NOON + 200
        assert (shop.table.claimed, shop.table.running) == (0, 1)


async def test_claim_of_two_seconds_ago_is_stamped_anew_before_it_starts(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        shop.passes(2000)
        await shop.started(run)
        assert run.mod_revision > run.fence
        kv = await shop.client.get(shop.keys.run(run.run_id))
        assert kv is not None
        assert kv.mod_revision == run.mod_revision


@pytest.mark.parametrize("carried_out", [True, False])
async def test_stamp_in_doubt_is_settled_before_it_starts(etcd: EtcdServer, prefix: str, carried_out: bool) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        shop.client.losing, shop.client.carry_out = 1, carried_out
        shop.passes(2000)
        await shop.started(run)
        assert shop.executor.started == [str(run.run_id)]
        kv = await shop.client.get(shop.keys.run(run.run_id))
        assert kv is not None
        assert kv.mod_revision == run.mod_revision


async def test_stamp_in_doubt_under_a_session_that_ended_does_not_cost_the_run(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        stamped = structs.replace(run.entry, by="a stamp of ours, whose answer was lost")
        await shop.client.put(shop.keys.run(run.run_id), stamped.to_json())
        await shop.session.close()
        shop.settlement.session = await Session.open(
            shop.client, key_of=lambda lease: shop.keys.worker("w1", lease), value=b"{}", ttl=60, clock=SystemClock()
        )
        shop.passes(2000)
        await shop.started(run)
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.session == shop.settlement.session.id


async def test_stale_claim_does_not_start_under_a_session_without_its_key(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        await shop.client.delete(shop.session.key)
        tried = shop.client.writes
        shop.passes(2000)
        await wait_until(lambda: shop.client.writes >= tried + 2, description="it has been tried again")
        assert shop.executor.started == []
        await shop.client.put(shop.session.key, b"{}", shop.session.lease_id)
        await shop.started(run)


async def test_run_on_whose_way_the_worker_was_stopped_is_stamped_again_before_it_starts(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        shop.executor.stopped_for_ms = 5000
        run = await shop.claim(plan_ms=NOON + 1000)
        shop.passes(1000)
        await shop.started(run)
        assert run.mod_revision > run.fence, "its claim was too old"
        assert (shop.table.running, shop.table.claimed) == (1, 0)


async def test_run_on_whose_way_the_clock_jumped_back_waits_for_its_time(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        shop.executor.set_back_by_ms = 500
        run = await shop.claim(plan_ms=NOON + 1000)
        shop.passes(1000)
        await wait_until(lambda: not shop.executor.set_back_by_ms, description="it was about to start")
        await quiet(shop)
        assert (shop.executor.asked, shop.executor.started) == (1, [])
        assert (shop.table.running, shop.table.claimed) == (0, 1)
        shop.passes(500)
        await shop.started(run)


async def test_run_that_was_given_up_as_lost_does_not_start(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        await shop.client.delete(shop.keys.run(run.run_id))
        shop.passes(2000)
        await wait_until(lambda: len(shop.table) == 0, description="it is forgotten")
        assert shop.executor.started == []
        assert shop.table.claimed == 0


async def test_without_a_session_a_stale_claim_waits_for_one(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        shop.settlement.session = None
        shop.passes(2000)
        await quiet(shop)
        assert shop.executor.started == []
        shop.settlement.session = shop.session
        await shop.started(run)


async def test_past_its_grace_it_is_missed_and_lets_its_lock_go(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        first = await shop.claim("first")
        await shop.started(first)
        late = await shop.claim("late", grace_s=5)
        shop.passes(5 * SECOND)
        await quiet(shop)
        assert late.phase is Phase.CLAIMED
        shop.passes(1)
        await wait_until(lambda: shop.unlocked == ["late"], description="its lock is free")
        [record] = shop.spool.records
        assert (record.status, record.reason) == (Verdict.MISSED, "claimed, not started")
        assert record.start_ms is None
        assert shop.executor.started == [str(first.run_id)]
        assert (shop.table.claimed, shop.table.running) == (0, 1)


async def test_killed_before_its_start_it_does_not_start(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 100)
        shop.kill(run)
        shop.passes(100)
        await wait_until(lambda: shop.spool.records != [], description="its verdict")
        [record] = shop.spool.records
        assert (record.status, record.reason, record.by) == (Verdict.KILLED, "before start", "ops")
        assert record.err == "killed by ops before start: enough"
        assert shop.executor.started == []


async def test_kill_that_is_older_than_the_run_does_not_apply(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 100)
        shop.kill(run, revision=run.fence - 1)
        shop.passes(100)
        await shop.started(run)


async def test_no_slot_for_a_second_it_is_handed_on_where_another_worker_is(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        shop.others("w2")
        await shop.started(await shop.claim("first"))
        waits = await shop.claim("waits")
        shop.passes(999)
        await quiet(shop)
        assert waits.phase is Phase.CLAIMED
        shop.passes(1)
        await wait_until(lambda: shop.table.get(waits.run_id) is None, description="it is handed on")
        kv = await shop.client.get(shop.keys.request(waits.run_id))
        assert kv is not None
        request = Request.from_json(kv.value, run_id=waits.run_id)
        assert (request.origin, request.plan_ms, request.expires_ms) == (Origin.HANDED_ON, NOON, waits.start_by_ms)
        assert await shop.entry(waits) is None
        assert await shop.lock("waits") is None
        assert (shop.table.claimed, shop.table.running) == (0, 1)


async def test_no_slot_and_no_other_worker_it_waits(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        first = await shop.claim("first")
        await shop.started(first)
        waits = await shop.claim("waits")
        shop.passes(3000)
        await quiet(shop)
        assert waits.phase is Phase.CLAIMED
        shop.end(first)
        await shop.started(waits)


async def test_stopping_it_hands_on_what_has_not_started(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        runs = [await shop.claim(f"job{number}", plan_ms=NOON + 200) for number in range(3)]
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.claimed == 0, description="all are handed on")
        assert shop.executor.started == []
        for run in runs:
            assert await shop.client.get(shop.keys.request(run.run_id)) is not None


@pytest.mark.parametrize("jump_ms", [-3_600_000, 3_600_000])
async def test_who_does_not_know_the_time_hands_on_and_records_nothing(
    etcd: EtcdServer, prefix: str, jump_ms: int
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 200, grace_s=5)
        shop.clock.set_wall(NOON + jump_ms)
        shop.admission.set(Reason.CLOCK, "its clock is off")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.get(run.run_id) is None, description="it is handed on")
        assert shop.executor.started == []
        kv = await shop.client.get(shop.keys.request(run.run_id))
        assert kv is not None
        request = Request.from_json(kv.value, run_id=run.run_id)
        assert (request.not_before_ms, request.expires_ms) == (NOON + 200, NOON + 5200)


@pytest.mark.parametrize("carried_out", [True, False])
async def test_handing_on_in_doubt_never_starts_it_here(etcd: EtcdServer, prefix: str, carried_out: bool) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        shop.others("w2")
        first = await shop.claim("first")
        await shop.started(first)
        waits = await shop.claim("waits")
        shop.client.losing, shop.client.carry_out = 1, carried_out
        shop.passes(1000)
        await wait_until(lambda: shop.client.losing == 0, description="it is sent")
        shop.end(first)
        await wait_until(lambda: shop.table.get(waits.run_id) is None, description="it is handed on")
        assert shop.executor.started == [str(first.run_id)]
        assert await shop.client.get(shop.keys.request(waits.run_id)) is not None


async def test_several_are_handed_on_by_one_write_and_one_that_was_rewritten_meanwhile_after_it(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        runs = [await shop.claim(f"job{number}", plan_ms=NOON + 200) for number in range(5)]
        writes = shop.client.writes
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.claimed == 0, description="all are handed on")
        assert shop.client.writes == writes + 1
        shop.admission.set(Reason.STOP, None)
        more = [await shop.claim(f"more{number}", plan_ms=NOON + 200) for number in range(3)]
        await shop.client.put(shop.keys.run(more[1].run_id), more[1].entry.to_json())
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.claimed == 0, description="those, too")
        assert shop.executor.started == []
        for run in (*runs, *more):
            assert await shop.client.get(shop.keys.request(run.run_id)) is not None
            assert await shop.lock(run.run_id.job) is None


@pytest.mark.parametrize("carried_out", [True, False])
async def test_handing_on_several_in_doubt_hands_on_each_once(etcd: EtcdServer, prefix: str, carried_out: bool) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        runs = [await shop.claim(f"job{number}", plan_ms=NOON + 200) for number in range(3)]
        shop.client.losing, shop.client.carry_out = 1, carried_out
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.claimed == 0, description="all are handed on")
        assert shop.executor.started == []
        for run in runs:
            kv = await shop.client.get(shop.keys.request(run.run_id))
            assert kv is not None
            assert kv.version == 1
            assert await shop.entry(run) is None


async def test_run_that_was_readopted_in_doubt_is_handed_on_at_its_new_revision(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=1) as shop:
        shop.others("w2")
        first = await shop.claim("first")
        await shop.started(first)
        waits = await shop.claim("waits")
        await shop.client.put(shop.keys.run(waits.run_id), waits.entry.to_json())  # re-adopted, the answer lost
        shop.passes(1000)
        await wait_until(lambda: shop.table.get(waits.run_id) is None, description="it is handed on all the same")
        assert await shop.client.get(shop.keys.request(waits.run_id)) is not None
        assert await shop.entry(waits) is None


async def test_run_that_was_given_up_as_lost_is_not_handed_on(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 200, overlap="allow")
        lost = RunRecord(run_id=run.run_id, status=Verdict.LOST)
        await shop.client.put(shop.keys.run(run.run_id), final_entry(lost).to_json())
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.get(run.run_id) is None, description="it is forgotten here")
        entry = await shop.entry(run)
        assert entry is not None
        assert entry.record == lost
        assert await shop.requests() == []


async def test_run_whose_lock_is_anothers_is_not_handed_on_and_says_so(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 200)
        lock = shop.keys.lock("job")
        await shop.client.delete(lock)
        await shop.client.put(lock, b"another run")
        shop.admission.set(Reason.STOP, "stopping")
        shop.dispatcher.wake()
        await wait_until(lambda: shop.table.claimed == 0, description="it is not waited for any more")
        await shop.settled()
        record = shop.spool.records[-1]
        assert (record.run_id, record.status) == (run.run_id, Verdict.MISSED)
        assert record.reason == "claimed, not started: its lock was taken from it"
        assert await shop.requests() == []
        assert await shop.client.get(lock) is not None


async def test_more_than_one_turn_of_starts_is_gone_through(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix, slots=100) as shop:
        runs = [await shop.claim(f"job{number}", plan_ms=NOON + 100) for number in range(50)]
        shop.passes(100)
        await shop.started(*runs)
        assert shop.executor.started == [str(run.run_id) for run in runs]


async def test_claimed_run_that_others_settled_leaves_no_slot_behind(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 100)
        shop.settlement.lost_to_others(run)
        shop.settlement.lost_to_others(run)
        shop.passes(100)
        await quiet(shop)
        assert shop.executor.started == []
        assert shop.table.free_slots == 4


async def test_entry_of_a_claim_names_who_has_it(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        run = await shop.claim()
        entry = await shop.entry(run)
        assert entry == run.entry
        assert entry is not None
        assert (entry.state, entry.worker, entry.instance) == (EntryState.OPEN, "w1", "mine")
        assert entry.lost_after_ms == 300_000


async def test_without_a_guardian_a_due_run_waits_as_for_a_slot_and_starts_once_there_is_one(
    etcd: EtcdServer, prefix: str
) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        shop.guarded = False
        run = await shop.claim()
        shop.passes(500)
        await quiet(shop)
        assert shop.executor.started == []
        assert run.phase is Phase.CLAIMED
        shop.guarded = True
        shop.dispatcher.wake()
        await shop.started(run)


async def test_without_a_guardian_a_run_is_handed_on_to_whoever_can_start_it(etcd: EtcdServer, prefix: str) -> None:
    async with workshop(etcd.endpoint, prefix) as shop:
        shop.guarded = False
        shop.others("w2")
        run = await shop.claim()
        shop.passes(1000)
        await wait_until(lambda: shop.table.get(run.run_id) is None, description="it is handed on")
        assert shop.executor.started == []
