"""Where a clock was right, over restarts of its worker and of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.disks import at_once
from tests.support.fake_clock import FakeClock
from worker.clock_memory import ClockMemory


def test_jump_between_two_lives_is_known(tmp_path: Path) -> None:
    clock = FakeClock()
    ClockMemory(tmp_path, clock, boot_id="b", in_turn=at_once).remember(-20, 30)
    clock.advance(3_600_000)
    assert ClockMemory(tmp_path, clock, boot_id="b", in_turn=at_once).recall() == (-20, 30)
    clock.set_wall(clock.wall_ms() + 30_000)
    assert ClockMemory(tmp_path, clock, boot_id="b", in_turn=at_once).recall() == (29_980, 30)


def test_another_boot_is_another_clock(tmp_path: Path) -> None:
    ClockMemory(tmp_path, FakeClock(), boot_id="b", in_turn=at_once).remember(0, 5)
    assert ClockMemory(tmp_path, FakeClock(), boot_id="c", in_turn=at_once).recall() is None
    assert ClockMemory(tmp_path, FakeClock(), boot_id="", in_turn=at_once).recall() is None
    assert ClockMemory(tmp_path, FakeClock(), in_turn=at_once).recall() is None


def test_what_is_known_better_stays_until_it_is_contradicted(tmp_path: Path) -> None:
    clock = FakeClock()
    memory = ClockMemory(tmp_path, clock, boot_id="b", in_turn=at_once)
    memory.remember(0, 10)
    memory.remember(40, 50)
    assert memory.recall() == (0, 10)
    clock.set_wall(clock.wall_ms() + 200)
    memory.remember(0, 50)
    assert memory.recall() == (0, 50)
    memory.remember(3, 4)
    assert ClockMemory(tmp_path, clock, boot_id="b", in_turn=at_once).recall() == (3, 4)


@pytest.mark.parametrize("content", [b"", b"\xff", b"null", b"{}", b'{"bootId":"b","rightMs":"1","withinMs":1}'])
def test_garbage_is_nothing_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "clock.json").write_bytes(content)
    memory = ClockMemory(tmp_path, FakeClock(), boot_id="b", in_turn=at_once)
    assert memory.recall() is None
    memory.remember(0, 5)
    assert ClockMemory(tmp_path, FakeClock(), boot_id="b", in_turn=at_once).recall() == (0, 5)


def test_disk_that_takes_nothing_is_no_fault(tmp_path: Path) -> None:
    memory = ClockMemory(tmp_path / "away", FakeClock(), boot_id="b", in_turn=at_once)
    memory.remember(0, 5)
    assert memory.recall() == (0, 5)
