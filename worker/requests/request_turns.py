"""When this worker tries which request: each turn has its time, and then waits for slots, the most urgent first."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from common.protocol.request import Request


@dataclass(slots=True, eq=False)
class Turn:
    """This worker's turn at one request."""

    key: str
    request: Request
    rank: int
    at_ms: int = 0
    locked: bool = False
    """The lock was held: its time does not come before that is free."""
    busy: bool = False
    due: bool = False
    """Its time has come: it waits for slots."""
    gone: bool = False
    freed: bool = False
    """The lock came free here while the try was under way: its answer may be older than that."""


class Timetable:
    """The times of the turns, and those that are due."""

    def __init__(self) -> None:
        self._cues: list[tuple[int, int, Turn | str]] = []
        self._due: list[tuple[int, int, int, Turn]] = []
        self._reminders: dict[str, set[int]] = {}
        """By job: the times at which it comes up."""
        self._numbers = count()

    @property
    def next_ms(self) -> int | None:
        """When something comes up."""
        return self._cues[0][0] if self._cues else None

    def arm(self, turn: Turn, at_ms: int) -> None:
        """Its time is this and no other."""
        turn.at_ms, turn.due = at_ms, False
        heapq.heappush(self._cues, (at_ms, next(self._numbers), turn))

    def remind(self, job: str, at_ms: int) -> None:
        """Another request of the job lines up then.

        Nothing to do where the job comes up before: whoever plans it then says so again. So a request of next month
        takes no room for each that comes and goes until then.
        """
        times = self._reminders.setdefault(job, set())
        if not times or at_ms < min(times):
            times.add(at_ms)
            heapq.heappush(self._cues, (at_ms, next(self._numbers), job))

    def collect(self, now_ms: int, *, urgency: Callable[[Request], int]) -> list[str]:
        """Makes due what has come up; the jobs of which another request lines up."""
        jobs = []
        while self._cues and self._cues[0][0] <= now_ms:
            at_ms, number, what = heapq.heappop(self._cues)
            if isinstance(what, str):
                self._reminders[what].discard(at_ms)
                if not self._reminders[what]:
                    del self._reminders[what]
                jobs.append(what)
            elif what.at_ms == at_ms and not (what.gone or what.due or what.busy or what.locked):
                what.due = True
                heapq.heappush(self._due, (-urgency(what.request), what.request.plan_ms, number, what))
        return jobs

    def first_due(self) -> Turn | None:
        """The most urgent one that is due, and of those the oldest."""
        while self._due:
            turn = self._due[0][3]
            if turn.due and not turn.gone:
                return turn
            heapq.heappop(self._due)
        return None
