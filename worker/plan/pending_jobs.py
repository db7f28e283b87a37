"""What is due when: one heap of cues for all jobs, and for each job the fires that this worker has yet to decide.

No timer and no task per job. For each job the heap holds one entry, its next planned fire; when that comes up, the
worker's rank for this very fire says whether to claim it now, to look again after the hedge, or to leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from common.protocol.planned_job import PlannedJob
from common.protocol.txn import KeyValue
from worker.plan.cues import Cues, Pending, SlotLine


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
class PendingJob(Pending):
    """One job, and which of its fires are this worker's to decide.

    =========  =======================  =========================================================================
    it         flags                    until
    =========  =======================  =========================================================================
    is idle    not ``wants``            a fire of its own comes up, a look finds one, or its lock is freed here
    waits      ``wants``, and no other  it is first in the line, and there are slots, or its decision takes none
    is busy    ``busy``                 etcd has answered
    is parked  ``parked``               its lock comes free, its cue RETRY comes up, or the clock has jumped
    is gone    ``gone``                 for good: the job has changed, and has another in its place, or is no more
    =========  =======================  =========================================================================

    ``queued`` says no more than that it has a place in the line. While it is busy, ``freed`` and ``look_again`` note
    what the answer cannot know; ``waited`` stays until the fire that waited is claimed, or nothing is wanted.
    """

    job: PlannedJob
    next_ms: int | None = None
    """The next planned fire that has not come up yet."""
    base_ms: int = 0
    """The mark that the next decision starts from, as far as this worker knows."""
    until_ms: int = 0
    """Fires in (base, until] are this worker's to decide."""
    fresh_ms: int | None = None
    """The newest fire that was due when the job was looked at afresh: those before it have no grace."""
    blocker: KeyValue | None = None
    """The lock because of which the fire `blocked_ms`, and no other, is to be recorded as skipped."""
    blocked_ms: int | None = None
    waited: bool = False
    """Its due fires waited for a lock: the newest of them is to be claimed, the others are superseded."""
    look_again: bool = False
    """It was to be looked at while it was busy: it is, as soon as it is not."""

    @property
    def wants(self) -> bool:
        """Whether some fires are this worker's to decide."""
        return not self.gone and self.until_ms > self.base_ms

    @property
    def waits(self) -> bool:
        return self.wants and not (self.busy or self.parked)

    def give_up(self) -> None:
        """Nothing of it is this worker's to decide any more, until something comes up again."""
        self.until_ms = 0
        self.tidy()

    def tidy(self) -> None:
        """What was remembered for fires that are decided does not outlive them."""
        if not self.wants:
            self.fresh_ms, self.blocker, self.blocked_ms, self.waited = None, None, None, False

    @property
    def order(self) -> tuple[int, ...]:
        """What takes no slot goes first, then the greater priority, then the older fire."""
        takes_a_slot = self.blocker is None and not self.is_closed
        return takes_a_slot, -self.job.spec.priority, self.until_ms

    @property
    def is_closed(self) -> bool:
        """Whether the fire to decide first is one that the calendar does not let run."""
        if self.job.spec.calendar is None:
            return False
        first_ms = self.job.schedule.next_after_ms(self.base_ms)
        return first_ms is not None and not self.job.schedule.is_open(first_ms)


class PendingJobs:
    """The cues, and the line of those that have something to decide."""

    def __init__(self, *, claim_lead_ms: int = 0) -> None:
        """``claim_lead_ms``: a fire comes up so long before its dispatch time."""
        self._claim_lead_ms = claim_lead_ms
        self.cues: Cues[tuple[Cue, PendingJob, int]] = Cues()
        self.line: SlotLine[PendingJob] = SlotLine()
        self._retired = 0
        """How many are gone of which cues and line may still know."""

    def put_cue(self, at_ms: int, cue: Cue, pending: PendingJob, plan_ms: int) -> None:
        """Have the job come up at a wall time, about one of its fires."""
        self.cues.put(at_ms, (cue, pending, plan_ms))

    def advance(self, pending: PendingJob, after_ms: int) -> None:
        """Have the job's first fire after that time come up next."""
        pending.next_ms = plan_ms = pending.job.schedule.next_after_ms(after_ms)
        if plan_ms is not None:
            self.put_cue(pending.job.dispatch_ms(plan_ms) - self._claim_lead_ms, Cue.FIRE, pending, plan_ms)

    def want(self, pending: PendingJob, plan_ms: int) -> None:
        """The fire is this worker's to decide, presuming that all before it are decided, unless it knows better."""
        if not pending.wants:
            pending.base_ms = max(pending.base_ms, pending.job.base_before(plan_ms))
        pending.until_ms = max(pending.until_ms, plan_ms)
        self.line.join(pending)

    def due(self, now_ms: int) -> Iterator[tuple[Cue, PendingJob, int]]:
        """Takes what has come up, with the fire that each is about; what is gone is dropped."""
        for _, (cue, pending, plan_ms) in self.cues.due(now_ms):
            if not pending.gone:
                yield cue, pending, plan_ms

    def retire(self, pending: PendingJob) -> None:
        """Its job has changed or is gone. Jobs that are edited for ever do not make the heaps grow."""
        pending.gone = True
        self._retired += 1
        if self._retired > 100 + (len(self.cues) + len(self.line)) // 4:
            self.cues.keep(lambda cue: not cue[1].gone)
            self.line.drop_gone()
            self._retired = 0
