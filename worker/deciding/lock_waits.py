"""Jobs of which one fire waits for the lock: overlap ``queue`` and ``replace``.

While a run holds the lock their due fires stay undecided. Ranks 0 and 1 of the newest look at the locks. Under
``replace`` the run that holds the lock is killed as soon as a newer fire is due:

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

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from common.clock import Clock
from common.etcd import EtcdClient, Session
from common.jobs.job import Overlap
from common.protocol import fire_decisions
from common.protocol.fire_decisions import Replaced
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.proposals import Blocker
from common.protocol.txn import KeyValue
from worker.deciding.agenda import Agenda, Agendum
from worker.members import Members
from worker.plan.lock_watch import LockWatch

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


class LockWaits:
    """Wakes what waits for a lock as soon as that may be free, and ends what is to be replaced."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        members: Members,
        locks: LockWatch,
        agenda: Agenda,
        decider: _Decider,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._locks = locks
        self._agenda = agenda
        self._decider = decider
        self._clock = clock
        self._waiting: dict[Agendum, _Wait] = {}
        locks.add(self)

    def add(self, agendum: Agendum, holder: Blocker) -> None:
        """The lock was held when a due fire of the job was tried: it waits."""
        agendum.parked = agendum.waited = True
        self._waiting.setdefault(agendum, _Wait(held=holder.lock_revision)).held = holder.lock_revision
        self._locks.wake()

    def freed(self, agendum: Agendum, now_ms: int) -> bool:
        """This worker has freed the job's lock; whether there is a fire to try at once."""
        newest_ms, rank = self._newest(agendum, now_ms)
        if newest_ms <= agendum.base_ms or rank is None:
            return False
        agendum.until_ms = max(agendum.until_ms, newest_ms)
        agendum.parked, agendum.waited, agendum.freed = False, True, agendum.busy
        self._agenda.line.join(agendum)
        return True

    def waits_for_locks(self) -> Collection[str]:
        """Of those that are this worker's to look after; the others are forgotten."""
        now_ms = self._clock.wall_ms()
        for agendum in list(self._waiting):
            if agendum.gone or not agendum.parked:
                del self._waiting[agendum]
            elif not agendum.wants or not self._looks_after(agendum, now_ms):
                agendum.give_up()
                self._try(agendum)
        return {agendum.job.sequence for agendum in self._waiting}

    async def locks_read(self, sequences: Collection[str], held: Mapping[str, KeyValue]) -> None:
        """What still waits is tried, or what it waits for is replaced."""
        for agendum, wait in list(self._waiting.items()):
            if agendum.job.sequence not in sequences or self._waiting.get(agendum) is not wait:
                continue  # it was not asked about, or has been tried meanwhile
            if (lock := held.get(agendum.job.sequence)) is None:
                agendum.until_ms = max(agendum.until_ms, self._newest(agendum, self._clock.wall_ms())[0])
                self._try(agendum)
            elif lock.create_revision != wait.held:
                self._moved(agendum, None)  # by what it waits for, it may be: a claim tells
            else:
                await self.replace(agendum, Blocker(run=_text(lock), lock_revision=lock.create_revision))

    def _looks_after(self, agendum: Agendum, now_ms: int) -> bool:
        """Whether it is of the first two in rank for the newest due fire, or waits for one that is due presently."""
        newest_ms, rank = self._newest(agendum, now_ms)
        return agendum.until_ms > newest_ms or rank in (0, 1)

    def _newest(self, agendum: Agendum, now_ms: int) -> tuple[int, int | None]:
        """The newest fire that is due, and this worker's rank for it."""
        newest_ms = agendum.job.fires.newest_due_ms(now_ms)
        if newest_ms is None:
            return 0, None
        return newest_ms, self._members.rank(agendum.job, str(newest_ms))

    def _try(self, agendum: Agendum) -> None:
        """It waits no more: what it wants is decided now."""
        self._waiting.pop(agendum, None)
        agendum.parked = False
        self._agenda.line.join(agendum)
        self._decider.wake()

    async def replace(self, agendum: Agendum, holder: Blocker) -> None:
        """Have the run that holds the lock ended, where a newer fire is to replace it; EtcdError, UnavailableError."""
        session, run_id = self._decider.session, _run_of(holder)
        job, now_ms = agendum.job, self._clock.wall_ms()
        if job.spec.overlap is not Overlap.REPLACE or session is None or run_id is None:
            return
        newest_ms = job.fires.newest_open_ms(now_ms)
        wait = self._waiting.get(agendum)
        if newest_ms is None or newest_ms <= agendum.base_ms or (wait and wait.killed == holder.lock_revision):
            return
        kill = Kill(run_id=run_id, by=BY_SCHEDULE, at_ms=now_ms, reason=REPLACED)
        base_ms = agendum.base_ms
        result = await self._client.txn(
            fire_decisions.replace(self._keys, job, holder, kill, mark_ms=base_ms, session=session)
        )
        if result.succeeded:
            extra = {"action": "run.replaced", "run": str(run_id), "plan_ms": newest_ms}
            _log.info("%s is to be killed: a newer fire replaces it", run_id, extra=extra)
            self._killed(agendum, holder)
            return
        why, there_ms = fire_decisions.why_not_replaced(result, holder, mark_ms=base_ms)
        match why:
            case Replaced.MOVED:
                self._moved(agendum, there_ms)
            case Replaced.KILLED:
                self._killed(agendum, holder)
            case Replaced.OLD_KILL:
                await self._client.txn(fire_decisions.forget_old_kill(result))
            case Replaced.UNKNOWN:
                pass

    def _killed(self, agendum: Agendum, holder: Blocker) -> None:
        if agendum in self._waiting:
            self._waiting[agendum].killed = holder.lock_revision

    def _moved(self, agendum: Agendum, mark_ms: int | None) -> None:
        """The lock has changed hands, or somebody has decided: what is left is tried anew."""
        if agendum.busy or agendum.gone or not agendum.parked:
            return
        if mark_ms is not None:
            agendum.base_ms = max(agendum.base_ms, mark_ms)
        self._try(agendum)


def _text(lock: KeyValue) -> str:
    return lock.value.decode(errors="replace")[:300]


def _run_of(holder: Blocker) -> RunId | None:
    """The run that a lock names; None where it is none of ours, which the steward frees."""
    try:
        return RunId.parse(holder.run)
    except ValueError:
        return None
