"""The runs that this worker has claimed and not yet seen settled, from the claim to the deletion of their run keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from common.etcd import KeyValue, Session
from common.keys import RunId
from common.run import EntryState, RunEntry, RunRecord
from worker.catalog import CatalogJob


class Phase(Enum):
    """How far a run has come."""

    CLAIMED = auto()
    """Waits for its dispatch time, or for a slot."""
    RUNNING = auto()
    ENDED = auto()
    """Its processes are gone; its record is on the way."""


@dataclass(slots=True, kw_only=True, eq=False)
class Run:
    """One claimed run of this worker."""

    run_id: RunId
    job: CatalogJob
    """The job as it was claimed."""
    entry: RunEntry
    """The value of its run key."""
    fence: int
    """The create revision of its run key."""
    mod_revision: int
    """Of its run key: what the next write to it compares."""
    session: Session
    """The one that its run key names."""
    sent: float
    """The boot clock's time at which the claim or the newest re-stamp was sent; it counts while suspended."""
    start_by_ms: int
    """Past this wall time it does not start any more."""
    phase: Phase = Phase.CLAIMED
    schedule_ms: int | None = None
    """The wall time of its dispatch."""
    record: RunRecord | None = None
    unlocked: bool = False
    """It holds no lock any more, and its key says so where it never held one."""
    delivered: bool = False
    """Its record needs its run key no more."""

    @property
    def dispatch_ms(self) -> int:
        return self.entry.dispatch_ms

    @property
    def holds_lock(self) -> bool:
        return self.entry.locked and not self.unlocked

    def take_over(self, kv: KeyValue | None) -> bool:
        """Whether this run key is still this run's own, as a write of ours may have left it; its revision is noted.

        Not so where somebody has given the run up: then the key is gone, made anew, or carries the verdict.
        """
        if kv is None or kv.create_revision != self.fence:
            return False
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return False
        if entry.state is EntryState.FINAL or entry.instance != self.entry.instance:
            return False
        self.mod_revision = kv.mod_revision
        return True


class RunTable:
    """The runs by id, and the arithmetic of slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._runs: dict[RunId, Run] = {}
        self._ended_at: deque[float] = deque()
        self.running = 0
        self.claimed = 0

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: RunId) -> Run | None:
        return self._runs.get(run_id)

    @property
    def free_slots(self) -> int:
        """Slots that neither a process nor a claim has taken."""
        return max(0, self.slots - self.running - self.claimed)

    def may_claim(self, now: float) -> int:
        """How many more fires may be claimed: the free slots, and beyond them as many as came free in a second."""
        while self._ended_at and self._ended_at[0] < now - 1.0:
            self._ended_at.popleft()
        return self.slots - self.running + len(self._ended_at) - self.claimed

    def add(self, run: Run) -> None:
        self._runs[run.run_id] = run
        if run.phase is Phase.CLAIMED:
            self.claimed += 1

    def started(self, run: Run) -> None:
        run.phase = Phase.RUNNING
        self.claimed -= 1
        self.running += 1

    def ended(self, run: Run, now: float) -> None:
        """The run takes no slot any more, whether it had started or not."""
        if run.phase is Phase.RUNNING:
            self.running -= 1
            self._ended_at.append(now)
        elif run.phase is Phase.CLAIMED:
            self.claimed -= 1
        run.phase = Phase.ENDED

    def forget(self, run: Run) -> None:
        """The run is settled, or somebody else's."""
        if self._runs.get(run.run_id) is not run:
            return  # a later run has its id: it was handed on, and taken back
        del self._runs[run.run_id]
        if run.phase is Phase.CLAIMED:
            self.claimed -= 1
