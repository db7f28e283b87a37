"""Requests that nobody takes, as the steward sees them. The clock moves only when told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from common.etcd import Change
from common.stored.request import Origin, Request
from common.stored.run import RunRecord, Verdict, final_entry
from tests.support.stewarding import Office, key_value
from tests.support.working import World
from worker.stewarding.steward import Term

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@pytest.fixture
def office(world: World, term: Term) -> Office:
    return Office(world, term)


async def test_one_claimable_but_unclaimed_for_5_s_is_put_again(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms)
    before = await office.world.etcd.get(office.keys.request(run_id))
    assert before is not None
    await office.see_requests()
    office.clock.advance(6)
    await office.requests.perform(office.term)
    office.join("w1")
    await office.requests.perform(office.term)
    office.clock.advance(6)
    await office.requests.perform(office.term)
    after = await office.world.etcd.get(office.keys.request(run_id))
    assert after is not None
    assert after.mod_revision > before.mod_revision
    assert after.create_revision == before.create_revision


async def test_one_for_which_nobody_has_a_slot_is_left_as_it_is(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms)
    await office.see_requests()
    office.join("w1", free=0)
    for _ in range(3):
        office.clock.advance(6)
        await office.requests.perform(office.term)
    kv = await office.world.etcd.get(office.keys.request(run_id))
    assert kv is not None
    assert kv.version == 1


async def test_a_job_that_this_worker_has_not_seen_yet_is_not_taken_for_deleted(office: Office) -> None:
    job = await office.world.save()
    run_id = await office.world.ask(job, office.now_ms)
    await office.see_requests()
    await office.requests.perform(office.term)
    assert await office.asked() == [run_id]
    assert office.delivered == []


async def test_a_job_that_cannot_be_read_keeps_its_requests_until_they_expire(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    await office.world.ask(job, office.now_ms, expires_ms=office.now_ms + 10_000)
    await office.see_requests()
    office.catalog.on_changes([Change(key=job.key, old_mod=1, new=key_value(job.key, b"garbage"))])
    await office.requests.perform(office.term)
    assert office.delivered == []
    office.clock.advance(11)
    await office.requests.perform(office.term)
    assert [one.status for one in office.delivered] == [Verdict.MISSED]


async def test_requests_that_go_while_it_looks_do_no_harm(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    for number in range(3):
        await office.world.ask(job, office.now_ms + number, expires_ms=office.now_ms - 1)
    await office.see_requests()
    deliver = office.deliver_final

    def vanish(record: RunRecord, revision: int) -> None:
        office.queue.by_job.clear()
        deliver(record, revision)

    office.deliver_final = vanish  # type: ignore[method-assign]
    await office.requests.perform(office.term)
    assert len(office.delivered) == 3


@pytest.mark.parametrize("is_killed", [False, True])
async def test_one_that_is_not_due_yet_is_looked_at_in_its_turn_and_at_once_where_a_kill_waits(
    world: World, term: Term, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("worker.stewarding.stuck_requests._IN_A_TURN", 1)
    office = Office(world, term)  # looks at one in each turn, the newest first
    jobs = [await office.save(mark_ms=office.now_ms, name=name) for name in ("job", "other")]
    later_ms = office.now_ms + 3_600_000
    for job, name in zip(jobs, ("job", "other"), strict=True):
        run_id = await office.world.ask(job, office.now_ms, name=name)
        request = Request(
            run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=office.now_ms,
            dispatch_ms=later_ms, not_before_ms=later_ms,
        )  # fmt: skip
        revision = await world.etcd.put(office.keys.request(run_id), request.to_json())
        office.queue.take(office.keys.request(run_id), replace(request, revision=revision))
    killed = next(iter(office.queue.by_job["job"].values())).run_id
    if is_killed:
        await office.world.kill(killed)
        kv = await office.world.etcd.get(office.keys.kill(killed))
        assert kv is not None
        office.kills.take(kv)
    await office.world.etcd.delete(jobs[0].key)
    office.catalog.on_changes([Change(key=jobs[0].key, old_mod=1, new=None)])
    await office.requests.perform(office.term)
    assert [one.reason for one in office.delivered] == ["before start"] * is_killed
    await office.requests.perform(office.term)
    assert [one.reason for one in office.delivered][:1] == (["before start"] if is_killed else ["deleted"])


async def test_a_request_whose_run_has_been_decided_otherwise_is_no_second_record(office: Office) -> None:
    job = await office.save(mark_ms=office.now_ms)
    run_id = await office.world.ask(job, office.now_ms, expires_ms=office.now_ms - 1)
    record = RunRecord(run_id=run_id, status=Verdict.SKIPPED)
    await office.world.etcd.put(office.keys.run(run_id), final_entry(record).to_json())
    await office.see_requests()
    await office.requests.perform(office.term)
    assert office.delivered == []
