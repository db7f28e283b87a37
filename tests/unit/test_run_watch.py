"""Whose exit and whose output it is, though descriptors are closed and given anew in the same moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence

import pytest

from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from tests.support.waiting import wait_until
from worker.launch import Launch
from worker.run.run_watch import RunWatch
from worker.run.running import Running

Pipe = tuple[int, int]


@pytest.fixture
def pipes() -> Iterator[list[Pipe]]:
    made = [os.pipe() for _ in range(3)]
    yield made
    for ends in made:
        for end in ends:
            os.close(end)


def run(number: int, pipe: int) -> Running:
    spec = JobSpec(name="job", command="true")
    launch = Launch(run_id=RunId.planned("job", number), spec=spec, plan_ms=number, fence=1)
    return Running(launch, pid=1, pipe=pipe, start_ms=0, started_s=0.0)


async def test_a_number_that_is_given_anew_while_others_are_told_tells_of_nobody(pipes: list[Pipe]) -> None:
    (first_pipe, tell_first), (exit_pipe, tell_exit), (quiet_pipe, tell_quiet) = pipes
    printing, exiting = run(1, first_pipe), run(2, -1)
    told: list[Running] = []
    anew: list[Running] = []

    def on_exits(exited: Sequence[Running]) -> None:
        """The run that also prints is over, and the next one has its descriptor."""
        told.extend(exited)
        watch.forget(exit_pipe)
        watch.forget(first_pipe)
        os.dup2(quiet_pipe, first_pipe)
        anew.append(run(3, first_pipe))
        watch.output_of(anew[0], first_pipe)

    watch = RunWatch(on_exits=on_exits, on_output=told.append)
    watch.output_of(printing, first_pipe)
    watch.exit_of(exiting, exit_pipe)
    os.write(tell_first, b"x")
    os.write(tell_exit, b"x")
    await wait_until(lambda: bool(told), description="somebody is told")
    await asyncio.sleep(0)
    assert told == [exiting]
    os.write(tell_quiet, b"x")
    await wait_until(lambda: len(told) > 1, description="the one that has the number now is told")
    assert set(told[1:]) == set(anew)
    watch.close()


async def test_to_watch_again_what_is_watched_and_to_forget_what_is_not_changes_nothing(pipes: list[Pipe]) -> None:
    pipe, tell = pipes[0]
    told: list[Running] = []
    watch = RunWatch(on_exits=told.extend, on_output=told.append)
    one = run(1, pipe)
    watch.output_of(one, pipe)
    watch.output_of(one, pipe)
    watch.forget(tell)
    os.write(tell, b"x")
    await wait_until(lambda: bool(told), description="it is told")
    watch.forget(pipe)
    watch.forget(pipe)
    so_far = len(told)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(told) == so_far
    watch.close()


async def test_output_of_a_run_that_is_young_is_told_soon_and_of_one_that_is_over_by_then_never(
    pipes: list[Pipe],
) -> None:
    (pipe, tell), (gone_pipe, tell_gone), _ = pipes
    told: list[Running] = []
    watch = RunWatch(on_exits=told.extend, on_output=told.append)
    one, over = run(1, pipe), run(2, gone_pipe)
    watch.output_soon(over)
    watch.output_soon(one)
    over.pipe = None
    os.write(tell_gone, b"x")
    os.write(tell, b"x")
    await wait_until(lambda: bool(told), description="it is told")
    assert set(told) == {one}
    watch.close()


async def test_output_that_cannot_be_watched_yet_is_watched_later(
    monkeypatch: pytest.MonkeyPatch, pipes: list[Pipe]
) -> None:
    pipe, tell = pipes[0]
    told: list[Running] = []
    watch = RunWatch(on_exits=told.extend, on_output=told.append)
    faults = [OSError("out of memory")]
    begin = watch.output_of

    def fails_once(run: Running, pipe: int) -> None:
        if faults:
            raise faults.pop()
        begin(run, pipe)

    monkeypatch.setattr(watch, "output_of", fails_once)
    one = run(1, pipe)
    watch.output_soon(one)
    os.write(tell, b"x")
    await wait_until(lambda: bool(told), description="it is told")
    assert set(told) == {one}
    watch.close()
