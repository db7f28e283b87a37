"""When this worker tries which request: each has its time, and then waits for slots, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.request import Request
from worker.plan.cues import Cues
from worker.plan.slot_line import Pending, SlotLine


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

        Nothing to do where the job comes up before: whoever plans it then says so again. So a request of next month
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
