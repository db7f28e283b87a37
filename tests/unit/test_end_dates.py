"""The end of a run is dated by a wall clock that is vouched for, else by how long the run went on."""

from __future__ import annotations

import pytest

from tests.support.fake_clock import FakeClock
from worker.run.running import EndDates

HOUR_MS = 3_600_000


@pytest.mark.parametrize("by_ms", [-HOUR_MS, -30_000, 0, 30_000])
def test_a_jump_of_a_clock_that_nobody_vouches_for_changes_no_end(by_ms: int) -> None:
    clock = FakeClock()
    start_ms, started_s = clock.wall_ms(), clock.boottime()
    clock.advance(4000)
    clock.set_wall(clock.wall_ms() + by_ms)
    dates = EndDates(clock, is_vouched_for=lambda: False)
    assert dates.now_ms(start_ms=start_ms, started_s=started_s) == start_ms + 4000


def test_a_clock_that_was_set_right_during_the_run_dates_its_end() -> None:
    clock = FakeClock()
    start_ms, started_s = clock.wall_ms(), clock.boottime()
    clock.advance(4000)
    clock.set_wall(clock.wall_ms() - HOUR_MS)
    assert EndDates(clock).now_ms(start_ms=start_ms, started_s=started_s) == start_ms + 4000 - HOUR_MS


def test_whether_it_is_vouched_for_is_asked_after_the_clock_was_read() -> None:
    """Its reader is who finds out that it has jumped."""
    read = list[bool]()

    class Jumping(FakeClock):
        def wall_ms(self) -> int:
            read.append(True)
            return super().wall_ms() - HOUR_MS

    clock = Jumping()
    assert EndDates(clock, is_vouched_for=lambda: not read).now_ms(start_ms=5, started_s=clock.boottime()) == 5
