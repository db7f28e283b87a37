"""The requests as this worker sees them, and its tries at them: by rank, a job's oldest first, waiting for the lock.

Rank r of all eligible workers tries once at not-before + r x hedge with a free slot, else when it has one, and stops
when it sees the request gone. While the lock is held only ranks 0 and 1 look, with one batched read a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, EtcdInDoubtError, UnavailableError
from common.etcd import (
    Change,
    Compare,
    Delete,
    EtcdClient,
    Get,
    KeyValue,
    Operation,
    Put,
    Session,
    TxnResult,
    absent,
    create_revision_is,
    mod_revision_is,
)
from common.keys import Keys, RunId, Watched
from common.request import Request
from common.run import EntryState, RunEntry
from common.timings import Timings
from worker.alarm import Alarm
from worker.catalog import Catalog, CatalogJob
from worker.claims import Claims
from worker.identity import Identity
from worker.kills import Kills
from worker.members import Members
from worker.runs import Run, RunTable

_log = logging.getLogger(__name__)

LOOK_AT_LOCKS_S: Final = 1.0
_RETRY_S: Final = 0.3
_AT_ONCE: Final = 16


@dataclass(slots=True, eq=False)
class _Turn:
    """This worker's turn at one request."""

    request: Request
    at_ms: int
    rank: int
    locked: bool = False
    busy: bool = False
    freed: bool = False
    """The lock came free here while the try was under way: its answer may be older than that."""


