"""The jobs that have a request whose time has come, found without looking at those whose time has not. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final

from worker.requests.lineup import Lineup

_SPARE: Final = 1_000


class DueJobs:
    """Knows when each job is to be looked at; what waits there, the line-ups say."""

    def __init__(self, lineups: Mapping[str, Lineup]) -> None:
        self._lineups = lineups
        self._times: list[tuple[int, str]] = []
        """Not-before and job; also of requests that are gone, or have been written again since."""
        self._most = _SPARE
        self._due: dict[str, None] = {}

    def expect(self, job: str, at_ms: int) -> None:
        """One of its requests is not to be claimed before this wall time."""
        heapq.heappush(self._times, (at_ms, job))
        if len(self._times) > self._most:
            self._forget_the_old()

    def at(self, now_ms: int) -> list[str]:
        """Those that have a request which is due at this wall time."""
        while self._times and self._times[0][0] <= now_ms:
            self._due[heapq.heappop(self._times)[1]] = None
        for job in tuple(self._due):
            first_ms = self._first_ms(job)
            if first_ms is None or first_ms > now_ms:
                del self._due[job]
                if first_ms is not None:  # the clock went back
                    self.expect(job, first_ms)
        return list(self._due)

    def _first_ms(self, job: str) -> int | None:
        lineup = self._lineups.get(job)
        return min((one.not_before_ms for one in lineup.values()), default=None) if lineup is not None else None

    def _forget_the_old(self) -> None:
        """Jobs whose requests are written again and again do not make it grow."""
        self._times = [(one.not_before_ms, job) for job, lineup in self._lineups.items() for one in lineup.values()]
        heapq.heapify(self._times)
        self._most = _SPARE + 2 * len(self._times)
