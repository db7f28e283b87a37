"""A spool's own name: it stays while the spool's files do."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.spooling.spool_name import name_of_spool


def test_name_stays_until_the_directory_is_emptied(tmp_path: Path) -> None:
    name = name_of_spool(tmp_path)
    assert name_of_spool(tmp_path) == name
    for file in tmp_path.iterdir():
        file.unlink()
    assert name_of_spool(tmp_path) != name


def test_disk_that_takes_no_name_keeps_no_worker_from_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    assert name_of_spool(tmp_path) != name_of_spool(tmp_path)
