"""The file of records that the log store takes in no form does not grow without a limit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.disks import full_disk
from tests.support.records import record
from worker.record.delivery import set_aside


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


def test_it_is_full_once_it_has_reached_its_limit(tmp_path: Path) -> None:
    set_aside(tmp_path, [(record(1), "told to")])
    size = (tmp_path / "rejected.jsonl").stat().st_size
    set_aside(tmp_path, [(record(2), "told to")], limit_bytes=size + 1)
    assert not (tmp_path / "rejected.1.jsonl").exists()
    set_aside(tmp_path, [(record(3), "told to")], limit_bytes=2 * size)
    assert kept(tmp_path / "rejected.1.jsonl") == [str(record(1).run_id), str(record(2).run_id)]
    assert kept(tmp_path / "rejected.jsonl") == [str(record(3).run_id)]


def test_a_disk_that_becomes_full_in_the_middle_of_a_record_keeps_none_of_them(tmp_path: Path) -> None:
    set_aside(tmp_path, [(record(1), "told to")])
    size = (tmp_path / "rejected.jsonl").stat().st_size

    with full_disk(2 * size + 100), pytest.raises(OSError, match="too large"):
        set_aside(tmp_path, [(record(2), "told to"), (record(3), "told to")])

    assert kept(tmp_path / "rejected.jsonl") == [str(record(1).run_id)]


def test_the_first_is_there_for_good_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[str] = []
    real = os.fsync

    def force(descriptor: int) -> None:
        forced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", force)
    for number in (1, 2):
        set_aside(tmp_path, [(record(number), "told to")])
    assert forced == [str(tmp_path / "rejected.jsonl"), str(tmp_path), str(tmp_path / "rejected.jsonl")]


def test_a_disk_that_refuses_leaves_no_half_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside(tmp_path, [(record(1), "told to")])

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("worker.record.delivery.os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            set_aside(tmp_path, [(record(2), "told to")])

    assert kept(tmp_path / "rejected.jsonl") == [str(record(1).run_id)]
