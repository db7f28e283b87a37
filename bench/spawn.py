"""How fast the executor starts, captures and ends ``echo``, against a loop in C that only spawns and reaps it.

    python -m bench.spawn [seconds]

Both keep eight commands going at a time, in the same shell, turn by turn in the same run; the median round counts.
The C loop is compiled on the spot; without a compiler its place is taken by ``os.posix_spawn``.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common.clock import SystemClock
from common.keys import RunId
from worker.executor import Executor, Launch, Outcome

COMMAND = "echo hello"
AT_A_TIME = 8
ROUNDS = 5
WARM_UP_S = 0.2
PLAN_MS = 1_700_000_000_000

C_LOOP = r"""
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {  /* seconds, at a time, command */
    char *args[] = {"/bin/sh", "-c", argv[3], NULL}, *env[] = {"PATH=/usr/bin:/bin", NULL};
    double start = now(), end = start + atof(argv[1]);
    int most = atoi(argv[2]), going = 0, done = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    while (now() < end || going) {
        while (going < most && now() < end) {
            pid_t pid;
            if (posix_spawn(&pid, args[0], &actions, NULL, args, env)) return 1;
            going++;
        }
        if (wait(NULL) > 0) { going--; done++; }
    }
    printf("%f\n", done / (now() - start));
    return 0;
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Commands a second, and what each cost this process in CPU (0 where it is not this process that spawns)."""

    per_second: float
    cpu_ms: float = 0


async def executor_rate(seconds: float) -> Rate:
    """Commands a second through the executor: started, captured, reaped, told."""
    ended = 0
    deadline = time.monotonic() + seconds

    def start_next() -> None:
        run_id = RunId.planned("bench", PLAN_MS + ended, len(executor.running) + 1)
        executor.start(Launch(run_id=run_id, command=COMMAND, plan_ms=PLAN_MS, fence=1))

    def on_end(outcome: Outcome) -> None:
        nonlocal ended
        ended += 1
        if outcome.output != "hello\n":
            raise RuntimeError(f"not the output of {COMMAND!r}: {outcome}")
        if time.monotonic() < deadline:
            start_next()

    executor = Executor(worker="bench", instance="bench", clock=SystemClock(), on_end=on_end)
    begun, cpu = time.monotonic(), time.process_time()
    for _ in range(AT_A_TIME):
        start_next()
    await executor.drained()
    took, cpu = time.monotonic() - begun, time.process_time() - cpu
    await executor.close()
    return Rate(per_second=ended / took, cpu_ms=cpu / ended * 1_000)


def python_rate(seconds: float) -> Rate:
    """Commands a second by ``os.posix_spawn``, output thrown away."""
    actions = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    begun, going, ended = time.monotonic(), 0, 0
    while time.monotonic() < begun + seconds or going:
        while going < AT_A_TIME and time.monotonic() < begun + seconds:
            os.posix_spawn("/bin/sh", ["sh", "-c", COMMAND], {"PATH": "/usr/bin:/bin"}, file_actions=actions)
            going += 1
        os.wait()
        going, ended = going - 1, ended + 1
    return Rate(per_second=ended / (time.monotonic() - begun))


def compile_c_loop(folder: Path) -> Callable[[float], Rate] | None:
    """The loop in C, None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    source, program = folder / "spawn.c", folder / "spawn"
    source.write_text(C_LOOP)
    subprocess.run([compiler, "-O2", "-o", program, source], check=True)

    def c_rate(seconds: float) -> Rate:
        loop = subprocess.run([program, str(seconds), str(AT_A_TIME), COMMAND], check=True, stdout=subprocess.PIPE)
        return Rate(per_second=float(loop.stdout))

    return c_rate


def measure(seconds: float, spawn_loop: Callable[[float], Rate]) -> list[tuple[Rate, Rate]]:
    """Rounds of (executor, loop), turn by turn, so that what else the machine does meets both."""
    asyncio.run(executor_rate(WARM_UP_S))
    return [(asyncio.run(executor_rate(seconds)), spawn_loop(seconds)) for _ in range(ROUNDS)]


def main() -> None:
    """Measure and print."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    with tempfile.TemporaryDirectory() as folder:
        c_loop = compile_c_loop(Path(folder))
        rounds = measure(seconds, c_loop or python_rate)
    ours = statistics.median(ours.per_second for ours, _ in rounds)
    theirs = statistics.median(theirs.per_second for _, theirs in rounds)
    ratio = statistics.median(ours.per_second / theirs.per_second for ours, theirs in rounds)
    cpu_ms = statistics.median(ours.cpu_ms for ours, _ in rounds)
    print(f"executor:                {ours:7,.0f} commands/s, {cpu_ms:.3f} ms of its CPU each")
    print(f"{'C loop of posix_spawn:' if c_loop else 'os.posix_spawn:':24} {theirs:7,.0f} commands/s")
    print(f"ratio:                   {ratio:7.2f}")


if __name__ == "__main__":
    main()
