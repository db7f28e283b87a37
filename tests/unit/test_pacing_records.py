"""When a batch of records is due: by how many wait, by the time since the last one, and by what else there is to do."""

from __future__ import annotations

import pytest

from tests.support.fake_clock import FakeClock
from worker.pacing import BETWEEN_S, BURST_S, RecordPace


class Rig:
    """A pace, its clock, and whether fires wait for slots."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fires_wait = False
        self.has_room = True
        self.pace = RecordPace(
            batch_size=100, commit_timeout_ms=1000, fires_wait=lambda: self.fires_wait,
            has_room=lambda: self.has_room, clock=self.clock,
        )  # fmt: skip


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_the_first_record_is_due_at_once(rig: Rig) -> None:
    assert rig.pace.due_in(1) == 0
    rig.fires_wait = True
    assert rig.pace.due_in(1) == 0


def test_the_next_ones_are_due_when_a_batch_is_full_or_has_had_its_time(rig: Rig) -> None:
    rig.pace.written()
    assert rig.pace.due_in(99) == pytest.approx(1.0)
    assert rig.pace.due_in(100) == 0
    rig.clock.advance(750)
    assert rig.pace.due_in(1) == pytest.approx(0.25)


def test_while_fires_wait_a_batch_is_due_every_three_seconds_whatever_waits(rig: Rig) -> None:
    rig.fires_wait = True
    rig.pace.written()
    assert rig.pace.due_in(5000) == pytest.approx(BETWEEN_S)
    rig.clock.advance(round(1000 * BETWEEN_S))
    assert rig.pace.due_in(5000) == 0
    rig.pace.written()
    assert rig.pace.due_in(4500) == pytest.approx(BETWEEN_S)


def test_what_waits_is_due_as_soon_as_no_fire_waits(rig: Rig) -> None:
    rig.fires_wait = True
    rig.pace.written()
    rig.pace.written()
    assert rig.pace.due_in(5000) > 0
    rig.fires_wait = False
    assert rig.pace.due_in(5000) == 0


def test_where_fires_wait_for_long_records_come_as_ever(rig: Rig) -> None:
    rig.fires_wait = True
    rig.pace.written()
    assert rig.pace.due_in(1) == pytest.approx(BETWEEN_S)
    rig.clock.advance(round(1000 * BURST_S) - 1)
    rig.pace.written()
    assert rig.pace.due_in(1000) == pytest.approx(BETWEEN_S)
    rig.clock.advance(1)
    assert rig.pace.due_in(1000) == 0
    assert rig.pace.due_in(99) == pytest.approx(0.999)
    rig.fires_wait = False
    assert rig.pace.due_in(1000) == 0
    rig.fires_wait = True
    assert rig.pace.due_in(1000) > 2, "another burst"


def test_where_there_is_no_room_nothing_waits(rig: Rig) -> None:
    rig.fires_wait = True
    rig.pace.written()
    rig.has_room = False
    assert rig.pace.due_in(100) == 0
