"""Requests: a job's oldest first, by rank, waiting for the lock; claimed without moving the mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.protocol.keys import read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Request
from common.protocol.request_writes import NO_LIMIT_MS, RequestClaim, claim_of, is_overtaken
from common.protocol.txn import Get, Txn
from tests.chaos.model.runs import NEVER_SENT, Run, Session
from tests.chaos.model.settings import HEDGE, KEYS, LOST_AFTER
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def loop(w: Worker) -> Flow[None]:
    while True:
        yield 100
        if w.session is not None and not w.session.over:
            for name in sorted(w.view.requests):
                _consider(w, name)


def _consider(w: Worker, name: str) -> None:
    job, ready = w.view.jobs.get(name), [one for one in w.view.requests[name] if one.not_before_ms <= w.wall]
    if job is None or not ready or w.free <= 0 or ("request", name) in w.busy:
        return
    request, order = ready[0], w.order(name, ready[0].run_id.fire)
    runnable = job.create_revision == request.job_create_revision and request.run_id not in w.view.kills
    if w.name not in order or not runnable or request.is_expired(w.wall):
        return
    if not (job.spec.enabled or request.is_asked_for):
        return
    if w.wall >= request.not_before_ms + order.index(w.name) * HEDGE or (name in w.freed and not job.keeps_one):
        w.busy.add(("request", name))
        w.spawn(_try(w, job, request))


def _try(w: Worker, job: PlannedJob, request: Request) -> Flow[None]:
    try:
        yield from _claim(w, job, request)
        yield 900
    finally:
        w.busy.discard(("request", job.name))


def _claim(w: Worker, job: PlannedJob, request: Request) -> Flow[None]:
    session, mark = w.session, None
    if session is None:
        return
    if request.mark_ms is not None and job.takes_lock:
        answer = yield Txn((), [Get(KEYS.mark(job.name))])
        mark = None if answer is None else answer.one(0)
        if answer is None or is_overtaken(request, job, read_mark(mark)):
            return
    claim = claim_of(
        request, job, session, keys=KEYS, identity=w.identity, lost_after_ms=LOST_AFTER, now_ms=w.wall, mark=mark
    )  # fmt: skip
    yield from _settled(w, claim, session)


def _settled(w: Worker, claim: RequestClaim, session: Session) -> Flow[None]:
    """Sent, identical, until it is known what became of it; won, the run is this worker's."""
    transaction, doubtful = claim.transaction(), False
    while True:
        sent, answer = w.world.now, (yield transaction)
        if answer is None:
            doubtful = True
            yield 300
            continue
        if answer.succeeded:
            w.claimed(_run(claim, session, answer.revision, sent))
            return
        fence = claim.fence_in(answer) if doubtful else None
        if fence is not None:
            w.claimed(_run(claim, session, fence, NEVER_SENT))  # nobody knows when: it needs a new stamp
            return
        if not doubtful or claim.is_over(answer):
            return
        yield 1_000


def _run(claim: RequestClaim, session: Session, fence: int, sent: float) -> Run:
    request = claim.request
    return Run(
        run_id=request.run_id, job=claim.job, entry=claim.entry, fence=fence, mod_revision=fence, session=session,
        sent=sent, start_by_ms=NO_LIMIT_MS if request.expires_ms is None else request.expires_ms, request=request,
    )  # fmt: skip
