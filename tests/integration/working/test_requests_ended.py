"""The steward ends a request that cannot run any more: with a record, and, of a chain, with its next link."""

from __future__ import annotations

from typing import Any

import pytest

from common.clock import SystemClock
from common.jobs.reader import parse_job
from common.protocol.dedupe import Remembered
from common.protocol.keys import RunId, Watched, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.run import Trigger
from common.protocol.saved_job import SavedJob
from common.protocol.txn import KeyValue, Put, Txn
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.lead.leader import Term
from worker.lead.sweeping import MARGIN_MS, DedupeSweeping

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

HOUR_MS = 3_600_000


def now_ms() -> int:
    return SystemClock().wall_ms()


async def save_after(world: World, **fields: Any) -> KeyValue:
    """An ``after`` job whose lock somebody holds, so that nothing of it starts."""
    spec = parse_job({"name": "job", "command": "true", "after": "1h", **fields})
    keys = world.keys
    await world.etcd.txn(Txn([], [
        Put(keys.job("job"), SavedJob(spec=spec, anchor_ms=now_ms()).to_json()),
        Put(keys.mark("job"), encode_mark(now_ms())), Put(keys.seen(Watched.JOBS), b""),
        Put(keys.lock("job"), b"job@5#1"),
    ]))  # fmt: skip
    kv = await world.etcd.get(keys.job("job"))
    assert kv is not None
    return kv


def request(job: KeyValue, origin: Origin, attempt: int = 1, **changes: Any) -> Request:
    plan_ms = now_ms()
    return Request(
        run_id=RunId.planned("job", plan_ms, attempt), origin=origin, job_create_revision=job.create_revision,
        plan_ms=plan_ms, dispatch_ms=plan_ms, not_before_ms=plan_ms, **changes,
    )  # fmt: skip


async def link(world: World) -> Request | None:
    kv = await world.etcd.get(world.keys.chain("job"))
    return None if kv is None else Request.from_json(kv.value, run_id=world.keys.run_of(kv.key))


@pytest.mark.parametrize("origin", [Origin.CHAIN, Origin.RETRY, Origin.HANDED_ON])
async def test_the_chain_goes_on_where_its_run_is_killed_before_its_start(
    place: Place, world: World, origin: Origin
) -> None:
    job = await save_after(world)
    asked = request(job, origin, 2 if origin is Origin.RETRY else 1)
    async with working(place) as worker:
        await worker.deciding()
        await world.etcd.put(asked.key(world.keys), asked.to_json())
        await world.kill(asked.run_id)
        record = await world.record(asked.run_id)
        assert (record["status"], record["reason"], record["by"]) == ("killed", "before start", "me")
        assert record["err"] == "killed by me before start: enough"
        following = await link(world)
        assert following is not None
        assert following.plan_ms == record["endTime"] + HOUR_MS
        if origin is not Origin.CHAIN:
            assert not await world.has(asked.key(world.keys))


async def test_the_chain_of_a_paused_job_ends_with_its_link(place: Place, world: World) -> None:
    job = await save_after(world, enabled=False)
    asked = request(job, Origin.CHAIN)
    async with working(place) as worker:
        await worker.deciding()
        await world.etcd.put(asked.key(world.keys), asked.to_json())
        assert (await world.record(asked.run_id))["reason"] == "paused"
        assert await link(world) is None


async def test_a_link_never_expires(place: Place, world: World) -> None:
    job = await save_after(world)
    asked = request(job, Origin.CHAIN, expires_ms=now_ms() - HOUR_MS)
    async with working(place) as worker:
        await worker.deciding()
        await world.etcd.put(asked.key(world.keys), asked.to_json())
        await world.etcd.delete(world.keys.lock("job"))
        assert (await world.record(asked.run_id))["status"] == "success"


async def test_the_record_says_who_asked_when_and_for_what(place: Place, world: World) -> None:
    job = await world.save()
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")
    asked = Request(
        run_id=RunId("job", "r-1"), origin=Origin.RUN_NOW, job_create_revision=job.create_revision, plan_ms=7,
        dispatch_ms=7, not_before_ms=7, create_ms=5, trigger=Trigger.MANUAL, by="ann", note="why", args=("a b",),
    )  # fmt: skip
    async with working(place) as worker:
        await worker.deciding()
        await world.etcd.put(asked.key(world.keys), asked.to_json())
        by_job = worker.parts.requests.by_job
        await wait_until(lambda: "job" in by_job, description="it is seen")
        await world.etcd.delete(world.keys.job("job"))
        record = await world.record(asked.run_id)
    told = {name: record[name] for name in ("status", "reason", "by", "note", "trigger", "createTime", "planTime")}
    assert told == {
        "status": "skipped", "reason": "deleted", "by": "ann", "note": "why", "trigger": "manual", "createTime": 5,
        "planTime": 7,
    }  # fmt: skip


async def test_dedupe_keys_go_a_while_after_their_time(world: World, term: Term) -> None:
    clock = SteppingClock()
    sweeping = DedupeSweeping(client=world.etcd, keys=world.keys, clock=clock)
    later = Remembered(expires_ms=clock.wall_ms() + HOUR_MS, status=202)
    for number in range(150):
        over = Remembered(expires_ms=clock.wall_ms() + number % 2, status=202)
        await world.etcd.put(world.keys.deduped("job", f"{number:03d}"), over.to_json())
    await world.etcd.put(world.keys.deduped("job", "later"), later.to_json())
    await world.etcd.put(world.keys.deduped("job", "garbage"), b"x")
    sweeping.begin()
    await sweeping.perform(term)
    assert await world.etcd.count(world.keys.dedupe) == 152
    clock.advance(MARGIN_MS / 1000 + 30)
    await sweeping.perform(term)
    assert await world.etcd.count(world.keys.dedupe) == 2
    await world.etcd.delete(world.keys.deduped("job", "garbage"))
    clock.advance(2 * HOUR_MS / 1000)
    await world.etcd.delete(term.election.leads_compare.key)
    await sweeping.perform(term)
    assert await world.etcd.count(world.keys.dedupe) == 1, "who is no steward any more changes nothing"


async def test_a_dedupe_key_that_is_put_anew_meanwhile_stays(world: World, term: Term, meeting: Meeting) -> None:
    clock = SteppingClock()
    sweeping = DedupeSweeping(client=meeting, keys=world.keys, clock=clock)
    key, over = world.keys.deduped("job", "it"), Remembered(expires_ms=clock.wall_ms() - 2 * MARGIN_MS, status=202)
    await world.etcd.put(key, over.to_json())
    sweeping.begin()
    await meeting.writes_nothing(
        world.place.prefix, lambda: sweeping.perform(term), after=[[Put(key, b"of another call")]]
    )
