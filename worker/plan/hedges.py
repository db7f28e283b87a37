"""Fires of which this worker is the second in rank, from the end of their hedge until it has slots to spare."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from common.timings import OFFER_AFTER_MS
from worker.plan.pending_jobs import PendingJob

_LIMIT_MS: Final = OFFER_AFTER_MS
"""So long they wait for slots to spare; then a fresh one is the steward's. It counts from the end of the hedge, for
misfires, which the steward leaves to workers, are older from the start."""


class Hedges:
    """The fires that wait here, of each job the newest: the oldest first, where there are slots to spare for it.

    In a burst nearly all of them are the first in rank's to claim, as slots come free there: who looked at the end of
    the hedge, with fires of its own waiting, would read the marks of the whole burst and then send claims for what
    others decide meanwhile.
    """

    def __init__(self) -> None:
        self._due: dict[PendingJob, tuple[int, int]] = {}
        """With its fire, and until when it is kept."""

    def add(self, hedged: Iterable[tuple[PendingJob, int]], now_ms: int) -> None:
        """Their hedge is over."""
        for pending, plan_ms in hedged:
            self._due.pop(pending, None)
            self._due[pending] = plan_ms, now_ms + _LIMIT_MS
        self._forget(now_ms)

    def take(self, now_ms: int, slots: int) -> list[tuple[PendingJob, int]]:
        """All that are still this worker's to look at, but for jobs that need more than these slots to spare."""
        self._forget(now_ms)
        due, self._due = self._due, {}
        taken: list[tuple[PendingJob, int]] = []
        for pending, (plan_ms, until_ms) in due.items():
            if pending.gone:
                continue
            if pending.job.spec.slots <= slots:
                taken.append((pending, plan_ms))
            else:
                self._due[pending] = plan_ms, until_ms
        return taken

    def clear(self) -> None:
        """Forget all: the clock by which their hedges ended has jumped."""
        self._due.clear()

    def _forget(self, now_ms: int) -> None:
        """What is too old: without slots to spare they would gather for ever."""
        while self._due:
            pending, (_, until_ms) = next(iter(self._due.items()))
            if now_ms <= until_ms:
                return
            del self._due[pending]
