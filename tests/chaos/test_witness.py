"""What a command writes of itself, and how it is read: also while it is being written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.history import Mark, boot_ns, wall_ms
from tests.chaos.jobs import command, load_jobs, shell_command
from tests.chaos.witness import Witness

RUN = "tick@1800000000000#1"


Leaves = Callable[..., list[str]]
LEAVING = pytest.mark.parametrize("leaves", [command, shell_command])


def run_command(
    evidence: Path, leaves: Leaves = command, *, seconds: float = 0.0, fail_below: int = 0, attempt: int = 1
) -> int:
    environ = {"ETCRON_RUN_ID": RUN, "ETCRON_FENCE": "7", "ETCRON_WORKER": "w1", "ETCRON_ATTEMPT": str(attempt)}
    argv = leaves(evidence, seconds=seconds, fail_below=fail_below)
    return subprocess.run(argv, env=os.environ | environ, check=False, timeout=60).returncode


@LEAVING
def test_a_command_leaves_its_start_and_its_end(leaves: Leaves, tmp_path: Path) -> None:
    witness, before_ns = Witness(tmp_path / "evidence"), boot_ns()
    assert run_command(witness.path, leaves, seconds=0.06) == 0
    start, end = witness.all()
    assert (start.mark, end.mark) == (Mark.START, Mark.END)
    assert (start.run, start.fence, start.worker, start.exit_code, end.exit_code) == (RUN, 7, "w1", None, 0)
    assert before_ns - 1_000_000 < start.boot_ns <= end.boot_ns - 60_000_000 < boot_ns() - 59_000_000
    assert witness.going() == []


@LEAVING
def test_a_command_fails_in_its_first_attempts_as_told(leaves: Leaves, tmp_path: Path) -> None:
    of_attempts = [run_command(tmp_path / "evidence", leaves, fail_below=3, attempt=attempt) for attempt in (1, 2, 3)]
    assert of_attempts == [1, 1, 0]


@LEAVING
def test_of_a_run_that_wrote_no_end_the_last_sign_of_life_is_kept(leaves: Leaves, tmp_path: Path) -> None:
    witness = Witness(tmp_path / "evidence")
    assert witness.all() == []
    run_command(witness.path, leaves, seconds=0.1)
    *whole, _ = witness.path.read_bytes().splitlines(keepends=True)
    alone = Witness(tmp_path / "cut")
    alone.path.write_bytes(b"".join(whole))
    start, last = alone.all()
    assert (start.mark, last.mark) == (Mark.START, Mark.LAST)
    assert alone.going() == [RUN]


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    run_command(tmp_path / "evidence")
    data = (tmp_path / "evidence").read_bytes()
    witness = Witness(tmp_path / "growing")
    witness.path.write_bytes(data[:-20])
    assert [one.mark for one in witness.all()] == [Mark.START]
    with witness.path.open("ab") as file:
        file.write(data[-20:])
    assert [one.mark for one in witness.all()] == [Mark.START, Mark.END]


def test_the_jobs_of_a_load_leave_the_evidence_of_all_others(tmp_path: Path) -> None:
    path = tmp_path / "evidence"
    specs = load_jobs(path, 3)
    assert len({spec["name"] for spec in specs}) == 3
    before_ns, before_ms = boot_ns(), wall_ms()
    named = {"ETCRON_RUN_ID": "load-0000@1000#1", "ETCRON_FENCE": "7", "ETCRON_WORKER": "w1"}
    subprocess.run(specs[0]["command"], env=named, check=True)
    start, end = Witness(path).all()
    assert (start.mark, end.mark, end.exit_code, end.printed) == (Mark.START, Mark.END, 0, 0)
    for one in (start, end):
        assert (one.run, one.fence, one.worker) == ("load-0000@1000#1", 7, "w1")
        assert before_ns - 1_000_000 <= one.boot_ns <= boot_ns() + 1_000_000
        assert before_ms - 1 <= one.wall_ms <= wall_ms()
