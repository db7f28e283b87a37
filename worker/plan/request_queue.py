"""The requests as this worker sees them, and its tries at them: by rank, a job's oldest first, waiting for the lock.

Rank r of all eligible workers tries once at not-before + r x hedge with free slots, else when it has them, and stops
when it sees the request gone. While the lock is held only ranks 0 and 1 look, with one batched read a second. Of a job
that takes no lock several requests are tried at once, but for those that make up for misfires: they go oldest first.

    later --its time--> lined up --among the first of its job--> turn --its rank's time--> due --slots--> claim
                                                                  ^                                         |
                                                                  +-- a second later, or the lock is free --+
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from common.clock import Clock
from common.etcd import Change, EtcdClient, Session
from common.protocol.keys import Keys, sequence_name
from common.protocol.member import WorkerIdentity
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.txn import KeyValue
from common.timings import Timings
from worker.admission import Admission
from worker.catalog import Catalog
from worker.kills import Kills
from worker.members import Members
from worker.plan.cues import Alarm
from worker.plan.lock_waits import LockPoll
from worker.plan.pending_requests import DueJobs, Lineup, PendingRequest, PendingRequests
from worker.plan.request_claiming import NOTHING, Counted, RequestClaiming
from worker.quarantine import Quarantine
from worker.refusals import Refusals
from worker.runs import Run, RunTable
from worker.verifier import Verifier

_log = logging.getLogger(__name__)

_LOOK_AGAIN_MS: Final = 1000
AT_ONCE: Final = 16
"""Claims on their way at any time; and requests of one lockless job that have their turn."""
_PLANS_IN_A_TURN: Final = 200
"""When all jobs are planned anew; then others have their turn."""
_AVOIDED_HEDGES: Final = 2
"""How long the others have a request for themselves that is to avoid this worker."""
_WAITER: Final = "requests"


class RequestQueue:
    """Takes requests when it is this worker's turn; what it wins goes to ``on_won``."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        catalog: Catalog,
        members: Members,
        kills: Kills,
        table: RunTable,
        refusals: Refusals,
        locks: LockPoll,
        timings: Timings,
        on_won: Callable[[Run], None],
        admission: Admission,
        clock: Clock,
        verifier: Verifier | None = None,
    ) -> None:
        self._verifier = verifier
        self._keys = keys
        self._identity = identity
        self._catalog = catalog
        self._members = members
        self._kills = kills
        self._table = table
        self._locks = locks
        locks.add(self)
        self._timings = timings
        self._on_won = on_won
        self._admission = admission
        self._clock = clock
        self._alarm = Alarm(clock)
        self._claiming = RequestClaiming(
            client=client, keys=keys, identity=identity, lost_after_ms=timings.lost_after_s * 1000, table=table,
            refusals=refusals, clock=clock, on_room=self.wake,
        )  # fmt: skip
        self._tasks: asyncio.TaskGroup | None = None
        self.by_job: dict[str, Lineup] = {}
        """By what their runs go by: the job, or a worker's own sequence of a broadcast job."""
        self.set_aside: dict[str, Request] = {}
        """By key, those that are not believed here."""
        self.due_jobs = DueJobs(self.by_job)
        """For the steward."""
        self._pending: dict[str, dict[str, PendingRequest]] = {}
        self._requests = PendingRequests()
        self._to_plan: dict[str, None] = {}
        """Jobs that are to be planned anew, in turns."""
        self._quarantine = Quarantine("requests of job")
        self.session: Session | None = None

    @property
    def claims_in_flight(self) -> int:
        """Requests whose claim etcd has not settled yet: what is won is still to come."""
        return self._claiming.unsettled

    @property
    def claims_lost(self) -> int:
        """Since this process began: claims of requests that another worker had claimed by then."""
        return self._claiming.lost

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; a bad one is set aside."""
        jobs = set()
        for change in changes:
            try:
                job = self._keys.run_of(change.key).job
                jobs.add(job)
                self._take(job, change.key, None)
                self.set_aside.pop(change.key, None)
                if (kv := change.new) is not None:
                    request = Request.from_json(kv.value, run_id=self._keys.run_of(kv.key), revision=kv.mod_revision)
                    if request.key(self._keys) != kv.key:
                        raise ValueError(f"it is not the key of {request.run_id}")
                    self._take(job, change.key, request)
            except ValueError as error:
                extra = {"action": "request.set_aside", "key": change.key}
                _log.warning("the request %r is set aside: %s", change.key, error, extra=extra)
        for job in jobs:
            self._plan(job)
        self._alarm.ring()

    def lock_freed(self, job: str) -> None:
        """The job's lock was freed by this worker: its first request is tried at once."""
        if job not in self.by_job and job not in self._pending:
            return  # so it is with nearly all
        self._plan(job)
        for pending in self._pending.get(job, {}).values():
            pending.freed = pending.busy
            self._unlocked(pending)
        self._alarm.ring()

    def job_changed(self, name: str) -> None:
        """There is another revision of the job, or none: others may be eligible, or it takes a lock now."""
        for job in (name, sequence_name(name, self._identity.worker)):
            if job in self.by_job:
                self._plan(job)
        self._alarm.ring()

    def replan(self) -> None:
        """The membership, and so the ranks, have changed; or the clock has jumped."""
        self._to_plan.update(dict.fromkeys(self.by_job))
        self._alarm.ring()

    def wake(self) -> None:
        """A slot came free, or a session is there."""
        self._alarm.ring()

    async def run(self) -> None:
        """Takes requests until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._alarm.clear()
                self._plan_some()
                await self._alarm.wait_until_wall(self._try_due(self._clock.wall_ms()))

    def _plan_some(self) -> None:
        for job in list(islice(self._to_plan, _PLANS_IN_A_TURN)):
            self._plan(job)
        if self._to_plan:
            self._alarm.ring()

    # Whose turn it is

    def _take(self, job: str, key: str, request: Request | None) -> None:
        """The request as it is now, None where it is gone."""
        lineup = self.by_job.setdefault(job, Lineup())
        if request is None:
            lineup.remove(key)
        else:
            lineup.put(key, request)
            self.due_jobs.expect(job, request.not_before_ms)
        if not lineup:
            del self.by_job[job]

    def _plan(self, job: str) -> None:
        """This worker's turns at the first requests of the job; where that fails, the harm is this job's alone.

        One that is busy keeps its turn until its answer.
        """
        self._to_plan.pop(job, None)
        with self._quarantine.isolate(job, 0):
            lineup, first = self.by_job.get(job), self._pending.get(job, {})
            later_ms = lineup.advance(self._clock.wall_ms()) if lineup is not None else None
            if later_ms is not None:
                self._requests.remind(job, later_ms)
            wanted = self._first(lineup) if lineup is not None else {}
            for key, pending in list(first.items()):
                if not pending.busy and wanted.get(key, (None, -1)) != (pending.request, pending.rank):
                    pending.gone = True
                    del first[key]
            is_busy = any(pending.busy for pending in first.values())
            for key, (request, rank) in wanted.items():
                if key in first or (is_busy and self._goes_alone(request)):
                    continue
                pending = PendingRequest(key=key, request=request, rank=rank)
                wait_ms = max(rank * self._timings.hedge_ms, self._leave_to_others_ms(pending))
                self._requests.arm(pending, request.not_before_ms + wait_ms)
                first[key] = pending
            if first:
                self._pending[job] = first
            else:
                self._pending.pop(job, None)

    def _first(self, lineup: Lineup) -> dict[str, tuple[Request, int]]:
        """The requests whose turn it is now, as far as this worker may try them, with its rank."""
        first = {}
        for key, request in lineup.heads(AT_ONCE):
            if (rank := self._rank(request)) is not None:
                first[key] = request, rank
            if self._goes_alone(request):
                break
        return first

    def _goes_alone(self, request: Request) -> bool:
        """Whether the job's next request waits until this one is claimed."""
        job = self._catalog.of_run(request.run_id)
        return job is None or job.takes_lock or request.origin is Origin.CATCH_UP

    def _rank(self, request: Request) -> int | None:
        """This worker's place among those who may try it; a worker that is to be avoided is the last of them."""
        job = self._catalog.of_run(request.run_id)
        if job is None:
            return None
        return self._members.place(job, request.run_id.fire, last=request.avoid)

    def _leave_to_others_ms(self, pending: PendingRequest) -> int:
        """How long this worker waits where it is to be avoided, and there are others."""
        is_avoided = pending.request.avoid == self._identity.worker and pending.rank > 0
        return _AVOIDED_HEDGES * self._timings.hedge_ms if is_avoided else 0

    def _unlocked(self, pending: PendingRequest) -> None:
        """The job's lock is free: it may be tried at once."""
        pending.parked = False
        self._requests.arm(pending, self._clock.wall_ms() + self._leave_to_others_ms(pending))

    # Trying

    def _try_due(self, now_ms: int) -> int | None:
        """Starts the tries whose time has come, the most urgent job's first, then the oldest; the time of the next."""
        if self.session is None or not self._admission.takes_fires:
            return None
        for name in self._requests.collect(now_ms, urgency=self._urgency):
            self._plan(name)
        # As many as there are slots for; the first for which there are none waits for them.
        room, had_some = self._table.free_slots - self._table.kept_from(_WAITER), False
        while self._claiming.sending < AT_ONCE and (pending := self._requests.line.first()) is not None:
            job = self._runnable(pending.request, now_ms)
            if job is not None and self._verifier is not None and self._verifier.request_fault(pending.request):
                self._set_aside(pending)
            elif job is None:
                self._requests.arm(pending, now_ms + _LOOK_AGAIN_MS)  # the steward's, or not yet; looked at again
            elif job.spec.slots > room:
                self._table.wait_for(_WAITER, job.spec.slots, urgency=pending.urgency, had_some=had_some)
                break
            else:
                room, had_some = room - job.spec.slots, True
                pending.busy, pending.due = True, False
                assert self._tasks is not None, "only while the loop runs"
                counted = self._claiming.count(job.spec.slots)
                self._tasks.create_task(self._try(pending, job, self.session, counted), name="request")
        else:
            self._table.wait_for(_WAITER, 0)
        return self._requests.cues.next_ms

    def _urgency(self, request: Request) -> int:
        job = self._catalog.of_run(request.run_id)
        return job.spec.priority if job is not None else 0

    def _runnable(self, request: Request, now_ms: int) -> PlannedJob | None:
        """The job to run it by; None where it is the steward's to end."""
        job = self._catalog.of_run(request.run_id)
        killed = request.run_id in self._kills.by_run
        if job is None or job.create_revision != request.job_create_revision or killed or request.is_expired(now_ms):
            return None
        if self._verifier is not None and not self._verifier.believes(job):
            return None
        if not request.is_of_scope(job.spec):
            return None
        return job if job.spec.enabled or request.is_asked_for else None

    def _set_aside(self, pending: PendingRequest) -> None:
        """No manager has signed it: it is as if it were not there, and the job's others have their turn."""
        job = pending.request.run_id.job
        pending.gone = True
        self._pending.get(job, {}).pop(pending.key, None)
        self._take(job, pending.key, None)
        self.set_aside[pending.key] = pending.request
        self._to_plan[job] = None
        self._alarm.ring()

    async def _try(self, pending: PendingRequest, job: PlannedJob, session: Session, counted: Counted) -> None:
        tried = NOTHING
        try:
            tried = await self._claiming.claim(pending.request, job, session, counted)
            if tried.run is not None:
                # etcd has deleted it; the watch tells so a little later.
                self._take(pending.request.run_id.job, pending.key, None)
                self._on_won(tried.run)
        finally:
            counted.settle()
            pending.busy, pending.parked = False, tried.met_lock
            if pending.parked and pending.rank < 2:
                self._locks.wake()
            self._requests.arm(pending, self._clock.wall_ms() + _LOOK_AGAIN_MS)
            if pending.freed:
                pending.freed = False
                self._unlocked(pending)
            self._plan(pending.request.run_id.job)
            self._alarm.ring()

    # Waiting for locks: ranks 0 and 1

    def waits_for_locks(self) -> Collection[str]:
        """Of the jobs whose first request has met a held lock."""
        return {job for job, first in self._pending.items() if any(map(_waits_for_lock, first.values()))}

    async def locks_read(self, sequences: Collection[str], held: Mapping[str, KeyValue]) -> None:
        """What waits for a lock that is free is tried at once."""
        for job in set(sequences) - held.keys():
            for pending in filter(_waits_for_lock, self._pending.get(job, {}).values()):
                self._unlocked(pending)
        self._alarm.ring()


def _waits_for_lock(pending: PendingRequest) -> bool:
    return pending.parked and pending.rank < 2
