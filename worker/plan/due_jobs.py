"""The jobs that have a request whose time has come, found without looking at those whose time has not.

    nobody asks --begin--> not looked at yet --not due--> expected at a time --it has come--> due
        ^                        ^                              ^                              |
        |                        +--- too much has piled up ----+------ the clock went back ---+
        +--end---- from anywhere

Only the steward asks: nobody else keeps times. However many are due at once, or go, nothing else is kept waiting.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Mapping
from typing import Final

from worker.plan.lineup import Lineup

_SPARE: Final = 1_000
_YIELD_EVERY: Final = 500


class DueJobs:
    """Knows when each job is to be looked at; what waits there, the line-ups say."""

    def __init__(self, lineups: Mapping[str, Lineup]) -> None:
        self._lineups = lineups
        self._is_asked = False
        self._times: list[tuple[int, str]] = []
        """Not-before and job; also of requests that are gone, or have been written again since."""
        self._due: dict[str, None] = {}
        """Jobs that were due at the last look, or have not been looked at."""

    def begin(self) -> None:
        """From now on somebody asks: every job is looked at once."""
        self._is_asked = True
        self._times.clear()
        self._due = dict.fromkeys(self._lineups)

    def end(self) -> None:
        """Nobody asks any more."""
        self._is_asked = False
        self._times.clear()
        self._due.clear()

    def expect(self, job: str, at_ms: int) -> None:
        """One of its requests is not to be claimed before this wall time."""
        if not self._is_asked:
            return
        heapq.heappush(self._times, (at_ms, job))
        if len(self._times) > _SPARE + 2 * len(self._lineups):
            self.begin()  # requests that are written again and again do not make it grow

    async def at(self, now_ms: int) -> list[str]:
        """Those that have a request which is due at this wall time."""
        found, looked_at, left = list[str](), 0, list(reversed(self._due))
        while left or (self._times and self._times[0][0] <= now_ms):
            job = left.pop() if left else self._came_up()
            if job is not None and self._is_due(job, now_ms):
                found.append(job)
            looked_at += 1
            if looked_at % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return found

    def _came_up(self) -> str | None:
        """The next job whose time has come; None where it has been looked at."""
        job = heapq.heappop(self._times)[1]
        return None if job in self._due else job

    def _is_due(self, job: str, now_ms: int) -> bool:
        lineup = self._lineups.get(job)
        first_ms = min((one.not_before_ms for one in lineup.values()), default=None) if lineup is not None else None
        if first_ms is not None and first_ms <= now_ms:
            self._due[job] = None
            return True
        self._due.pop(job, None)
        if first_ms is not None:
            self.expect(job, first_ms)
        return False