class RequestQueue:
    """Takes requests when it is this worker's turn; what it wins goes to ``on_won``."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: Identity,
        catalog: Catalog,
        members: Members,
        kills: Kills,
        table: RunTable,
        claims: Claims,
        timings: Timings,
        on_won: Callable[[Run], None],
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._identity = identity
        self._catalog = catalog
        self._members = members
        self._kills = kills
        self._table = table
        self._claims = claims
        self._timings = timings
        self._on_won = on_won
        self._clock = clock
        self._alarm = Alarm(clock)
        self._in_flight = 0
        self._tasks: asyncio.TaskGroup | None = None
        self.by_job: dict[str, dict[RunId, Request]] = {}
        self._turns: dict[str, _Turn] = {}
        self.session: Session | None = None
        self.accepting = False

    @property
    def claims_in_flight(self) -> int:
        """Requests whose claim etcd has not answered yet: what is won is still to come."""
        return self._in_flight

    def on_changes(self, changes: Sequence[Change]) -> None:
        """The mirror's changes, taken in; a bad one is set aside."""
        for change in changes:
            try:
                run_id = self._keys.run_of(change.key)
                if self._keys.request(run_id) != change.key:
                    raise ValueError(f"it is not the key of {run_id}")
                self._take(run_id, None)
                if change.new is not None:
                    self._take(run_id, read_request(run_id, change.new))
            except ValueError as error:
                extra = {"action": "request.set_aside", "key": change.key}
                _log.warning("the request %r is set aside: %s", change.key, error, extra=extra)
        self._alarm.ring()

    def lock_freed(self, job: str) -> None:
        """The job's lock was freed by this worker: its oldest request is tried at once."""
        requests = self.by_job.get(job)
        if not requests:
            return
        oldest = _oldest(requests)
        turn = self._turns.get(job)
        if turn is None or turn.request is not oldest:
            turn = self._turns[job] = _Turn(oldest, max(self._clock.wall_ms(), oldest.not_before_ms), 0)
        turn.locked, turn.freed = False, turn.busy
        turn.at_ms = min(turn.at_ms, max(self._clock.wall_ms(), oldest.not_before_ms))
        self._alarm.ring()

    def replan(self) -> None:
        """The membership, and so the ranks, have changed."""
        for job in list(self.by_job):
            self._plan(job)
        self._alarm.ring()

    def wake(self) -> None:
        """A slot came free, or a session is there."""
        self._alarm.ring()

    async def run(self) -> None:
        """Takes requests until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._watch_locks(), name="locks of requests")
            while True:
                self._alarm.clear()
                await self._alarm.wait_until_wall(self._try_due(self._clock.wall_ms()))

    def _take(self, run_id: RunId, request: Request | None) -> None:
        """The request as it is now, None where it is gone; and this worker's turn at what is the job's oldest then."""
        requests = self.by_job.setdefault(run_id.job, {})
        if request is None:
            requests.pop(run_id, None)
        else:
            requests[run_id] = request
        if not requests:
            del self.by_job[run_id.job]
        self._plan(run_id.job)

    def _plan(self, job: str) -> None:
        """This worker's turn at the oldest request of the job."""
        requests = self.by_job.get(job)
        turn = self._turns.get(job)
        if turn is not None and turn.busy:
            return  # planned again when its answer is there
        oldest = _oldest(requests) if requests else None
        rank = self._members.placement.rank(self._identity.worker, job, oldest.run_id.fire) if oldest else None
        if oldest is None or rank is None:
            self._turns.pop(job, None)
        elif turn is None or turn.request is not oldest or turn.rank != rank:
            at_ms = oldest.not_before_ms + rank * self._timings.hedge_ms
            self._turns[job] = _Turn(oldest, at_ms, rank)

    def _try_due(self, now_ms: int) -> int | None:
        """Starts the tries whose time has come, oldest plan time first; the time of the next."""
        if self.session is None or not self.accepting:
            return None
        due = [turn for turn in self._turns.values() if turn.at_ms <= now_ms and not turn.locked and not turn.busy]
        room = min(self._table.free_slots - self._in_flight, _AT_ONCE - self._in_flight)
        for turn in sorted(due, key=lambda one: one.request.plan_ms):
            if room <= 0:
                break
            job = self._runnable(turn.request, now_ms)
            if job is None:
                turn.at_ms = now_ms + int(LOOK_AT_LOCKS_S * 1000)  # the steward's, or not yet; looked at again
                continue
            room -= 1
            self._in_flight += 1
            turn.busy = True
            assert self._tasks is not None
            self._tasks.create_task(self._try(turn, job, self.session), name="request")
        later = [turn.at_ms for turn in self._turns.values() if turn.at_ms > now_ms and not turn.locked]
        return min(later) if later else None

    def _runnable(self, request: Request, now_ms: int) -> CatalogJob | None:
        """The job to run it by; None where it is the steward's to end."""
        job = self._catalog.jobs.get(request.run_id.job)
        expired = request.expires_ms is not None and now_ms > request.expires_ms
        killed = request.run_id in self._kills.by_run
        if job is None or job.create_revision != request.job_create_revision or expired or killed:
            return None
        return job if job.spec.enabled else None

    async def _try(self, turn: _Turn, job: CatalogJob, session: Session) -> None:
        try:
            await self._claim(turn, job, session)
        finally:
            self._in_flight -= 1
            turn.busy = False
            if turn.freed:
                turn.locked = turn.freed = False
                turn.at_ms = self._clock.wall_ms()
            self._plan(turn.request.run_id.job)
            self._alarm.ring()

    async def _claim(self, turn: _Turn, job: CatalogJob, session: Session) -> None:
        """One claim, sent again until it is answered."""
        claim_ms = self._clock.wall_ms()
        entry = self._entry(turn.request, job, session, claim_ms)
        transaction = self._transaction(turn.request, job, session, entry)
        doubtful = False
        while True:
            sent = self._clock.boottime()
            try:
                result = await self._client.txn(*transaction)
            except EtcdInDoubtError:
                doubtful = True
                await asyncio.sleep(_RETRY_S)
                continue
            except (EtcdError, UnavailableError):  # this sending was certainly not carried out
                await asyncio.sleep(_RETRY_S)
                if doubtful:
                    continue
                turn.at_ms = self._clock.wall_ms() + int(LOOK_AT_LOCKS_S * 1000)
                return
            if result.succeeded:
                self._won(turn.request, job, session, entry, revision=result.revision, sent=sent)
                return
            mine = result.one(2)
            if doubtful and mine is not None and mine.value == entry.to_json():
                revision = mine.create_revision
                self._won(turn.request, job, session, entry, revision=revision, sent=float("-inf"))
                return
            if not doubtful or _never(turn.request, job, session, result):
                turn.locked = job.takes_lock and result.one(3) is not None
                turn.at_ms = self._clock.wall_ms() + int(LOOK_AT_LOCKS_S * 1000)
                return
            await asyncio.sleep(LOOK_AT_LOCKS_S)

    def _transaction(
        self, request: Request, job: CatalogJob, session: Session, entry: RunEntry
    ) -> tuple[list[Compare], list[Operation], list[Operation]]:
        keys, run_id = self._keys, request.run_id
        compares = [
            session.alive,
            mod_revision_is(keys.request(run_id), request.revision),
            mod_revision_is(keys.job(job.name), job.revision),
            create_revision_is(keys.job(job.name), request.job_create_revision),
            absent(keys.run(run_id)),
        ]
        then: list[Operation] = [
            Delete(keys.request(run_id)),
            Put(keys.seen(Watched.REQUESTS), b""),
            Put(keys.run(run_id), entry.to_json()),
        ]
        if job.takes_lock:
            compares.append(absent(keys.lock(job.sequence)))
            then.append(Put(keys.lock(job.sequence), str(run_id).encode()))
        reads = [keys.request(run_id), keys.job(job.name), keys.run(run_id), keys.lock(job.sequence), session.key]
        return compares, then, [Get(key) for key in reads]

    def _entry(self, request: Request, job: CatalogJob, session: Session, claim_ms: int) -> RunEntry:
        return RunEntry(
            state=EntryState.OPEN, worker=self._identity.worker, session=session.id, instance=self._identity.instance,
            revision=job.revision, locked=job.takes_lock, lost_after_ms=self._claims.lost_after_ms(job),
            plan_ms=request.plan_ms, dispatch_ms=max(request.dispatch_ms, request.not_before_ms), claim_ms=claim_ms,
            trigger=request.trigger, by=request.by,
        )  # fmt: skip

    def _won(
        self, request: Request, job: CatalogJob, session: Session, entry: RunEntry, *, revision: int, sent: float
    ) -> None:
        self._take(request.run_id, None)  # etcd has deleted it; the watch tells so a little later
        never_ms = entry.dispatch_ms + job.spec.misfire.window_ms
        self._on_won(
            Run(
                run_id=request.run_id, job=job, entry=entry, fence=revision, mod_revision=revision, session=session,
                sent=sent, start_by_ms=never_ms if request.expires_ms is None else request.expires_ms,
            )
        )  # fmt: skip

    async def _watch_locks(self) -> None:
        """Ranks 0 and 1 look at the locks of the jobs whose requests wait for them: one batched read a second."""
        while True:
            await asyncio.sleep(LOOK_AT_LOCKS_S)
            waiting = {self._keys.lock(job): turn for job, turn in self._turns.items() if turn.locked and turn.rank < 2}
            if not waiting:
                continue
            try:
                held = await self._client.get_many(list(waiting), keys_only=True)
            except (EtcdError, UnavailableError):
                continue
            for key, turn in waiting.items():
                turn.locked = key in held
            self._alarm.ring()


def read_request(run_id: RunId, kv: KeyValue) -> Request:
    """The request in a key; ValueError where it is none."""
    return Request.from_json(kv.value, run_id=run_id, revision=kv.mod_revision)


def order_of(request: Request) -> tuple[int, RunId]:
    """A job's requests go in this order."""
    return request.plan_ms, request.run_id


def _oldest(requests: dict[RunId, Request]) -> Request:
    return min(requests.values(), key=order_of)


def _never(request: Request, job: CatalogJob, session: Session, result: TxnResult) -> bool:
    """Whether a claim in doubt can never be carried out any more."""
    there, saved, _, _, own = (result.one(index) for index in range(5))
    return (
        there is None
        or there.mod_revision != request.revision
        or saved is None
        or saved.mod_revision != job.revision
        or own is None
        or own.lease != session.lease_id
    )
