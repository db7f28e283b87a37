"""Jobs of which one fire waits for the lock: overlap ``queue`` and ``replace``.

While a run holds the lock their due fires stay undecided. The worker that frees a lock tries at once; for locks that
others free, one batched read a second tells all who wait, however many they are. Ranks 0 and 1 of the newest look.
Under ``replace`` the run that holds the lock is killed as soon as a newer fire is due:

    if   lease(my session's key) == my lease
    and  mod_revision(jobs/J) == the one known           a changed or paused job kills nothing
    and  value(marks/J) == P                             the newer fire is still undecided: the lock is an older run's
    and  create_revision(locks/J) == that run's fence
    and  create_revision(kills/J/...) == 0               once
    then put kills/J/..., put seen/kills

A kill applies only to a run that is older than itself, so one that stands there from a former life of the same run id
is taken away first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, Session
from common.jobs.job import Overlap
from common.protocol import fire_decisions
from common.protocol.fire_decisions import Replaced
from common.protocol.keys import Keys, RunId, holder_of
from common.protocol.kill import Kill
from common.protocol.txn import KeyValue
from worker.members import Members
from worker.plan.pending_jobs import PendingJob, PendingJobs

LOOK_AT_LOCKS_S: Final = 1.0


class LockWaiter(Protocol):
    """A queue, some of which waits for locks."""

    def waits_for_locks(self) -> Collection[str]:
        """By what they go by: the job, or a worker's own sequence of a broadcast job."""

    async def locks_read(self, sequences: Collection[str], held: Mapping[str, KeyValue]) -> None:
        """Those of these locks that are held. EtcdError, UnavailableError: it looks again with the next read."""


