"""What a guardian does in its turns, by a clock that the test moves; the pipes and the processes are real."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.fake_clock import FakeClock
from tests.support.guarding import sleeping
from worker.guardian.messages import Confirmed, Group, Intent, Leapt, Message, Over, Past, decode
from worker.guardian.program import TELL_FIRST_S, Guardian, _continue_holder

INSTANCE = f"turns-{os.getpid()}"
RUN = "job@1#1"
MARKS = {"ETCRON_INSTANCE": INSTANCE, "ETCRON_RUN_ID": RUN}


class Turns:
    """A guardian without its process; ``in_fd``: the test's end of the pipe from it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        listens, speaks = os.pipe()
        self.in_fd, own = os.pipe()
        self.descriptors = [listens, speaks, self.in_fd, own]
        self.own = own
        self.guardian = Guardian(
            directory=Path("/nowhere"), instance=INSTANCE, parent=os.getpid(), in_fd=listens, out_fd=own,
            clock=self.clock,
        )  # fmt: skip

    def intend(self, *, allowance_s: float = 600.0, locked: bool = True, grace_s: float = 5.0) -> None:
        """Of a session that was confirmed just now."""
        self.guardian._take(Intent(RUN, "s1", self.clock.boottime(), allowance_s, grace_s, locked))

    def confirm(self) -> None:
        """By a keep-alive that was sent just now."""
        self.guardian._take(Confirmed("s1", self.clock.boottime()))

    def look(self) -> None:
        self.guardian._look(self.clock.boottime())

    def told(self) -> list[Message]:
        """What it has told its worker since."""
        if not select.select([self.in_fd], [], [], 0)[0]:
            return []
        return [decode(line) for line in os.read(self.in_fd, select.PIPE_BUF).splitlines()]


@pytest.fixture
def turns() -> Iterator[Turns]:
    made = Turns()
    yield made
    for descriptor in made.descriptors:
        with suppress(OSError):
            os.close(descriptor)


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    with sleeping(MARKS) as process:
        yield process


def test_it_looks_ten_times_a_second_for_what_may_start_and_four_times_at_what_runs(
    turns: Turns, command: subprocess.Popen[bytes]
) -> None:
    assert turns.guardian._timeout_ms() is None
    turns.intend()
    turns.look()
    assert turns.guardian._timeout_ms() == pytest.approx(100)
    turns.clock.advance(60)
    assert turns.guardian._timeout_ms() == pytest.approx(40)
    turns.guardian._take(Group(RUN, command.pid))
    turns.look()
    assert turns.guardian._timeout_ms() == pytest.approx(250)
    turns.clock.advance(3_600_000)
    assert turns.guardian._timeout_ms() == 0, "the machine has slept"
    turns.guardian._take(Over(RUN))
    assert turns.guardian._timeout_ms() is None


def test_a_leap_of_the_wall_clock_ends_what_is_not_confirmed_within_two_seconds(
    turns: Turns, command: subprocess.Popen[bytes]
) -> None:
    turns.intend(allowance_s=600)
    turns.guardian._take(Group(RUN, command.pid))
    turns.look()
    turns.clock.set_wall(turns.clock.wall_ms() + 700_000)
    for _ in range(12):
        turns.look()
        turns.clock.advance(250)
    assert command.wait(timeout=60) == -signal.SIGTERM


def test_a_worker_that_noticed_a_leap_first_is_told_to_confirm_its_session_again(
    turns: Turns, command: subprocess.Popen[bytes]
) -> None:
    """What it sent before the guardian had noticed does not count; its next keep-alive would come too late."""
    turns.intend(allowance_s=600)
    turns.guardian._take(Group(RUN, command.pid))
    turns.look()
    turns.clock.set_wall(turns.clock.wall_ms() + 700_000)
    turns.confirm()
    turns.clock.advance(150)
    turns.look()
    assert turns.told() == [Leapt()]
    turns.confirm()
    for _ in range(12):
        turns.clock.advance(250)
        turns.look()
    assert turns.told() == [], "neither past its deadline nor ended"


