"""What a worker writes for a run that it has claimed, until its key is gone. Each write compares what was believed.

take_over   the run key names the session that is current now: a claim renewed before its start, a run re-adopted
hand_on     a claim of which no process was started becomes a request that any worker may take
free        the lock goes, or the run key says `ended`; what follows comes with it
forget      the run key goes: the log store has the record
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from common.protocol.keys import Keys, RunId, Watched
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.request_claims import NO_LIMIT_MS
from common.protocol.run import RunEntry
from common.protocol.txn import (
    Delete,
    Get,
    GetKey,
    Operation,
    Owner,
    Put,
    Txn,
    create_revision_is,
    mod_revision_is,
)


class ClaimedRun(Protocol):
    """A run as its worker knows it."""

    run_id: RunId
    job: PlannedJob
    entry: RunEntry
    fence: int
    mod_revision: int
    request: Request | None
    start_by_ms: int

    @property
    def holds_lock(self) -> bool: ...


def take_over(keys: Keys, run_id: RunId, entry: RunEntry, *, mod_revision: int, session: Owner) -> tuple[RunEntry, Txn]:
    """The run key's new value, which names the session, and the write of it; refused, it reads what is there."""
    key, renewed = keys.run(run_id), replace(entry, session=session.id)
    compares = [session.alive, mod_revision_is(key, mod_revision)]
    return renewed, Txn(compares, [Put(key, renewed.to_json())], [Get(key)])


def hand_on(keys: Keys, run: ClaimedRun, *, now_ms: int) -> Txn:
    """The claim, with its lock, goes, and a request comes in its place; refused, it reads run key and lock."""
    key, lock = keys.run(run.run_id), keys.lock(run.run_id.job)
    request = handed_on(run, now_ms=now_ms)
    compares = [mod_revision_is(key, run.mod_revision)]
    then: list[Operation] = [
        Delete(key), Put(request.key(keys), request.to_json()), Put(keys.seen(Watched.REQUESTS), b"")
    ]  # fmt: skip
    if run.holds_lock:
        compares.append(create_revision_is(lock, run.fence))
        then.append(Delete(lock))
    return Txn(compares, then, [Get(key), GetKey(lock)])


def handed_on(run: ClaimedRun, *, now_ms: int) -> Request:
    """The request for a claimed run that was not started: for the same run, by whoever has the slots now."""
    former, entry = run.request, run.entry
    return Request(
        run_id=run.run_id, job_create_revision=run.job.create_revision, not_before_ms=now_ms,
        # The next run of an `after` job goes back to where it came from: else nothing would continue the chain.
        origin=Origin.CHAIN if former is not None and former.is_chain else Origin.HANDED_ON,
        plan_ms=entry.plan_ms, dispatch_ms=entry.dispatch_ms, trigger=entry.trigger, by=entry.by, note=entry.note,
        expires_ms=None if run.start_by_ms >= NO_LIMIT_MS else run.start_by_ms,
        create_ms=entry.create_ms, args=entry.args, env=entry.env,
        # No mark: fires that came due while it held the lock were skipped because of it.
        avoid=None if former is None else former.avoid,
    )  # fmt: skip
