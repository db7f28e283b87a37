"""Requests: a job's oldest first, by rank, waiting for the lock; claimed without moving the mark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.model.deciding import entry_of
from tests.chaos.model.etcd import KV, Answer, Delete, Put, Txn, absent, create_is, mod_is, value_is
from tests.chaos.model.runs import Run
from tests.chaos.model.settings import HEDGE, NO_LIMIT
from tests.chaos.model.values import Job, Request, RunId
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def loop(w: Worker) -> Flow[None]:
    while True:
        yield 100
        if w.session is None or w.session.over or not w.view.requests:
            continue
        for name in sorted({run.job for run in w.view.requests}):
            _consider(w, name)


def _consider(w: Worker, name: str) -> None:
    job, first = w.view.jobs.get(name), w.view.first_of(name, w.wall)
    if job is None or not first or w.free <= 0 or ("request", name) in w.busy:
        return
    run, request, mod = first[0]
    rank = w.rank(name, run.fire)
    runnable = job.create == request.job_create and run not in w.view.kills and not is_expired(request, w.wall)
    if rank < 0 or not runnable or (isinstance(run.fire, int) and not job.spec.enabled):
        return
    if w.wall >= request.not_before + rank * HEDGE or (name in w.freed and not job.spec.keeps_one):
        w.busy.add(("request", name))
        w.spawn(_try(w, job, run, request, mod))


def is_expired(request: Request, now: int) -> bool:
    return request.expires is not None and now > request.expires


def is_overtaken(request: Request, job: Job, mark: int) -> bool:
    """A newer fire has been decided since the lock came free for this retry."""
    return request.mark is not None and job.spec.locks and job.last(mark) > max(request.mark, job.anchor)


def _try(w: Worker, job: Job, run: RunId, request: Request, mod: int) -> Flow[None]:
    try:
        yield from _claim(w, job, run, request, mod)
        yield 900
    finally:
        w.busy.discard(("request", job.name))


def _claim(w: Worker, job: Job, run: RunId, request: Request, mod: int) -> Flow[None]:
    session, mark = w.session, ("mark", job.name)
    if session is None:
        return
    entry = entry_of(w, job, session, request.plan)
    compares = [mod_is(run.request_key, mod), absent(run.kill_key), absent(run.key)]
    compares.append(session.alive(w.rules))
    compares += [mod_is(("job", job.name), job.revision)] if w.rules.job_compare else []
    compares.append(create_is(("job", job.name), request.job_create))
    then: list[Put | Delete] = [Delete(run.request_key), Put(run.key, entry)]
    if job.spec.locks:
        compares.append(absent(("lock", job.name)))
        then.append(Put(("lock", job.name), run))
    seen = None
    if request.mark is not None and job.spec.locks:
        seen = yield lambda etcd: etcd.get(mark)
        if seen is None or is_overtaken(request, job, seen.value):
            return
        compares.append(value_is(mark, seen.value))
    txn = Txn(w.name, compares, then, (("job", job.name), mark, session.key))
    by = NO_LIMIT if request.expires is None else request.expires
    yield from _sent(w, txn, Run(run, job, entry, 0, 0, session, 0, by), request_mod=mod, mark=seen)


def _sent(w: Worker, txn: Txn, run: Run, *, request_mod: int, mark: KV | None) -> Flow[None]:
    """Sent, identical, until it is known what became of it; won, the run is this worker's."""
    doubtful, over = False, False
    while not over:
        sent = w.world.now
        answer = yield txn
        if answer is None:
            if not w.rules.settle_doubts:
                return
            doubtful = True
            yield 300
            continue
        there = answer.found[run.id.key]
        earlier = doubtful and there.create and there.value == run.entry
        if answer.ok or earlier:
            fence = answer.rev if answer.ok else there.create
            # Carried out before, nobody knows when: the run needs a new stamp.
            w.claimed(replace(run, fence=fence, mod=fence, sent=sent if answer.ok else -(10**9)))
            return
        over = not doubtful or _is_over(run, answer, request_mod=request_mod, mark=mark)
        yield 1_000


def _is_over(run: Run, refusal: Answer, *, request_mod: int, mark: KV | None) -> bool:
    """Whether it can never be carried out any more; where the session key is detached it still may."""
    found, job = refusal.found, run.job
    return (
        found[run.id.request_key].mod != request_mod
        or found[("job", job.name)].mod != job.revision
        or not found[run.session.key].create
        or (mark is not None and found[("mark", job.name)].value != mark.value)
    )
