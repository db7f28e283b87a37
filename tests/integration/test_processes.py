"""The machine's processes, looked at while others begin."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from worker.machine import processes
from worker.machine.processes import all_processes


@contextmanager
def sleeping() -> Iterator[int]:
    """The id of a process that is there as long."""
    with subprocess.Popen(["sleep", "300"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def test_process_that_begins_during_the_look_is_seen_and_a_thread_is_not() -> None:
    look = all_processes()
    seen = {next(look).pid}
    begun = threading.Event()
    thread = threading.Thread(target=begun.wait)
    with sleeping() as pid:
        thread.start()
        try:
            seen |= {process.pid for process in look}
        finally:
            begun.set()
    thread.join()
    assert pid in seen
    assert thread.native_id not in seen


def test_process_that_begins_during_the_look_is_seen_though_many_begin_after_it() -> None:
    look = all_processes()
    seen = {next(look).pid}
    with sleeping() as pid:
        for _ in range(100):  # a thread has a number as a process has
            thread = threading.Thread(target=int)
            thread.start()
            thread.join()
        seen |= {process.pid for process in look}
    assert pid in seen


def test_process_that_begins_during_the_look_is_seen_where_the_newest_number_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service manager can hide /proc/loadavg, and some containers have one that stands still."""
    monkeypatch.setattr(processes, "_newest_pid", lambda: 0)
    look = all_processes()
    seen = {next(look).pid}
    with sleeping() as pid:
        seen |= {process.pid for process in look}
    assert pid in seen
