"""The memory and the CPU time that a run has taken: its own, not the worker's."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from common.verdicts import Verdict
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.launch import StopOrder
from worker.machine.processes import tree_peak_rss

MB = 1_000_000
TAKE = "x = b'x' * {size}; import sys; print('up', flush=True); sys.stdin.read(); import time; time.sleep(300)"


async def test_is_exact_above_the_workers_own_peak() -> None:
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 300 * MB
    async with executing() as runs:
        outcome = await runs.outcome_of(("python3", "-c", f"x = b'x' * {size}"))
        of_a_child = await runs.outcome_of(f"python3 -c \"x = b'x' * {size}\"; true")
    for max_rss in (outcome.max_rss, of_a_child.max_rss):
        assert max_rss is not None
        assert size < max_rss < size + 200 * MB


@pytest.mark.parametrize("last", ["", "; true"], ids=["first process", "its child"])
async def test_below_it_is_what_was_seen_of_the_command(last: str) -> None:
    worker = bytearray(os.urandom(1) * (80 * MB))  # the worker's memory, which the kernel counts as the command's
    async with executing() as runs:
        run_id = await runs.running(f'python3 -c "{TAKE.format(size=40 * MB)}"{last}')
        run = runs.executor.running[run_id]
        await wait_until(lambda: run.seen_peak_rss > 40 * MB, description="a look at its memory")
        runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
    assert outcome.max_rss is not None
    assert 40 * MB < outcome.max_rss < 75 * MB < len(worker)


async def test_is_looked_at_before_a_run_is_ended() -> None:
    async with executing() as runs:
        run_id = runs.start("echo up; exec sleep 300")
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
    assert outcome.max_rss is not None
    assert 0 < outcome.max_rss < 20 * MB


async def test_workers_memory_is_never_told_as_that_of_a_short_command() -> None:
    async with executing() as runs:
        outcome = await runs.outcome_of("true")
    assert outcome.verdict is Verdict.SUCCESS
    assert outcome.max_rss is None or outcome.max_rss < 20 * MB


async def test_looks_at_no_more_processes_than_allowed() -> None:
    async with executing() as runs:
        run_id = runs.start("for n in 1 2 3 4; do sleep 300 & done; echo up; wait")
        await runs.printed(run_id, "up")
        pid = runs.executor.running[run_id].pid
        assert [tree_peak_rss(pid, most)[1] for most in (0, 1, 3, 50)] == [0, 1, 3, 5]


def test_nothing_is_seen_of_a_process_that_is_gone(tmp_path: Path) -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert tree_peak_rss(pid, 50) == (0, 1), "a zombie has no memory"
    os.waitpid(pid, 0)
    assert tree_peak_rss(pid, 50) == (0, 1)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("exec {burn}", id="first process"),
        pytest.param("{burn}; true", id="child"),
        pytest.param("sh -c '{burn}; true'; true", id="grandchild"),
    ],
)
async def test_cpu_time_is_that_of_all_that_were_waited_for(command: str) -> None:
    burn = 'python3 -c "import time\nwhile time.process_time() < 0.4: pass"'
    async with executing() as runs:
        outcome = await runs.outcome_of(command.format(burn=burn))
        idle = await runs.outcome_of("true")
    assert outcome.cpu_seconds is not None
    assert 0.4 <= outcome.cpu_seconds < 2
    assert idle.cpu_seconds is not None
    assert idle.cpu_seconds < 0.2
