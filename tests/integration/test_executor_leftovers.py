"""What a killed worker left running is found by its marks, and ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from common.clock import SystemClock
from tests.support.descriptors import no_descriptor_left
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.machine.marked import find_leftovers
from worker.machine.processes import read_process, run_mark
from worker.run.leftovers import end_leftovers

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


async def test_ends_a_process_whose_first_thread_has_ended() -> None:
    """Its other threads go on; /proc shows its environment no more, but that of its threads."""
    ends_its_first_thread = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(300,)).start();"
        "print('up', flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    process = abandoned("i-thread", f'exec {sys.executable} -I -S -c "{ends_its_first_thread}"')
    await up(process)
    await wait_until(lambda: "Z" in Path(f"/proc/{process.pid}/stat").read_text(), description="the thread's end")
    assert [leftover.pid for leftover in find_leftovers("i-thread")] == [process.pid]
    assert await end_leftovers("i-thread", 5, CLOCK) == []
    assert reap(process) == -15


class _Stopped(SystemClock):
    """Of a worker that is stopped for a minute after its first look at the time."""

    asked = 0

    def monotonic(self) -> float:
        self.asked += 1
        return super().monotonic() + (60 if self.asked > 1 else 0)


async def test_worker_that_was_stopped_past_the_grace_kills_what_it_has_found() -> None:
    deaf = abandoned(f"i-late-{os.getpid()}", "trap '' TERM; echo up; while :; do sleep 1; done")
    await up(deaf)
    assert await end_leftovers(f"i-late-{os.getpid()}", 5, _Stopped()) == []
    assert reap(deaf) == -9


_SHOWS_ITS_MEMORY = """
import ctypes, mmap, os, struct
size = 64 << 20
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write(b"x" * size)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
stat = [0, 0, *open("/proc/self/stat").read().rpartition(")")[2].split()]
code, stack, data, brk, arguments = stat[25:27], stat[27], stat[44:46], stat[46], stat[47:49]
now = ctypes.CDLL(None).sbrk
now.restype = ctypes.c_void_p
places = [*code, *data, brk, now(0), stack, *arguments, start, start + size - 1, 0]
shown = ctypes.create_string_buffer(struct.pack("12QIi", *map(int, places), 0, -1), 104)
print("up" if ctypes.CDLL(None).prctl(35, 14, shown, ctypes.c_ulong(104), ctypes.c_ulong(0)) == 0 else "no", flush=True)
import time
time.sleep(300)
"""


def test_process_that_shows_all_its_memory_as_its_environment_holds_up_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """As any user may, with PR_SET_MM_MAP."""
    read, os_read = list[int](), os.read

    def noted(descriptor: int, size: int) -> bytes:
        read.append(len(chunk := os_read(descriptor, size)))
        return chunk

    with subprocess.Popen((sys.executable, "-I", "-S", "-c", _SHOWS_ITS_MEMORY), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"up\n":
                pytest.skip("this kernel does not let it")
            monkeypatch.setattr(os, "read", noted)
            assert run_mark(process.pid, "i-large") is None
        finally:
            process.kill()
    assert 1 << 20 < sum(read) < 8 << 20


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
        "from worker.run.leftovers import end_leftovers\n"
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
