"""Fires that a wrong clock had decided before their time, and that an unblocking lets run at it."""

from __future__ import annotations

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId, Watched, encode_mark
from common.protocol.saved_job import Again, SavedJob
from common.protocol.txn import Delete, Put, Txn
from tests.support.open_runs import record_of
from tests.support.working import Place, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def test_they_run_once_under_the_next_attempt_but_for_those_that_were_started(place: Place, world: World) -> None:
    """The older record of each stands where it stood, and is no reason to think that the fire was decided."""
    await world.save(cron="* * * * * * *", command="exit 3", overlap="allow", retry={"limit": 1, "delaySeconds": 0})
    key = world.keys.job("job")
    job = await world.etcd.get(key)
    assert job is not None
    saved = SavedJob.from_json(job.value, name="job")
    await world.etcd.txn(Txn([], [Delete(key), Put(world.keys.seen(Watched.JOBS), b"")]))
    async with working(place) as worker:
        await worker.deciding()  # what was due before it was there has no grace
        begin_ms = (SystemClock().wall_ms() // 1000 + 2) * 1000
        first, started, last, after = (begin_ms + number * 1000 for number in range(4))
        await world.runlog.write([record_of(RunId.planned("job", ms), plan_ms=ms) for ms in (first, started, last)])
        again = Again(until_ms=last, attempt=2, started={"": ((started, started),)})
        value = SavedJob(spec=saved.spec, anchor_ms=begin_ms - 1000, again=again).to_json()
        await world.etcd.txn(Txn([], [
            Put(key, value), Put(world.keys.mark("job"), encode_mark(begin_ms - 1000)),
            Put(world.keys.seen(Watched.JOBS), b""),
        ]))  # fmt: skip
        for plan_ms, attempt in ((first, 2), (first, 3), (last, 2), (last, 3), (after, 1), (after, 2)):
            assert (await world.record(RunId.planned("job", plan_ms, attempt)))["status"] == "failed"
        assert await world.runlog.run(str(RunId.planned("job", started, 2))) is None
        assert await world.runlog.run(str(RunId.planned("job", last, 4))) is None
    mark = await world.etcd.get(world.keys.mark("job"))
    assert mark is not None
    assert mark.value >= encode_mark(after)
