"""One waiter, woken by whatever comes first: a ring, or a moment."""

from __future__ import annotations

import asyncio
from typing import Final

from common.clock import Clock

LONGEST_S: Final = 5.0
"""However late the moment, the wall clock is looked at again after so long: it is slewed, machines are suspended."""


class Alarm:
    """Clear it, read the state, act, then wait: a ring in between is not lost."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter, now or when it next waits."""
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait_until_wall(self, wall_ms: int | None) -> None:
        """Return when rung, once the wall clock has reached ``wall_ms``, or earlier: look again after waking."""
        if self._event.is_set():
            await asyncio.sleep(0)  # others have their turn, also between two turns of who rings for himself
            return
        if wall_ms is None:
            await self._event.wait()
            return
        delay_s = (wall_ms - self._clock.wall_ms()) / 1000
        if delay_s <= 0:
            await asyncio.sleep(0)
            return
        handle = asyncio.get_running_loop().call_later(min(delay_s, LONGEST_S), self._event.set)
        try:
            await self._event.wait()
        finally:
            handle.cancel()
