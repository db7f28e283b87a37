"""What a command finds in its environment, and what it does not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from common.protocol.keys import RunId
from worker.launcher.environment import (
    allowed_in,
    encoded,
    give_commands_default_signals,
    marks,
    variables,
)

MARKS = marks(RunId.planned("backup", 1_700_000_000_123, 2), plan_ms=1_700_000_000_123, fence=42,
              worker="w1", instance="i1")  # fmt: skip


def environment(**job_env: str) -> dict[str, str]:
    around = variables(user="ann", home="/home/ann", path="/usr/bin:/bin", shell="/bin/sh", job_env=allowed_in(job_env))
    assert dict(os.fsdecode(mark).split("=", 1) for mark in encoded(MARKS)) == MARKS
    return {**around, **MARKS}


def test_holds_these_variables_and_no_others() -> None:
    assert environment() == {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/ann",
        "USER": "ann",
        "LOGNAME": "ann",
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
        "ETCRON_JOB": "backup",
        "ETCRON_RUN_ID": "backup@1700000000123#2",
        "ETCRON_PLAN_TIME": "2023-11-14T22:13:20.123Z",
        "ETCRON_PLAN_MS": "1700000000123",
        "ETCRON_ATTEMPT": "2",
        "ETCRON_FENCE": "42",
        "ETCRON_WORKER": "w1",
        "ETCRON_INSTANCE": "i1",
    }


def test_job_adds_and_overrides() -> None:
    own = environment(PATH="/opt/bin", LANG="de_DE.UTF-8", TOKEN="x")
    assert (own["PATH"], own["LANG"], own["TOKEN"]) == ("/opt/bin", "de_DE.UTF-8", "x")


def test_job_cannot_touch_the_marks() -> None:
    own = environment(ETCRON_RUN_ID="other", ETCRON_FENCE="0", ETCRON_MINE="x")
    assert own == environment()


def test_job_of_a_channel_is_told_its_message() -> None:
    assert environment(ETCRON_NOTICE_ID="one") == {**environment(), "ETCRON_NOTICE_ID": "one"}


def test_name_that_no_variable_can_have_is_refused() -> None:
    with pytest.raises(ValueError, match="variable name"):
        environment(**{"A=B": "x"})


@pytest.fixture
def ignored_hup() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("ignored_hup")
def test_signal_that_the_worker_ignores_is_not_ignored_by_commands() -> None:
    give_commands_default_signals()
    assert signal.getsignal(signal.SIGHUP) not in (signal.SIG_IGN, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGHUP)  # the worker still takes no notice


@pytest.fixture
def blocked_term() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.usefixtures("blocked_term")
def test_signal_that_is_blocked_in_the_worker_is_not_blocked_in_commands() -> None:
    give_commands_default_signals()
    look = subprocess.run(("grep", "^SigBlk", "/proc/self/status"), capture_output=True, check=True, text=True)
    assert int(look.stdout.split()[1], 16) == 0
