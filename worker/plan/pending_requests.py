"""When this worker tries which request: a job's oldest first, each at its time, then the most urgent first.

The steward alone also asks which jobs have a request whose time has come; they are found without looking at those
whose time has not:

    not asked ----begin--> not looked at yet --not due--> expected at a time --it has come--> due
        ^                        ^                              ^                              |
        |                        +--- too much has piled up ----+------ the clock went back ---+
        +--end---- from anywhere

However many are due at once, or go, nothing else is kept waiting.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from typing import Final

from common.protocol.keys import RunId
from common.protocol.request import Request
from worker.plan.cues import Cues, Pending, SlotLine

Place = tuple[int, RunId]


class Lineup:
    """The requests of one job, each under its key: in order those whose time has come, and when that of the next comes.

    Each step costs little, however many wait.
    """

    __slots__ = ("_by_key", "_later", "_ready")

    def __init__(self) -> None:
        self._by_key: dict[str, Request] = {}
        self._ready: list[tuple[Place, str]] = []
        self._later: list[tuple[int, int, str]] = []
        """Not-before, revision, key; also of requests that are gone or have been written again since."""

    def __len__(self) -> int:
        return len(self._by_key)

    def values(self) -> ValuesView[Request]:
        """All of them, in no order."""
        return self._by_key.values()

    def put(self, key: str, request: Request) -> None:
        """Take in the request as it is under this key now; it lines up once its time has come."""
        self.remove(key)
        self._by_key[key] = request
        heapq.heappush(self._later, (request.not_before_ms, request.revision, key))

    def remove(self, key: str) -> None:
        """Forget what was under this key."""
        request = self._by_key.pop(key, None)
        if request is None:
            return
        place = (order_of(request), key)
        index = bisect_left(self._ready, place)
        if index < len(self._ready) and self._ready[index] == place:
            del self._ready[index]

    def advance(self, now_ms: int) -> int | None:
        """Line up those whose time has come; when the next one's will, or None."""
        while self._later:
            at_ms, revision, key = self._later[0]
            request = self._by_key.get(key)
            is_current = request is not None and (request.not_before_ms, request.revision) == (at_ms, revision)
            if is_current and at_ms > now_ms:
                return at_ms
            heapq.heappop(self._later)
            if is_current and request is not None:
                place = (order_of(request), key)
                index = bisect_left(self._ready, place)
                if index == len(self._ready) or self._ready[index] != place:
                    insort(self._ready, place)
        return None

    def heads(self, count: int) -> Iterator[tuple[str, Request]]:
        """The first so many, with their keys."""
        for _, key in self._ready[:count]:
            yield key, self._by_key[key]


def order_of(request: Request) -> Place:
    """A job's requests go in this order."""
    return request.plan_ms, request.run_id


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
        """The steward asks from now on: every job is looked at once."""
        self._is_asked = True
        self._times.clear()
        self._due = dict.fromkeys(self._lineups)

    def end(self) -> None:
        """The steward asks no more."""
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
            if left:
                job, is_looked_at = left.pop(), False
            else:  # the next one whose time has come
                job = heapq.heappop(self._times)[1]
                is_looked_at = job in self._due
            if not is_looked_at and self._is_due(job, now_ms):
                found.append(job)
            looked_at += 1
            if looked_at % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return found

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


@dataclass(slots=True, kw_only=True, eq=False)
class PendingRequest(Pending):
    """One request that this worker may try."""

    key: str
    request: Request
    rank: int
    urgency: int = 0
    at_ms: int = 0
    due: bool = False
    """Its time has come."""

    @property
    def waits(self) -> bool:
        return self.due and not (self.gone or self.busy or self.parked)

    @property
    def order(self) -> tuple[int, ...]:
        return -self.urgency, self.request.plan_ms


class PendingRequests:
    """Their times, and the line of those that are due."""

    def __init__(self) -> None:
        self.cues: Cues[PendingRequest | str] = Cues()
        self.line: SlotLine[PendingRequest] = SlotLine()
        self._reminders: dict[str, set[int]] = {}
        """By job: the times at which it comes up."""

    def arm(self, pending: PendingRequest, at_ms: int) -> None:
        """Its time is this and no other."""
        pending.at_ms, pending.due = at_ms, False
        self.cues.put(at_ms, pending)

    def remind(self, job: str, at_ms: int) -> None:
        """Another request of the job is ready then.

        Nothing to do where the job comes up before: planning it then reminds again. So a request of next month
        takes no room for each that comes and goes until then.
        """
        times = self._reminders.setdefault(job, set())
        if not times or at_ms < min(times):
            times.add(at_ms)
            self.cues.put(at_ms, job)

    def collect(self, now_ms: int, *, urgency: Callable[[Request], int]) -> list[str]:
        """Has those whose time has come wait for slots; the jobs of which another request is ready."""
        jobs = []
        for at_ms, what in self.cues.due(now_ms):
            if isinstance(what, str):
                self._reminders[what].discard(at_ms)
                if not self._reminders[what]:
                    del self._reminders[what]
                jobs.append(what)
            elif what.at_ms == at_ms:
                what.due, what.urgency = True, urgency(what.request)
                self.line.join(what)
        return jobs
