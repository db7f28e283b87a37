"""Workers whose clock is off: they decide nothing, say why, and go on by themselves once it is mended."""

from __future__ import annotations

import pytest

from common.clock import SystemClock
from common.protocol.clocks import Clocks
from common.protocol.keys import RunId, decode_mark, encode_mark
from tests.support.clocks import OffClock, beat_beside, say_clocks
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.launch import Launch
from worker.run.spawner import Spawner, Start

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

AHEAD = "its clock is 30.0 s ahead of the others' (at most 250 ms): mend the clock (NTP)"


async def say(world: World, worker: Working, offset_ms: int) -> None:
    """A steward has measured this worker's clock."""
    await say_clocks(world.etcd, world.keys, {"w1": (worker.parts.clock_watch, offset_ms)})
    await worker.parts.clock_check.look()


async def test_worker_found_off_before_its_first_decision_takes_nothing_until_it_is_mended(
    place: Place, world: World
) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    await say_clocks(world.etcd, world.keys)
    job, clock = await world.save(), OffClock(30_000)
    async with working(place, clock=clock) as worker:
        await wait_until(lambda: worker.parts.registry.session is not None, description="it has a session")

        async def says_so() -> bool:
            beat = await world.etcd.get(world.keys.beat("w1"))
            return beat is not None and b"decides nothing before its clock has been compared" in beat.value

        await wait_until(says_so, description="its beat says what it waits for")
        await say(world, worker, 30_000)
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it would decide by now")
        assert not worker.is_deciding()
        assert worker.parts.registry.not_accepting == AHEAD
        assert AHEAD.encode() in (await world.sessions())[0].value
        run_id = await world.ask(job, SystemClock().wall_ms())
        clock.offset_ms = -249
        worker.parts.clock_watch.look()
        await say(world, worker, -249)
        assert (await world.record(run_id))["status"] == "success"
        assert worker.parts.registry.not_accepting is None
        assert worker.agent.describe().problem is None


async def test_running_commands_go_on_while_the_clock_is_off(place: Place, world: World) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    job = await world.save(command="until [ -e go ]; do sleep 0.02; done; echo whole", workdir=str(place.directory))
    async with working(place) as worker:
        await worker.deciding()
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: run_id in worker.running(), description="it runs")
        await say(world, worker, 30_000)
        assert not worker.is_deciding()
        (place.directory / "go").touch()
        assert (await world.record(run_id))["output"] == "whole\n"
        assert not worker.is_deciding()


@pytest.mark.parametrize("left_ms", [50, 600])
async def test_jump_back_on_the_way_to_a_start_makes_it_wait_for_its_time(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch, left_ms: int
) -> None:
    """Within the skew that is allowed (unless the start is late), and beyond it."""
    clock, execute = OffClock(), Spawner.execute
    tried: list[Launch] = []

    def jumping(spawner: Spawner, start: Start) -> None:
        launch = start.launch
        assert launch.not_before_ms is not None
        if not tried:
            clock.offset_ms -= clock.wall_ms() - launch.not_before_ms + left_ms
        tried.append(launch)
        execute(spawner, start)

    monkeypatch.setattr(Spawner, "execute", jumping)
    job = await world.save(command="echo once")
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        plan_ms = clock.wall_ms() + 100
        record = await world.record(await world.ask(job, plan_ms))
        assert (record["output"], len(tried)) == ("once\n", 2)
        assert record["startTime"] >= plan_ms
        await wait_until(lambda: not len(worker.parts.table), description="nothing is left of it")
        assert not worker.parts.guardian._open
    assert len(await world.records()) == 1


@pytest.mark.parametrize("by_ms", [-30_000, 30_000])
async def test_jump_during_a_run_dates_neither_its_end_nor_what_follows(place: Place, world: World, by_ms: int) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    command = "until [ -e go ]; do sleep 0.02; done"
    job, clock = await world.save(after="10s", command=command, workdir=str(place.directory)), OffClock()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        await say(world, worker, 0)
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: run_id in worker.running(), description="it runs")
        clock.offset_ms = by_ms
        before_ms = SystemClock().wall_ms()
        (place.directory / "go").touch()
        record = await world.record(run_id)
        assert before_ms <= record["endTime"] <= SystemClock().wall_ms()

        async def follows() -> bool:
            link = await world.link()
            return link is not None and link.plan_ms == record["endTime"] + 10_000

        await wait_until(follows, description="the next link is due ten seconds after that end")


async def test_jump_stops_it_until_a_comparison_made_after_it(place: Place, world: World) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    clock = OffClock()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        await say(world, worker, 0)
        before, clock.offset_ms = worker.parts.clock_watch, 30_000
        old_name = before.name
        assert worker.parts.scheduler._clock.wall_ms() > SystemClock().wall_ms() + 29_000
        assert not worker.is_deciding()  # whoever reads the clock decides nothing by it
        await worker.parts.clock_check.look()
        fault = "its clock jumped 30.0 s ahead, and has not been compared with the others' since"
        assert worker.parts.registry.not_accepting == fault
        assert worker.parts.clock_watch.name != old_name
        await say(world, worker, 30_000)
        assert worker.parts.registry.not_accepting == AHEAD
        clock.offset_ms = 35_000
        await worker.parts.clock_check.look()
        assert worker.parts.registry.not_accepting == fault.replace("30.0", "5.0")
        await say(world, worker, 3)
        await wait_until(worker.is_deciding, description="it decides again")


