"""A due fire of ``queue`` and ``replace`` waits for the lock; ``replace`` kills the run that holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.model.etcd import Delete, Put, Txn, absent, create_is, mod_is, value_is
from tests.chaos.model.values import Job, RunId
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def wait(w: Worker, job: Job, base: int, until: int) -> Flow[int]:
    """Ends when the lock is free, or the job is none of this worker's: then the newest fire to decide."""
    lock, killed = ("lock", job.name), 0
    while True:
        held = yield lambda etcd: etcd.get(lock)
        newest = max(until, job.last(w.wall))
        if held is not None and not held.create:
            return newest
        if w.view.jobs.get(job.name) != job or w.rank(job.name, newest) not in (0, 1) or w.session is None:
            w.handled[job.name] = job.revision, newest
            return base  # others look after it
        replaces = job.spec.overlap == "replace" and newest > base and held is not None and killed != held.create
        if replaces and (yield from _replace(w, job, base, held.value, held.create)):
            killed = held.create
        if job.name in w.freed:
            w.freed.discard(job.name)
            continue
        yield 1_000


def _replace(w: Worker, job: Job, base: int, holder: RunId, fence: int) -> Flow[bool]:
    session, kill = w.session, holder.kill_key
    if session is None:
        return False
    compares = [
        session.alive(w.rules), mod_is(("job", job.name), job.revision), value_is(("mark", job.name), base),
        create_is(("lock", job.name), fence), absent(kill),
    ]  # fmt: skip
    answer = yield Txn(w.name, compares, [Put(kill, "replaced")])
    if answer is None:
        return False
    there = answer.found[kill]
    if not answer.ok and there.create and there.create < fence:
        yield Txn(w.name, [mod_is(kill, there.mod)], [Delete(kill)])
        return False
    return bool(answer.ok or there.create)
