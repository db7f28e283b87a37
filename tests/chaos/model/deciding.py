"""Decisions about planned fires: whose turn it is, one transaction each, and what is done with its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from common.protocol import fire_decisions
from common.protocol.fire_claims import Batch, found_carried_out
from common.protocol.keys import read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision, decide
from common.protocol.proposals import Answer, Proposal, Result, start_by_ms
from common.protocol.txn import Get, GetKey, KeyValue, Txn, TxnResult
from tests.chaos.model import lock_waits
from tests.chaos.model.runs import Run, Session
from tests.chaos.model.settings import HEDGE, KEYS, LEAD, LOCK_RETRY
from tests.chaos.model.settling import deliver
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker

_NOTHING: Final = (0, 0, 0.0)
"""Handled of a job that was not looked at."""


@dataclass(slots=True)
class Pending:
    """The fires of one job in (base, until], which are this worker's to decide."""

    job: PlannedJob
    base: int
    until: int
    fresh: int | None
    waited: bool
    blocker: KeyValue | None = None
    blocked: int | None = None
    """The fire that is to be skipped because of it."""


def loop(w: Worker) -> Flow[None]:
    """Each fire when it comes up; all jobs when this worker begins to decide."""
    while True:
        yield 50
        session = w.session
        if session is None or session.over:
            continue
        blind, w.blind = w.blind, False
        ahead, handled, freed = w.wall + LEAD, w.handled, w.freed
        for job in w.view.jobs.values():
            revision, _, following = handled.get(job.name, _NOTHING)
            # Most looks find nothing: every fire that is due was handled.
            is_freed = job.name in freed and job.keeps_one
            if (following <= ahead or blind or revision != job.revision or is_freed) and job.spec.enabled:
                _consider(w, job, blind)


def _consider(w: Worker, job: PlannedJob, blind: bool) -> None:
    if ("fire", job.name) in w.busy:
        w.blind |= blind
        return
    now, fresh = w.wall, None
    revision, handled, _ = w.handled.get(job.name, _NOTHING)
    freed = job.name in w.freed and job.keeps_one
    if blind or freed or revision != job.revision:
        handled, fresh = 0, job.fires.newest_due_ms(now) if not freed else None
    newest = job.schedule.last_before_ms(now + LEAD + 1) or 0
    if newest <= max(handled, job.anchor_ms):
        return
    rank, knows = w.rank(job.name, newest), handled != 0
    if rank not in (0, 1):
        w.handle(job, newest)
    elif rank == 0 or now >= newest + HEDGE or freed:
        w.handle(job, newest)
        w.freed.discard(job.name)
        w.busy.add(("fire", job.name))
        w.spawn(_decide(w, job, newest, fresh, reads=rank == 1 or not knows, waited=freed))


def _decide(w: Worker, job: PlannedJob, until: int, fresh: int | None, *, reads: bool, waited: bool) -> Flow[None]:
    try:
        if w.free > 0 or not reads:
            base = (yield from _read_mark(w, job)) if reads else job.base_before(until)
            if base is not None:
                yield from _steps(w, Pending(job, base, until, fresh, waited))
    finally:
        w.busy.discard(("fire", job.name))


def _read_mark(w: Worker, job: PlannedJob) -> Flow[int | None]:
    """None: there is none, or no answer; it is looked at again."""
    answer = yield Txn((), [Get(KEYS.mark(job.name))])
    mark = None if answer is None else read_mark(answer.one(0))
    w.blind |= mark is None
    return None if mark is None else max(job.anchor_ms, mark)


def _steps(w: Worker, pending: Pending) -> Flow[None]:
    job, goes_on = pending.job, True
    while goes_on and (session := w.session) is not None and w.view.jobs.get(job.name) is job:
        proposal = _proposal(w, pending, session)
        if proposal is None:
            return
        if proposal.claims and w.free <= 0:
            yield 100  # it waits for a slot
            continue
        result = yield from _send(w, Batch(session=session, proposals=[proposal]))
        goes_on = yield from _take_in(w, pending, result, session)


def _proposal(w: Worker, pending: Pending, session: Session) -> Proposal | None:
    job, waited, now = pending.job, pending.waited, w.wall
    decision = decide(
        job.fires, job.spec.misfire, mark_ms=pending.base, until_ms=pending.until, now_ms=now, fresh_ms=pending.fresh,
        waited=waited,
    )  # fmt: skip
    if decision is None:
        return None
    if decision.claim_ms != pending.blocked:
        pending.blocker = pending.blocked = None
    start_by = start_by_ms(job, decision, now, waited=waited)
    return w.claims.propose(
        job, decision, session=session, now_ms=now, blocker=pending.blocker, start_by_ms=start_by
    )  # fmt: skip


