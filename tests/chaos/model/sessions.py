"""Sessions: opened, kept alive, lost; what a new one takes over, and what a former life left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.chaos.model import settling
from tests.chaos.model.etcd import KV, Delete, Etcd, Key, Put, Txn, absent, mod_is
from tests.chaos.model.runs import Run, Session
from tests.chaos.model.settings import TTL
from tests.chaos.model.values import Entry, Record, RunId
from tests.chaos.model.world import Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def live(w: Worker) -> Flow[None]:
    """One session after the other."""
    while w.machine.processes:  # of a former life: ended before anything is settled
        for process in list(w.machine.processes):
            w.machine.kill(process)
        yield 100
    while True:
        session = yield from _open(w)
        taking_over = _take_over(w, session)
        w.spawn(taking_over)
        yield from _keep_alive(w, session)
        session.over = True
        taking_over.close()  # else it might settle, as a former life's, what its successor has claimed
        w.session = None


def _open(w: Worker) -> Flow[Session]:
    while True:
        sent = w.world.now
        lease = yield Etcd.grant
        there = yield lambda etcd: etcd.prefix("session", w.name)
        if lease is None or there is None:
            continue
        key: Key = ("session", w.name, lease if w.rules.own_session_key else 0)
        compares = [mod_is(one, kv.mod) for one, kv in there.items()]
        put: list[Put | Delete] = [Put(key, w.name, lease)]
        if key not in there:
            compares.append(absent(key))
        put += [Delete(one) for one in there if one != key]
        txn = Txn(w.name, compares, put)
        while w.world.now < sent + TTL:
            answer = yield txn
            if answer is None:
                continue
            kv = answer.found[key]
            if answer.ok or kv.lease == lease:
                incarnation = answer.rev if answer.ok else kv.create
                return Session(lease, key, sent, incarnation)
            break
        yield 200


def _keep_alive(w: Worker, session: Session) -> Flow[None]:
    """Ends when etcd says that it is over, never by silence."""
    while True:
        sent = w.world.now
        kept = yield lambda etcd: (etcd.keep_alive(session.id), etcd.get(session.key))
        if kept is None:
            yield 200
            continue
        alive, kv = kept
        is_own = not w.rules.own_session_key or kv.create == session.incarnation
        if not alive or not kv.create or not is_own:
            return
        if kv.lease == session.id:
            session.confirmed = max(session.confirmed, sent)
            yield TTL // 4
        else:
            yield Txn(w.name, [mod_is(session.key, kv.mod)], [Put(session.key, w.name, session.id)])


def _take_over(w: Worker, session: Session) -> Flow[None]:
    if w.settled_former:
        yield from _readopt_all(w, session)
    else:
        yield from _settle_former(w)
    if not session.over:
        w.session, w.blind = session, True


def take_stragglers(w: Worker) -> Flow[None]:
    """Runs whose claim was answered when the session that had sent it was over."""
    while True:
        yield 1_000
        if w.session is not None:
            yield from _readopt_all(w, w.session)


def _readopt_all(w: Worker, session: Session) -> Flow[None]:
    for run in list(w.runs.values()):
        if run.session is not session and not (run.delivered and run.unlocked):
            yield from _readopt(w, run, session)


def _readopt(w: Worker, run: Run, session: Session) -> Flow[None]:
    while not session.over:
        entry, sent = replace(run.entry, session=session.id), w.world.now
        compares = [session.alive(w.rules), mod_is(run.id.key, run.mod)]
        answer = yield Txn(w.name, compares, [Put(run.id.key, entry)])
        if answer is None:
            continue
        if answer.ok:
            run.entry, run.session, run.mod, run.sent = entry, session, answer.rev, sent
            return
        if not run.take_over(answer.found[run.id.key]):
            if w.runs.get(run.id) is run and not (run.delivered and run.unlocked):
                w.give_up(run)
            return
        yield 300


# A former life


def _settle_former(w: Worker) -> Flow[None]:
    in_spool = {record.run: record for record in w.former}
    settled = False
    while not settled:
        runs = yield from settling.patiently(lambda etcd: etcd.prefix("run"))
        settled = True
        for key, kv in runs.items():
            if kv.value.instance == w.name:
                run_id = RunId(*key[1:])
                settled &= yield from _settle(w, run_id, kv, in_spool.get(run_id))
    w.settled_former = True


def _settle(w: Worker, run_id: RunId, kv: KV, record: Record | None) -> Flow[bool]:
    """With the verdict in the spool or in the log store, else as lost; False: in doubt."""
    entry: Entry = kv.value
    in_log = w.world.history.log.get(run_id) if w.world.store_up else None
    if entry.record is not None:
        settling.deliver(w, entry.record, kv.mod)
        return True
    if record is None and in_log is None:
        verdict = Record(run=run_id, status="lost", reason="worker restarted", fence=kv.create)
        then: tuple[Put, ...] = (Put(run_id.key, replace(entry, record=verdict)),)
        ended = yield from settling.end_left(w.world, w.name, run_id, kv, verdict, then, ())
        if ended:
            settling.deliver(w, verdict, ended)
        return ended is not None
    known = record or in_log
    assert known is not None
    then = () if entry.locked else (Put(run_id.key, replace(entry, ended=True)),)
    ended = 0
    if not entry.ended:
        ended = yield from settling.end_left(w.world, w.name, run_id, kv, known, then, ())
    if ended is None:
        return False
    w.finals[run_id] = kv.mod if entry.locked or not ended else ended
    if record is None or run_id in w.acked:
        yield from settling.delete_final(w, run_id)
    return True
