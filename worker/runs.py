"""The runs that this worker has claimed and not yet seen settled, from the claim to the deletion of their run keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from msgspec.structs import replace

from common.etcd import Session
from common.protocol.keys import RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.proposals import MAX_PROPOSALS
from common.protocol.request import Request
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.run_writes import still_own
from common.protocol.txn import KeyValue
from worker.pacing import ClaimsAhead
from worker.secrets import RunSecrets


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
    job: PlannedJob
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
    request: Request | None = None
    """The one that it was claimed from; None: it was claimed as a fire."""
    turn: int = 0
    """Its place among the claimed runs of one dispatch time."""
    phase: Phase = Phase.CLAIMED
    schedule_ms: int | None = None
    """The wall time of its dispatch."""
    record: RunRecord | None = None
    unlocked: bool = False
    """It holds no lock any more, and its key says so where it never held one."""
    tried_again: bool | None = None
    """Whether another attempt of its fire follows; None: its end is not carried out, or by whom is not known."""
    delivered: bool = False
    """Its record needs its run key no more."""
    forgotten: bool = False
    """It is settled, or another worker's."""
    secrets: RunSecrets | None = None
    """What its job asks for, once it is known."""
    fault: str | None = None
    """Why it cannot have its secrets."""
    is_stuck: bool = False
    """Its process is beyond every signal: it takes no slots any more."""
    is_ending: bool = False
    """It has ended, but processes of its group cannot be: its lock waits for them."""

    @property
    def dispatch_ms(self) -> int:
        return self.entry.dispatch_ms

    @property
    def lacks_secrets(self) -> bool:
        """What its job asks for is not known yet."""
        return self.job.spec.asks_for_secrets and self.secrets is None and self.fault is None

    @property
    def slots(self) -> int:
        """How many of the worker's slots it takes."""
        return self.job.spec.slots

    def close_secrets(self) -> None:
        """It needs them no more."""
        if self.secrets is not None:
            self.secrets.close()
            self.secrets = None

    @property
    def holds_lock(self) -> bool:
        return self.entry.locked and not self.unlocked

    def may_be_asked_for(self) -> bool:
        """Whether a later process may have to ask the spool for its record: etcd does not know yet that it has ended.

        If we die then, with the log store away, it would be run again. One that is ending waits for the log store
        instead: it may be so for days, and the spool would keep all that came after it.
        """
        return not self.unlocked and not self.forgotten and not self.is_ending

    def reread(self, kv: KeyValue | None) -> bool:
        """Whether this run key is still this run's own (`still_own`); its revision is noted."""
        entry = still_own(kv, fence=self.fence, instance=self.entry.instance)
        if kv is None or entry is None:
            return False
        self.mod_revision = kv.mod_revision
        if entry.state is EntryState.ENDED:  # an earlier sending was carried out: it must not be open again
            self.entry, self.unlocked = replace(self.entry, state=EntryState.ENDED), True
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    """One that waits for slots."""

    place: tuple[int, int]
    """The smaller, the sooner."""
    slots: int

    @property
    def since(self) -> int:
        return self.place[1]


