"""A due fire of ``queue`` and ``replace`` waits for the lock; ``replace`` kills the run that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.jobs.job import Overlap
from common.protocol import fire_decisions
from common.protocol.fire_decisions import Replaced, why_not_replaced
from common.protocol.keys import RunId, holder_of
from common.protocol.kill import Kill
from common.protocol.planned_job import PlannedJob
from common.protocol.txn import Get, KeyValue, Txn
from tests.chaos.model.settings import KEYS
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def wait(w: Worker, job: PlannedJob, base: int, until: int) -> Flow[int]:
    """Ends when the lock is free, or the job is none of this worker's: then the newest fire to decide."""
    killed = 0
    while True:
        answer = yield Txn((), [Get(KEYS.lock(job.name))])
        newest = max(until, job.fires.newest_due_ms(w.wall) or 0)
        lock = None if answer is None else answer.one(0)
        if answer is not None and lock is None:
            return newest
        if w.view.jobs.get(job.name) is not job or w.rank(job.name, newest) not in (0, 1) or w.session is None:
            w.handle(job, newest)
            return base  # others look after it
        if lock is not None and newest > base and killed != lock.create_revision:
            why = yield from _replace(w, job, base, lock)
            if why is Replaced.MOVED:
                return newest
            killed = lock.create_revision if why is Replaced.KILLED else killed
        if job.name in w.freed:
            w.freed.discard(job.name)
            continue
        yield 1_000


def _replace(w: Worker, job: PlannedJob, base: int, lock: KeyValue) -> Flow[Replaced]:
    if job.spec.overlap is not Overlap.REPLACE or w.session is None:
        return Replaced.UNKNOWN
    kill = Kill(run_id=RunId.parse(holder_of(lock)), by="schedule", at_ms=w.wall, reason="replaced")
    answer = yield fire_decisions.replace(KEYS, job, lock, kill, mark_ms=base, session=w.session)
    if answer is None or answer.succeeded:
        return Replaced.UNKNOWN if answer is None else Replaced.KILLED
    why, _ = why_not_replaced(answer, lock, mark_ms=base)
    if why is Replaced.OLD_KILL:
        yield fire_decisions.forget_old_kill(answer)
    return why
