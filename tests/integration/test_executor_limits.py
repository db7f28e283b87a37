"""The executor under many runs, and without the descriptors that it needs."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from pathlib import Path

import pytest

from common.verdicts import Verdict
from tests.support.descriptors import descriptors
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.launch import Outcome, StopOrder


async def test_leaks_no_descriptor_over_200_runs_of_every_kind() -> None:
    async with executing() as runs:
        await runs.outcome_of("true")
        before = descriptors()
        kinds: list[tuple[str, dict[str, object]]] = [
            ("echo", {}), ("sleep 300 & exit 0", {}), ("exec >&- 2>&-", {}), ("x", {"shell": "/no/such/shell"}),
            ("echo \0", {}), ("sleep 300", {"timeout_s": 0.1}), ("exec yes", {"timeout_s": 0.1}),
        ]  # fmt: skip
        for number in range(200):
            command, settings = kinds[number % len(kinds)]
            runs.start(command, **settings)
        await runs.executor.drained()
        assert len(runs.outcomes) == 201
        assert descriptors() <= before, "what other tests had open may have gone meanwhile"


async def test_300_runs_at_once(tmp_path: Path) -> None:
    async with executing() as runs:
        with (tmp_path / "gate").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            after = f"read line; flock --shared {gate.name} echo $ETCRON_RUN_ID"
            ids = [await runs.running(f"echo {number}; {after}") for number in range(300)]
            assert len(runs.executor.running) == 300
        await runs.executor.drained()
        for number, run_id in enumerate(ids):
            assert runs.outcomes[run_id].output == f"{number}\n{run_id}\n"


async def test_300_runs_killed_at_once() -> None:
    async with executing() as runs:
        ids = [runs.start("sleep 300 & sleep 300") for _ in range(300)]
        for run_id in ids:
            assert runs.executor.end(run_id, StopOrder(by="test"))
        await asyncio.gather(*(runs.ended(run_id) for run_id in ids))
        assert {outcome.verdict for outcome in runs.outcomes.values()} == {Verdict.KILLED}
        assert [process for run_id in ids[::10] for process in runs.alive(run_id)] == []


async def test_next_run_may_be_started_from_the_end_of_one() -> None:
    async with executing() as runs:

        def start_next(outcome: Outcome) -> None:
            if len(runs.outcomes) < 20:
                runs.start("true", shell=("/bin/sh", "/no/such/shell")[len(runs.outcomes) % 2])

        runs.on_end = start_next
        runs.start("true")
        await runs.executor.drained()
        assert len(runs.outcomes) == 20


def refuse(_pid: int, _flags: int = 0) -> int:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_run_that_cannot_be_watched_for_want_of_a_descriptor_is_watched_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with executing() as runs:
        with monkeypatch.context() as machine:
            machine.setattr(os, "pidfd_open", refuse)
            run_id, killed = runs.start("echo hello"), runs.start("sleep 300")
            runs.executor.end(killed, StopOrder(by="test"))
            await wait_until(lambda: killed in runs.outcomes, description="the kill of an unwatched run")
        assert (await runs.ended(run_id)).output == "hello\n"
        assert runs.outcomes[killed].verdict is Verdict.KILLED


async def test_hundred_kills_do_not_stop_other_runs() -> None:
    async with executing() as runs:
        deaf = [runs.start("trap '' TERM; while :; do sleep 1; done", kill_grace_s=0.5) for _ in range(100)]
        for run_id in deaf:
            runs.executor.end(run_id, StopOrder(by="test"))
        assert (await runs.outcome_of("echo hello")).output == "hello\n"
        await runs.executor.drained()
        assert not runs.executor.running
