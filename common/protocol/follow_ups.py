"""What follows the end of a run: another attempt, or the next link of an ``after`` job's chain.

    failed, timeout                               --retry-->         the next attempt, after its delay
    lost with its worker, or killed with it       --onWorkerLost-->  the next attempt, at once
    anything else that frees an `after` job's lock               --> the next link: end + delay

It is written by the very transaction that ends the run: the one that deletes its lock, or, of a run without a lock, the
one that puts its key as `ended`, or final. That transaction compares the lock's create revision, or the run key's mod
revision, so it is carried out once, whatever sends it: what follows, follows once. If we die before it, the lock is
held and the process that settles the run writes it; if we die after it, the request waits in etcd.

By the job as it is now, which the transaction compares. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from msgspec import Struct

from common.errors import EtcronError
from common.jobs.job import OnWorkerLost
from common.protocol.chain import link_after
from common.protocol.compares import Compare, absent, mod_revision_is, none_under_since, value_is
from common.protocol.keys import Keys, RunId, Watched, read_mark
from common.protocol.planned_job import PlannedJob, read_job
from common.protocol.request import Origin, Request
from common.protocol.run import OUT_OF_TOUCH, SHUTDOWN, RunEntry, RunRecord, Trigger
from common.protocol.saved_job import first_attempt
from common.protocol.txn import Delete, Guards, KeyValue, Operation, Put, Txn
from common.verdicts import Verdict

_WITH_ITS_WORKER: Final = (SHUTDOWN, OUT_OF_TOUCH)
"""Reasons of runs that were killed and whose end no user wished."""


class End(Struct, frozen=True, kw_only=True):
    """The end of a run."""

    entry: RunEntry
    record: RunRecord
    """``lost``: it was given up just now."""
    frees_lock: bool
    """Whether its transaction deletes the job's lock."""

    @property
    def run_id(self) -> RunId:
        return self.record.run_id

    @property
    def at_ms(self) -> int:
        return self.entry.claim_ms if self.record.end_ms is None else self.record.end_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What etcd holds, as far as what follows depends on it; its transaction compares what it relied on."""

    job: PlannedJob | None
    """As it is now; None: there is none, or none that can be read."""
    mark: KeyValue | None = None
    is_killed: bool = False
    """A user, or a newer fire, wished an end of the run."""
    has_next: bool = False
    """The next attempt is asked for already, or has a run key."""

    @classmethod
    def keys_of(cls, keys: Keys, end: End) -> tuple[str, ...]:
        """What they are read from, at one revision."""
        run_id, following = end.run_id, end.run_id.next_attempt
        return (
            keys.job(run_id.job_name), keys.mark(run_id.job), keys.kill(run_id), keys.run(following),
            keys.request(following),
        )  # fmt: skip

    @classmethod
    def found(cls, keys: Keys, end: End, found: Mapping[str, KeyValue]) -> Self:
        """What those of these keys that exist say."""
        kv, mark, kill, run, request = map(found.get, cls.keys_of(keys, end))
        try:
            job = None if kv is None else read_job(end.run_id.job_name, kv)
        except EtcronError:
            job = None
        return cls(
            job=job, mark=mark, is_killed=kill is not None,
            has_next=run is not None or request is not None,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The share of what follows in the transaction that ends the run."""

    request: Request | None = None
    compares: tuple[Compare, ...] = ()
    then: tuple[Put, ...] = ()
    tries_again: bool = False
    """Another attempt of the fire follows, or is there already."""


NOTHING: Final = FollowUp()
_IS_THERE: Final = FollowUp(tries_again=True)


def may_be_tried_again(record: RunRecord) -> bool:
    """Whether a job may have a run with this record tried again: then etcd is asked what the job is now.

    Who believes that it is not tried again writes nothing that etcd could refuse: a watch that is behind would cost the
    retry of a job that was resumed, or given one, a moment ago.
    """
    return record.status.is_retried or _went_with_its_worker(record)


def _went_with_its_worker(record: RunRecord) -> bool:
    """Its worker ended it: by giving it up, by its own shutdown, or after too long without etcd. No user killed it."""
    is_taken_along = record.status is Verdict.KILLED and record.reason in _WITH_ITS_WORKER
    return is_taken_along or record.status is Verdict.LOST


def another_attempt(end: End, job: PlannedJob | None) -> Origin | None:
    """Why the fire is to be tried again by this job; None: it is not."""
    if job is None or job.create_revision > end.entry.revision:  # or it was made after the run's job was deleted
        return None
    if end.run_id.plan_ms is not None and not job.spec.enabled:
        return None
    spec, record = job.spec, end.record
    if _went_with_its_worker(record):
        may = spec.on_worker_lost is OnWorkerLost.RERUN and _attempts(end, job) <= max(1, spec.retry.limit)
        return Origin.RERUN if may else None
    if not record.status.is_retried or _attempts(end, job) > spec.retry.limit:
        return None
    codes = spec.retry.on_exit_codes
    return Origin.RETRY if not codes or record.exit_code in codes else None


