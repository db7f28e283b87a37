"""What a worker writes for a run that it has claimed, until its key is gone. Each write compares what was believed.

restamp       the run key names the session that is current now: a claim renewed before its start, a run re-adopted
hand_on       a claim of which no process was started becomes a request that any worker may take
free_lock     the run has ended: the job's lock goes, and what follows comes with it
say_ended     the same for a run without a lock: its key says `ended`
keep_record   where the spool takes no record, the run key carries it; the lock goes, and what follows comes
end           the run of a worker that is gone: its key becomes what its record wants, its lock goes, what follows comes
forget        the log store has the record: the run key goes (`delivered`: one that carried its record)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, Self, assert_never

from msgspec.structs import replace

from common.protocol.compares import create_revision_is, mod_revision_is
from common.protocol.follow_ups import FollowUp
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.request_writes import NO_LIMIT_MS
from common.protocol.run import EntryState, RunEntry
from common.protocol.txn import Delete, Get, GetKey, Guards, KeyRevisions, KeyValue, Operation, Owner, Put, Txn


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


def owns_lock(lock: KeyRevisions | None, fence: int) -> bool:
    """Whether the job's lock is the one that the claim with this fence took."""
    return lock is not None and lock.create_revision == fence


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRun:
    """A run that its worker has left in etcd, and whether it holds its job's lock there."""

    run_id: RunId
    entry: RunEntry
    kv: KeyValue
    holds_lock: bool

    @classmethod
    def read(cls, run_id: RunId, entry: RunEntry, kv: KeyValue, lock: KeyRevisions | None) -> Self:
        holds_lock = entry.locked and owns_lock(lock, kv.create_revision)
        return cls(run_id=run_id, entry=entry, kv=kv, holds_lock=holds_lock)

    @property
    def has_ended(self) -> bool:
        """Whether its processes are known to be gone: what follows it is there, and its record on the way or lost."""
        return self.entry.state is EntryState.ENDED or (self.entry.locked and not self.holds_lock)


def still_own(kv: KeyValue | None, *, fence: int, instance: str) -> RunEntry | None:
    """What the run key says, where it is still this run's own, as a write of ours may have left it.

    None where the run was given up: then the key is gone, made anew, or carries the verdict.
    """
    if kv is None or kv.create_revision != fence:
        return None
    try:
        entry = RunEntry.from_json(kv.value)
    except ValueError:
        return None
    return None if entry.state is EntryState.FINAL or entry.instance != instance else entry


def restamp(keys: Keys, run_id: RunId, entry: RunEntry, *, mod_revision: int, session: Owner) -> tuple[RunEntry, Txn]:
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
    """The request for a claimed run that was not started: for the same run, by a worker that has the slots now."""
    former, entry = run.request, run.entry
    return Request(
        run_id=run.run_id, job_create_revision=run.job.create_revision, not_before_ms=now_ms,
        # The next run of an `after` job goes back to where it came from: else nothing would continue the chain.
        origin=Origin.CHAIN if former is not None and former.is_chain else Origin.HANDED_ON,
        plan_ms=entry.plan_ms, dispatch_ms=entry.dispatch_ms, trigger=entry.trigger, by=entry.by, note=entry.note,
        expires_ms=None if run.start_by_ms >= NO_LIMIT_MS else run.start_by_ms,
        create_ms=entry.create_ms, args=entry.args, env=entry.env, grant=entry.grant, scope=entry.scope,
        # No mark: fires that came due while it held the lock were skipped because of it.
        avoid=None if former is None else former.avoid,
    )  # fmt: skip


def free_lock(keys: Keys, run: ClaimedRun, follow_up: FollowUp) -> Txn:
    """Once: the lock is compared with the claim that took it."""
    lock = keys.lock(run.run_id.job)
    return Txn([create_revision_is(lock, run.fence), *follow_up.compares], [Delete(lock), *follow_up.then])


def say_ended(keys: Keys, run: ClaimedRun, follow_up: FollowUp) -> tuple[RunEntry, Txn]:
    """Once: the run key is compared. The run key's new value, too."""
    key, ended = keys.run(run.run_id), replace(run.entry, state=EntryState.ENDED)
    compares = [mod_revision_is(key, run.mod_revision), *follow_up.compares]
    return ended, Txn(compares, [Put(key, ended.to_json()), *follow_up.then])


def keep_record(keys: Keys, run: ClaimedRun, final: RunEntry, follow_up: FollowUp) -> Txn:
    """Refused, it reads run key and lock."""
    key, lock = keys.run(run.run_id), keys.lock(run.run_id.job)
    compares = [mod_revision_is(key, run.mod_revision)]
    then: list[Operation] = [Put(key, final.to_json())]
    if run.holds_lock:
        compares.append(create_revision_is(lock, run.fence))
        then.append(Delete(lock))
    return Txn([*compares, *follow_up.compares], [*then, *follow_up.then], [Get(key), GetKey(lock)])


class KeyAfter(Enum):
    """What becomes of a run key, where it is not put."""

    GONE = auto()
    """Its record is in the log store."""
    SAME = auto()
    """Its record is on its way there."""


def end(keys: Keys, run: LeftRun, becomes: RunEntry | KeyAfter, follow_up: FollowUp, *, only_if: Guards = ()) -> Txn:
    """``becomes``: the run key. ``only_if``: what else has to be true."""
    kv, lock = run.kv, keys.lock(run.run_id.job)
    compares = [*only_if, mod_revision_is(kv.key, kv.mod_revision)]
    match becomes:
        case RunEntry():
            then: list[Operation] = [Put(kv.key, becomes.to_json())]
        case KeyAfter.GONE:
            then = [Delete(kv.key)]
        case KeyAfter.SAME:
            then = []
        case _:
            assert_never(becomes)
    if run.holds_lock:
        compares.append(create_revision_is(lock, kv.create_revision))
        then.append(Delete(lock))
    return Txn([*compares, *follow_up.compares], [*then, *follow_up.then])


def forget(keys: Keys, run_id: RunId, *, mod_revision: int, is_killed: bool) -> Txn:
    """``is_killed``: a kill of it goes along.

    Without the sentinel, which only a real change may put: the steward may have swept it. Who misses this keeps the
    kill of a run that is over; no later run has its id, and none is older than the kill.
    """
    key = keys.run(run_id)
    deletions = [Delete(key), Delete(keys.kill(run_id))] if is_killed else [Delete(key)]
    return Txn([mod_revision_is(key, mod_revision)], deletions)


def delivered(key: str, revision: int) -> Txn:
    """A run key with a final record goes: the log store has it."""
    return Txn([mod_revision_is(key, revision)], [Delete(key)])
