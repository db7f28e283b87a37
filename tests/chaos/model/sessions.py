"""Sessions: opened, kept alive, lost; what a new one takes over, and what a former life left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from common.protocol.compares import absent, mod_revision_is
from common.protocol.keys import RunId
from common.protocol.member import Member, only_session
from common.protocol.records import lost_record
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.protocol.run_writes import KeyAfter, LeftRun
from common.protocol.txn import Get, GetKey, KeyValue, Put, Txn
from tests.chaos.model import settling
from tests.chaos.model.dispatching import stamped
from tests.chaos.model.etcd import Etcd
from tests.chaos.model.reading import entry_in, run_of
from tests.chaos.model.runs import Run, Session
from tests.chaos.model.settings import KEYS, TTL
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
        own = yield lambda etcd: etcd.under(KEYS.worker_sessions(w.name))
        if lease is None or own is None:
            continue
        session = _session(w, lease, sent)
        share = only_session(KEYS, w.name, own)
        txn = Txn(
            [absent(session.key), *share.compares],
            [Put(session.key, _member(w, session), lease), *share.then],
            [Get(session.key)],
        )
        while w.world.now < sent + TTL:
            answer = yield txn
            if answer is None:
                continue
            kv = None if answer.succeeded else answer.one(0)
            if answer.succeeded or (kv is not None and kv.lease == lease):
                session.incarnation = answer.revision if kv is None else kv.create_revision
                return session
            break
        yield 200


def _session(w: Worker, lease: int, sent: int) -> Session:
    """Each has a key of its own."""
    name = f"{lease:x}"
    return Session(lease, name, KEYS.worker(w.name, name), sent)


def _member(w: Worker, session: Session) -> bytes:
    member = Member(
        worker=w.name, session=session.id, instance=w.identity.instance, host=w.name, address="", slots=w.slots
    )
    return member.to_json()


def _keep_alive(w: Worker, session: Session) -> Flow[None]:
    """Ends when etcd says that it is over, never by silence."""
    while True:
        sent = w.world.now
        kept = yield lambda etcd: (etcd.keep_alive(session.lease_id), etcd.get(session.key))
        if kept is None:
            yield 200
            continue
        alive, kv = kept
        if not alive or kv is None or kv.create_revision != session.incarnation:
            return
        if kv.lease == session.lease_id:
            session.confirmed = max(session.confirmed, sent)
            yield TTL // 4
        else:
            yield Txn([mod_revision_is(kv.key, kv.mod_revision)], [Put(kv.key, kv.value, session.lease_id)])


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
        match (yield from stamped(w, run, session)):
            case True:
                return
            case False:
                if w.runs.get(run.run_id) is run and not (run.delivered and run.unlocked):
                    w.give_up(run)
                return
            case None:
                yield 300


# A former life


def _settle_former(w: Worker) -> Flow[None]:
    in_spool = {record.run_id: record for record in w.former}
    settled = False
    while not settled:
        runs = yield from settling.patiently(lambda etcd: etcd.under(KEYS.runs))
        settled = True
        for kv in runs:
            entry, run_id = entry_in(kv.value), run_of(kv.key)
            if entry.instance == w.identity.instance:
                settled &= yield from _settle(w, run_id, entry, kv, in_spool.get(run_id))
    w.settled_former = True


def _settle(w: Worker, run_id: RunId, entry: RunEntry, kv: KeyValue, spooled: RunRecord | None) -> Flow[bool]:
    """With the verdict in the spool or in the log store, else as lost; False: in doubt."""
    if entry.record is not None:
        settling.deliver(w, entry.record, kv.mod_revision)
        return True
    lock = yield Txn((), [GetKey(KEYS.lock(run_id.job))])
    if lock is None:
        return False
    run = LeftRun.read(run_id, entry, kv, lock.key(0))
    known = spooled or (w.world.history.log.get(run_id) if w.world.store_up else None)
    if known is None:
        lost = lost_record(
            run_id, entry, fence=kv.create_revision, reason="worker restarted", now_ms=w.wall, command="", labels={}
        )
        final = final_entry(lost, worker=w.name, instance=w.identity.instance)
        ended = yield from settling.end_left(run, lost, final)
        if ended:
            settling.deliver(w, lost, ended)
        return ended is not None
    revision = kv.mod_revision
    if not run.has_ended:
        becomes = KeyAfter.SAME if entry.locked else replace(entry, state=EntryState.ENDED)
        ended = yield from settling.end_left(run, known, becomes)
        if not ended:
            return False
        revision = revision if entry.locked else ended
    w.finals[run_id] = revision
    if spooled is None or run_id in w.acked:
        yield from settling.delete_final(w, run_id)
    return True
