"""What is decided of a job's fires beside the claims; each write compares the job's revision and its mark.

    record     a range of fires does not run: one final record, and the mark goes to its end
    offer      a fire that no worker took becomes a request that any worker may claim, and the mark goes over it
    pass_over  a run key stands where a record or a claim would put its own: the mark goes over that fire
    give_mark  a job whose mark cannot be read, or lies before its anchor, fires from then on
    replace    the run that holds the lock is to be ended, for a newer fire replaces it
    sequence   the mark of a worker's own sequence is put where it has to stand, and what that skips is recorded

``guards``: who decides; a worker's session, or the steward's session and leadership.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from common.protocol.compares import (
    Compare,
    absent,
    at_revision,
    create_revision_is,
    mod_revision_is,
    present,
    unchanged,
    value_is,
)
from common.protocol.keys import Keys, RunId, Watched, encode_mark, read_mark
from common.protocol.kill import Kill, is_reached
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision
from common.protocol.request import Origin, Request
from common.protocol.run import RunRecord, final_entry
from common.protocol.txn import Delete, Get, GetKey, KeyValue, Operation, Owner, Put, Txn, TxnResult


def record(
    keys: Keys, job: PlannedJob, passed: RunRecord, *, mark_ms: int, to_ms: int, worker: str, guards: Sequence[Compare],
    lock: KeyValue | None = None,
) -> Txn:  # fmt: skip
    """``lock``: still held by this run. Refused, it reads whether the run key is there already (`is_in_the_way`)."""
    key = keys.run(passed.run_id)
    compares = [*_undecided(keys, job, mark_ms, guards), absent(key)]
    if lock is not None:
        compares.append(create_revision_is(lock.key, lock.create_revision))
    then = [_mark(keys, job, to_ms), Put(key, final_entry(passed, worker=worker).to_json())]
    return Txn(compares, then, [GetKey(key)])


def is_in_the_way(refusal: TxnResult) -> bool:
    """Whether a run key stands where the record would go."""
    return refusal.key(0) is not None


def is_in_time(job: PlannedJob, decision: Decision, now_ms: int) -> bool:
    """Whether it is about a fire in its time; a misfire is a worker's to make up for, until its window is over."""
    if decision.claim_ms is None or decision.missed is not None:
        return False
    if job.keeps_one and decision.claim_ms != job.fires.newest_open_ms(now_ms):
        return False  # the newest is kept, and while it is due for less than 5 s it is for the first two in rank
    return now_ms <= job.dispatch_ms(decision.claim_ms) + job.spec.misfire.grace_ms


def offered(job: PlannedJob, plan_ms: int, *, now_ms: int) -> Request:
    """The request for a fire that no worker took in time."""
    dispatch_ms = job.dispatch_ms(plan_ms)
    return Request(
        run_id=job.run_of(plan_ms), origin=Origin.OFFERED, job_create_revision=job.create_revision,
        plan_ms=plan_ms, dispatch_ms=dispatch_ms, not_before_ms=now_ms,
        expires_ms=job.expires_ms(plan_ms) if job.keeps_one else dispatch_ms + job.spec.misfire.grace_ms,
    )  # fmt: skip


def offer(
    keys: Keys, job: PlannedJob, request: Request, passed: RunRecord | None, *, mark_ms: int, to_ms: int, worker: str,
    guards: Sequence[Compare],
) -> Txn:  # fmt: skip
    """``passed``: what the decision passes. Where one fire is kept, only while the lock is free."""
    compares = [
        *_undecided(keys, job, mark_ms, guards),
        absent(keys.run(request.run_id)),
        absent(keys.request(request.run_id)),
    ]
    then: list[Operation] = [
        _mark(keys, job, to_ms),
        Put(keys.request(request.run_id), request.to_json()),
        Put(keys.seen(Watched.REQUESTS), b""),
    ]
    if passed is not None:
        compares.append(absent(keys.run(passed.run_id)))
        then.append(Put(keys.run(passed.run_id), final_entry(passed, worker=worker).to_json()))
    if job.keeps_one:
        compares.append(absent(keys.lock(job.sequence)))
    return Txn(compares, then)


