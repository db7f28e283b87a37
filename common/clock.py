"""The only reader of time: everything else is given a clock, or ``now``.

Plan on the wall clock, sleep on the monotonic one, measure outages on the boot clock (it counts while suspended).
"""

from __future__ import annotations

import ctypes
import time
from typing import Protocol

_libc = ctypes.CDLL(None)
_TIME_ERROR = 5
_TIMEX_BYTES = 512
"""More than a ``struct timex`` has anywhere; all of it zero asks, and sets nothing."""
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What a service may ask of time."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back; the event loop's own clock."""

    def boottime(self) -> float:
        """Seconds since boot, counting suspension; never goes back."""

    def is_synchronised(self) -> bool:
        """Whether the kernel calls the wall clock synchronised: NTP keeps it, and it has not been set by hand since."""


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(_BOOTTIME)

    def is_synchronised(self) -> bool:
        return _libc.ntp_adjtime(ctypes.create_string_buffer(_TIMEX_BYTES)) not in (-1, _TIME_ERROR)