def test_what_is_being_ended_is_looked_at_though_nothing_has_a_deadline(
    turns: Turns, command: subprocess.Popen[bytes]
) -> None:
    turns.intend(allowance_s=-1, locked=False)
    turns.look()
    turns.guardian._take(Group(RUN, command.pid))
    assert not turns.guardian._guarded.has_deadlines
    assert turns.guardian._timeout_ms() is not None


def test_the_grace_is_counted_from_the_deadline_and_not_from_when_the_worker_had_its_time(
    turns: Turns, command: subprocess.Popen[bytes]
) -> None:
    turns.intend(allowance_s=0.5)
    turns.guardian._take(Group(RUN, command.pid))
    turns.clock.advance(501)
    turns.look()
    past = turns.clock.boottime()
    turns.clock.advance(int(TELL_FIRST_S * 1000))
    turns.look()
    assert turns.guardian._ends.next_kill_at(turns.clock.boottime()) == pytest.approx(past + 5.0)
    assert command.wait(timeout=60) == -signal.SIGTERM


def test_what_may_yet_start_is_looked_for_for_as_long_as_its_worker_says_nothing(turns: Turns) -> None:
    """The worker is frozen between its last check and the exec: it may be so for hours."""
    turns.intend(allowance_s=-1)
    for _ in range(10):
        turns.clock.advance(1000)
        turns.look()
    with sleeping(MARKS) as marked:
        turns.look()
        assert marked.wait(timeout=60) == -signal.SIGKILL
    with sleeping({}) as bare:
        turns.guardian._take(Group(RUN, bare.pid))
        turns.look()
        assert bare.wait(timeout=60) == -signal.SIGKILL


def test_what_was_being_started_when_the_worker_ended_is_looked_for_for_half_a_second(
    turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between vfork and exec it shows no marks, and has closed the pipe already."""
    processes: list[subprocess.Popen[bytes]] = []
    began, started = turns.clock.boottime(), ExitStack()

    def sleep(seconds: float) -> None:
        turns.clock.advance(max(1, int(seconds * 1000)))
        if not processes and turns.clock.boottime() > began + 0.35:
            processes.append(started.enter_context(sleeping(MARKS)))
        elif processes and processes[0].poll() is None:
            told_to_end = os.pidfd_open(processes[0].pid)
            assert select.select([told_to_end], [], [], 60)[0], "it ends, which takes no time of this clock"
            os.close(told_to_end)

    turns.intend()
    monkeypatch.setattr("worker.guardian.program.time.sleep", sleep)
    with started:
        turns.guardian._end_all()
    assert [process.wait(timeout=60) for process in processes] == [-signal.SIGTERM]
    assert turns.clock.boottime() < began + 2


@pytest.mark.parametrize("harm", ["is full", "has no reader"])
def test_it_does_what_it_has_to_though_its_worker_cannot_be_told(
    turns: Turns, command: subprocess.Popen[bytes], harm: str
) -> None:
    if harm == "is full":
        with suppress(BlockingIOError):
            while True:
                os.write(turns.own, b"." * select.PIPE_BUF)
    else:
        os.close(turns.in_fd)
    turns.guardian._tell(Past(RUN))
    turns.intend(allowance_s=-1)
    turns.look()
    assert command.wait(timeout=60) == -signal.SIGKILL


def test_whoever_has_the_number_of_a_guardian_that_is_gone_is_left_stopped(
    tmp_path: Path, command: subprocess.Popen[bytes]
) -> None:
    lock = tmp_path / "guardian.lock"
    lock.write_text(f"{command.pid}\n")
    command.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, command.pid, os.WSTOPPED | os.WNOWAIT)
    with lock.open() as file:
        _continue_holder(lock, file.fileno())
    assert os.waitid(os.P_PID, command.pid, os.WCONTINUED | os.WNOHANG | os.WNOWAIT) is None