class RunTable:
    """The runs by id, and the arithmetic of slots, of which a run takes one or several."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._runs: dict[RunId, Run] = {}
        self._ahead = ClaimsAhead()
        self._waiting: dict[str, _Wait] = {}
        self._numbers = count()
        self.running = 0
        """Runs that have processes."""
        self.claimed = 0
        """Runs that are to be started."""
        self.running_slots = 0
        self.claimed_slots = 0
        self.claiming_slots = 0
        """Of claims on their way to etcd, of fires and of requests; of those in doubt none."""
        self._stuck = Counter[str]()
        """By job: runs that cannot be ended, or of which something cannot."""
        self.on_room: Callable[[], None] = lambda: None
        """Called when there may be slots for a waiter, though no run has ended."""

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run_id: RunId) -> Run | None:
        return self._runs.get(run_id)

    @property
    def free_slots(self) -> int:
        """Slots that neither a process nor a claim has taken, nor one that is on its way."""
        return max(0, self._unclaimed - self.running_slots)

    def may_claim(self, now: float, waiter: str = "") -> int:
        """For how many more slots fires may be claimed: the free ones, and beyond them what came free just now.

        While slots are kept for a waiter that was there before this one, only the free ones beyond those.
        """
        if kept := self.kept_from(waiter):
            return self.free_slots - kept
        return self._room(now)

    def _room(self, now: float) -> int:
        return self._unclaimed - self.running_slots + self._ahead.slots(now)

    @property
    def _unclaimed(self) -> int:
        return self.slots - self.claimed_slots - self.claiming_slots

    def has_enough(self, now: float) -> bool:
        """Whether so much of what may be claimed ahead of free slots is that no more is claimed for the moment."""
        return self._ahead.are_enough(self._room(now), now)

    def whole_transactions(self, room: int) -> int:
        """As much of the room for claims as fills transactions, where it is more than one, and no slot is free."""
        return room if self.free_slots or room <= MAX_PROPOSALS else room - room % MAX_PROPOSALS

    def may_start(self, run: Run, *, beside: int = 0) -> bool:
        """Whether there are slots for its process now, beside so many that are about to be taken."""
        return self.running_slots + beside + run.slots <= self.slots

    def wait_for(self, waiter: str, slots: int, *, urgency: int = 0, had_some: bool = False) -> None:
        """The first that ``waiter`` has in its queue needs so many slots, and has to wait for them; 0: it does not.

        The next slots are for the more urgent of two, else for who has waited longer; who just had some waits anew.
        Else a run of several slots would never start where runs of one take each slot as it comes free, nor a request
        where fires are claimed ahead of that.
        """
        before, now = self._waiting.pop(waiter, None), None
        if slots > 0:
            since = next(self._numbers) if before is None or had_some else before.since
            now = self._waiting[waiter] = _Wait(place=(-urgency, since), slots=slots)
        if before is not None and (now is None or now.place > before.place or now.slots < before.slots):
            self.on_room()

    def kept_from(self, waiter: str) -> int:
        """Slots that are kept for those who come before ``waiter``."""
        own = self._waiting.get(waiter)
        return sum(wait.slots for wait in self._waiting.values() if own is None or wait.place < own.place)

    def claiming(self, slots: int) -> None:
        """A claim for so many slots is on its way to etcd; below 0: it is not any more, or is in doubt."""
        self.claiming_slots += slots
        if slots < 0 and self._waiting:
            self.on_room()

    def add(self, run: Run) -> None:
        """A run was claimed. One of the same id that was handed on from here, with no answer yet, counts no more."""
        if (former := self._runs.get(run.run_id)) is not None:
            self.forget(former)
        self._runs[run.run_id] = run
        if run.phase is Phase.CLAIMED:
            self._count_claimed(run, 1)

    def started(self, run: Run) -> None:
        run.phase = Phase.RUNNING
        self._count_claimed(run, -1)
        self._count_running(run, 1)

    def not_started(self, run: Run) -> None:
        """It was not, after all: nothing of it runs, and its claim stands."""
        run.phase = Phase.CLAIMED
        self._count_claimed(run, 1)
        self._count_running(run, -1)

    def stuck(self, run: Run) -> None:
        """The run's process cannot be ended: its slots are others' now, and it is shown until it is gone."""
        if run.phase is Phase.RUNNING and not run.is_stuck:
            run.is_stuck = True
            self._stuck[run.run_id.job] += 1
            self._count_running(run, -1)

    def stuck_runs_of(self, job: str) -> int:
        """How many runs of a job cannot be ended here, or have left processes that cannot."""
        return self._stuck[job]

    def clear_ending(self, run: Run) -> None:
        """Nothing is left any more of a run that was ending."""
        if run.is_ending:
            run.is_ending = False
            self._stuck -= Counter([run.run_id.job])

    def ended(self, run: Run, now: float, *, is_ending: bool = False) -> None:
        """The run takes no slot any more, whether it had started or not. ``is_ending``: its group cannot be ended."""
        if is_ending:
            run.is_ending = True
            self._stuck[run.run_id.job] += 1
        if run.is_stuck:
            run.is_stuck = False
            self._stuck -= Counter([run.run_id.job])
        elif run.phase is Phase.RUNNING:
            self._count_running(run, -1)
            self._ahead.freed(run.slots, now)
        elif run.phase is Phase.CLAIMED:
            self._count_claimed(run, -1)
        run.phase = Phase.ENDED
        run.close_secrets()

    def forget(self, run: Run) -> None:
        """The run is settled, or another worker's."""
        if self._runs.get(run.run_id) is not run:
            return  # a later run has its id: it was handed on, and taken back
        del self._runs[run.run_id]
        run.forgotten = True
        if run.phase is not Phase.RUNNING:
            run.close_secrets()
        self.clear_ending(run)
        if run.phase is Phase.CLAIMED:
            self._count_claimed(run, -1)

    def _count_claimed(self, run: Run, by: int) -> None:
        self.claimed += by
        self.claimed_slots += by * run.slots

    def _count_running(self, run: Run, by: int) -> None:
        self.running += by
        self.running_slots += by * run.slots