@pytest.mark.parametrize("reading", [2, 3, 4])
async def test_jump_while_the_parts_of_a_worker_are_made_is_noticed(place: Place, reading: int) -> None:
    class Jumping(OffClock):
        readings = 0

        def wall_ms(self) -> int:
            self.readings += 1
            self.offset_ms = 30_000 if self.readings >= reading else 0
            return super().wall_ms()

    async with working(place, clock=Jumping()) as worker:
        watch = worker.parts.clock_watch
        await wait_until(lambda: watch.name.endswith(".1"), description="the jump is noticed")
        await worker.deciding()


@pytest.mark.parametrize("count", [None, 2])
async def test_jump_of_a_clock_that_nobody_compares_counts_as_right_at_once(
    place: Place, world: World, count: int | None
) -> None:
    if count is not None:
        await say_clocks(world.etcd, world.keys, count=count)
    job, clock = await world.save(), OffClock()
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        clock.offset_ms = 30_000
        worker.parts.clock_watch.look()
        await wait_until(worker.is_deciding, description="it decides by the clock as it is")
        assert worker.parts.registry.not_accepting is None
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert (await world.record(run_id))["status"] == "success"


async def test_without_a_comparison_for_150_s_it_only_warns(place: Place, world: World) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    async with working(place) as worker:
        await worker.deciding()
        await say(world, worker, 30_000)
        check = worker.parts.clock_check
        await world.etcd.delete(world.keys.clocks)
        await check.look()
        assert check.fault == AHEAD
        check._fresh_s -= 30.1
        await check.look()
        assert check.fault == AHEAD
        check._doubted_s -= 120.1
        await check.look()
        assert check.fault is None
        assert check.clocks is None
        await wait_until(worker.is_deciding, description="it decides again")


async def test_what_it_was_off_for_is_not_owed_by_its_own_sequences(place: Place, world: World) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    await say_clocks(world.etcd, world.keys)
    await world.save(cron="0 0 0 1 1 * 2199", broadcast=True)
    own_mark = world.keys.mark("job~w1")
    clock = OffClock(30_000)
    async with working(place, clock=clock) as worker:
        await wait_until(lambda: worker.parts.registry.session is not None, description="it has a session")
        await say(world, worker, 30_000)
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it would decide by now")
        assert not await world.has(own_mark)  # a wrong clock has moved no mark
        clock.offset_ms = 0
        worker.parts.clock_watch.look()
        await say(world, worker, 0)
        await wait_until(lambda: world.has(own_mark), description="it begins")


@pytest.mark.parametrize("by_ms", [-7_200_000, 7_200_000])
async def test_clock_that_is_set_while_a_session_opens_moves_no_mark_of_its_own_sequences(
    place: Place, world: World, by_ms: int
) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    await say_clocks(world.etcd, world.keys)
    began_ms = SystemClock().wall_ms()
    await world.save(cron="0 0 0 1 1 * 2199", broadcast=True, mark_ms=began_ms - 86_400_000)
    own_mark = world.keys.mark("job~w1")
    clock = OffClock(-by_ms)
    async with working(place, clock=clock) as worker:
        await wait_until(lambda: worker.parts.clock_check.awaited is not None, description="it waits for a comparison")
        clock.offset_ms = 0
        worker.parts.clock_watch.look()
        await say(world, worker, 0)
        await worker.deciding()
        await wait_until(lambda: world.has(own_mark), description="it begins")
        mark = await world.etcd.get(own_mark)
        assert mark is not None
        assert began_ms <= decode_mark(mark.value) <= SystemClock().wall_ms()


async def test_lost_run_of_a_former_life_waits_for_a_clock_by_which_it_and_what_follows_may_be_dated(
    place: Place, world: World
) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    await say_clocks(world.etcd, world.keys)
    job = await world.save(after="600s")
    (place.directory / "w1").mkdir()
    (place.directory / "w1" / "instance").write_text("inst")
    left = await world.open_run(worker="w1", instance="inst", lost_after_ms=300_000, revision=job.mod_revision)
    clock = OffClock(7_200_000)
    async with working(place, clock=clock) as worker:
        await wait_until(lambda: worker.parts.clock_check.awaited is not None, description="it waits for a comparison")
        assert await world.etcd.get(left.key) == left
        await say(world, worker, 7_200_000)
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it would decide by now")
        assert await world.etcd.get(left.key) == left, "not under the new session: a steward may settle it"
        clock.offset_ms = 0
        worker.parts.clock_watch.look()
        await say(world, worker, 0)
        record = await world.record(world.keys.run_of(left.key))
        assert (record["reason"], record["endTime"] <= SystemClock().wall_ms()) == ("worker restarted", True)
        link = await world.link()
        assert link is not None
        assert link.plan_ms <= SystemClock().wall_ms() + 600_000