def pass_over(keys: Keys, job: PlannedJob, run_id: RunId, *, mark_ms: int, guards: Sequence[Compare]) -> Txn:
    """Only by hand does it come to this: a mark that was set back, or a run key that no decision has put."""
    assert run_id.plan_ms is not None, "a decision is about planned fires"
    compares = [*_undecided(keys, job, mark_ms, guards), present(keys.run(run_id))]
    return Txn(compares, [_mark(keys, job, run_id.plan_ms)])


def give_mark(keys: Keys, job: PlannedJob, mark: KeyValue | None, *, at_ms: int, guards: Sequence[Compare]) -> Txn:
    """``mark``: as it was read."""
    key = keys.mark(job.sequence)
    compares = [*guards, _job(keys, job), unchanged(key, mark)]
    return Txn(compares, [_mark(keys, job, at_ms)])


class Replaced(Enum):
    """What a refused `replace` found."""

    MOVED = auto()
    """The lock has changed hands, or another process has decided."""
    KILLED = auto()
    """The run is to be ended already."""
    OLD_KILL = auto()
    """A kill of no run that there is bars the way."""
    UNKNOWN = auto()


def replace(keys: Keys, job: PlannedJob, lock: KeyValue, kill: Kill, *, mark_ms: int, session: Owner) -> Txn:
    """Refused, it reads mark, lock and kill (`why_not_replaced`)."""
    kill_key = keys.kill(kill.run_id)
    return Txn(
        [
            *_undecided(keys, job, mark_ms, [session.alive]),
            create_revision_is(lock.key, lock.create_revision),
            absent(kill_key),
        ],
        [Put(kill_key, kill.to_json()), Put(keys.seen(Watched.KILLS), str(kill.run_id).encode())],
        [Get(keys.mark(job.sequence)), GetKey(lock.key), GetKey(kill_key)],
    )


def why_not_replaced(refusal: TxnResult, lock: KeyValue, *, mark_ms: int) -> tuple[Replaced, int | None]:
    """And where the mark is now."""
    there_ms, held, killed = read_mark(refusal.one(0)), refusal.key(1), refusal.key(2)
    if held is None or held.create_revision != lock.create_revision or there_ms != mark_ms:
        return Replaced.MOVED, there_ms
    if killed is None:
        return Replaced.UNKNOWN, there_ms
    return (Replaced.KILLED if is_reached(lock, killed) else Replaced.OLD_KILL), there_ms


def forget_old_kill(refusal: TxnResult) -> Txn:
    """The kill that a refused `replace` found.

    Without the sentinel: who misses this keeps a kill that applies to no run that there is, until the new one is put,
    which has it.
    """
    killed = refusal.key(2)
    assert killed is not None, "one was found"
    return Txn([mod_revision_is(killed.key, killed.mod_revision)], [Delete(killed.key)])


def sequence(
    keys: Keys, name: str, there: PlannedJob | None, mark_key: str, mark: KeyValue | None, *, mark_ms: int,
    skipped: RunRecord | None, worker: str, instance: str, session: Owner,
) -> Txn:  # fmt: skip
    """``there``: the job as it is; None: it was deleted. Refused, it reads whether the record's key is there."""
    job_key = keys.job(name)
    compares = [
        session.alive,
        at_revision(job_key, 0 if there is None else there.revision),
        unchanged(mark_key, mark),
    ]
    then: list[Operation] = [Put(mark_key, encode_mark(mark_ms))]
    otherwise: list[Operation] = []
    if skipped is not None:
        key = keys.run(skipped.run_id)
        compares.append(absent(key))
        then.append(Put(key, final_entry(skipped, worker=worker, instance=instance).to_json()))
        otherwise.append(GetKey(key))
    return Txn(compares, then, otherwise)


def _undecided(keys: Keys, job: PlannedJob, mark_ms: int, guards: Sequence[Compare]) -> list[Compare]:
    """The job has not changed, and no more and no less is decided than presumed."""
    return [*guards, _job(keys, job), value_is(keys.mark(job.sequence), encode_mark(mark_ms))]


def _job(keys: Keys, job: PlannedJob) -> Compare:
    return mod_revision_is(keys.job(job.name), job.revision)


def _mark(keys: Keys, job: PlannedJob, at_ms: int) -> Put:
    return Put(keys.mark(job.sequence), encode_mark(at_ms))
