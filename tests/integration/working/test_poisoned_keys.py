"""A bad key, under whatever prefix, takes down neither worker nor steward, and keeps no job from its runs."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId, Watched
from common.protocol.txn import Put, Txn
from tests.support.poison import PREFIXES, poison
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.lead.lost_runs import FINAL_PATIENCE_S, SCAN_S
from worker.lead.sweeping import COMPARE_EVERY_S

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def test_poison_under_every_prefix_harms_nobody_else(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "worker.lead.leader")
    await asyncio.gather(*(poison(world.etcd, place.prefix, prefix) for prefix in PREFIXES))
    clock = SteppingClock()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        steward = worker.parts.steward
        await wait_until(lambda: steward.leading, description="it leads, although somebody else's key was in its way")
        job = await world.save()
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert (await world.record(run_id))["status"] == "success"
        # Once more, each under the eyes of watches that are going; then the duties that come up rarely.
        for prefix in PREFIXES:
            await poison(world.etcd, place.prefix, prefix)
        lost = await world.open_run(name="orphan", session="123abc", lost_after_ms=1000)
        await world.save("orphan")
        clock.advance(COMPARE_EVERY_S + 1)
        assert (await world.record(world.keys.run_of(lost.key)))["status"] == "lost"
        await worker.deciding()
        run_id = await world.ask(job, SystemClock().wall_ms() + 1)
        assert (await world.record(run_id))["status"] == "success"
        await wait_until(lambda: steward.leading, description="it leads")
    assert "does not stand for steward" not in caplog.text
    assert not [one for one in caplog.records if getattr(one, "action", "") == "steward.failed"]
    said = Counter(one.getMessage() for one in caplog.records if getattr(one, "action", "").endswith("set_aside"))
    assert said, "and is said"
    terms = [one for one in caplog.records if getattr(one, "action", "") == "steward.begins"]
    assert max(said.values()) <= 1 + len(terms), "once each time that it is put there, and by a new steward"
    assert not [one.getMessage() for one in caplog.records if one.exc_info], "each is foreseen: no traceback"
    caplog.text.encode()  # no line that cannot be written


async def test_a_request_for_a_time_that_is_no_date_ends_no_worker(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        job = await world.save()
        times = {"planMs": 10**17, "dispatchMs": 0, "notBeforeMs": 0}
        asked = {"origin": "runNow", "jobCreateRevision": job.create_revision, "trigger": "api", **times}
        odd = world.keys.request(RunId("job", "r-1"))
        await world.etcd.txn(
            Txn([], [Put(odd, json.dumps(asked).encode()), Put(world.keys.seen(Watched.REQUESTS), b"")])
        )
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert (await world.record(run_id))["status"] == "success"
        assert await world.has(odd), "nobody has claimed it"
        assert not worker.task.done()


async def test_run_keys_that_are_nearly_ours_end_no_worker_and_no_term(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    record = {"_id": "job@1#1", "jobName": "job", "status": "skipped", "planTime": 1, "count": "many"}
    final = {"state": "final", "planMs": 1, "record": record}
    await world.etcd.put(world.keys.run(RunId("job", "1")), json.dumps(final).encode())
    nobodys = {"state": "open", "worker": "\ud800", "session": "1", "lostAfterMs": 1000}
    await world.etcd.put(world.keys.run(RunId("job", "2")), json.dumps(nobodys).encode())
    open_ones: list[dict[str, object]] = [
        {"session": "a", "lostAfterMs": 10**400}, {"session": "b" * 1_400_000}, {"session": "c", "planMs": 10**17},
    ]  # fmt: skip
    for number, odd in enumerate(open_ones, 3):
        value = {"state": "open", "worker": "w", "instance": "i", "lostAfterMs": 1000, **odd}
        await world.etcd.put(world.keys.run(RunId("job", str(number))), json.dumps(value).encode())
    clock = SteppingClock()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        steward = worker.parts.steward
        await wait_until(lambda: steward.leading, description="it leads")
        await world.save("orphan")
        lost = await world.open_run(name="orphan", lost_after_ms=1000)
        clock.advance(SCAN_S)
        await asyncio.sleep(1)  # it looks at what there is
        clock.advance(FINAL_PATIENCE_S)
        assert (await world.record(world.keys.run_of(lost.key)))["status"] == "lost"
        assert not worker.task.done()
        assert steward.leading
    assert "does not stand for steward" not in caplog.text
    assert await world.has(world.keys.run(RunId("job", "1")))


async def test_a_document_that_is_no_record_keeps_no_steward_from_its_verdict(place: Place, world: World) -> None:
    job = await world.save()
    lost = await world.open_run(lost_after_ms=1000)
    run_id = world.keys.run_of(lost.key)
    odd = {"_id": str(run_id), "jobName": "job", "attempt": 1, "status": "of a later version"}
    await world.runlog._log.insert_one(odd)
    async with working(place) as worker:
        await worker.deciding()

        async def is_settled() -> bool:
            return not await world.has(world.keys.lock("job")) and not await world.has(lost.key)

        await wait_until(is_settled, description="its lock is free, and its key gone")
        assert worker.parts.steward.leading
        later = await world.ask(job, SystemClock().wall_ms())
        assert (await world.record(later))["status"] == "success"
    assert await world.runlog.run(str(run_id)) == odd
