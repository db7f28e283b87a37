"""A worker that is out of descriptors or processes tries again for a while, and then says that it was short of them."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from common.clock import SystemClock
from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.support.descriptors import descriptors, no_descriptor_left
from tests.support.executing import Runs, executing
from tests.support.waiting import wait_until
from worker.launch import Launch, StopOrder
from worker.launcher.unstartable import TooEarlyError, TooLateError
from worker.run.resources import look_at
from worker.run.running import Running

CLOCK = SystemClock()


def shortly() -> float:
    return CLOCK.boottime() + 0.2


def start_in_vain(runs: Runs, **settings: Any) -> Any:
    """Start a run that finds no descriptor left, and give them back."""
    with no_descriptor_left():
        run_id = runs.start("echo hello", **settings)
    assert run_id not in runs.executor.running
    assert not runs.outcomes
    return run_id


async def test_run_starts_when_the_shortage_is_over() -> None:
    async with executing() as runs:
        before = descriptors()
        run_id = start_in_vain(runs)
        with pytest.raises(ValueError, match="running already"):
            runs.start("echo hello", run_id=run_id)
        outcome = await runs.ended(run_id)
        assert (outcome.verdict, outcome.output) == (Verdict.SUCCESS, "hello\n")
        assert list(runs.started) == [run_id]
        await runs.executor.drained()
        assert descriptors() == before


async def test_nothing_starts_while_there_is_no_guardian() -> None:
    async with executing() as runs:
        runs.is_guarded = False
        waiting, given_up = runs.start("echo hello"), runs.start("true", start_until=shortly())
        assert "no guardian now" in (await runs.ended(given_up)).err
        assert not runs.started
        runs.is_guarded = True
        going = runs.start("true")
        await runs.ended(going)
        await runs.executor.drained()
        assert runs.outcomes[waiting].output == "hello\n"


async def test_a_run_that_waits_for_a_shortage_to_end_is_not_started_once_it_was_ended() -> None:
    async with executing() as runs:
        run_id = start_in_vain(runs)
        again = runs.executor._waiting[run_id].timer
        assert again is not None
        assert runs.executor.end(run_id, StopOrder(reason="kill"))
        assert again.cancelled()
        assert (await runs.ended(run_id)).verdict is Verdict.KILLED
        assert not runs.started


async def test_shortage_that_lasts_is_told_as_the_workers_own() -> None:
    async with executing() as runs:
        before = descriptors()
        for spare in range(4):
            with no_descriptor_left(spare):
                run_id = runs.start("true", start_until=shortly())
                outcome = await runs.ended(run_id)
            assert (outcome.verdict, outcome.start_ms) == (Verdict.FAILED, None), spare
            assert outcome.err.startswith("could not be started: worker w1 is out of open files (ulimit -n"), spare
            assert re.search(r"\(tried (once|\d times); not the job's fault\)$", outcome.err)
            assert outcome.reason == outcome.err
        await runs.executor.drained()
        assert descriptors() == before


async def test_is_not_tried_again_past_the_time_that_the_start_is_allowed_for() -> None:
    async with executing() as runs:
        run_id = start_in_vain(runs, start_until=CLOCK.boottime())
        assert "(tried once;" in (await runs.ended(run_id)).err
        assert not runs.started


async def test_a_process_that_was_stopped_on_the_way_to_a_start_does_not_start_it_late() -> None:
    async with executing() as runs:
        before = descriptors()
        run_id = runs.start("echo hello", start_until=CLOCK.boottime() - 1)
        assert not runs.started
        assert not runs.executor.running
        await runs.executor.drained()
        assert isinstance(runs.not_now[run_id], TooLateError)
        assert not runs.outcomes, "whoever asked for it decides what becomes of it"
        assert descriptors() == before


async def test_a_clock_that_jumps_back_on_the_way_to_a_start_does_not_start_it_early() -> None:
    async with executing() as runs:
        before = descriptors()
        run_id = runs.start("echo hello", not_before_ms=CLOCK.wall_ms() + 30_000)
        assert not runs.started
        await runs.executor.drained()
        assert isinstance(runs.not_now[run_id], TooEarlyError)
        assert not runs.outcomes, "whoever asked for it decides what becomes of it"
        assert descriptors() == before


async def test_a_clock_that_jumps_back_in_a_shortage_does_not_start_it_early() -> None:
    async with executing() as runs:
        not_before_ms = CLOCK.wall_ms() + 100
        outcome = await runs.ended(start_in_vain(runs, not_before_ms=not_before_ms))
        assert outcome.start_ms is not None
        assert outcome.start_ms >= not_before_ms


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda runs: runs.start("sleep 300"), id="at once"),
        pytest.param(start_in_vain, id="tried again"),
        pytest.param(lambda runs: runs.start(("sleep", "300")), id="by the launcher"),
    ],
)
async def test_an_error_that_nobody_foresaw_ends_that_run_alone_and_what_it_has_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, start: Callable[[Runs], RunId]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("nobody knows why")

    monkeypatch.setattr("worker.run.spawner.Running", fail)
    async with executing() as runs:
        before = descriptors()
        run_id = start(runs)
        outcome = await runs.ended(run_id)
        assert (outcome.verdict, outcome.start_ms) == (Verdict.FAILED, None)
        assert "OverflowError: nobody knows why" in outcome.err
        await wait_until(lambda: not runs.alive(run_id), description="what it has started has been killed")
        monkeypatch.undo()
        assert (await runs.outcome_of("true")).verdict is Verdict.SUCCESS
        await runs.executor.drained()
        assert descriptors() <= before
    [said] = [one for one in caplog.records if getattr(one, "action", "") == "spawn_unforeseen"]
    assert said.exc_info


@pytest.mark.parametrize("has_exited", [False, True])
async def test_an_error_that_nobody_foresaw_after_the_start_ends_what_was_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_exited: bool
) -> None:
    def fail(_: object, run: Running) -> None:
        if has_exited and run.starting is None:  # else it waits for its go
            os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)
        raise OverflowError("nobody knows why")

    monkeypatch.setattr("worker.run.run_watch.RunWatch.output_soon", fail)
    async with executing() as runs:
        run_id = runs.start("true" if has_exited else "sleep 300")
        outcome = await runs.ended(run_id)
        assert outcome.verdict is Verdict.KILLED
        assert outcome.start_ms is not None
        assert "OverflowError: nobody knows why" in (outcome.reason or "")
        assert runs.alive(run_id) == []
    [said] = [one for one in caplog.records if getattr(one, "action", "") == "run_unforeseen"]
    assert said.exc_info


async def test_of_several_starts_each_goes_its_own_way() -> None:
    async with executing() as runs:
        before = descriptors()
        late, early, missing, empty, first, last = (RunId.planned("job", plan_ms) for plan_ms in range(6))
        launches = [
            Launch(
                run_id=late,
                spec=JobSpec(name="job", command="true"),
                plan_ms=0,
                fence=1,
                start_until=CLOCK.boottime() - 1,
            ),
            Launch(run_id=first, spec=JobSpec(name="job", command="echo first"), plan_ms=0, fence=1),
            Launch(
                run_id=missing, spec=JobSpec(name="job", command="true"), shell="/no/such/shell", plan_ms=0, fence=1
            ),
            Launch(run_id=empty, spec=JobSpec(name="job", command=()), plan_ms=0, fence=1),
            Launch(
                run_id=early,
                spec=JobSpec(name="job", command="true"),
                plan_ms=0,
                fence=1,
                not_before_ms=CLOCK.wall_ms() + 30_000,
            ),
            Launch(run_id=last, spec=JobSpec(name="job", command="echo last"), plan_ms=0, fence=1),
        ]
        runs.executor.start(launches)
        assert not runs.not_now, "nobody is called back from within start()"
        assert [(await runs.ended(run_id)).output for run_id in (first, last)] == ["first\n", "last\n"]
        assert "/no/such/shell does not exist" in (await runs.ended(missing)).err
        assert "the command is empty" in (await runs.ended(empty)).err
        await runs.executor.drained()
        assert set(runs.outcomes) == {first, last, missing, empty}
        assert {first, last} <= runs.started.keys() <= {first, last, missing}
        assert {one: type(why) for one, why in runs.not_now.items()} == {late: TooLateError, early: TooEarlyError}
        assert descriptors() == before


async def test_of_several_starts_those_wait_that_find_no_descriptor() -> None:
    async with executing() as runs:
        before = descriptors()
        run_ids = [RunId.planned("job", plan_ms) for plan_ms in range(4)]
        with no_descriptor_left(9):
            runs.executor.start(
                [
                    Launch(run_id=one, spec=JobSpec(name="job", command="echo hello"), plan_ms=0, fence=1)
                    for one in run_ids
                ]
            )
        assert len(runs.executor.running) < 4
        assert [(await runs.ended(run_id)).output for run_id in run_ids] == ["hello\n"] * 4
        await runs.executor.drained()
        assert descriptors() == before


async def test_may_be_killed_while_it_waits() -> None:
    async with executing() as runs:
        run_id = start_in_vain(runs)
        assert runs.executor.end(run_id, StopOrder(by="test"))
        assert not runs.outcomes, "the caller of end() must not be called back from within it"
        outcome = await runs.ended(run_id)
        assert (outcome.verdict, outcome.start_ms, outcome.err) == (Verdict.KILLED, None, "killed by test")
        assert not runs.executor.end(run_id, StopOrder())
    assert not runs.started


async def test_what_runs_is_ended_though_there_is_no_descriptor_to_look_at_its_memory() -> None:
    async with executing() as runs:
        run_id = runs.start("echo up; sleep 300")
        await runs.printed(run_id, "up")
        with no_descriptor_left():
            assert runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
    assert (outcome.verdict, outcome.err) == (Verdict.KILLED, "killed by test")


async def test_its_memory_is_looked_at_again_once_there_is_a_descriptor() -> None:
    async with executing() as runs:
        run_id = runs.start("echo up; sleep 300")
        await runs.printed(run_id, "up")
        run = runs.executor.running[run_id]
        with no_descriptor_left():
            run.seen_peak_rss = 0  # it may have been looked at since it began
            assert look_at(run) > 0
            assert run.seen_peak_rss == 0
        await wait_until(lambda: run.seen_peak_rss > 0, description="it is seen")


async def test_closing_ends_what_waits() -> None:
    async with executing() as runs:
        run_id = start_in_vain(runs)
        await runs.executor.close()
        assert runs.outcomes[run_id].err == "killed: worker shutdown"
    assert not runs.started


@contextmanager
def no_process_left() -> Iterator[None]:
    """Nobody but root may have a process meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user")
async def test_user_that_is_out_of_processes() -> None:
    async with executing(allowed_users=["nobody"]) as others:
        there = others.start("echo up; sleep 300", user="nobody")
        await others.printed(there, "up")  # the kernel counts those that were there before
        with no_process_left():
            async with executing(allowed_users=["nobody"]) as runs:
                outcome = await runs.outcome_of("echo hello", user="nobody")
    assert (outcome.verdict, outcome.start_ms, outcome.exit_code) == (Verdict.FAILED, None, None)
    assert 'is out of processes (ulimit -u, or the limit of its container) for user "nobody"' in outcome.err
