"""The end of a run: record on the disk, then its lock, with what follows, then (acknowledged) its key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from common.protocol import run_writes
from common.protocol.follow_ups import NOTHING, End, Facts, FollowUp, follow, may_be_tried_again, next_link_after
from common.protocol.keys import RunId
from common.protocol.records import claimed_record
from common.protocol.run import RunEntry, RunRecord
from common.protocol.run_writes import KeyAfter, LeftRun
from common.protocol.txn import Get, GetKey, Guards, Txn
from common.verdicts import Verdict
from tests.chaos.model.runs import Run
from tests.chaos.model.settings import KEYS
from tests.chaos.model.world import Ask, Flow

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def patiently(ask: Ask) -> Flow[Any]:
    """An answer, however long it takes; only for what does once what it does."""
    while (answer := (yield ask)) is None:
        yield 300
    return answer


def look(end: End) -> Txn:
    """The job's lock, and what tells what follows the end."""
    return Txn((), [GetKey(KEYS.lock(end.run_id.job)), *(Get(key) for key in Facts.keys_of(KEYS, end))])


def followed(end: End, answer: Any) -> FollowUp:
    """What follows, by the answer to `look`."""
    keys = Facts.keys_of(KEYS, end)
    found = {key: kv for index, key in enumerate(keys, 1) if (kv := answer.one(index)) is not None}
    return follow(KEYS, end, Facts.found(KEYS, end, found))


def end_left(run: LeftRun, record: RunRecord, becomes: RunEntry | KeyAfter, only_if: Guards = ()) -> Flow[int | None]:
    """End a run in its worker's place: the revision; 0: not as it was; None: in doubt."""
    for _ in range(20):
        follow_up, end = NOTHING, End(entry=run.entry, record=record, frees_lock=run.holds_lock)
        if not run.has_ended:
            answer = yield look(end)
            if answer is None:
                return None
            follow_up = followed(end, answer)
        answer = yield run_writes.end(KEYS, run, becomes, follow_up, only_if=only_if)
        if answer is None:
            return None
        if answer.succeeded:
            return int(answer.revision)
        if not follow_up.compares:
            break
    return 0


# A run of this worker


def record_of(w: Worker, run: Run, status: Verdict, reason: str) -> RunRecord:
    record = claimed_record(
        run.run_id, run.entry, fence=run.fence, status=status, end_ms=w.wall, command="", labels={}
    )  # fmt: skip
    return replace(record, reason=reason)


def settle(w: Worker, run: Run, status: Verdict, reason: str) -> Flow[None]:
    """From its end to the freedom of its lock; its key goes when the record is delivered."""
    run.phase, run.record = "ended", record_of(w, run, status, reason)
    yield 1
    w.machine.spool_append(run.record)
    yield 10
    known = _known(w, run)
    while not run.unlocked:
        end, follow_up = _end_of(run), known
        if follow_up is None:
            answer = yield from patiently(look(end))
            lock, follow_up = answer.key(0), followed(end, answer)
            if run.entry.locked and (lock is None or lock.create_revision != run.fence):
                break
        if (yield from _end(w, run, follow_up)):
            break
        if w.runs.get(run.run_id) is not run:
            return
        known = None
    run.unlocked = True
    w.lock_freed(run.run_id.job)
    yield from delete_when_free(w, run)


def _end_of(run: Run) -> End:
    assert run.record is not None, "it has ended"
    return End(entry=run.entry, record=run.record, frees_lock=run.holds_lock)


def _known(w: Worker, run: Run) -> FollowUp | None:
    """What follows, by the view alone: so it is for nearly every run. None: etcd has to be asked."""
    end = _end_of(run)
    return None if may_be_tried_again(end.record) else next_link_after(KEYS, end, w.view.jobs.get(run.run_id.job))


def _end(w: Worker, run: Run, follow_up: FollowUp) -> Flow[bool]:
    """Sent until it is answered; False: look again."""
    if run.entry.locked:
        answer = yield from patiently(run_writes.free_lock(KEYS, run, follow_up))
        return bool(answer.succeeded) or not follow_up.compares
    ended, txn = run_writes.say_ended(KEYS, run, follow_up)
    answer = yield from patiently(txn)
    if answer.succeeded:
        run.entry, run.mod_revision = ended, answer.revision
        return True
    found = yield from patiently(Txn((), [Get(KEYS.run(run.run_id))]))
    if not run.reread(found.one(0)):
        w.forget(run)
    return run.unlocked


def delete_when_free(w: Worker, run: Run) -> Flow[None]:
    while run.unlocked and run.delivered and w.runs.get(run.run_id) is run:
        answer = yield from patiently(_forgetting(w, run.run_id, run.mod_revision))
        found = None if answer.succeeded else (yield from patiently(Txn((), [Get(KEYS.run(run.run_id))])))
        if found is None or not run.reread(found.one(0)):
            w.forget(run)


def _forgetting(w: Worker, run_id: RunId, revision: int) -> Txn:
    return run_writes.forget(KEYS, run_id, mod_revision=revision, is_killed=run_id in w.view.kills)


# Records that lie in their keys


def deliver(w: Worker, record: RunRecord, revision: int) -> None:
    """It lies in its run key at this revision: see to its delivery."""
    w.finals[record.run_id] = revision
    if record not in w.machine.spool:
        w.machine.spool_append(record)


def delete_final(w: Worker, run_id: RunId) -> Flow[None]:
    revision = w.finals.pop(run_id, None)
    if revision is not None:
        yield from patiently(_forgetting(w, run_id, revision))


def delivered(w: Worker, run_id: RunId) -> None:
    """The log store has acknowledged the record."""
    w.acked.add(run_id)
    run = w.runs.get(run_id)
    if run is not None:
        run.delivered = True
        w.spawn(delete_when_free(w, run))
    if run_id in w.finals:
        w.spawn(delete_final(w, run_id))