def _attempts(end: End, job: PlannedJob) -> int:
    """How many attempts there have been; those before an unblocking do not count."""
    plan_ms, attempt = end.run_id.plan_ms, end.run_id.attempt
    return attempt if plan_ms is None else max(1, attempt - first_attempt(job.again, plan_ms) + 1)


def follow(keys: Keys, end: End, facts: Facts) -> FollowUp:
    """What follows this end, given these facts."""
    job, origin = facts.job, another_attempt(end, facts.job)
    if job is None or origin is None or (origin is Origin.RERUN and facts.is_killed):
        return next_link_after(keys, end, job)
    if facts.has_next:
        return _IS_THERE
    request = _attempt(end, job, origin, facts)
    compares = [absent(keys.run(request.run_id)), absent(keys.request(request.run_id))]
    if facts.mark is not None and request.mark_ms is not None:
        compares.append(value_is(facts.mark.key, facts.mark.value))
    if origin is Origin.RERUN:
        compares.append(absent(keys.kill(end.run_id)))
    return replace(_asking(keys, job, request, compares), tries_again=True)


def next_link_after(keys: Keys, end: End, job: PlannedJob | None) -> FollowUp:
    """What follows an end after which the fire is not tried again: the chain goes on, where the run was part of one."""
    if job is None or not end.frees_lock or end.run_id.of_worker is not None:
        return NOTHING  # a run without the lock (its job was another then) is no part of the chain
    return next_link(keys, job, end_ms=end.at_ms, last_plan_ms=end.entry.plan_ms)


def next_link(keys: Keys, job: PlannedJob, *, end_ms: int, last_plan_ms: int) -> FollowUp:
    """The next link of the chain after a fire that ended, also one that never ran; nothing where it has no chain.

    It is put over a link that may be there.
    """
    request = link_after(job.spec, end_ms, last_plan_ms=last_plan_ms, job_create_revision=job.create_revision)
    return NOTHING if request is None else _asking(keys, job, request, ())


def merged(operations: Iterable[Put | Delete], then: FollowUp) -> list[Operation]:
    """Operations and those of what follows in one branch: of two that write one key, the latter."""
    written = {operation.key for operation in then.then}
    return [*(operation for operation in operations if operation.key not in written), *then.then]


def _attempt(end: End, job: PlannedJob, origin: Origin, facts: Facts) -> Request:
    entry, retry = end.entry, job.spec.retry
    not_before_ms, is_retry = end.at_ms, origin is Origin.RETRY
    if is_retry:
        not_before_ms += retry.delay_ms(str(RunId(end.run_id.job, end.run_id.fire)), _attempts(end, job))
    # A newer fire takes the place of this one's retry where they may not run side by side.
    gives_way = is_retry and job.takes_lock and job.spec.after is None and end.run_id.plan_ms is not None
    elsewhere = is_retry and retry.other_worker and end.run_id.of_worker is None
    return Request(
        run_id=end.run_id.next_attempt, origin=origin, job_create_revision=job.create_revision, plan_ms=entry.plan_ms,
        dispatch_ms=not_before_ms, not_before_ms=not_before_ms,
        trigger=Trigger.RETRY if is_retry else Trigger.RERUN, by=entry.by, note=entry.note,
        create_ms=entry.create_ms if entry.create_ms is not None else entry.claim_ms,
        expires_ms=None if entry.grant is None else entry.grant.expires_ms,
        args=entry.args, env=entry.env, grant=entry.grant, scope=entry.scope, avoid=entry.worker if elsewhere else None,
        mark_ms=read_mark(facts.mark) if gives_way else None,
    )  # fmt: skip


def _asking(keys: Keys, job: PlannedJob, request: Request, compares: Iterable[Compare]) -> FollowUp:
    as_planned = mod_revision_is(keys.job(job.name), job.revision)
    puts = (Put(request.key(keys), request.to_json()), Put(keys.seen(Watched.REQUESTS), b""))
    return FollowUp(request=request, compares=(as_planned, *compares), then=puts)


def mend_chain(keys: Keys, job: PlannedJob, link: FollowUp, *, known_revision: int, guards: Guards) -> Txn:
    """The next link of a chain that has neither a run nor a request, but such as were known at this revision."""
    nothing_newer = none_under_since(keys.requests_of(job.name), known_revision)
    return Txn([*guards, absent(keys.lock(job.name)), nothing_newer, *link.compares], link.then)