class LockPoll:
    """Reads while something waits."""

    def __init__(self, client: EtcdClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._waiters: list[LockWaiter] = []
        self._some = asyncio.Event()

    def add(self, waiter: LockWaiter) -> None:
        """It hears of locks from now on."""
        self._waiters.append(waiter)

    def wake(self) -> None:
        """Something waits."""
        self._some.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is read."""
        return not self._some.is_set()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(LOOK_AT_LOCKS_S)
            with suppress(EtcdError, UnavailableError):  # what decides finds out as well
                await self.look()

    async def look(self) -> None:
        """One read for all; each hears of its own."""
        wanted = [(waiter, waiter.waits_for_locks()) for waiter in self._waiters]
        sequence_of = {self._keys.lock(sequence): sequence for _, sequences in wanted for sequence in sequences}
        if not sequence_of:
            self._some.clear()
            return
        held = {sequence_of[key]: kv for key, kv in (await self._client.get_many(list(sequence_of))).items()}
        for waiter, sequences in wanted:
            if sequences:
                with suppress(EtcdError, UnavailableError):
                    await waiter.locks_read(sequences, held)


_log = logging.getLogger(__name__)

REPLACED: Final = "replaced"
BY_SCHEDULE: Final = "schedule"


class _Decider(Protocol):
    """Who decides, and under which session."""

    session: Session | None

    def wake(self) -> None: ...


@dataclass(slots=True, kw_only=True)
class _Wait:
    """Create revisions of the lock that is waited for."""

    held: int
    """When the fire was tried."""
    killed: int = 0
    """Of the one whose run has been killed for it; 0: of none."""


class FiresAtLocks:
    """Wakes what waits for a lock as soon as that may be free, and ends what is to be replaced."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        members: Members,
        locks: LockPoll,
        pending_jobs: PendingJobs,
        decider: _Decider,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._locks = locks
        self._pending_jobs = pending_jobs
        self._decider = decider
        self._clock = clock
        self._waiting: dict[PendingJob, _Wait] = {}
        locks.add(self)

    def add(self, pending: PendingJob, lock: KeyValue) -> None:
        """The lock was held when a due fire of the job was tried: it waits."""
        pending.parked = pending.waited = True
        self._waiting.setdefault(pending, _Wait(held=lock.create_revision)).held = lock.create_revision
        self._locks.wake()

    def freed(self, pending: PendingJob, now_ms: int) -> bool:
        """This worker has freed the job's lock; whether there is a fire to try at once."""
        newest_ms, rank = self._newest(pending, now_ms)
        if newest_ms <= pending.base_ms or rank is None:
            return False
        pending.until_ms = max(pending.until_ms, newest_ms)
        pending.parked, pending.waited, pending.freed = False, True, pending.busy
        self._pending_jobs.line.join(pending)
        return True

    def waits_for_locks(self) -> Collection[str]:
        """Of those that are this worker's to look after; the others are forgotten."""
        now_ms = self._clock.wall_ms()
        for pending in list(self._waiting):
            if pending.gone or not pending.parked:
                del self._waiting[pending]
            elif not pending.wants or not self._looks_after(pending, now_ms):
                pending.give_up()
                self._try(pending)
        return {pending.job.sequence for pending in self._waiting}

    async def locks_read(self, sequences: Collection[str], held: Mapping[str, KeyValue]) -> None:
        """What still waits is tried, or what it waits for is replaced."""
        for pending, wait in list(self._waiting.items()):
            if pending.job.sequence not in sequences or self._waiting.get(pending) is not wait:
                continue  # it was not asked about, or has been tried meanwhile
            if (lock := held.get(pending.job.sequence)) is None:
                pending.until_ms = max(pending.until_ms, self._newest(pending, self._clock.wall_ms())[0])
                self._try(pending)
            elif lock.create_revision != wait.held:
                self._moved(pending, None)  # by what it waits for, it may be: a claim tells
            else:
                await self.replace(pending, lock)

    def _looks_after(self, pending: PendingJob, now_ms: int) -> bool:
        """Whether it is of the first two in rank for the newest due fire, or waits for one that is due presently."""
        newest_ms, rank = self._newest(pending, now_ms)
        return pending.until_ms > newest_ms or rank in (0, 1)

    def _newest(self, pending: PendingJob, now_ms: int) -> tuple[int, int | None]:
        """The newest fire that is due, and this worker's rank for it."""
        newest_ms = pending.job.fires.newest_due_ms(now_ms)
        if newest_ms is None:
            return 0, None
        return newest_ms, self._members.rank(pending.job, str(newest_ms))

    def _try(self, pending: PendingJob) -> None:
        """It waits no more: what it wants is decided now."""
        self._waiting.pop(pending, None)
        pending.parked = False
        self._pending_jobs.line.join(pending)
        self._decider.wake()

    async def replace(self, pending: PendingJob, lock: KeyValue) -> None:
        """Have the run that holds the lock ended, where a newer fire is to replace it; EtcdError, UnavailableError."""
        session, job, now_ms = self._decider.session, pending.job, self._clock.wall_ms()
        if job.spec.overlap is not Overlap.REPLACE or session is None:
            return
        try:
            run_id = RunId.parse(holder_of(lock))
        except ValueError:
            return  # none of ours: the steward frees the lock
        newest_ms = job.fires.newest_open_ms(now_ms)
        wait = self._waiting.get(pending)
        if newest_ms is None or newest_ms <= pending.base_ms or (wait and wait.killed == lock.create_revision):
            return
        kill = Kill(run_id=run_id, by=BY_SCHEDULE, at_ms=now_ms, reason=REPLACED)
        base_ms = pending.base_ms
        result = await self._client.txn(
            fire_decisions.replace(self._keys, job, lock, kill, mark_ms=base_ms, session=session)
        )
        if result.succeeded:
            extra = {"action": "run.replaced", "run": str(run_id), "plan_ms": newest_ms}
            _log.info("%s is to be killed: a newer fire replaces it", run_id, extra=extra)
            self._killed(pending, lock)
            return
        why, there_ms = fire_decisions.why_not_replaced(result, lock, mark_ms=base_ms)
        match why:
            case Replaced.MOVED:
                self._moved(pending, there_ms)
            case Replaced.KILLED:
                self._killed(pending, lock)
            case Replaced.OLD_KILL:
                await self._client.txn(fire_decisions.forget_old_kill(result))
            case Replaced.UNKNOWN:
                pass

    def _killed(self, pending: PendingJob, lock: KeyValue) -> None:
        if pending in self._waiting:
            self._waiting[pending].killed = lock.create_revision

    def _moved(self, pending: PendingJob, mark_ms: int | None) -> None:
        """The lock has changed hands, or another process has decided: what is left is tried anew."""
        if pending.busy or pending.gone or not pending.parked:
            return
        if mark_ms is not None:
            pending.base_ms = max(pending.base_ms, mark_ms)
        self._try(pending)
