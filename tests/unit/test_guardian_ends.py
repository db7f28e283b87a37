"""What the guardian gives up, and when: the real process table, and a time that the test says."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from common.clock import SystemClock
from tests.support.guarding import sleeping
from tests.support.waiting import wait_until
from worker.guardian.ends import Ends
from worker.guardian.group_leader import GroupLeader
from worker.machine.marked import Leftover
from worker.machine.tree import GIVE_UP_AFTER_KILL_S

INSTANCE = f"ends-{os.getpid()}"
RUN = "frozen@1#1"
COUNTS_TERMS = "trap 'echo term' TERM; trap 'echo done; exit' WINCH; echo up; while :; do sleep 0.02; done"
"""Of signals that wait, a shell takes the one with the lowest number first: TERM comes before WINCH."""


MARKS = {"ETCRON_INSTANCE": INSTANCE, "ETCRON_RUN_ID": RUN}


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    with sleeping(MARKS) as process:
        yield process


@pytest.fixture
def counting() -> Iterator[subprocess.Popen[bytes]]:
    """It prints a line for each TERM."""
    environment = {**MARKS, "PATH": os.defpath}
    program = ["/bin/sh", "-c", COUNTS_TERMS]
    with subprocess.Popen(program, env=environment, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


def leader_of(process: subprocess.Popen[bytes], *, parent: int | None = None) -> GroupLeader:
    leader = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=os.getpid() if parent is None else parent)
    assert leader is not None
    return leader


def test_a_process_is_the_runs_where_it_began_while_it_was_started() -> None:
    """Its worker has ended since, and it has cleared its environment: nothing else says whose it is."""
    clock = SystemClock()
    began = clock.boottime()
    with subprocess.Popen(["/bin/sleep", "300"], env={}, start_new_session=True) as process:
        told = clock.boottime()
        leader = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=began, reported=told)
        other = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=told + 1, reported=told + 2)
        older = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=began - 2, reported=began - 1)
        process.kill()
    assert (other, older) == (None, None)
    assert leader is not None
    leader.close()


async def test_a_group_is_the_runs_where_its_leader_was_gone_before_it_was_looked_at() -> None:
    """A short command that leaves something behind."""
    shell = "/bin/sleep 300 >/dev/null & echo $!"
    with subprocess.Popen(["/bin/sh", "-c", shell], env={}, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.wait()
        leader = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=os.getpid(), reported=100.0, now=100.1)
        late = GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=os.getpid(), reported=100.0, now=102.0)
    assert late is None, "its number may have been given to somebody else meanwhile"
    assert leader is not None
    [group] = [leader.left_of(RUN, 1)]
    assert group is not None
    assert (group.leader, group.leader_started) == (process.pid, None)
    ends = Ends(INSTANCE)
    ends.begin(RUN, leader, kill_at=100.0)

    def is_over() -> bool:
        ends.look(100.1)
        return not ends.busy

    await wait_until(is_over, description="nothing of the group lives")
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    leader.close()


def test_what_a_worker_starts_long_after_the_deadline_is_killed_and_not_given_up(
    command: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Ten seconds are from the first KILL, not from when there was nothing yet to kill."""
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0, endless=True)
    leader = leader_of(command)
    ends.found_process(RUN, leader)
    late = 100.0 + 2 * GIVE_UP_AFTER_KILL_S
    ends.look(late)
    command.wait()
    assert ends.busy, "it looks again, for there may be more"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    ends.look(late)
    ends.look(late)
    assert not ends.busy
    leader.close()


