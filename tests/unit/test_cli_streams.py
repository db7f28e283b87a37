"""The command line where what it prints to is full, or was never opened."""

from __future__ import annotations

import errno
import io
import subprocess
import sys
from pathlib import Path

import pytest

from cli.processes.up import say

_ROOT = Path(__file__).parents[2]


def _run(line: str, *, buffered: bool = True) -> subprocess.CompletedProcess[str]:
    """A line for the shell in which ``$ETCRON`` is the program."""
    flag = "" if buffered else "-u "
    environ = {"PATH": "/usr/bin:/bin", "ETCRON": f"{sys.executable} {flag}-m cli"}
    return subprocess.run(["sh", "-c", line], cwd=_ROOT, env=environ, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", ["version", "cron next @daily", "cron --help"])
def test_full_stdout_is_told_in_words(command: str, buffered: bool) -> None:
    result = _run(f"$ETCRON {command} > /dev/full", buffered=buffered)
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("etcron: stdout cannot be written: No space left on device; ")


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_never_opened_are_not_missed(closed: str) -> None:
    result = _run(f"$ETCRON version {closed}")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("nowhere", ["2>&-", "2>/dev/full"])
def test_status_is_the_same_where_the_error_cannot_be_told(nowhere: str) -> None:
    assert _run(f"$ETCRON cron next @daily {nowhere}").returncode == 0
    assert (
        _run(f"$ETCRON cron next nonsense {nowhere}").returncode == _run("$ETCRON cron next nonsense").returncode != 0
    )


def test_program_of_an_earlier_unit_starts_where_nobody_can_be_told_that_it_is_one() -> None:
    before, now = (
        _run(f"$ETCRON {form} --nonsense 2>/dev/full", buffered=False) for form in ("worker", "start worker")
    )
    assert before.returncode == now.returncode, "it has read its arguments"


class _Full(io.StringIO):
    def write(self, _: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_up_goes_on_where_it_cannot_say_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Full())
    say("one")
