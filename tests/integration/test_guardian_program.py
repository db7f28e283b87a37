"""The guardian's real process ends what is late and what is left, and only that; the test is its worker."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from common.clock import SystemClock
from tests.support.guarding import guarding
from tests.support.waiting import wait_until
from worker.guardian import child
from worker.guardian.messages import (
    Adopt,
    Confirmed,
    Ended,
    Ending,
    Group,
    Intent,
    Message,
    Over,
    Past,
    Ping,
    Pong,
    Ready,
    encode,
)
from worker.machine.marked import find_leftovers

DEAF = "trap '' TERM; echo up; while :; do sleep 0.2; done"
TELLS_OF_TERM = "trap 'echo term >> {file}' TERM; echo up; while :; do sleep 0.05; done"


async def test_what_is_open_ends_with_the_worker_and_what_was_left_on_purpose_goes_on(
    tmp_path: Path,
) -> None:
    with guarding(tmp_path) as guard:
        guard.start("plain@1#1", "echo up; exec sleep 300")
        guard.start("stopped@1#1", "echo up; kill -STOP $$; exec sleep 300")
        guard.start("deaf@1#1", DEAF, grace_s=0.3)
        guard.start("leaver@1#1", "setsid -f sleep 301.5; env -i sleep 301.6 & echo up; exec sleep 300")
        guard.start("done@1#1", "setsid -f sleep 302.5 >/dev/null; echo up", locked=False)
        await guard.gone("done@1#1")
        assert guard.child.send(Over("done@1#1"))
        guard.child.send(Ping(1))
        await guard.said(Pong(1))
        began = SystemClock().monotonic()
        guard.child.leave()
        assert await guard.gone("plain@1#1") == -signal.SIGTERM
        assert await guard.gone("stopped@1#1") == -signal.SIGTERM
        assert await guard.gone("leaver@1#1") == -signal.SIGTERM
        assert await guard.gone("deaf@1#1") == -signal.SIGKILL
        assert SystemClock().monotonic() - began >= 0.3
        await guard.ended()
        left = find_leftovers(guard.instance)
        assert {one.run_id for one in left} == {"done@1#1"}
        for one in left:
            os.kill(one.pid, signal.SIGKILL)


async def test_what_is_told_at_once_counts_in_its_order(tmp_path: Path) -> None:
    """A run that is over is over; one that was started again under its name after that is guarded, marks or not."""
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        over = guard.spawn("over@1#1", "echo up; exec sleep 300")
        again = guard.spawn("again@1#1", "echo up; exec env -i sleep 300")
        guard.intend("over@1#1")
        for message in (Group("over@1#1", over.pid), Over("over@1#1"), Over("again@1#1")):
            guard.child.queue(encode(message))
        guard.intend("again@1#1")
        guard.child.queue(encode(Group("again@1#1", again.pid)))
        assert guard.child.send(Ping(1))
        await guard.said(Pong(1))
        guard.child.leave()
        assert await guard.gone("again@1#1") == -signal.SIGTERM
        await guard.ended()
        assert over.poll() is None


async def test_a_process_that_was_not_told_of_ends_with_the_worker_too(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        guard.intend("untold@1#1")
        guard.spawn("untold@1#1", "echo up; exec sleep 300")
        guard.child.leave()
        assert await guard.gone("untold@1#1") == -signal.SIGTERM
        await guard.ended()


async def test_past_its_deadline_the_worker_is_told_first_then_the_guardian_acts(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        guard.start("late@1#1", "echo up; exec sleep 300", allowance_s=0.4)
        guard.start("allow@1#1", "echo up; exec sleep 300", allowance_s=0.4, locked=False)
        guard.start("never@1#1", "echo up; exec sleep 300", allowance_s=None)
        await guard.said(Past("late@1#1"))
        assert await guard.gone("late@1#1") == -signal.SIGTERM
        await guard.said(Ended("late@1#1"))
        assert guard.words.index(Past("late@1#1")) < guard.words.index(Ended("late@1#1"))
        assert not guard.has_said(Past("allow@1#1"))
        assert guard.commands["allow@1#1"].poll() is None
        assert guard.commands["never@1#1"].poll() is None


async def test_a_confirmed_or_adopted_run_is_not_past(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        runs = {"confirmed@1#1": "s1", "adopted@1#1": "s2", "late@1#1": "s2"}
        processes = {run: guard.spawn(run, "echo up; exec sleep 300") for run in runs}
        for run, session in runs.items():
            guard.queue_intent(run, allowance_s=0.6, session=session)
            guard.child.queue(encode(Group(run, processes[run].pid)))
        later = SystemClock().boottime() + 3600
        guard.child.queue(encode(Confirmed("s1", later)))
        assert guard.child.send(Adopt("adopted@1#1", "s3", later))
        assert await guard.gone("late@1#1") == -signal.SIGTERM
        assert guard.has_said(Past("late@1#1"))
        assert guard.commands["confirmed@1#1"].poll() is None
        assert guard.commands["adopted@1#1"].poll() is None


async def test_a_worker_that_ends_it_in_words_leaves_only_the_kill_to_the_guardian(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with guarding(tmp_path) as guard:
        process = guard.spawn("late@1#1", TELLS_OF_TERM.format(file=told))
        os.killpg(process.pid, signal.SIGTERM)
        await wait_until(lambda: told.exists() and told.read_text() == "term\n", description="it heard the worker")
        guard.queue_intent("late@1#1", allowance_s=0.1, grace_s=1)
        guard.child.queue(encode(Group("late@1#1", process.pid)))
        assert guard.child.send(Ending("late@1#1"))
        await guard.said(Past("late@1#1"))
        assert await guard.gone("late@1#1") == -signal.SIGKILL
        assert told.read_text() == "term\n"


async def test_what_a_frozen_worker_starts_past_the_deadline_is_killed_with_no_grace_until_it_is_over(
    tmp_path: Path,
) -> None:
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        guard.intend("frozen@1#1", allowance_s=0.1, grace_s=60, locked=False)
        await guard.said(Past("frozen@1#1"))
        for _ in range(2):
            guard.spawn("frozen@1#1", "trap '' TERM; sleep 300", first_line=b"")
            assert await guard.gone("frozen@1#1") == -signal.SIGKILL
        guard.child.send(Over("frozen@1#1"))
        guard.child.send(Ping(1))
        await guard.said(Pong(1))
        guard.spawn("frozen@1#1", "echo up; exec sleep 300")
        guard.start("other@1#1", "echo up; exec sleep 300", allowance_s=0.1)
        await guard.gone("other@1#1")
        assert guard.commands["frozen@1#1"].poll() is None, "its worker has withdrawn it"


async def test_a_frozen_worker_learns_of_each_of_very_many_runs_that_was_ended(tmp_path: Path) -> None:
    """Else it would take the exit of some for a failure of their own."""
    runs = [f"{'long-' * 20}{number}@1700000000000#1" for number in range(400)]
    expected: list[Message] = [Ready(), *map(Past, runs), *map(Ended, runs)]
    with guarding(tmp_path) as guard:
        for run in runs:
            guard.intend(run, allowance_s=-1)
        size = sum(len(encode(message)) for message in expected)
        await wait_until(lambda: waiting_bytes(guard.child.in_fd) == size, description="it has said all")
        heard = guard.child.receive()
        assert heard is not None
        assert {str(message) for message in heard} == {str(message) for message in expected}


async def test_what_is_told_at_once_comes_whole_however_little_the_pipe_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "_PIPE_CAPACITY", 4096)
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        os.kill(guard.child.pid, signal.SIGSTOP)
        runs = [f"job@{number}#1" for number in range(100)]
        for run in runs:
            guard.child.queue(encode(Intent(run, "s1", 0.0, -60.0, 0.5, locked=True)))
        assert guard.child.flush()
        assert guard.child.is_behind
        os.kill(guard.child.pid, signal.SIGCONT)
        await wait_until(
            lambda: guard.child.flush() and not guard.child.is_behind, description="the pipe has taken all"
        )
        for run in runs:
            await guard.said(Past(run))


async def test_its_last_words_are_heard_before_its_end(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        guard.child.send(Ping(5))
        await wait_until(lambda: waiting_bytes(guard.child.in_fd) > 0, description="it has answered")
        guard.child.kill()
        await guard.ended()
        assert guard.child.receive() == [Pong(5)]
        assert guard.child.receive() is None


def waiting_bytes(pipe: int) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


async def test_words_that_are_not_for_it_cost_nothing_that_it_guards(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        guard.start("open@1#1", "echo up; exec sleep 300")
        for message in (Group("unheard@1#1", 1), Ready(), Ping(4)):
            guard.child.send(message)
        await guard.said(Pong(4))
        guard.child.leave()
        assert await guard.gone("open@1#1") == -signal.SIGTERM
        await guard.ended()


async def test_the_next_guardian_waits_until_the_one_before_has_ended_what_it_had_to(tmp_path: Path) -> None:
    with guarding(tmp_path) as former:
        former.start("deaf@1#1", DEAF, grace_s=0.6)
        await former.said(Ready())
        former.child.leave()
        with guarding(tmp_path, former.instance) as successor:
            await successor.said(Ready())
            assert find_leftovers(former.instance) == []
        assert await former.gone("deaf@1#1") == -signal.SIGKILL
        await former.ended()


async def test_the_next_guardian_continues_one_that_was_stopped_and_has_lost_its_worker(tmp_path: Path) -> None:
    with guarding(tmp_path) as former:
        former.start("left@1#1", "echo up; exec sleep 300")
        await former.said(Ready())
        os.kill(former.child.pid, signal.SIGSTOP)
        former.child.leave()
        with guarding(tmp_path, former.instance) as successor:
            await successor.said(Ready())
            assert await former.gone("left@1#1") == -signal.SIGTERM
        await former.ended()


async def test_it_heeds_no_signal_that_ends_workers_and_is_small_and_alone(tmp_path: Path) -> None:
    (tmp_path / "guardian.lock").write_text("4194303999\n")
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        assert (tmp_path / "guardian.lock").read_text() == f"{guard.child.pid}\n"
        for number in range(3):
            guard.start(f"job@{number}#1", "echo up; exec sleep 300")
            guard.child.send(Ping(number))
            await guard.said(Pong(number))
            guard.child.send(Over(f"job@{number}#1"))
        process = psutil.Process(guard.child.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            process.send_signal(number)
        guard.child.send(Ping(3))
        await guard.said(Pong(3))
        assert os.getsid(guard.child.pid) == guard.child.pid
        assert not [name for name in process.environ() if name.startswith("ETCRON_")]
        assert process.name() == "etcron-guardian"
        assert process.num_fds() <= 4, "three, and its lock"
        assert process.memory_info().rss < 24_000_000
        with (tmp_path / "guardian.lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held = True
            else:
                held = False
        assert held
        guard.child.leave()
        await wait_until(guard.child.has_ended, description="it has nothing to end")


async def test_a_run_without_a_lock_that_a_new_guardian_is_told_of_goes_on_past_any_deadline(tmp_path: Path) -> None:
    """Told in two messages, it would be one that is yet to start until the second has come, and killed."""
    with guarding(tmp_path) as guard:
        await guard.said(Ready())
        going = guard.spawn("allow@1#1", "echo up; exec sleep 300")
        guard.intend("allow@1#1", allowance_s=-60, locked=False, pid=going.pid)
        guard.start("late@1#1", "echo up; exec sleep 300", allowance_s=-60)
        await guard.gone("late@1#1")
        assert going.poll() is None
        assert not guard.has_said(Past("allow@1#1"))
        guard.child.leave()
        assert await guard.gone("allow@1#1") == -signal.SIGTERM, "its process is known"


async def test_it_acts_though_nobody_reads_its_log(tmp_path: Path) -> None:
    """A worker may hang because its log is not read; its guardian writes into the same pipe."""
    with full_pipe_as_stderr(), guarding(tmp_path) as guard:
        guard.start("late@1#1", DEAF, allowance_s=0.1, grace_s=0.3)
        guard.start("open@1#1", "echo up; exec sleep 300")
        assert await guard.gone("late@1#1") == -signal.SIGKILL
        guard.child.leave()
        assert await guard.gone("open@1#1") == -signal.SIGTERM
        await guard.ended()


async def test_out_of_descriptors_it_still_ends_the_groups_and_looks_for_the_rest_when_it_can(tmp_path: Path) -> None:
    with guarding(tmp_path) as guard:
        guard.start("plain@1#1", "echo up; exec sleep 300")
        guard.start("deaf@1#1", DEAF, grace_s=0.3)
        guard.start("leaver@1#1", "setsid -f sleep 303.5 >/dev/null; echo up; exec sleep 300")
        guard.child.send(Ping(1))
        await guard.said(Pong(1))
        pid = guard.child.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (psutil.Process(pid).num_fds(), limits[1]))
        guard.child.leave()
        assert await guard.gone("plain@1#1") == -signal.SIGTERM
        assert await guard.gone("deaf@1#1") == -signal.SIGKILL
        assert not guard.child.has_ended(), "it has not seen yet that nothing is left"
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        await guard.ended()
        assert find_leftovers(guard.instance) == []


@contextmanager
def full_pipe_as_stderr() -> Iterator[None]:
    """What is started meanwhile has for its log a pipe in which there is no room."""
    unread, log = os.pipe()
    os.set_blocking(log, False)
    with suppress(BlockingIOError):
        while True:
            os.write(log, b"." * 4096)
    os.set_blocking(log, True)
    own = os.dup(2)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(own, 2)
        for descriptor in (own, log, unread):
            os.close(descriptor)