async def test_clock_that_is_set_back_after_a_session_was_opened_puts_no_own_mark_ahead(
    place: Place, world: World
) -> None:
    cron, clock = "0 0 0 1 1 * 2199", OffClock(7_200_000)
    await world.save("before", cron=cron, broadcast=True)
    own_marks = [world.keys.mark(f"{name}~w1") for name in ("before", "later")]

    async def mark(key: str) -> int:
        await wait_until(lambda: world.has(key), description="its sequence has begun")
        kv = await world.etcd.get(key)
        assert kv is not None
        return decode_mark(kv.value)

    async with working(place, clock=clock) as worker:
        await worker.deciding()
        assert await mark(own_marks[0]) > SystemClock().wall_ms(), "nothing has shown yet that the clock is ahead"
        clock.offset_ms = 0
        worker.parts.clock_watch.look()
        await world.save("later", cron=cron, broadcast=True)
        assert await mark(own_marks[1]) <= SystemClock().wall_ms()
        await world.etcd.put(own_marks[0], encode_mark(SystemClock().wall_ms()))  # as unblocking does
        unblocked = await world.save("before", cron=cron, broadcast=True)
        sequences = worker.parts.catalog.sequences
        await wait_until(
            lambda: sequences["before"].revision == unblocked.mod_revision, description="it is open at that revision"
        )
        assert await mark(own_marks[0]) <= SystemClock().wall_ms()


async def test_garbage_in_the_comparison_is_set_aside_once(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await beat_beside(world.etcd, world.keys, "p1", "p2")
    async with working(place) as worker:
        await worker.deciding()
        await say(world, worker, 30_000)
        await world.etcd.put(world.keys.clocks, b"\xff")
        for _ in range(3):
            await worker.parts.clock_check.look()
        assert worker.parts.registry.not_accepting == AHEAD
        assert caplog.text.count("is set aside") == 1


async def test_three_workers_find_out_which_of_them_is_wrong_and_the_steward_that_is_leaves_its_office(
    place: Place, world: World
) -> None:
    clock = OffClock(30_000)
    async with working(place, "w1", clock=clock) as wrong:
        await wait_until(lambda: wrong.parts.steward.leading, description="the wrong one is the steward")
        async with working(place, "w2") as second, working(place, "w3") as third:
            right = (second, third)

            async def is_told() -> bool:
                kv = await world.etcd.get(world.keys.clocks)
                return kv is not None and len(Clocks.from_json(kv.value).measured) == 3

            await wait_until(is_told, description="all three are compared")
            await wait_until(lambda: wrong.parts.registry.not_accepting is not None, description="the wrong one stops")
            assert not wrong.is_deciding()
            assert all(one.is_deciding() for one in right)
            await wait_until(
                lambda: any(one.parts.steward.leading for one in right), description="another one is steward"
            )
            await wait_until(lambda: not wrong.parts.steward.leading, description="the wrong one is not")
            clock.offset_ms = 0
            await wait_until(wrong.is_deciding, description="it resumes by itself")
            assert all(one.is_deciding() for one in right)


async def test_what_is_due_while_a_leap_is_doubted_runs_once_it_is_not(place: Place, world: World) -> None:
    grace_s = 5  # a worker that stands still for longer once it decides again misses them
    clock, misfire = OffClock(), {"policy": "skip", "graceSeconds": grace_s}
    await world.save(cron="* * * * * * *", misfire=misfire, overlap="allow")
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        await say_clocks(world.etcd, world.keys, count=2)
        await worker.parts.clock_check.look()
        clock.synchronised, clock.offset_ms = False, 3 * 3_600_000
        worker.parts.clock_watch.look()
        leapt_ms = clock.wall_ms()
        assert not worker.is_deciding()
        over_ms = leapt_ms + grace_s * 1000 + 2_500
        await wait_until(lambda: clock.wall_ms() > over_ms, description="several fires are past their grace")
        assert not worker.is_deciding()
        clock.synchronised = True
        await wait_until(worker.is_deciding, description="it decides again")
        due = list(range(leapt_ms // 1000 * 1000 + 1000, over_ms, 1000))
        assert len(due) >= grace_s + 2
        for plan_ms in due:
            assert (await world.record(RunId.planned("job", plan_ms)))["status"] == "success"


async def test_leap_that_is_set_back_has_moved_no_mark(place: Place, world: World) -> None:
    clock = OffClock()
    clock.synchronised = False
    await world.save(cron="* * * * * * *")
    async with working(place, clock=clock) as worker:
        await worker.deciding()
        await say_clocks(world.etcd, world.keys, count=2)
        await worker.parts.clock_check.look()
        clock.offset_ms = 3 * 3_600_000
        await worker.parts.clock_check.look()
        assert not worker.is_deciding()
        clock.offset_ms = 0
        await wait_until(worker.is_deciding, description="it decides again")
        back_ms = clock.wall_ms()

        async def runs_again() -> bool:
            return any(record["planTime"] > back_ms for record in await world.records())

        await wait_until(runs_again, description="the job runs on")
        assert all(record["planTime"] <= clock.wall_ms() + 1_000 for record in await world.records())
