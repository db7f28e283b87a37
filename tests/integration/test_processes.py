"""The machine's processes, looked at while others begin."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.descriptors import descriptors
from tests.support.guarding import sleeping
from tests.support.waiting import wait_until
from worker.machine import marked, processes
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
        assert process.wait(timeout=60) == -signal.SIGTERM
        assert not send(looked_at, signal.SIGTERM)
        assert descriptors() == before


def test_who_shares_the_session_of_a_worker_that_starts_a_run_meanwhile_is_not_the_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between its fork and its exec a run's process is in the worker's session, where others may be as well."""
    instance, run = f"starting-{uuid4().hex}", "job@1#1"
    starts = (
        "import os, signal, subprocess, sys\n"
        "bystander = subprocess.Popen(['/bin/sleep', '300'])\n"
        "if os.fork(): print('bystander', bystander.pid, flush=True); signal.pause()\n"
        "print('starting', os.getpid(), flush=True); sys.stdin.readline(); os.setsid()\n"
        f"os.execve('/bin/sleep', ['sleep', '300'], {{'ETCRON_INSTANCE': '{instance}', 'ETCRON_RUN_ID': '{run}'}})"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", starts], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    ) as worker:  # fmt: skip
        assert worker.stdin is not None
        assert worker.stdout is not None
        pids = dict(worker.stdout.readline().split() for _ in range(2))
        bystander, starting, goes_on = int(pids[b"bystander"]), int(pids[b"starting"]), worker.stdin

        def run_mark(pid: int, of: str) -> str | None:
            if pid == starting and not goes_on.closed:
                goes_on.close()  # it goes on, after it was read that it is in its worker's session
                while (mark := processes.run_mark(pid, of)) is None:
                    assert processes.read_process(pid) is not None
                return mark
            return processes.run_mark(pid, of)

        try:
            monkeypatch.setattr(marked, "run_mark", run_mark)
            found = find_leftovers(instance)
            assert [(one.pid, one.run_id, one.pgid, one.process.session) for one in found] == [
                (starting, run, starting, starting)
            ]
        finally:
            for pid in (bystander, starting, worker.pid):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("is_marked", [True, False], ids=["by the marks of its first process", "by its first process"])
def test_what_has_left_the_group_and_dropped_its_marks_is_found_by_its_session(is_marked: bool) -> None:
    instance, run = f"session-{uuid4().hex}", "job@1#1"
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


_SHARES = (
    "import os, signal\n"
    "def begin(user, marks):\n"
    "    if (pid := os.fork()): return pid\n"
    "    os.setresuid(user, user, user)\n"
    "    os.execve('/bin/sleep', ['sleep', '300'], marks)\n"
    "marks = {{'ETCRON_INSTANCE': '{instance}', 'ETCRON_RUN_ID': 'job@1#1'}}\n"
    "print(*[begin(user, marks if marked else {{}}) for user, marked in {members}], flush=True)\n"
    "{leader}"
)
_STAYS, _GOES = "signal.pause()", "os._exit(0)"
_ROOT, _WEB = 0, 33


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start commands as another user")
@pytest.mark.parametrize(
    ("leader", "leader_is_marked", "members", "found"),
    [
        pytest.param(_STAYS, False, [(_WEB, True), (_ROOT, False), (34, False)], [0], id="another user's session"),
        pytest.param(_GOES, False, [(_WEB, True), (_ROOT, False), (34, False)], [0], id="a session without a leader"),
        pytest.param(_STAYS, False, [(_ROOT, True), (_ROOT, False)], [0], id="what a user has become root by"),
        pytest.param(_STAYS, False, [(_WEB, True), (_WEB, False)], [0, 1], id="its user's other processes"),
        pytest.param(_GOES, False, [(_ROOT, True), (_ROOT, False)], [0, 1], id="the first process has ended"),
        pytest.param(_STAYS, True, [(_ROOT, False), (_WEB, False)], [0, 1], id="root's job"),
    ],
)
async def test_attack_forged_marks_in_a_session_of_others_are_of_the_forgers_processes_alone(
    leader: str, members: list[tuple[int, bool]], found: list[int], *, leader_is_marked: bool
) -> None:
    instance = f"shared-{uuid4().hex}"
    marks = {"ETCRON_INSTANCE": instance, "ETCRON_RUN_ID": "job@1#1"} if leader_is_marked else {}
    program = _SHARES.format(instance=instance, members=members, leader=leader)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], env=marks, stdout=subprocess.PIPE, start_new_session=True
    ) as first:
        assert first.stdout is not None
        pids = [int(pid) for pid in first.stdout.readline().split()]
        try:
            if leader == _GOES:
                await wait_until(lambda: _is_dead(first.pid), description="the session has no leader")
            await wait_until(lambda: all(map(_sleeps, pids)), description="what was forked has begun")
            seen = {one.pid for one in find_leftovers(instance)} - {first.pid}
            assert seen == {pids[place] for place in found}
        finally:
            for pid in (*pids, first.pid):
                os.kill(pid, signal.SIGKILL)


def _is_dead(pid: int) -> bool:
    process = read_process(pid)
    return process is not None and process.dead


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
