"""How a worker stops, and what takes it down."""

from __future__ import annotations

import signal

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.roster import Left, RosterEntry
from tests.support.cluster import Process
from tests.support.waiting import wait_until
from tests.support.working import Place, SteppingClock, World, working
from worker.record.spool import SpoolError

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


def process_of(place: Place, *flags: str) -> Process:
    directory = place.directory / "w1"
    common = ("--etcd-endpoints", place.etcd, "--key-prefix", place.prefix, "--worker-name", "w1",
              "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
              "--data-dir", str(directory / "data"))  # fmt: skip
    return Process("worker", "w1", directory, (*common, *flags))


async def begin(place: Place, world: World, process: Process, command: str) -> RunId:
    """A run of the process, whose command has begun: one that was only claimed would be handed on by a stop."""
    begun = place.directory / "begun"
    job = await world.save(command=f"touch {begun}; {command}")
    process.start()
    run_id = await world.ask(job, SystemClock().wall_ms())
    await wait_until(begun.exists, description="it runs")
    return run_id


async def test_runs_may_end_within_the_grace(place: Place, world: World) -> None:
    process = process_of(place)
    try:
        run_id = await begin(place, world, process, "sleep 0.5; echo whole")
        assert await process.end(signal.SIGTERM) == 0
        assert (await world.record(run_id))["output"] == "whole\n"
        assert await world.entries() == {}
        assert await world.sessions() == []
    finally:
        process.destroy()


async def test_it_is_remembered_as_stopped(place: Place, world: World) -> None:
    process, key = process_of(place), place.keys.roster_entry("w1")
    try:
        process.start()

        async def is_here() -> bool:
            return await world.has(key)

        await wait_until(is_here, description="the steward, itself, remembers it")
        assert await process.end(signal.SIGTERM) == 0
        kv = await world.etcd.get(key)
        assert kv is not None
        assert RosterEntry.from_json(kv.value, worker="w1").left is Left.STOPPED
    finally:
        process.destroy()


async def test_what_outlives_the_grace_is_killed_with_the_reason(place: Place, world: World) -> None:
    process = process_of(place, "--shutdown-grace-seconds", "1")
    try:
        run_id = await begin(place, world, process, "sleep 60")
        assert await process.end(signal.SIGTERM) == 0
        record = await world.record(run_id)
        assert (record["status"], record["reason"]) == ("killed", "worker shutdown")
        assert await world.entries() == {}
        assert not await world.has(world.keys.lock("job"))
    finally:
        process.destroy()


async def test_a_second_signal_hurries(place: Place, world: World) -> None:
    process = process_of(place, "--shutdown-grace-seconds", "600")
    try:
        run_id = await begin(place, world, process, "sleep 60")
        assert process.popen is not None
        process.popen.send_signal(signal.SIGTERM)
        await wait_until(lambda: "stopping" in process.log, description="it stops")
        assert await process.end(signal.SIGTERM) == 0
        assert (await world.record(run_id))["reason"] == "worker shutdown"
    finally:
        process.destroy()


async def test_a_loop_that_dies_takes_the_process_down(place: Place) -> None:
    with pytest.raises(ExceptionGroup) as raised:  # noqa: PT012
        async with working(place) as worker:
            await worker.deciding()

            def fail(*_: object) -> None:
                raise RuntimeError("nobody foresaw this")

            worker.parts.guardian.tick = fail  # type: ignore[method-assign]
            await wait_until(worker.task.done, description="it is over")
    assert raised.group_contains(RuntimeError, match="nobody foresaw this", depth=1)


async def test_a_jump_of_the_wall_clock_is_noticed(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    class Jumping(SteppingClock):
        jump_ms = 0

        def wall_ms(self) -> int:
            return super().wall_ms() + self.jump_ms

    clock = Jumping()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        clock.jump_ms = 30_000
        worker.parts.clock_watch.look()
        worker.parts.clock_watch.look()
        assert caplog.text.count("the clock jumped by") == 1


async def test_a_spool_that_takes_records_again_is_found_out_by_itself(place: Place, world: World) -> None:
    job = await world.save()
    async with working(place) as worker:
        await worker.deciding()
        watch, spool = worker.parts.spool_watch, worker.agent._spool
        watch._every_s = 0.05
        full = True

        async def try_out() -> None:
            if full:
                raise SpoolError("the disk is full")
            await spool.try_out()

        watch._try_out = try_out
        watch.note("the disk is full")
        await wait_until(lambda: not worker.is_deciding(), description="it takes no fires")
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert not worker.is_deciding()
        full = False
        assert (await world.record(run_id))["status"] == "success"
        assert worker.parts.registry.not_accepting is None
        assert not (spool.directory / "trial").exists()