def test_a_group_whose_grace_is_over_is_killed_before_the_table_of_processes_is_read(
    command: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a busy machine that takes a second and more."""
    ends, leader = Ends(INSTANCE), leader_of(command)
    ends.begin(RUN, leader, kill_at=100.0, term=False)
    lived_at_look = list[bool]()

    def looked(*_: object, **__: object) -> list[Leftover]:
        lived_at_look.append(leader.is_living())
        return []

    monkeypatch.setattr("worker.guardian.ends.find_leftovers", looked)
    ends.look(99.9)
    ends.look(100.0)
    command.wait(timeout=60)
    assert lived_at_look[0]
    assert [record.__dict__["action"] for record in caplog.records] == ["guardian.kill"]
    leader.close()


def test_a_group_that_has_ended_in_its_grace_is_not_said_to_be_killed(
    command: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    ends, leader = Ends(INSTANCE), leader_of(command)
    ends.begin(RUN, leader, kill_at=100.0)
    command.wait(timeout=60)
    ends.look(100.0)
    ends.look(100.0)
    assert not ends.busy
    assert caplog.records == []
    leader.close()


def test_what_may_still_come_is_looked_for_however_long_there_is_nothing() -> None:
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0)
    ends.begin(RUN, None, kill_at=100.0, endless=True)
    for _ in range(5):
        ends.look(100.0)
    assert ends.busy
    with sleeping(MARKS) as process:
        ends.look(100.0)
        assert process.wait(timeout=60) == -signal.SIGKILL
    ends.nothing_more_comes()
    for _ in range(2):
        ends.look(100.0)
    assert not ends.busy


@pytest.mark.parametrize("endless", [False, True])
def test_what_cannot_be_killed_is_given_up_after_ten_seconds_unless_more_may_come(
    command: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, endless: bool
) -> None:
    monkeypatch.setattr("worker.machine.tree.send", lambda *_: False)
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0, endless=endless)
    for now in (99.0, 105.0, 105.0 + GIVE_UP_AFTER_KILL_S - 0.1):
        ends.look(now)
        assert ends.busy
    ends.look(105.0 + GIVE_UP_AFTER_KILL_S)
    assert ends.busy == endless
    said = [entry.__dict__["action"] for entry in caplog.records]
    assert said == ["guardian.kill"] + ["guardian.gave_up"] * (not endless)
    assert command.poll() is None
    ends.begin(RUN, None, kill_at=100.0)
    ends.look(200.0)
    assert ends.busy, "it has ten seconds anew"


def test_the_next_grace_to_be_over_is_one_that_is_not_over_yet() -> None:
    ends = Ends(INSTANCE)
    ends.begin("a@1#1", None, kill_at=100.0)
    ends.begin("b@1#1", None, kill_at=110.0)
    assert [ends.next_kill_at(now) for now in (99.0, 100.0, 110.0)] == [100.0, 110.0, float("inf")]


def test_a_run_that_was_clear_is_looked_for_again_where_it_is_to_be_ended_again() -> None:
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0)
    for _ in range(2):
        ends.look(100.0)
    assert not ends.busy
    ends.begin(RUN, None, kill_at=100.0)
    ends.look(100.0)
    assert ends.busy


def test_the_earlier_of_two_graces_counts_and_a_leader_that_becomes_known(command: subprocess.Popen[bytes]) -> None:
    ends, leader = Ends("somebody else"), leader_of(command)
    ends.begin(RUN, None, kill_at=100.0, term=False)
    ends.begin(RUN, leader, kill_at=200.0, term=False)
    ends.look(100.0)
    assert command.wait(timeout=60) == -signal.SIGKILL
    leader.close()


def test_one_look_that_finds_nothing_is_not_enough_also_after_one_that_has_found_something() -> None:
    """A process in the middle of an exec shows no marks."""
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0, term=False)
    ends.look(1.0)
    with sleeping(MARKS) as process:
        ends.look(2.0)
        process.kill()
    ends.look(3.0)
    assert ends.busy
    ends.look(4.0)
    assert not ends.busy


@pytest.mark.parametrize("is_known", [True, False], ids=["by its group", "by its marks"])
def test_each_process_gets_one_term(counting: subprocess.Popen[bytes], is_known: bool) -> None:
    ends, leader = Ends(INSTANCE), leader_of(counting)
    ends.begin(RUN, leader if is_known else None, kill_at=100.0)
    if not is_known:
        ends.look(1.0)
    assert counting.stdout is not None
    assert counting.stdout.readline() == b"term\n"
    for now in (2.0, 3.0):
        ends.look(now)
    counting.send_signal(signal.SIGWINCH)
    assert counting.stdout.read() == b"done\n"
    leader.close()


def test_what_its_worker_has_sent_a_term_gets_none_until_the_worker_is_gone(counting: subprocess.Popen[bytes]) -> None:
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0, term=False)
    ends.look(1.0)
    counting.send_signal(signal.SIGWINCH)
    assert counting.stdout is not None
    assert counting.stdout.read() == b"done\n"
    with sleeping(MARKS) as process:
        ends.begin(RUN, None, kill_at=100.0)
        ends.look(1.0)
        assert process.wait(timeout=60) == -signal.SIGTERM


def test_a_stopped_process_that_is_known_by_its_marks_takes_its_term(command: subprocess.Popen[bytes]) -> None:
    command.send_signal(signal.SIGSTOP)
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0)
    ends.look(1.0)
    assert command.wait(timeout=60) == -signal.SIGTERM


def test_a_process_that_leads_no_group_is_not_the_first_of_a_run() -> None:
    """Its number was given to somebody else, whose group is not the run's."""
    with sleeping(MARKS, leads=False) as process:
        assert GroupLeader.of(RUN, process.pid, instance=INSTANCE, parent=os.getpid()) is None


def test_a_process_of_a_worker_that_is_gone_is_known_by_its_mark_and_by_the_moment_it_began(
    command: subprocess.Popen[bytes],
) -> None:
    leader = leader_of(command, parent=-1)
    began = ((leader._started or 0) + 0.5) / os.sysconf("SC_CLK_TCK")
    at_once = GroupLeader.of("other", command.pid, instance=INSTANCE, parent=-1, began=began, reported=began)
    assert at_once is not None
    for one in (leader, at_once):
        one.close()


def test_a_process_that_has_exited_does_not_live_nor_does_another_of_its_number(
    command: subprocess.Popen[bytes],
) -> None:
    leader, other = leader_of(command), GroupLeader(command.pid, 0)
    assert leader.is_living()
    assert not other.is_living()
    command.kill()
    os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)
    assert not leader.is_living()
    for one in (leader, other):
        one.close()


def test_without_a_descriptor_the_group_is_signalled_by_its_number_unless_that_was_given_away(
    command: subprocess.Popen[bytes],
) -> None:
    leader, other = leader_of(command), GroupLeader(command.pid, 0)
    for one in (leader, other):
        one.close()
    other.send(signal.SIGKILL)
    assert command.poll() is None
    leader.send(signal.SIGTERM)
    assert command.wait(timeout=60) == -signal.SIGTERM


def test_a_number_that_was_given_away_is_nobodys_any_more_also_when_that_one_is_gone(
    command: subprocess.Popen[bytes],
) -> None:
    with sleeping({}) as first:
        leader = leader_of(first)
        first.kill()
    assert leader.is_known(), "it names the group, if anybody is left in that"
    leader.pid, leader._started = command.pid, 0  # as if it had been given to this one
    ends = Ends(INSTANCE)
    ends.begin("first@1#1", leader, kill_at=100.0, term=False)
    ends.look(100.0)
    assert command.poll() is None
    command.kill()
    command.wait()
    assert not leader.is_known()
    leader.close()
