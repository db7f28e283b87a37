"""How a worker spreads its work in a burst, while more is due than it has slots for.

What a machine can do goes into starts then, and each request to etcd or to the log store is for many runs:

    claims      beyond the free slots as many as came free lately, in full transactions: `ClaimsAhead`. While enough is
                claimed, what takes no slot is decided every `ENOUGH_FOR_S`
    refusals    a claim of many (`LARGE_CLAIM`) asks why only once it was refused
    turns       decisions are made for `TURN_S`, then the loop's others have theirs
    outputs     only runs that are still there after `YOUNG_S` are read before their end
    locks       that no fire can be waiting for are freed with those of `TOGETHER_S`: `is_wanted_soon`
    records     a batch in three seconds, and the rest when the burst is over: `RecordPace`

And who is second in rank waits with its look at what others have not decided until none of its own fires waits for a
slot: ``plan.hedges``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from common.clock import Clock
from common.jobs.job import Overlap
from common.protocol.keys import RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.proposals import MAX_PROPOSALS
from common.protocol.request import Request
from common.protocol.run import RunRecord
from common.verdicts import Verdict

ENOUGH_FOR_S: Final = 0.1
"""While enough is claimed ahead of free slots, what takes none is decided so often: together, and not much later."""
LARGE_CLAIM: Final = 10
"""Proposals from which on a batch does not ask at first why it may be refused. Below it, a refusal that takes a second
request would cost more than that saves, and a fire that meets a held lock more time."""
TURN_S: Final = 0.02
"""For so long decisions are made in one turn; then others have theirs."""
YOUNG_S: Final = 0.05
"""So long a run that prints more than a pipe holds may have to wait for its first reader."""


# Claims

_CLAIM_AHEAD_S: Final = 0.5
"""It bridges a claim's way to etcd and back, and is well below the second after which a run that waits for a slot is
handed on, at eight mutations a fire."""


class ClaimsAhead:
    """For how many slots that are not free yet fires are claimed: as many as came free just now."""

    def __init__(self) -> None:
        self._freed: deque[tuple[float, int]] = deque()
        self._slots = 0

    def freed(self, slots: int, now: float) -> None:
        """So many came free; ``now`` in seconds, by one clock."""
        self._freed.append((now, slots))
        self._slots += slots

    def slots(self, now: float) -> int:
        """How many may be claimed beyond the free ones, claimed ones included."""
        while self._freed and self._freed[0][0] < now - _CLAIM_AHEAD_S:
            self._slots -= self._freed.popleft()[1]
        return self._slots

    def are_enough(self, room: int, now: float) -> bool:
        """Whether so much is claimed that no more is for the moment; ``room``: slots that may still be claimed.

        More than half of what may be ahead, and all but what fills a transaction: else each slot that comes free would
        be a claim of its own, a request to etcd for each fire of a burst. Each run that is waited for says when to ask
        again.
        """
        ahead = self.slots(now)
        return ahead > 0 and room < min(ahead / 2, MAX_PROPOSALS)


# Locks

AT_ONCE_S: Final = 0.02
TOGETHER_S: Final = 0.08
"""In a burst on many workers each of them ends few runs in 20 ms: a request for so few is a part of one for each fire.
Shorter than the 100 ms after which a fire that found the lock held looks once more."""
_SOON_MS: Final = 1_000


class EndedRun(Protocol):
    """What of a run says who may be waiting for its lock."""

    run_id: RunId
    job: PlannedJob
    request: Request | None
    record: RunRecord | None


def is_wanted_soon(run: EndedRun, now_ms: int) -> bool:
    """Whether the job's next fire may come up before the locks of a while are freed, or anything follows the run.

    Where not, only runs that were asked for, or make up for misfires, may be kept waiting by its lock: for that while.
    """
    plan_ms, job, record = run.run_id.plan_ms, run.job, run.record
    is_plain = plan_ms is not None and run.request is None and record is not None and record.status is Verdict.SUCCESS
    if not is_plain or job.keeps_one or job.spec.after is not None:
        return True
    if job.spec.overlap is Overlap.ALLOW:
        return False
    assert plan_ms is not None, "it is plain"
    next_ms = job.schedule.next_after_ms(plan_ms)  # of the run's own: later fires may be waiting to be made up for
    return next_ms is not None and next_ms <= now_ms + _SOON_MS


# Records

BETWEEN_S: Final = 3.0
"""From one batch to the next while fires wait for slots."""
BURST_S: Final = 10.0
"""For so long records may fall behind."""


class RecordPace:
    """When a batch of records is written to the log store: at once, in its time, or later while fires wait.

    A record that comes alone is written at once; records that keep coming are written every ``commit_timeout_ms``, or
    when a batch is full. While due fires wait for slots a batch is written every three seconds, and the rest when the
    burst is over. Where fires wait for longer than ten seconds it is no burst: records come to the log store as ever
    then, until a time at which none waits.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        commit_timeout_ms: int,
        fires_wait: Callable[[], bool],
        has_room: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """``has_room``: whether more records may wait than usual."""
        self._batch_size = batch_size
        self._commit_timeout_s = commit_timeout_ms / 1000
        self._fires_wait = fires_wait
        self._has_room = has_room
        self._clock = clock
        self._written_at = float("-inf")
        self._pressed_since: float | None = None
        """When fires were first seen to wait; None: none did at the last look."""

    def written(self) -> None:
        """A batch was written just now."""
        self._written_at = self._clock.monotonic()

    def due_in(self, waiting: int) -> float:
        """In how many seconds a batch is due where so many records wait; 0: now. To be asked again and again."""
        now = self._clock.monotonic()
        pause_s = 0.0 if waiting >= self._batch_size else self._commit_timeout_s
        if self._is_burst(now) and self._has_room():
            pause_s = max(pause_s, BETWEEN_S)
        return max(0.0, self._written_at + pause_s - now)

    def _is_burst(self, now: float) -> bool:
        if not self._fires_wait():
            self._pressed_since = None
            return False
        if self._pressed_since is None:
            self._pressed_since = now
        return now < self._pressed_since + BURST_S
