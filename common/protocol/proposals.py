"""What a worker would have etcd decide about one job, and what etcd made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from common.protocol.compares import Compare
from common.protocol.keys import RunId, read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision, Held
from common.protocol.run import RunEntry, RunRecord
from common.protocol.txn import KeyValue, Operation, Put

MAX_PROPOSALS: Final = 30
"""In one transaction. The usual one has 4 compares, and 3 operations in each branch; `packed` keeps to etcd's 128."""


@dataclass(slots=True, kw_only=True, eq=False)
class Proposal:
    """One decision about one job, as this worker would have it, and its share in a transaction."""

    job: PlannedJob
    decision: Decision
    start_by_ms: int = 0
    """Past it, the claimed fire does not start any more."""
    blocker: KeyValue | None = None
    """Set: the fire is not claimed but recorded as skipped, for this lock is held."""
    compares: list[Compare]
    then: list[Operation]
    otherwise: list[Operation]
    final_records: list[RunRecord] = field(default_factory=list)
    """That it puts, and that are to be delivered."""
    entry: RunEntry | None = None
    """The value of the run key, of a claim."""
    witness: Put | None = None
    """A run key that it puts, with a value of its own: where etcd has it, the proposal was carried out."""

    @property
    def claims(self) -> bool:
        """Whether it takes the right to run a fire."""
        return self.decision.claim_ms is not None and self.blocker is None

    @property
    def slots(self) -> int:
        """How many of the worker's slots it takes."""
        return self.job.spec.slots if self.claims else 0

    @property
    def locks(self) -> bool:
        """Whether it takes the job's lock."""
        return self.claims and self.job.takes_lock

    @property
    def needs_free_lock(self) -> bool:
        """Whether it is refused while a run holds the lock. Where one fire is kept waiting for it, nothing but closed
        ones is decided meanwhile."""
        return self.locks or (self.job.keeps_one and self.decision.closed is None)

    @property
    def run_ids(self) -> list[RunId]:
        """Of the run keys that it puts and that must not be there yet, oldest first."""
        passed, claim_ms = self.decision.passed, self.decision.claim_ms
        plans = [ms for ms in (passed.lo_ms if passed else None, claim_ms) if ms is not None]
        return [self.job.run_of(plan_ms) for plan_ms in plans]


def start_by_ms(job: PlannedJob, decision: Decision, now_ms: int, *, waited: bool, held: Held | None = None) -> int:
    """Until when a claimed fire may start: one that waited for a lock, or is made up for, has its window."""
    if decision.claim_ms is None:
        return 0
    dispatch_ms = job.dispatch_ms(decision.claim_ms)
    due_ms = dispatch_ms if held is None else held.waited_until_ms(dispatch_ms)
    grace_ends_ms = due_ms + job.spec.misfire.grace_ms
    return grace_ends_ms if now_ms <= grace_ends_ms and not waited else job.expires_ms(decision.claim_ms)


class Answer(Enum):
    """What became of a proposal."""

    DONE = auto()
    MARK_MOVED = auto()
    """More, or less, is decided than presumed."""
    JOB_CHANGED = auto()
    LOCKED = auto()
    LOCK_CHANGED = auto()
    """The run that was in the way is in the way no more."""
    RUN_EXISTS = auto()
    """There is a run key already where it would put one."""
    NO_SESSION = auto()
    """The session is over."""
    DETACHED = auto()
    """The session's key has lost its lease; the worker puts it again."""
    REFUSED = auto()
    """etcd itself refuses it, for want of a permission, say; an operator has to mend that."""
    NOT_DONE = auto()
    """Certainly not carried out, and for no reason of its own: it may be decided anew."""


class Result(Struct, frozen=True, kw_only=True):
    """A proposal and what became of it."""

    proposal: Proposal
    answer: Answer
    revision: int = 0
    """DONE: of the transaction; fence and mod revision of the run."""
    sent: float = 0.0
    """DONE: the boot clock's time at which the transaction that succeeded was sent."""
    found: KeyValue | None = None
    """What is in its way: MARK_MOVED: the mark, if there is one; LOCKED: the lock; DETACHED: the session's key."""

    @property
    def mark_ms(self) -> int | None:
        """MARK_MOVED: where it is; None where it is missing or unreadable."""
        return read_mark(self.found)

    @property
    def is_for_ever(self) -> bool:
        """Whether the identical transaction can never be carried out any more, however late it arrives.

        Marks never go back; but one that has not come to P yet may still do so, and then it can.
        """
        if self.answer is Answer.MARK_MOVED:
            return self.mark_ms is not None and self.mark_ms > self.proposal.decision.from_ms
        return self.answer in (Answer.JOB_CHANGED, Answer.LOCK_CHANGED, Answer.NO_SESSION)
