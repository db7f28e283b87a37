"""What the guardian gives up, and when: the real process table, and a time that the test says."""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator

import pytest

from worker.guardian.ends import GIVE_UP_AFTER_KILL_S, Ends
from worker.guardian.leader import Leader

INSTANCE = f"ends-{os.getpid()}"
RUN = "frozen@1#1"


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    marks = {"ETCRON_INSTANCE": INSTANCE, "ETCRON_RUN_ID": RUN}
    with subprocess.Popen(["/bin/sleep", "300"], env=marks, start_new_session=True) as process:
        yield process
        process.kill()


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
