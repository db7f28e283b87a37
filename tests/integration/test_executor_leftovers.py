"""What a killed worker left running is found by its marks, and ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from common.clock import SystemClock
from tests.support.descriptors import no_descriptor_left
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.commands.leftovers import end_leftovers, find_leftovers
from worker.machine.processes import read_process

CLOCK = SystemClock()


def abandoned(instance: str, command: str) -> subprocess.Popen[bytes]:
    """A process as a run of an earlier worker would have left it."""
    environment = {"PATH": os.environ["PATH"], "ETCRON_INSTANCE": instance, "ETCRON_RUN_ID": "job@1#1"}
    return subprocess.Popen(["/bin/sh", "-c", command], env=environment, start_new_session=True,
                            stdout=subprocess.PIPE)  # fmt: skip


async def up(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"up\n"


def reap(process: subprocess.Popen[bytes]) -> int:
    with process:
        return process.wait()


async def test_finds_the_processes_of_its_own_instance_only() -> None:
    ours, other = abandoned("i-find", "sleep 300 & echo up; wait"), abandoned("i-find-2", "echo up; exec sleep 300")
    await up(ours)
    await up(other)
    found = find_leftovers("i-find")
    assert len(found) == 2
    assert {(leftover.run_id, leftover.pgid) for leftover in found} == {("job@1#1", ours.pid)}
    assert ours.pid in {leftover.pid for leftover in found}
    assert find_leftovers("i-find", "job@1#1") == found
    assert find_leftovers("i-find", "job@1#2") == []
    assert await end_leftovers("i-find", 5, CLOCK) == []
    assert find_leftovers("i-find") == []
    assert reap(ours) == -15
    assert other.poll() is None
    assert await end_leftovers("i-find-2", 5, CLOCK) == []
    assert reap(other) == -15


async def test_ends_what_ignores_term_what_is_stopped_and_what_dropped_its_marks() -> None:
    deaf = abandoned("i-deaf", "trap '' TERM; echo up; while :; do sleep 1; done")
    stopped = abandoned("i-deaf", "echo up; kill -STOP $$; exec sleep 300")
    bare = abandoned("i-deaf", "env -i sleep 300 & echo up; wait")
    for process in (deaf, stopped, bare):
        await up(process)
    assert await end_leftovers("i-deaf", 0.3, CLOCK) == []
    assert find_leftovers("i-deaf") == []
    assert [reap(deaf), reap(stopped), reap(bare)] == [-9, -15, -15]


async def test_waits_for_a_descriptor_and_does_not_take_what_it_cannot_see_for_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = abandoned("i-short", "echo up; exec sleep 300")
    await up(left)
    await asyncio.to_thread(lambda: None)  # the thread that looks is there, as in a worker that has begun
    with no_descriptor_left():
        ending = asyncio.ensure_future(end_leftovers("i-short", 5, CLOCK))
        await wait_until(lambda: "cannot look for what is left running" in caplog.text, description="it looks in vain")
        assert not ending.done()
        assert left.poll() is None
    assert await ending == []
    assert reap(left) == -15


async def test_nothing_left_is_no_work() -> None:
    assert await end_leftovers("i-nobody", 5, CLOCK) == []


async def test_worker_that_was_started_by_a_run_spares_itself_and_its_line() -> None:
    program = (
        "import asyncio\n"
        "from common.clock import SystemClock\n"
        "from worker.commands.leftovers import end_leftovers\n"
        "print(asyncio.run(end_leftovers('i-line', 1, SystemClock())))\n"
    )
    environment = {**os.environ, "ETCRON_INSTANCE": "i-line", "ETCRON_RUN_ID": "job@1#1"}
    child = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", '"$@"; echo "parent lives"', "sh", sys.executable, "-c", program,
        env=environment, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    printed, _ = await child.communicate()
    assert printed == b"[]\nparent lives\n"


async def test_finds_the_runs_of_an_executor() -> None:
    async with executing() as runs:
        run_id = runs.start(("sleep", "300"))
        await wait_until(lambda: len(find_leftovers(runs.instance)) == 1, description="the run in /proc")
        [leftover] = find_leftovers(runs.instance, str(run_id))
        assert leftover.pid == leftover.pgid == runs.executor.running[run_id].pid


def test_process_table_survives_names_with_parentheses() -> None:
    process = subprocess.Popen([sys.executable, "-c", NAMED], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    line = read_process(process.pid)
    process.kill()
    assert line is not None
    assert (line.parent, line.dead) == (os.getpid(), False)
    dead = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert dead is not None
    zombie = read_process(process.pid)
    assert zombie is not None
    assert zombie.dead
    reap(process)
    assert read_process(process.pid) is None


NAMED = "open('/proc/self/comm', 'w').write('a) Z (b'); print(flush=True); import time; time.sleep(300)"
