"""Requests that nobody takes, as the steward sees them. The clock moves only when told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.etcd import Change
from common.protocol.keys import RunId, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.run import RunRecord, final_entry
from common.protocol.txn import Delete, KeyValue, Operation, Put
from common.verdicts import Verdict
from tests.support.meeting import Meeting
from tests.support.stewarding import HOUR, SECOND, Office, key_value
from tests.support.working import World
from worker.lead.leader import Term

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@pytest.fixture
def office(world: World, term: Term, meeting: Meeting) -> Office:
    return Office(replace(world, etcd=meeting), term)


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
    assert await office.world.has(office.keys.run(office.delivered[0].run_id)), "also should this steward die now"


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


async def test_so_many_end_in_a_turn_and_one_that_cannot_be_ended_holds_up_no_other(
    world: World, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.lead.stuck_requests._ENDED_IN_ONE_TURN", 2)
    office = Office(world, term)
    job = await office.save(mark_ms=office.now_ms)
    asked = [await world.ask(job, office.now_ms + number, expires_ms=office.now_ms - 1) for number in range(6)]
    decided, others = {*asked[:2], *asked[4:]}, set(asked[2:4])
    for run_id in decided:
        entry = final_entry(RunRecord(run_id=run_id, status=Verdict.SKIPPED))
        await world.etcd.put(office.keys.run(run_id), entry.to_json())
    await office.see_requests()
    ended = []
    for _ in range(3):
        await office.requests.perform(term)
        ended.append(len(office.delivered))
    assert {one.run_id for one in office.delivered} == others
    assert ended == [0, 2, 2]


async def test_those_that_are_not_due_yet_end_in_a_later_turn_than_they_are_looked_at(
    world: World, term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.lead.stuck_requests._IN_A_TURN", 2)
    monkeypatch.setattr("worker.lead.stuck_requests._ENDED_IN_ONE_TURN", 1)
    office = Office(world, term)
    for name in ("a", "b", "c", "d"):
        job = await office.save(mark_ms=office.now_ms, name=name)
        await ask_for_later(office, job, name)
        await world.etcd.delete(job.key)
        office.catalog.on_changes([Change(key=job.key, old_mod=1, new=None)])
    for ended in range(1, 5):
        await office.requests.perform(term)
        assert len(office.delivered) == ended
        await office.see_requests()


async def ask_for_later(office: Office, job: KeyValue, name: str) -> None:
    """A request whose time comes in an hour."""
    run_id = await office.world.ask(job, office.now_ms, name=name)
    later_ms = office.now_ms + 3_600_000
    request = Request(
        run_id=run_id, origin=Origin.OFFERED, job_create_revision=job.create_revision, plan_ms=office.now_ms,
        dispatch_ms=later_ms, not_before_ms=later_ms,
    )  # fmt: skip
    revision = await office.world.etcd.put(office.keys.request(run_id), request.to_json())
    office.queue.take(office.keys.request(run_id), replace(request, revision=revision))


@pytest.mark.parametrize("is_killed", [False, True])
async def test_one_that_is_not_due_yet_is_looked_at_in_its_turn_and_at_once_where_a_kill_waits(
    world: World, term: Term, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr("worker.lead.stuck_requests._IN_A_TURN", 1)
    office = Office(world, term)  # looks at one in each turn, the newest first
    jobs = [await office.save(mark_ms=office.now_ms, name=name) for name in ("job", "other")]
    for job, name in zip(jobs, ("job", "other"), strict=True):
        await ask_for_later(office, job, name)
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


# What happens between a look and the write that follows from it


async def waiting(office: Office, why: str) -> Request:
    """A request that cannot run any more, and that the steward has seen."""
    etcd, keys, now_ms = office.world.etcd, office.keys, office.now_ms
    fields: dict[str, Any] = {"after": "1h"} if why == "killed link" else {}
    job = await office.save(
        SECOND if why == "overtaken" else HOUR, mark_ms=now_ms - 10_000, enabled=why != "paused", **fields
    )
    request = Request(
        run_id=RunId.planned("job", now_ms - 10_000), origin=Origin.OFFERED, plan_ms=now_ms - 10_000,
        job_create_revision=job.create_revision, dispatch_ms=now_ms - 10_000, not_before_ms=now_ms - 10_000,
    )  # fmt: skip
    match why:
        case "expired":
            request = replace(request, expires_ms=now_ms - 1)
        case "deleted":
            await etcd.delete(job.key)
            office.catalog.on_changes([Change(key=job.key, old_mod=1, new=None)])
        case "made again":
            request = replace(request, job_create_revision=job.create_revision - 1)
        case "overtaken":
            request = replace(request, origin=Origin.RETRY, mark_ms=now_ms - 10_000)
            await etcd.put(keys.mark("job"), encode_mark(now_ms))
        case "job changed":
            request = replace(request, args=("a",), scope="as it was")
        case "killed link":
            request = replace(request, origin=Origin.CHAIN)
        case _:
            pass  # paused as it was saved, or killed below
    if why.startswith("killed"):
        await office.world.kill(request.run_id)
        kill = await etcd.get(keys.kill(request.run_id))
        assert kill is not None
        office.kills.take(kill)
    await etcd.put(request.key(keys), request.to_json())
    await office.see_requests()
    return request


def meanwhile(what: str, office: Office, request: Request) -> list[Operation]:
    """What somebody else does."""
    keys, job_key = office.keys, office.keys.job("job")
    match what:
        case "another steward":
            return [Delete(keys.steward)]
        case "put again":
            return [Put(request.key(keys), request.to_json())]
        case "saved" | "edited":
            return [Put(job_key, b"another spec")]
        case "made again":
            return [Delete(job_key), Put(job_key, b"another job")]
        case _:
            assert what == "killed anew"
            kill = keys.kill(request.run_id)
            return [Delete(kill), Put(kill, b"another kill")]


@pytest.mark.parametrize(
    ("why", "what"),
    [
        ("expired", "another steward"), ("expired", "put again"), ("deleted", "saved"), ("paused", "edited"),
        ("made again", "made again"), ("killed", "killed anew"), ("overtaken", "edited"), ("job changed", "edited"),
        ("killed link", "edited"),
    ],
)  # fmt: skip
async def test_a_request_ends_only_if_all_is_as_it_was_when_looked_at(
    office: Office, meeting: Meeting, why: str, what: str
) -> None:
    request = await waiting(office, why)
    await meeting.writes_nothing(
        office.world.place.prefix, lambda: office.requests.perform(office.term),
        after=[meanwhile(what, office, request)],
    )  # fmt: skip
    assert office.delivered == []


@pytest.mark.parametrize("what", ["another steward", "put again"])
async def test_a_request_is_put_again_only_if_it_is_as_it_was_when_looked_at(
    office: Office, meeting: Meeting, what: str
) -> None:
    request = await waiting(office, "nothing stands in its way")
    office.join("w1")
    await office.requests.perform(office.term)
    office.clock.advance(6)
    await meeting.writes_nothing(
        office.world.place.prefix, lambda: office.requests.perform(office.term),
        after=[meanwhile(what, office, request)],
    )  # fmt: skip
