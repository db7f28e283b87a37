"""What the guardian gives up, and when: the real process table, and a time that the test says."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator

import pytest

from common.clock import SystemClock
from worker.guardian.ends import GIVE_UP_AFTER_KILL_S, Ends
from worker.guardian.leader import Leader
from worker.machine.marked import Leftover

INSTANCE = f"ends-{os.getpid()}"
RUN = "frozen@1#1"


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    marks = {"ETCRON_INSTANCE": INSTANCE, "ETCRON_RUN_ID": RUN}
    with subprocess.Popen(["/bin/sleep", "300"], env=marks, start_new_session=True) as process:
        yield process
        process.kill()


def test_a_process_is_the_runs_where_it_began_while_it_was_started() -> None:
    """Its worker has ended since, and it has cleared its environment: nothing else says whose it is."""
    clock = SystemClock()
    began = clock.boottime()
    with subprocess.Popen(["/bin/sleep", "300"], env={}, start_new_session=True) as process:
        told = clock.boottime()
        leader = Leader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=began, told=told)
        other = Leader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=told + 1, told=told + 2)
        older = Leader.of(RUN, process.pid, instance=INSTANCE, parent=-1, began=began - 2, told=began - 1)
        process.kill()
    assert (other, older) == (None, None)
    assert leader is not None
    leader.close()


def test_what_a_worker_starts_long_after_the_deadline_is_killed_and_not_given_up(
    command: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Ten seconds are from the first KILL, not from when there was nothing yet to kill."""
    ends = Ends(INSTANCE)
    ends.begin(RUN, None, kill_at=100.0, endless=True)
    leader = Leader.of(RUN, command.pid, instance=INSTANCE, parent=os.getpid())
    assert leader is not None
    ends.has_process(RUN, leader)
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
    ends, leader = Ends(INSTANCE), Leader.of(RUN, command.pid, instance=INSTANCE, parent=os.getpid())
    assert leader is not None
    ends.begin(RUN, leader, kill_at=100.0, term=False)
    lived_at_look = list[bool]()

    def looked(*_: object, **__: object) -> list[Leftover]:
        lived_at_look.append(leader.is_living())
        return []

    monkeypatch.setattr("worker.guardian.ends.find_leftovers", looked)
    ends.look(99.9)
    ends.look(100.0)
    command.wait(timeout=10)
    assert lived_at_look[0]
    assert [record.__dict__["action"] for record in caplog.records] == ["guardian.kill"]
    leader.close()


def test_a_group_that_has_ended_in_its_grace_is_not_said_to_be_killed(
    command: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    ends, leader = Ends(INSTANCE), Leader.of(RUN, command.pid, instance=INSTANCE, parent=os.getpid())
    assert leader is not None
    ends.begin(RUN, leader, kill_at=100.0)
    command.wait(timeout=10)
    ends.look(100.0)
    ends.look(100.0)
    assert not ends.busy
    assert caplog.records == []
    leader.close()
