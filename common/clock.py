"""The only reader of time: everything else is given a clock, or ``now``.

Plan on the wall clock, sleep on the monotonic one, measure outages on the boot clock (it counts while suspended).
"""

from __future__ import annotations

import time
from typing import Protocol

_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What a service may ask of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back; the event loop's own clock."""

    def boottime(self) -> float:
        """Seconds since boot, counting suspension; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(_BOOTTIME)
