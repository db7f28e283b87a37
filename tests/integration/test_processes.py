"""The machine's processes, looked at while others begin."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from dataclasses import replace

import pytest

from tests.support.descriptors import descriptors
from tests.support.guarding import sleeping
from worker.machine import processes
from worker.machine.marked import find_leftovers
from worker.machine.processes import all_processes, read_process, send


def test_process_that_begins_during_the_look_is_seen_and_a_thread_is_not() -> None:
    look = all_processes()
    seen = {next(look).pid}
    begun = threading.Event()
    thread = threading.Thread(target=begun.wait)
    with sleeping({}) as process:
        thread.start()
        try:
            seen |= {one.pid for one in look}
        finally:
            begun.set()
    thread.join()
    assert process.pid in seen
    assert thread.native_id not in seen


def test_process_that_begins_during_the_look_is_seen_though_many_begin_after_it() -> None:
    look = all_processes()
    seen = {next(look).pid}
    with sleeping({}) as process:
        for _ in range(100):  # a thread has a number as a process has
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
        seen |= {one.pid for one in look}
    assert process.pid in seen


def test_process_that_begins_during_the_look_is_seen_where_the_newest_number_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service manager can hide /proc/loadavg, and some containers have one that stands still."""
    monkeypatch.setattr(processes, "_newest_pid", lambda: 0)
    look = all_processes()
    seen = {next(look).pid}
    with sleeping({}) as process:
        seen |= {one.pid for one in look}
    assert process.pid in seen


def test_a_signal_reaches_the_process_that_was_looked_at_and_no_other_of_its_number() -> None:
    with sleeping({}) as process:
        before = descriptors()
        looked_at = read_process(process.pid)
        assert looked_at is not None
        assert not send(replace(looked_at, started=looked_at.started - 1), signal.SIGKILL)
        assert process.poll() is None
        assert send(looked_at, signal.SIGTERM)
        assert process.wait(timeout=10) == -signal.SIGTERM
        assert not send(looked_at, signal.SIGTERM)
        assert descriptors() == before


@pytest.mark.parametrize("is_marked", [True, False], ids=["by the marks of its first process", "by its first process"])
def test_what_has_left_the_group_and_dropped_its_marks_is_found_by_its_session(is_marked: bool) -> None:
    instance, run = f"session-{os.getpid()}", "job@1#1"
    marks = {"ETCRON_INSTANCE": instance, "ETCRON_RUN_ID": run} if is_marked else {}
    leaves = (
        "import os; os.setpgid(0, 0); print(os.getpid(), flush=True); os.execve('/bin/sleep', ['sleep', '300'], {})"
    )
    command = f'python3 -I -S -c "{leaves}" & wait'
    program = ["/bin/sh", "-c", command]
    with subprocess.Popen(
        program, env={"PATH": os.environ["PATH"], **marks}, start_new_session=True, stdout=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        left = int(first.stdout.readline())
        try:
            found = find_leftovers(instance, leaders={} if is_marked else {first.pid: run})
            assert {(one.pid, one.run_id) for one in found} == {(first.pid, run), (left, run)}
        finally:
            first.kill()
            os.kill(left, signal.SIGKILL)
            os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        assert first.pid not in {one.pid for one in find_leftovers(instance, leaders={first.pid: run})}, "it is dead"
