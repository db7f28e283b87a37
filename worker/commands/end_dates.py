"""When a run ended: by the wall clock while that is vouched for, else as long after its start as it has gone on."""

from __future__ import annotations

import math
from collections.abc import Callable

from common.clock import Clock


class EndDates:
    """Dates ends. What follows a run is due its delay after that date, also on workers whose clocks are right.

    A wall clock that has jumped during the run says nothing of its end until it has been compared with the others';
    but the boot clock knows how long the run has gone on, and the start was dated by a clock that was trusted.
    """

    def __init__(self, clock: Clock, *, is_vouched_for: Callable[[], bool] = lambda: True) -> None:
        """``is_vouched_for``: whether the wall clock is right, as far as anybody can tell."""
        self._clock = clock
        self._is_vouched_for = is_vouched_for

    def now_ms(self, *, start_ms: int, started_s: float) -> int:
        """The date of an end just now, in ms since the epoch, of what began at this wall and at this boot time."""
        wall_ms = self._clock.wall_ms()  # first: who reads it finds out that it has jumped
        if self._is_vouched_for():
            return wall_ms
        return start_ms + math.ceil((self._clock.boottime() - started_s) * 1000)
