"""A wall clock that leaves the boot clock has jumped: the planner learns of it before it reads the clock again."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import Final

from common.clock import Clock

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_AT_ONCE_S: Final = 0.05


class ClockWatch:
    """Compares this process's two clocks, once a second and whenever its `WatchedClock` is read."""

    def __init__(self, clock: Clock, *, max_skew_ms: int, on_jump: Callable[[float], None]) -> None:
        """``on_jump``: called with the seconds, within a reading of the clock; must not read much or block."""
        self._clock = clock
        self._max_skew_s = max_skew_ms / 1000
        self._on_jump = on_jump
        self._offset_s = self._now_s()
        self._process = secrets.token_hex(4)
        self._jumps = 0

    @property
    def name(self) -> str:
        """What this clock is called: another name at each start of the process, and after each jump."""
        return f"{self._process}.{self._jumps}"

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> int:
        """Calls ``on_jump`` for a jump beyond the allowed skew, once for each; the wall clock, in ms, after that."""
        wall_ms = self._clock.wall_ms()
        if abs(wall_ms / 1000 - self._clock.boottime() - self._offset_s) > self._max_skew_s:
            by_s = self._now_s() - self._offset_s
            if abs(by_s) > self._max_skew_s:
                self._offset_s += by_s
                self._jumps += 1
                extra = {"action": "clock.jumped", "by_s": round(by_s, 3)}
                _log.warning("the clock jumped by %.3f s", by_s, extra=extra)
                self._on_jump(by_s)
            wall_ms = self._clock.wall_ms()
        return wall_ms

    def agreed(self) -> None:
        """The wall clock is right now: what it is off from here on counts."""
        self._offset_s = self._now_s()

    def _now_s(self) -> float:
        """Once more where the process was frozen between its readings of the two clocks: that is no jump."""
        while True:
            began_s = self._clock.boottime()
            now_s = self._clock.wall_ms() / 1000 - began_s
            if self._clock.boottime() - began_s < _AT_ONCE_S:
                return now_s


class WatchedClock:
    """The same clocks; reading the wall clock looks for a jump first, so that nothing is decided by one that jumped."""

    def __init__(self, clock: Clock, watch: ClockWatch) -> None:
        self._clock = clock
        self._watch = watch

    def wall_ms(self) -> int:
        return self._watch.look()

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def boottime(self) -> float:
        return self._clock.boottime()

    def is_synchronised(self) -> bool:
        return self._clock.is_synchronised()