def _take_in(w: Worker, pending: Pending, result: Result, session: Session) -> Flow[bool]:
    """Whether there may be more to decide."""
    job, decision = pending.job, result.proposal.decision
    match result.answer:
        case Answer.DONE:
            pending.base, pending.blocker = decision.to_ms, None
            pending.waited &= decision.claim_ms is None
        case Answer.MARK_MOVED if result.mark_ms is not None and result.mark_ms >= job.anchor_ms:
            pending.base, pending.blocker = result.mark_ms, None
        case Answer.LOCKED:
            yield from _locked(w, pending, decision, result.found)
        case Answer.LOCK_CHANGED | Answer.NOT_DONE:
            pending.blocker = None
        case _:
            if result.answer is Answer.RUN_EXISTS:
                yield from _pass_over(result.proposal, session)
            w.blind |= result.answer in (Answer.MARK_MOVED, Answer.RUN_EXISTS, Answer.DETACHED)
            return False
    return True


def _locked(w: Worker, pending: Pending, decision: Decision, lock: KeyValue | None) -> Flow[None]:
    """A held lock is no verdict before the dispatch time, nor until 100 ms after it."""
    due = decision.to_ms
    if pending.job.keeps_one and w.wall >= due:
        pending.until = yield from lock_waits.wait(w, pending.job, pending.base, pending.until)
        pending.waited = True
    elif w.wall >= due + LOCK_RETRY:
        pending.blocker, pending.blocked = lock, decision.claim_ms
    else:
        yield max(1, due + (0 if w.wall < due else LOCK_RETRY) - w.wall)


def _send(w: Worker, batch: Batch[Session]) -> Flow[Result]:
    """What became of it. In doubt it is sent again until that is known; a held lock, and a mark that may still come
    to P, are told at once."""
    sent, answer = w.world.now, (yield w.claims.transaction(batch))
    if answer is not None:
        return _taken(w, batch, _read(w, batch, answer, sent))
    yield 100
    while True:
        result = yield from _look(w, batch)
        if result is not None:
            if _is_last_word(result):
                return result
            if result.answer in (Answer.LOCKED, Answer.MARK_MOVED):
                w.spawn(_watch(w, batch))
                return result
            if result.answer is Answer.RUN_EXISTS:
                yield from _pass_over(result.proposal, batch.session)
        yield 2_000


def _watch(w: Worker, batch: Batch[Session]) -> Flow[None]:
    """It may be carried out late after all."""
    result = None
    while result is None or not _is_last_word(result):
        yield 2_000
        result = yield from _look(w, batch)


def _is_last_word(result: Result) -> bool:
    return result.answer is Answer.DONE or result.is_for_ever


def _look(w: Worker, batch: Batch[Session]) -> Flow[Result | None]:
    """What became of a claim in doubt, as far as can be told; None: etcd is silent."""
    sent, answer = w.world.now, (yield w.claims.transaction(batch))
    if answer is None:
        return None
    result, [proposal] = _read(w, batch, answer, sent), batch.proposals
    if not answer.succeeded and proposal.witness is not None:
        there = yield Txn((), [Get(proposal.witness.key)])
        if there is None:
            return None
        result = found_carried_out(proposal, {kv.key: kv for kv in there.kvs(0)}) or result
    return _taken(w, batch, result)


def _read(w: Worker, batch: Batch[Session], answer: TxnResult, sent: int) -> Result:
    [result], _ = w.claims.read(batch, answer, sent=sent)
    return result


def _taken(w: Worker, batch: Batch[Session], result: Result) -> Result:
    """What was won is this worker's."""
    if result.answer is not Answer.DONE:
        return result
    proposal, entry, fence = result.proposal, result.proposal.entry, result.revision
    for record in proposal.final_records:
        deliver(w, record, fence)
    if entry is not None:
        run = Run(
            run_id=proposal.job.run_of(entry.plan_ms), job=proposal.job, entry=entry, fence=fence, mod_revision=fence,
            session=batch.session, sent=result.sent, start_by_ms=proposal.start_by_ms,
        )  # fmt: skip
        w.claimed(run)
    return result


def _pass_over(proposal: Proposal, session: Session) -> Flow[None]:
    """A run key stands in the way (somebody's hand): the mark goes over it."""
    runs = proposal.run_ids
    found = yield Txn((), [GetKey(KEYS.run(run_id)) for run_id in runs])
    there = [] if found is None else [run_id for index, run_id in enumerate(runs) if found.key(index) is not None]
    if there:
        base, guards = proposal.decision.from_ms, [session.alive]
        yield fire_decisions.pass_over(KEYS, proposal.job, there[0], mark_ms=base, guards=guards)
