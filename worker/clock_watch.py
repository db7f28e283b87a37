"""A wall clock that leaves the boot clock has jumped: whoever plans by it is told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from common.clock import Clock

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0


class ClockWatch:
    """Compares the two clocks once a second."""

    def __init__(self, clock: Clock, *, max_skew_ms: int, on_jump: Callable[[], None]) -> None:
        self._clock = clock
        self._max_skew_s = max_skew_ms / 1000
        self._on_jump = on_jump
        self._offset_s = self._now_s()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look()

    def look(self) -> None:
        """Tells of a jump beyond the skew that is allowed, once for each."""
        by_s = self._now_s() - self._offset_s
        if abs(by_s) <= self._max_skew_s:
            return
        self._offset_s += by_s
        extra = {"action": "clock.jumped", "by_s": round(by_s, 3)}
        _log.warning("the clock jumped by %.3f s", by_s, extra=extra)
        self._on_jump()

    def _now_s(self) -> float:
        return self._clock.wall_ms() / 1000 - self._clock.boottime()
