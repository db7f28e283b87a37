"""The file of records that the log store takes in no form does not grow without a limit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.records import record
from worker.spooling.rejected import set_aside


def kept(path: Path) -> list[str]:
    return [json.loads(line)["record"]["_id"] for line in path.read_text().splitlines()]


def test_a_file_past_its_limit_makes_room_for_a_new_one(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        set_aside(tmp_path, [(record(number), "told to")], limit_bytes=1)

    assert kept(tmp_path / "rejected.jsonl") == [str(record(3).run_id)]
    assert kept(tmp_path / "rejected.1.jsonl") == [str(record(2).run_id)]
    assert len(list(tmp_path.iterdir())) == 2


def test_below_the_limit_records_are_added(tmp_path: Path) -> None:
    for number in (1, 2):
        set_aside(tmp_path, [(record(number), "told to")])

    assert kept(tmp_path / "rejected.jsonl") == [str(record(1).run_id), str(record(2).run_id)]
    assert not (tmp_path / "rejected.1.jsonl").exists()


def test_a_disk_that_refuses_leaves_no_half_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside(tmp_path, [(record(1), "told to")])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("worker.spooling.rejected.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            set_aside(tmp_path, [(record(2), "told to")])

    assert kept(tmp_path / "rejected.jsonl") == [str(record(1).run_id)]
