"""Decisions about planned fires: whose turn it is, one transaction each, and what its answer says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.chaos.model import lock_waits, planner
from tests.chaos.model.etcd import Answer, Delete, Put, Txn, absent, create_is, mod_is, value_is
from tests.chaos.model.planner import Decision
from tests.chaos.model.runs import Run, Session
from tests.chaos.model.settings import GRACE, HEDGE, LEAD, LOCK_RETRY, WINDOW
from tests.chaos.model.settling import deliver
from tests.chaos.model.values import Entry, Job, Record, Request, RunId
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker

_IN_DOUBT, _DONE, _MOVED, _CHANGED, _LOCKED, _FREE, _EXISTS, _OVER, _DETACHED, _BEHIND = range(10)
_FOR_EVER = (_MOVED, _CHANGED, _FREE, _OVER)


@dataclass(slots=True, eq=False)
class Proposal:
    """A decision, and its transaction."""

    job: Job
    decision: Decision
    session: Session
    start_by: int
    blocker: int
    """The create revision of the lock because of which the fire is skipped; 0: it is to be claimed."""
    txn: Txn
    witness: Put | None
    """A run key as nobody else would put it."""
    finals: list[Record]


def loop(w: Worker) -> Flow[None]:
    """Each fire when it comes up; all jobs when this worker begins to decide."""
    while True:
        yield 50
        session = w.session
        if session is None or session.over:
            continue
        blind, w.blind = w.blind, False
        for job in w.view.jobs.values():
            if job.spec.enabled:
                _consider(w, job, blind)


def _consider(w: Worker, job: Job, blind: bool) -> None:
    if ("fire", job.name) in w.busy:
        w.blind |= blind
        return
    now, fresh = w.wall, None
    revision, handled = w.handled.get(job.name, (0, 0))
    freed = job.name in w.freed and job.spec.keeps_one
    if blind or freed or revision != job.revision:
        handled, fresh = 0, job.last(now) if not freed else None
    newest = job.last(now + LEAD)
    if newest <= max(handled, job.anchor):
        return
    rank, knows = w.rank(job.name, newest), handled != 0
    if rank not in (0, 1):
        w.handled[job.name] = job.revision, newest
    elif rank == 0 or now >= newest + HEDGE or freed:
        w.handled[job.name] = job.revision, newest
        w.freed.discard(job.name)
        w.busy.add(("fire", job.name))
        w.spawn(_decide(w, job, newest, fresh, reads=rank == 1 or not knows, waited=freed))


def _decide(w: Worker, job: Job, until: int, fresh: int | None, *, reads: bool, waited: bool) -> Flow[None]:
    try:
        if w.free > 0 or not reads:
            yield from _steps(w, job, until, fresh, reads=reads, waited=waited)
    finally:
        w.busy.discard(("fire", job.name))


def _steps(w: Worker, job: Job, until: int, fresh: int | None, *, reads: bool, waited: bool) -> Flow[None]:
    blocker, base = 0, max(job.anchor, until - job.spec.period)
    if reads:
        base = yield from _read_mark(w, job)
    while base and (session := w.session) is not None and w.view.jobs.get(job.name) == job:
        decision = planner.decide(job, base, until, w.wall, fresh, waited=waited)
        if decision is None:
            return
        if decision.claim is not None and not blocker and w.free <= 0:
            yield 100  # it waits for a slot
            continue
        proposal = propose(w, job, decision, session, blocker=blocker, waited=waited)
        kind, answer = yield from _send(w, proposal)
        blocker = 0
        if kind in (_DONE, _MOVED, _BEHIND):
            base = decision.to if kind == _DONE else max(job.anchor, answer.found[("mark", job.name)].value or 0)
        elif kind == _LOCKED and job.spec.keeps_one and w.wall >= until:
            until = yield from lock_waits.wait(w, job, base, until)
            waited = True
        elif kind == _LOCKED:
            blocker = yield from _locked(w, until, answer.found[("lock", job.name)].create)
        elif kind != _FREE:
            if kind == _EXISTS:
                yield from _pass_over(w, proposal)
            w.blind |= kind in (_EXISTS, _DETACHED)
            return


def _read_mark(w: Worker, job: Job) -> Flow[int]:
    """0: there is none, or no answer; it is looked at again."""
    mark = yield lambda etcd: etcd.get(("mark", job.name))
    if mark is None or not mark.create:
        w.blind = True
        return 0
    return max(job.anchor, int(mark.value))


def _locked(w: Worker, until: int, lock: int) -> Flow[int]:
    """A held lock is no verdict before the dispatch time, nor until 100 ms after it."""
    if w.wall >= until + LOCK_RETRY:
        return lock
    yield max(1, (until if w.wall < until else until + LOCK_RETRY) - w.wall)
    return 0


def propose(w: Worker, job: Job, decision: Decision, session: Session, *, blocker: int, waited: bool) -> Proposal:
    """One decision as a transaction."""
    mark, lock, name = ("mark", job.name), ("lock", job.name), job.name
    compares = [session.alive(w.rules)]
    if w.rules.job_compare:
        compares.append(mod_is(("job", name), job.revision))
    if w.rules.mark_compare:
        compares.append(value_is(mark, decision.base))
    then: list[Put | Delete] = [Put(mark, decision.to)]
    finals: list[Record] = []
    if decision.passed is not None:
        run = RunId(name, decision.passed[0], 1)
        finals.append(Record(run=run, status=decision.why, reason="late", hi=decision.passed[1]))
    for plan in decision.requests:
        wanted = Request(origin="made up", job_create=job.create, plan=plan, not_before=w.wall, expires=plan + WINDOW)
        then.append(Put(RunId(name, plan, 1).request_key, wanted))
    claims = decision.claim is not None and not blocker
    if decision.claim is not None and blocker:
        finals.append(Record(run=RunId(name, decision.claim, 1), status="skipped", reason="overlap"))
        compares.append(create_is(lock, blocker))
    elif (claims and job.spec.locks) or job.spec.keeps_one:
        compares.append(absent(lock))
    puts = [Put(record.run.key, Entry(worker=w.name, instance=w.name, record=record)) for record in finals]
    if claims and decision.claim is not None:
        run = RunId(name, decision.claim, 1)
        puts.append(Put(run.key, entry_of(w, job, session, decision.claim)))
        then += [Put(lock, run)] if job.spec.locks else []
    compares += [absent(put.key) for put in puts]
    txn = Txn(w.name, compares, [*then, *puts], (mark, lock, ("job", name), session.key))
    graced = decision.claim is not None and w.wall <= decision.claim + GRACE and not waited
    start_by = (decision.claim or 0) + (GRACE if graced else WINDOW)
    return Proposal(job, decision, session, start_by, blocker, txn, puts[-1] if puts else None, finals)


def entry_of(w: Worker, job: Job, session: Session, plan: int) -> Entry:
    return Entry(
        worker=w.name, session=session.id if w.rules.own_session_key else 0, instance=w.name, revision=job.revision,
        locked=job.spec.locks, plan=plan, claim=w.wall,
    )  # fmt: skip


def _send(w: Worker, proposal: Proposal) -> Flow[tuple[int, Any]]:
    """What became of it. In doubt it is sent again until that is known; LOCKED and BEHIND are told at once."""
    sent = w.world.now
    answer = yield proposal.txn
    if answer is not None:
        return _take(w, proposal, _kind(w, proposal, answer), answer, sent)
    if not w.rules.settle_doubts:
        return _IN_DOUBT, None
    yield 100
    while True:
        kind, answer = yield from _look(w, proposal)
        if kind == _DONE or kind in _FOR_EVER:
            return kind, answer
        if kind in (_LOCKED, _BEHIND):
            w.spawn(_watch(w, proposal))
            return kind, answer
        if kind == _EXISTS:
            yield from _pass_over(w, proposal)
        yield 2_000


def _watch(w: Worker, proposal: Proposal) -> Flow[None]:
    """It may be carried out late after all."""
    kind = _IN_DOUBT
    while kind != _DONE and kind not in _FOR_EVER:
        yield 2_000
        kind, _ = yield from _look(w, proposal)


def _look(w: Worker, proposal: Proposal) -> Flow[tuple[int, Any]]:
    sent, witness = w.world.now, proposal.witness
    answer = yield proposal.txn
    if answer is None:
        return _IN_DOUBT, None
    kind = _kind(w, proposal, answer)
    if not answer.ok and witness is not None:
        there = yield lambda etcd: etcd.get(witness.key)
        if there is None:
            return _IN_DOUBT, None
        if there.create and there.value == witness.value:
            # Carried out before, nobody knows when: the run needs a new stamp.
            return _take(w, proposal, _DONE, answer._replace(rev=there.create), -(10**9))
    return _take(w, proposal, kind, answer, sent)


def _kind(w: Worker, proposal: Proposal, answer: Answer) -> int:
    if answer.ok:
        return _DONE
    job, decision, found = proposal.job, proposal.decision, answer.found
    lock, session = found[("lock", job.name)], found[proposal.session.key]
    if found[("job", job.name)].mod != job.revision:
        return _CHANGED
    if found[("mark", job.name)].value != decision.base:
        beyond = found[("mark", job.name)].value > decision.base
        # A mark before P may still come to it, and a late claim be carried out then.
        return _MOVED if beyond or not w.rules.watch_behind else _BEHIND
    if proposal.blocker:
        if lock.create != proposal.blocker:
            return _FREE
    elif lock.create and any(one.key == ("lock", job.name) for one in proposal.txn.compares):
        return _LOCKED
    if session.lease != proposal.session.id:
        return _OVER if not session.create else _DETACHED
    return _EXISTS


def _take(w: Worker, proposal: Proposal, kind: int, answer: Answer, sent: int) -> tuple[int, Any]:
    if kind != _DONE:
        return kind, answer
    for record in proposal.finals:
        deliver(w, record, answer.rev)
    decision, job = proposal.decision, proposal.job
    if decision.claim is not None and not proposal.blocker:
        entry = next(o.value for o in proposal.txn.then if o.key == RunId(job.name, decision.claim, 1).key)  # type: ignore[union-attr]
        run = RunId(job.name, decision.claim, 1)
        w.claimed(Run(run, job, entry, answer.rev, answer.rev, proposal.session, sent, proposal.start_by))
    return kind, answer


def _pass_over(w: Worker, proposal: Proposal) -> Flow[None]:
    """A run key stands in the way (somebody's hand): the mark goes over it."""
    puts = [one for one in proposal.txn.then if isinstance(one, Put) and one.key[0] == "run"]
    keys = [put.key for put in puts]
    found = yield lambda etcd: [key for key in keys if etcd.get(key).create]
    if found:
        job, mark = proposal.job, ("mark", proposal.job.name)
        compares = [proposal.session.alive(w.rules), mod_is(("job", job.name), job.revision)]
        compares += [value_is(mark, proposal.decision.base), mod_is(found[0], (yield _mod_of(found[0])) or 0)]
        yield Txn(w.name, compares, [Put(mark, found[0][2])])


def _mod_of(key: Any) -> Any:
    return lambda etcd: etcd.get(key).mod
