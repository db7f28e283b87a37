"""What is due when: one heap for all jobs, and for each job the fires that this worker has yet to decide.

No timer and no task per job. For each job the heap holds one entry, its next planned fire; when that comes up, the
worker's rank for this very fire says whether to claim it now, to look again after the hedge, or to leave it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from common.protocol.planned_job import PlannedJob
from common.protocol.proposals import Blocker


class Cue(Enum):
    """Why an entry of the heap comes up."""

    FIRE = auto()
    """The job's next fire may be claimed by rank 0."""
    HEDGE = auto()
    """A fire should have been claimed by now: rank 1 looks."""
    RETRY = auto()
    """A held lock may be free by now."""
    LOOK = auto()
    """What this worker believes of the job's mark may be wrong: the mark is read."""


@dataclass(slots=True, kw_only=True, eq=False)
class Agendum:
    """One job's place on the agenda."""

    job: PlannedJob
    next_ms: int | None = None
    """The next planned fire that has not come up yet."""
    base_ms: int = 0
    """The mark that the next decision starts from, as far as this worker knows."""
    until_ms: int = 0
    """Fires in (base, until] are this worker's to decide."""
    fresh_ms: int | None = None
    """The newest fire that was due when the job was looked at afresh: those before it have no grace."""
    blocker: Blocker | None = None
    """The run because of which the fire `blocked_ms`, and no other, is to be recorded as skipped."""
    blocked_ms: int | None = None
    queued: bool = False
    """Whether it stands in the queue of those to decide."""
    place: tuple[tuple[int, int, int], int] = ((0, 0, 0), 0)
    """Where it stands there, or stood last."""
    parked: bool = False
    """It waits for a retry cue, or for a lock to come free."""
    waited: bool = False
    """Its due fires waited for a lock: the newest of them is to be claimed, the others are superseded."""
    freed: bool = False
    """This worker freed the lock while it was busy: an answer that it is held may be older than that."""
    busy: bool = False
    """A decision of it is on its way to etcd, or in doubt."""
    look_again: bool = False
    """It was to be looked at while it was busy: it is, as soon as it is not."""
    gone: bool = False
    """Its job was changed or deleted; a newer agendum has taken its place."""

    @property
    def wants(self) -> bool:
        return not self.gone and self.until_ms > self.base_ms

    def give_up(self) -> None:
        """Nothing of it is this worker's to decide any more, until something comes up again."""
        self.until_ms = 0
        self.tidy()

    def tidy(self) -> None:
        """What was remembered for fires that are decided does not outlive them."""
        if not self.wants:
            self.fresh_ms, self.blocker, self.blocked_ms, self.waited = None, None, None, False

    @property
    def turn(self) -> tuple[int, int, int]:
        """When it is decided, of all that are queued: the smaller, the earlier."""
        takes_a_slot = self.blocker is None and not self.is_closed
        return takes_a_slot, -self.job.spec.priority, self.until_ms

    @property
    def is_closed(self) -> bool:
        """Whether the fire to decide first is one that the calendar does not let run."""
        if self.job.spec.calendar is None:
            return False
        first_ms = self.job.schedule.next_after_ms(self.base_ms)
        return first_ms is not None and not self.job.schedule.is_open(first_ms)


@dataclass(slots=True, kw_only=True)
class Agenda:
    """The heap of cues, and the queue of agenda that have something to decide.

    What takes no slot goes first: it does not wait behind what does. Then the greater priority, then the older fire.
    """

    claim_lead_ms: int = 0
    """A fire comes up so long before its dispatch time."""
    _cues: list[tuple[int, int, Cue, Agendum, int]] = field(default_factory=list)
    _queue: list[tuple[tuple[int, int, int], int, Agendum]] = field(default_factory=list)
    _sequence: int = 0
    _retired: int = 0
    """Agenda that are gone, and of which the heaps may still know."""

    def put_cue(self, at_ms: int, cue: Cue, agendum: Agendum, plan_ms: int) -> None:
        """Have the agendum come up at a wall time, about one of its fires."""
        self._sequence += 1
        heapq.heappush(self._cues, (at_ms, self._sequence, cue, agendum, plan_ms))

    def advance(self, agendum: Agendum, after_ms: int) -> None:
        """Have the job's first fire after that time come up next."""
        agendum.next_ms = plan_ms = agendum.job.schedule.next_after_ms(after_ms)
        if plan_ms is not None:
            self.put_cue(agendum.job.dispatch_ms(plan_ms) - self.claim_lead_ms, Cue.FIRE, agendum, plan_ms)

    def want(self, agendum: Agendum, plan_ms: int) -> None:
        """The fire is this worker's to decide, presuming that all before it are decided, unless it knows better."""
        if not agendum.wants:
            agendum.base_ms = max(agendum.base_ms, agendum.job.base_before(plan_ms))
        agendum.until_ms = max(agendum.until_ms, plan_ms)
        self.enqueue(agendum)

    def next_cue_ms(self) -> int | None:
        return self._cues[0][0] if self._cues else None

    def due(self, now_ms: int) -> Iterator[tuple[Cue, Agendum, int]]:
        """Takes what has come up, with the fire that each is about; what is gone is dropped."""
        while self._cues and self._cues[0][0] <= now_ms:
            _, _, cue, agendum, plan_ms = heapq.heappop(self._cues)
            if not agendum.gone:
                yield cue, agendum, plan_ms

    def enqueue(self, agendum: Agendum) -> None:
        """Put it into the queue of those to decide, once."""
        if agendum.wants and not (agendum.queued or agendum.busy or agendum.parked):
            self._sequence += 1
            agendum.place = (agendum.turn, self._sequence)
            self.put_back(agendum)

    def put_back(self, agendum: Agendum) -> None:
        """Have one that was taken out stand where it stood: nobody passes it while it waits for slots."""
        agendum.queued = True
        heapq.heappush(self._queue, (*agendum.place, agendum))

    def dequeue(self) -> Agendum | None:
        """The first in the queue that still has something to decide."""
        while self._queue:
            _, _, agendum = heapq.heappop(self._queue)
            agendum.queued = False
            if agendum.wants and not (agendum.busy or agendum.parked):
                return agendum
        return None

    @property
    def waiting(self) -> int:
        """How many stand in the queue."""
        return len(self._queue)

    def retire(self, agendum: Agendum) -> None:
        """Its job has changed or is gone. Jobs that are edited for ever do not make the heaps grow."""
        agendum.gone = True
        self._retired += 1
        if self._retired > 100 + (len(self._cues) + len(self._queue)) // 4:
            self._cues = [cue for cue in self._cues if not cue[3].gone]
            self._queue = [entry for entry in self._queue if not entry[2].gone]
            heapq.heapify(self._cues)
            heapq.heapify(self._queue)
            self._retired = 0

    def forget_cues(self) -> None:
        """Drop every cue, for they were planned by a clock that has jumped."""
        self._cues.clear()
