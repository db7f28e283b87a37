"""How fast the executor starts, captures and ends ``echo``, against a loop in C that only spawns and reaps it.

    python -m bench.spawn [seconds]

Both keep eight commands going at a time, in the same shell, turn by turn in the same run; the median round counts.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.peers.spawn_loop import AT_A_TIME, compile_loop, loop_rate
from common.clock import SystemClock
from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from worker.launch import Launch, Outcome
from worker.launcher.link import Launcher
from worker.launcher.unstartable import NotNowError
from worker.run.executor import Executor

COMMAND = "echo hello"
SPEC = JobSpec(name="bench", command=COMMAND)
ROUNDS = 5
WARM_UP_S = 0.2
PLAN_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Commands a second, and what each cost this process in CPU."""

    per_second: float
    cpu_ms: float


async def executor_rate(seconds: float) -> Rate:
    """Commands a second through the executor: started, captured, reaped, told."""
    ended = 0
    deadline = time.monotonic() + seconds

    def start_next() -> None:
        run_id = RunId.planned("bench", PLAN_MS + ended, len(executor.running) + 1)
        executor.start([Launch(run_id=run_id, spec=SPEC, plan_ms=PLAN_MS, fence=1)])

    def on_end(outcome: Outcome) -> None:
        nonlocal ended
        ended += 1
        if outcome.output != "hello\n":
            raise RuntimeError(f"not the output of {COMMAND!r}: {outcome}")
        if time.monotonic() < deadline:
            start_next()

    def on_not_now(run_id: RunId, why: NotNowError) -> None:
        raise RuntimeError(f"{run_id} was not started: {why}")

    def on_stuck(run_id: RunId) -> None:
        raise RuntimeError(f"{run_id} cannot be ended")

    async with Launcher(worker="bench", allowed_users=()) as launcher:
        executor = Executor(
            launcher=launcher, worker="bench", instance="bench", clock=SystemClock(), on_end=on_end,
            on_not_now=on_not_now, on_stuck=on_stuck,
        )  # fmt: skip
        await launcher.prepared()
        begun, cpu = time.monotonic(), time.process_time()
        for _ in range(AT_A_TIME):
            start_next()
        await executor.drained()
        took, cpu = time.monotonic() - begun, time.process_time() - cpu
        await executor.close()
    return Rate(per_second=ended / took, cpu_ms=cpu / ended * 1_000)


def measure(seconds: float, program: Path) -> list[tuple[Rate, float]]:
    """Rounds of (executor, loop), turn by turn, so that what else the machine does meets both."""
    asyncio.run(executor_rate(WARM_UP_S))
    return [(asyncio.run(executor_rate(seconds)), loop_rate(program, COMMAND, seconds)) for _ in range(ROUNDS)]


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        rounds = measure(seconds, compile_loop(Path(folder)))
    ours = statistics.median(ours.per_second for ours, _ in rounds)
    theirs = statistics.median(theirs for _, theirs in rounds)
    ratio = statistics.median(ours.per_second / theirs for ours, theirs in rounds)
    cpu_ms = statistics.median(ours.cpu_ms for ours, _ in rounds)
    print(f"executor:                {ours:7,.0f} commands/s, {cpu_ms:.3f} ms of its CPU each")
    print(f"C loop of posix_spawn:   {theirs:7,.0f} commands/s")
    print(f"ratio:                   {ratio:7.2f}")


if __name__ == "__main__":
    main()
