"""What is out of touch for too long is ended before its lock can pass on. The clock moves only when told."""

from __future__ import annotations

from typing import Any

import pytest

from common.clock import SystemClock
from common.keys import RunId
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, Working, World, working
from worker.deadlines import REASON

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def run_of(worker: Working, world: World, name: str, **fields: Any) -> RunId:
    job = await world.save(name, "sleep 60", killGraceSeconds=1, **fields)
    run_id = await world.ask(job, SystemClock().wall_ms(), name=name)
    await wait_until(lambda: run_id in worker.running(), description=f"{name} runs")
    return run_id


async def test_only_what_holds_a_lock_is_ended_and_not_before_its_time(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppingClock()
    async with working(place, clock=clock, lease_ttl_s=600) as worker:
        await worker.deciding()
        short = await run_of(worker, world, "short", lostAfterSeconds=100)
        await run_of(worker, world, "usual")
        await run_of(worker, world, "never", lostAfterSeconds="never")
        await run_of(worker, world, "allow", lostAfterSeconds=100, overlap="allow")
        running = worker.parts.executor.running
        confirmed = worker.session.confirmed_boottime
        clock.advance(confirmed + 100 - 1 - 2 - 0.5 - clock.boottime())
        worker.parts.deadlines.look()
        assert [run_id for run_id, one in running.items() if one.ending is not None] == []
        clock.advance(1)
        worker.parts.deadlines.look()
        worker.parts.deadlines.look()
        assert [run_id for run_id, one in running.items() if one.ending is not None] == [short]
        assert caplog.text.count(f"is ended: {REASON}") == 1
        record = await world.record(short)
        assert (record["status"], record["reason"]) == ("killed", REASON)


async def test_a_run_that_is_being_killed_is_not_said_to_be_out_of_touch(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SteppingClock()
    async with working(place, clock=clock, lease_ttl_s=600) as worker:
        await worker.deciding()
        run_id = await run_of(worker, world, "job")
        await world.kill(run_id)
        running = worker.parts.executor.running
        await wait_until(
            lambda: run_id not in running or running[run_id].ending is not None, description="it is being ended"
        )
        clock.advance(1000)
        worker.parts.deadlines.look()
        assert REASON not in caplog.text
