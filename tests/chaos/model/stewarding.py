"""The steward: one elected worker that settles lost runs, stuck fires, stuck requests, and what nobody delivers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.chaos.model import planner, settling
from tests.chaos.model.etcd import KV, Compare, Delete, Key, Put, Txn, absent, create_is, mod_is, value_is
from tests.chaos.model.requesting import is_expired, is_overtaken
from tests.chaos.model.runs import Session
from tests.chaos.model.settings import FINAL_PATIENCE, GRACE, LOST_AFTER, OFFER, SCAN, STORE_PAUSE, WINDOW
from tests.chaos.model.values import Entry, Job, Record, Request, RunId
from tests.chaos.model.world import Ask, Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker

_KEY: Key = ("steward",)


@dataclass(slots=True)
class Term:
    """One time of office; a new one starts afresh."""

    session: Session
    holds: list[Compare]
    live: set[int] = field(default_factory=set)
    scanned: int = 0
    seen: dict[Key, tuple[KV, int]] = field(default_factory=dict)
    gone: dict[int, int] = field(default_factory=dict)
    wait: dict[Key, int] = field(default_factory=dict)
    orphans: dict[Key, int] = field(default_factory=dict)


def loop(w: Worker) -> Flow[None]:
    term: Term | None = None
    while True:
        yield 500
        session = w.session
        if session is None or session.over:
            term = None
            continue
        there = yield lambda etcd: etcd.get(_KEY)
        if there is None:
            continue
        if not there.create:
            compares = [absent(_KEY), session.alive(w.rules)]
            yield Txn(w.name, compares, [Put(_KEY, (w.name, session.id), session.id)])
            term = None
        elif there.value != (w.name, session.id):
            term = None
        else:
            if term is None or term.session is not session:
                term = Term(session, [session.alive(w.rules), create_is(_KEY, there.create)])
            yield from _duties(w, term)


def _duties(w: Worker, term: Term) -> Flow[None]:
    yield from _lost(w, term)
    yield from _fires(w, term)
    yield from _requests(w, term)
    yield from _sweep(w, term)


# Lost runs


def _lost(w: Worker, term: Term) -> Flow[None]:
    live = {key[2] for key in w.view.sessions}
    if term.live - live or w.world.now - term.scanned >= SCAN:
        runs = yield lambda etcd: etcd.prefix("run")
        if runs is None:
            return
        now = term.scanned = w.world.now
        seen = {key: term.seen.get(key, (kv, now)) for key, kv in runs.items()}
        term.seen = {key: was if was[0].mod == runs[key].mod else (runs[key], now) for key, was in seen.items()}
    term.live, now = live, w.world.now
    named = {kv.value.session for kv, _ in term.seen.values()} - live
    if w.rules.gone_is_read and (new := named - term.gone.keys()):
        # A watch that is behind may not have seen it come; absent once it was named, it never comes back.
        there = yield lambda etcd: {key[2] for key in etcd.prefix("session")}
        named -= new if there is None else there
    term.gone = {session: term.gone.get(session, now) for session in named}
    for key, (kv, since) in list(term.seen.items()):
        entry: Entry = kv.value
        if entry.record is not None:
            if now - since >= FINAL_PATIENCE and RunId(*key[1:]) not in w.finals:
                settling.deliver(w, entry.record, kv.mod)
                term.seen[key] = kv, now
        elif _is_lost(term, key, kv, max(since, term.gone.get(entry.session, 0)), now):
            yield from _give_up(w, term, RunId(*key[1:]), kv)


def _is_lost(term: Term, key: Key, kv: KV, since: int, now: int) -> bool:
    return kv.value.session in term.gone and now >= term.wait.get(key, 0) and now - since >= LOST_AFTER


def _give_up(w: Worker, term: Term, run: RunId, kv: KV) -> Flow[None]:
    """With the verdict in the log store, if there is one; asked for 1 s."""
    entry: Entry = kv.value
    lock = yield lambda etcd: etcd.get(("lock", run.job))
    if lock is None:
        return
    has_ended = entry.ended or (entry.locked and lock.create != kv.create)
    yield 20
    found = w.world.history.log.get(run) if w.world.store_up else None
    if not w.world.store_up and has_ended:
        term.wait[run.key] = w.world.now + STORE_PAUSE
        return
    record = found or Record(run=run, status="lost", reason="worker gone", fence=kv.create)
    final = Put(run.key, Entry(worker=w.name, record=record))
    only_if = [*term.holds, absent(("session", entry.worker, entry.session))]
    ended = yield from settling.end_left(
        w.world, w.name, run, kv, record, [Delete(run.key) if found else final], only_if
    )
    if ended and not found:
        settling.deliver(w, record, ended)
    if ended is not None:
        term.seen.pop(run.key, None)


# Stuck fires


def _fires(w: Worker, term: Term) -> Flow[None]:
    for job in list(w.view.jobs.values()):
        if not job.spec.enabled:
            continue
        both = yield _mark_and_lock(job.name)
        if both is not None and both[0].create:
            yield from _stuck(w, term, job, both[0].value, both[1])


def _mark_and_lock(name: str) -> Ask:
    return lambda etcd: (etcd.get(("mark", name)), etcd.get(("lock", name)))


def _stuck(w: Worker, term: Term, job: Job, mark: int, lock: KV) -> Flow[None]:
    now, base, spec = w.wall, max(mark, job.anchor), job.spec
    usual = [*term.holds, mod_is(("job", job.name), job.revision), value_is(("mark", job.name), mark)]
    if (step := planner.given_up(job, base, now)) is not None and step.passed is not None:
        run = RunId(job.name, step.passed[0], 1)
        record = Record(run=run, status="missed", reason="given up", hi=step.passed[1])
        yield from _record(w, usual, record, step.to)
        return
    decision = planner.decide(job, base, job.last(now - OFFER), now, None, waited=False)
    if decision is None or decision.claim is None or decision.passed is not None or now > decision.claim + GRACE:
        return
    run = RunId(job.name, decision.claim, 1)
    if lock.create:
        if not spec.keeps_one:
            held = create_is(("lock", job.name), lock.create)
            yield from _record(w, [*usual, held], Record(run=run, status="skipped", reason="overlap"), run.fire)
    elif any(w.rank(job.name, run.fire, name) > 1 for name in w.view.workers):
        compares = [*usual, absent(run.key), absent(run.request_key)]
        compares += [absent(("lock", job.name))] if spec.keeps_one else []
        expires = decision.claim + (WINDOW if spec.keeps_one else GRACE)
        request = Request(origin="offered", job_create=job.create, plan=decision.claim, not_before=now, expires=expires)
        yield Txn(w.name, compares, [Put(("mark", job.name), decision.claim), Put(run.request_key, request)])


def _record(w: Worker, compares: list[Compare], record: Record, to: int | str) -> Flow[None]:
    key = record.run.key
    put = Put(key, Entry(worker=w.name, record=record))
    answer = yield Txn(w.name, [*compares, absent(key)], [Put(("mark", record.run.job), to), put])
    if answer is None:
        return
    if answer.ok:
        settling.deliver(w, record, answer.rev)
    elif answer.found[key].create:
        there = Compare("there", key, True)
        yield Txn(w.name, [*compares, there], [Put(("mark", record.run.job), record.run.fire)])


# Stuck requests


def _requests(w: Worker, term: Term) -> Flow[None]:
    for run, kv in list(w.view.requests.items()):
        end = yield from _end_of(w, run, kv.value)
        if end is None:
            yield from _renew(w, term, run, kv)
            continue
        record, confirm = end
        compares = [*term.holds, mod_is(run.request_key, kv.mod), absent(run.key), *confirm]
        put = Put(run.key, Entry(worker=w.name, record=record))
        answer = yield Txn(w.name, compares, [Delete(run.request_key), put])
        if answer is not None and answer.ok:
            settling.deliver(w, record, answer.rev)


def _end_of(w: Worker, run: RunId, request: Request) -> Flow[tuple[Record, list[Compare]] | None]:
    """How a request ends that cannot run any more, and what etcd has to confirm."""
    job, key, kill = w.view.jobs.get(run.job), ("job", run.job), w.view.kills.get(run)
    if kill is not None:
        return Record(run=run, status="killed", reason="before start"), [create_is(run.kill_key, kill.create)]
    if job is None or job.create != request.job_create:
        confirm = absent(key) if job is None else create_is(key, job.create)
        return Record(run=run, status="skipped", reason="deleted"), [confirm]
    as_known = mod_is(key, job.revision)
    if isinstance(run.fire, int) and not job.spec.enabled:
        return Record(run=run, status="skipped", reason="paused"), [as_known]
    if is_expired(request, w.wall):
        return Record(run=run, status="missed", reason=f"expired: {request.origin}"), []
    if request.mark is not None:
        mark = yield lambda etcd: etcd.get(("mark", run.job))
        if mark is not None and mark.create and is_overtaken(request, job, mark.value):
            return Record(run=run, status="skipped", reason="overlap"), [as_known]
    return None


def _renew(w: Worker, term: Term, run: RunId, kv: KV) -> Flow[None]:
    if kv.value.not_before + 5_000 <= w.wall:
        lock = yield lambda etcd: etcd.get(("lock", run.job))
        if lock is not None and not lock.create:
            put = Put(run.request_key, replace(kv.value, not_before=w.wall))
            yield Txn(w.name, [*term.holds, mod_is(run.request_key, kv.mod)], [put])


# Sweeping


def _sweep(w: Worker, term: Term) -> Flow[None]:
    """Kills whose run is settled; locks and session keys that belong to nobody, at the second look."""
    data = yield lambda etcd: dict(etcd.data)
    if data is None:
        return
    orphans: dict[Key, int] = {}
    for key, kv in data.items():
        if key[0] == "kill" and ("run", *key[1:]) not in data and ("request", *key[1:]) not in data:
            gone = [absent(("run", *key[1:])), absent(("request", *key[1:])), create_is(key, kv.create)]
            yield Txn(w.name, [*term.holds, *gone], [Delete(key)])
        elif key[0] == "lock" and (kv.value.key not in data or data[kv.value.key].create != kv.create):
            orphans[key] = kv.create
            if term.orphans.get(key) == kv.create:
                yield Txn(w.name, [*term.holds, create_is(key, kv.create)], [Delete(key)])
        elif key[0] == "session" and not kv.lease:
            orphans[key] = term.orphans.get(key, 0) + 1
            if orphans[key] > 12:
                yield Txn(w.name, [*term.holds, mod_is(key, kv.mod)], [Delete(key)])
    term.orphans = orphans
