"""The load-bearing rules of the protocol; a mutant is the model without one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """True: kept. Named by what ``docs/protocol.md`` says."""

    mark_compare: bool = True
    """A decision compares that the mark is P."""
    marks_forward: bool = True
    """An edit writes max(old mark, now)."""
    fenced_unlock: bool = True
    """A lock is deleted only under the create revision that its run's claim gave it."""
    restamp: bool = True
    """A process starts only within 2 s of sending a claim or re-stamp that succeeded."""
    settle_doubts: bool = True
    """A claim without an answer is sent again, identical, until it is settled."""
    own_session_key: bool = True
    """Each session has a key of its own."""
    guardian: bool = True
    """Ends what is past its deadline, also while its worker is stopped, and everything when its worker dies."""
    ack_before_delete: bool = True
    """A run key is deleted only once the log store has acknowledged the record."""
    follow_in_txn: bool = True
    """A retry or rerun is put by the transaction that ends the run."""
    kill_after_fence: bool = True
    """A kill applies only to a run that is older than the kill."""
    lost_compares_run: bool = True
    """The steward's ``lost`` compares the run key's mod revision."""
    job_compare: bool = True
    """A claim compares the job's revision."""
    intent_deadline: bool = True
    """The guardian's deadline counts from the intent on, for every run: also for one frozen just before its exec."""

    gone_is_read: bool = True
    """The steward counts a session as gone once a read has shown it absent, not by its watch alone."""
    watch_behind: bool = True
    """A claim in doubt is over only when the mark is beyond P, not while it is before it."""


KEPT: Final = Rules()

MUTANTS: Final = {
    "no mark comparison": replace(KEPT, mark_compare=False),
    "marks may go back": replace(KEPT, marks_forward=False),
    "unconditional release of locks": replace(KEPT, fenced_unlock=False),
    "no re-stamp after a pause": replace(KEPT, restamp=False),
    "in-doubt claims forgotten": replace(KEPT, settle_doubts=False),
    "worker key reused between sessions": replace(KEPT, own_session_key=False),
    "no guardian": replace(KEPT, guardian=False),
    "run key deleted before the log is acknowledged": replace(KEPT, ack_before_delete=False),
    "retry outside of the transaction that ends the run": replace(KEPT, follow_in_txn=False),
    "a kill older than the fence applied": replace(KEPT, kill_after_fence=False),
    "lost without comparing the run": replace(KEPT, lost_compares_run=False),
    "no job comparison": replace(KEPT, job_compare=False),
    "a session gone by the watch alone": replace(KEPT, gone_is_read=False),
    "no deadline for an unlocked intent": replace(KEPT, intent_deadline=False),
    "a mark before P ends a doubt": replace(KEPT, watch_behind=False),
}
