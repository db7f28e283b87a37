"""When this worker tries which request: each turn has its time, and then waits for slots, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.protocol.request import Request
from worker.plan.cues import Cues
from worker.plan.slot_line import Pending, SlotLine


@dataclass(slots=True, kw_only=True, eq=False)
class Turn(Pending):
    """This worker's turn at one request."""

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
    def turn(self) -> tuple[int, ...]:
        return -self.urgency, self.request.plan_ms


class Timetable:
    """The times of the turns, and the line of those that are due."""

    def __init__(self) -> None:
        self.cues: Cues[Turn | str] = Cues()
        self.line: SlotLine[Turn] = SlotLine()
        self._reminders: dict[str, set[int]] = {}
        """By job: the times at which it comes up."""

    def arm(self, turn: Turn, at_ms: int) -> None:
        """Its time is this and no other."""
        turn.at_ms, turn.due = at_ms, False
        self.cues.put(at_ms, turn)

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
        """Has the turns whose time has come wait for slots; the jobs of which another request is ready."""
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
