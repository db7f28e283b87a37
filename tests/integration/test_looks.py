"""Whoever looks at the machine's processes is not held up by one of them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from common.clock import SystemClock
from tests.support.executing import executing
from tests.support.waiting import wait_until
from worker.guardian.ends import Ends
from worker.launch import StopOrder
from worker.machine.looks import Looks
from worker.machine.marked import find_leftovers
from worker.run.leftovers import end_leftovers

_CLONE_NEWNS = 0x20000
_CLONE_FS = 0x200
_libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def own_mounts() -> Iterator[None]:
    """What is mounted by this test is seen by this thread, and by what it begins, alone."""
    before, directory = os.open("/proc/self/ns/mnt", os.O_RDONLY), os.getcwd()
    try:
        private = ("mount", "--make-rprivate", "/")
        if _libc.unshare(_CLONE_NEWNS) or subprocess.run(private, capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted here")
        yield
        assert _libc.unshare(_CLONE_FS) == 0, "threads that began meanwhile stay where they are"
        assert _libc.setns(before, _CLONE_NEWNS) == 0  # which leads to its root, too
        os.chdir(directory)
    finally:
        os.close(before)


@pytest.fixture
def holding_up(tmp_path: Path, own_mounts: None) -> Iterator[int]:
    """A process whose environment nobody can read: whoever opens it waits for ever."""
    os.mkfifo(tmp_path / "never")
    process = subprocess.Popen(("sleep", "300"), start_new_session=True)
    environment = f"/proc/{process.pid}/environ"
    subprocess.run(("mount", "--bind", str(tmp_path / "never"), environment), check=True)
    try:
        yield process.pid
    finally:
        let_go(tmp_path)
        process.kill()
        process.wait()


def let_go(tmp_path: Path) -> None:
    """Of whoever is held up now; the next one will be."""
    os.close(os.open(tmp_path / "never", os.O_RDWR | os.O_NONBLOCK))


@pytest.mark.usefixtures("holding_up")
async def test_what_a_run_left_is_ended_all_the_same() -> None:
    async with executing() as runs:
        run_id = runs.start("setsid sleep 300 & echo up; sleep 300", kill_grace_s=0.1)
        await runs.printed(run_id, "up")
        runs.executor.end(run_id, StopOrder(by="test"))
        outcome = await runs.ended(run_id)
    assert "could not be ended" not in outcome.err
    assert outcome.output_bytes == len("up\n")


@pytest.mark.usefixtures("holding_up")
async def test_what_an_earlier_worker_left_is_ended_all_the_same() -> None:
    environment = {**os.environ, "ETCRON_INSTANCE": "held-up", "ETCRON_RUN_ID": "job@1"}
    left = subprocess.Popen(("sleep", "300"), env=environment, start_new_session=True)
    assert await end_leftovers("held-up", 0.1, SystemClock()) == []
    assert left.wait() != 0


@pytest.mark.usefixtures("holding_up")
def test_the_guardian_ends_what_it_has_to_all_the_same() -> None:
    environment = {**os.environ, "ETCRON_INSTANCE": "guarded", "ETCRON_RUN_ID": "job@2"}
    left = subprocess.Popen(("sleep", "300"), env=environment, start_new_session=True)
    ends, clock = Ends("guarded"), SystemClock()
    ends.begin("job@2", None, kill_at=clock.boottime())
    ends.look(clock.boottime())
    assert left.wait() == -9


def test_a_process_that_holds_up_is_left_out_of_the_next_looks(holding_up: int) -> None:
    looks = Looks()
    for _ in range(3):
        found = looks.look(partial(find_leftovers, "nobody"))
        assert holding_up not in {one.pid for one in found}
    looks.close()


@pytest.mark.usefixtures("holding_up")
async def test_a_look_that_was_held_up_once_counts_no_more(tmp_path: Path) -> None:
    others = set(threading.enumerate())
    looks = Looks(most_left_behind=1)
    for _ in range(2):
        await looks.look_beside(partial(find_leftovers, "nobody"))
        let_go(tmp_path)
        await wait_until(lambda: len(set(threading.enumerate()) - others) == 1, description="one thread is left")
    looks.close()
