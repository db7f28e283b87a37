"""The steward: one elected worker that settles lost runs, stuck fires, stuck requests, and what nobody delivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.protocol import fire_decisions, sweeps
from common.protocol.compares import Compare, absent, create_revision_is
from common.protocol.follow_ups import NOTHING
from common.protocol.give_up import while_gone
from common.protocol.keys import RunId, read_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import decide, give_up_unclaimed
from common.protocol.records import fire_record, lost_record, passed_record, request_record, single
from common.protocol.request import Request
from common.protocol.request_writes import RequestEnd, end_request, is_overtaken, put_again
from common.protocol.run import RunEntry, RunRecord, final_entry
from common.protocol.run_writes import KeyAfter, LeftRun
from common.protocol.txn import Get, GetKey, KeyValue, Put, Txn
from common.verdicts import Verdict
from tests.chaos.model import settling
from tests.chaos.model.reading import entry_in, kill_in, run_of
from tests.chaos.model.runs import Session
from tests.chaos.model.settings import FINAL_PATIENCE, KEYS, OFFER, PATIENCE, SCAN, STORE_PAUSE
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


@dataclass(slots=True)
class Term:
    """One time of office; a new one starts afresh."""

    session: Session
    holds: list[Compare]
    live: set[str] = field(default_factory=set)
    scanned: int = 0
    seen: dict[str, tuple[KeyValue, int]] = field(default_factory=dict)
    """Run keys, since when each is as it is."""
    gone: dict[str, int] = field(default_factory=dict)
    wait: dict[str, int] = field(default_factory=dict)
    orphans: dict[str, int] = field(default_factory=dict)


def loop(w: Worker) -> Flow[None]:
    term: Term | None = None
    while True:
        yield 500
        session = w.session
        if session is None or session.over:
            term = None
            continue
        answer = yield Txn((), [Get(KEYS.steward)])
        if answer is None:
            continue
        there, own = answer.one(0), f"{w.name}/{session.id}".encode()
        if there is None:
            put = Put(KEYS.steward, own, session.lease_id)
            yield Txn([absent(KEYS.steward), session.alive], [put])
            term = None
        elif there.value != own:
            term = None
        else:
            if term is None or term.session is not session:
                holds = [session.alive, create_revision_is(KEYS.steward, there.create_revision)]
                term = Term(session, holds)
            yield from _lost(w, term)
            yield from _fires(w, term)
            yield from _requests(w, term)
            yield from _sweep(w, term)


# Lost runs


def _lost(w: Worker, term: Term) -> Flow[None]:
    live = w.view.sessions
    if term.live - live or w.world.now - term.scanned >= SCAN:
        runs = yield lambda etcd: etcd.under(KEYS.runs)
        if runs is None:
            return
        now, before = w.world.now, term.seen
        term.scanned, term.seen = now, {}
        for kv in runs:
            was = before.get(kv.key)
            term.seen[kv.key] = was if was is not None and was[0].mod_revision == kv.mod_revision else (kv, now)
    term.live = live
    yield from _note_gone(w, term, live)
    now = w.world.now
    for key, (kv, since) in list(term.seen.items()):
        entry, run_id = entry_in(kv.value), run_of(key)
        if entry.record is not None:
            if now - since >= FINAL_PATIENCE and run_id not in w.finals:
                settling.deliver(w, entry.record, kv.mod_revision)
                term.seen[key] = kv, now
        elif _is_lost(term, key, entry, since, now):
            yield from _give_up(w, term, run_id, entry, kv)


def _note_gone(w: Worker, term: Term, live: set[str]) -> Flow[None]:
    """Since when each session is gone, by a look at its key: the watch may be behind. Absent once it was named, it
    never comes back."""
    workers = {entry.session: entry.worker for kv, _ in term.seen.values() if (entry := entry_in(kv.value)).session}
    gone = workers.keys() - live
    new = sorted(gone - term.gone.keys())
    there = (yield Txn((), [GetKey(KEYS.worker(workers[one], one)) for one in new])) if new else None
    if new:
        gone -= {one for index, one in enumerate(new) if there is None or there.key(index) is not None}
    term.gone = {session: term.gone.get(session, w.world.now) for session in gone}


def _is_lost(term: Term, key: str, entry: RunEntry, since: int, now: int) -> bool:
    gone_since, lost_after = term.gone.get(entry.session), entry.lost_after_ms
    if gone_since is None or lost_after is None or now < term.wait.get(key, 0):
        return False
    return now - max(since, gone_since) >= lost_after


def _give_up(w: Worker, term: Term, run_id: RunId, entry: RunEntry, kv: KeyValue) -> Flow[None]:
    """With the verdict in the log store, if there is one; asked for 1 s."""
    lock = yield Txn((), [GetKey(KEYS.lock(run_id.job))])
    if lock is None:
        return
    run = LeftRun.read(run_id, entry, kv, lock.key(0))
    yield 20
    found = w.world.history.log.get(run_id) if w.world.store_up else None
    if not w.world.store_up and run.has_ended:
        term.wait[kv.key] = w.world.now + STORE_PAUSE
        return
    lost = lost_record(
        run_id, entry, fence=kv.create_revision, reason="worker gone", now_ms=w.wall, command="", labels={}
    )  # fmt: skip
    becomes = final_entry(lost, worker=w.name) if found is None else KeyAfter.GONE
    only_if = [*term.holds, *while_gone(KEYS.worker(entry.worker, entry.session))]
    ended = yield from settling.end_left(run, found or lost, becomes, only_if)
    if ended and found is None:
        settling.deliver(w, lost, ended)
    if ended is not None:
        term.seen.pop(kv.key, None)


# Stuck fires


def _fires(w: Worker, term: Term) -> Flow[None]:
    for job in list(w.view.jobs.values()):
        if not job.spec.enabled:
            continue
        answer = yield Txn((), [Get(KEYS.mark(job.name)), Get(KEYS.lock(job.name))])
        mark = None if answer is None else read_mark(answer.one(0))
        if mark is not None:
            yield from _stuck(w, term, job, mark, answer.one(1) if job.takes_lock else None)


def _stuck(w: Worker, term: Term, job: PlannedJob, mark: int, lock: KeyValue | None) -> Flow[None]:
    """The first of its undecided fires: given up, offered to all, or skipped where the lock is held."""
    now, base, misfire = w.wall, max(mark, job.anchor_ms), job.spec.misfire
    step = give_up_unclaimed(job.fires, misfire, mark_ms=base, now_ms=now, patience_ms=PATIENCE)
    if step is not None:
        record = passed_record(job, step, now_ms=now)
        assert record is not None, "it passes some"
        yield from _record(w, term, job, record, mark, step.to_ms)
        return
    due = job.fires.newest_due_ms(now - OFFER)
    decision = None if due is None else decide(job.fires, misfire, mark_ms=base, until_ms=due, now_ms=now)
    if decision is None or not fire_decisions.is_in_time(job, decision, now):
        return
    to = decision.to_ms
    if lock is None and w.order(job.name, str(to))[2:]:
        request, passed = fire_decisions.offered(job, to, now_ms=now), passed_record(job, decision, now_ms=now)
        answer = yield fire_decisions.offer(
            KEYS, job, request, passed, mark_ms=mark, to_ms=to, worker=w.name, guards=term.holds
        )
        if passed is not None and answer is not None and answer.succeeded:
            settling.deliver(w, passed, answer.revision)
    elif lock is not None and not job.keeps_one:
        skipped = fire_record(job, fires=single(to), status=Verdict.SKIPPED, reason="overlap", now_ms=now)
        yield from _record(w, term, job, skipped, mark, to, lock)


def _record(
    w: Worker, term: Term, job: PlannedJob, record: RunRecord, mark: int, to: int, lock: KeyValue | None = None
) -> Flow[None]:
    answer = yield fire_decisions.record(
        KEYS, job, record, mark_ms=mark, to_ms=to, worker=w.name, guards=term.holds, lock=lock
    )
    if answer is not None and answer.succeeded:
        settling.deliver(w, record, answer.revision)
    elif answer is not None and fire_decisions.is_in_the_way(answer):
        yield fire_decisions.pass_over(KEYS, job, record.run_id, mark_ms=mark, guards=term.holds)


# Stuck requests


def _requests(w: Worker, term: Term) -> Flow[None]:
    for request in [one for of_job in list(w.view.requests.values()) for one in of_job]:
        job = w.view.jobs.get(request.run_id.job)
        end = yield from _end_of(w, request, job)
        if end is None:
            yield from _renew(w, term, request)
            continue
        record = request_record(
            request, job, status=end.status, reason=end.reason, err=end.err, by=end.by, now_ms=w.wall
        )  # fmt: skip
        answer = yield end_request(KEYS, request, end, record, NOTHING, worker=w.name, guards=term.holds)
        if answer is not None and answer.succeeded:
            settling.deliver(w, record, answer.revision)


def _end_of(w: Worker, request: Request, job: PlannedJob | None) -> Flow[RequestEnd | None]:
    """How a request ends that cannot run any more."""
    name, kill = request.run_id.job, w.view.kills.get(request.run_id)
    if kill is not None:
        return RequestEnd.killed(KEYS, kill)
    if job is None or job.create_revision != request.job_create_revision:
        return RequestEnd.deleted(KEYS, name, job)
    if not job.spec.enabled and not request.is_asked_for:
        return RequestEnd.paused(KEYS, job)
    if request.is_expired(w.wall):
        return RequestEnd.missed(f"late: {request.origin}")
    if request.mark_ms is not None:
        answer = yield Txn((), [Get(KEYS.mark(name))])
        if answer is not None and is_overtaken(request, job, read_mark(answer.one(0))):
            return RequestEnd.overtaken(KEYS, job)
    return None


def _renew(w: Worker, term: Term, request: Request) -> Flow[None]:
    if request.not_before_ms + 5_000 <= w.wall:
        lock = yield Txn((), [GetKey(KEYS.lock(request.run_id.job))])
        if lock is not None and lock.key(0) is None:
            yield put_again(KEYS, request, now_ms=w.wall, guards=term.holds)


# Sweeping


def _sweep(w: Worker, term: Term) -> Flow[None]:
    """Kills whose run is settled; locks and session keys that belong to nobody, at the second look."""
    keys = yield lambda etcd: dict(etcd.keys)
    if keys is None:
        return
    orphans: dict[str, int] = {}
    for key, kv in keys.items():
        match key.split("/", 3)[2]:
            case "kills":
                kill = kill_in(kv)
                if KEYS.run(kill.run_id) not in keys and KEYS.request(kill.run_id) not in keys:
                    yield sweeps.kill(KEYS, kill, guards=term.holds)
            case "locks":
                run = keys.get(KEYS.run(RunId.parse(kv.value.decode())))
                if run is None or run.create_revision != kv.create_revision:
                    orphans[key] = kv.create_revision
                    if term.orphans.get(key) == kv.create_revision:
                        yield sweeps.lock(kv, guards=term.holds)
            case "workers" if not kv.lease:
                orphans[key] = term.orphans.get(key, 0) + 1
                if orphans[key] > 12:
                    yield sweeps.delete_unchanged(kv, guards=term.holds)
            case _:
                pass
    term.orphans = orphans
