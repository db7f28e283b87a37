"""The end of a run: record on the disk, then its lock, with what follows, then (acknowledged) its key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.chaos.model.etcd import KV, Compare, Delete, Etcd, Put, Txn, absent, create_is, mod_is, value_is
from tests.chaos.model.runs import Run
from tests.chaos.model.values import Entry, Job, Record, Request, RunId
from tests.chaos.model.world import Flow, World

if TYPE_CHECKING:
    from tests.chaos.model.worker import Worker


def patiently(ask: Callable[[Etcd], Any]) -> Flow[Any]:
    """An answer, however long it takes; only for what does once what it does."""
    while (answer := (yield ask)) is None:
        yield 300
    return answer


# What follows


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Its share of the transaction that ends the run."""

    compares: tuple[Compare, ...] = ()
    then: tuple[Put, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What etcd holds at one revision, as far as what follows depends on it."""

    job: KV
    mark: KV
    kill: KV
    lock: KV
    has_next: bool

    @classmethod
    def ask(cls, run: RunId) -> Callable[[Etcd], Facts]:
        return lambda etcd: cls(
            etcd.get(("job", run.job)), etcd.get(("mark", run.job)), etcd.get(run.kill_key),
            etcd.get(("lock", run.job)), bool(etcd.get(run.next.key).create or etcd.get(run.next.request_key).create),
        )  # fmt: skip


def follow(run: RunId, entry: Entry, record: Record, facts: Facts, now: int) -> FollowUp:
    """Another attempt, or nothing."""
    job = Job.of(run.job, facts.job) if facts.job.create else None
    origin = None if job is None else another_attempt(run, entry.revision, record, job)
    if job is None or origin is None or facts.has_next or (origin == "rerun" and facts.kill.create):
        return FollowUp()
    gives_way = origin == "retry" and job.spec.locks and isinstance(run.fire, int)
    request = Request(
        origin=origin, job_create=job.create, plan=entry.plan, not_before=now + (300 if origin == "retry" else 0),
        mark=facts.mark.value if gives_way else None,
    )  # fmt: skip
    compares = [mod_is(("job", run.job), job.revision), absent(run.next.key), absent(run.next.request_key)]
    if gives_way:
        compares.append(value_is(("mark", run.job), facts.mark.value))
    if origin == "rerun":
        compares.append(absent(run.kill_key))
    return FollowUp(tuple(compares), (Put(run.next.request_key, request),))


def another_attempt(run: RunId, revision: int, record: Record, job: Job) -> str | None:
    """Why the fire is to be tried again; None: it is not."""
    if job.create > revision or (isinstance(run.fire, int) and not job.spec.enabled):
        return None
    if record.status == "lost" or record.reason == "out of touch":
        return "rerun" if job.spec.rerun and run.attempt <= max(1, job.spec.retries) else None
    return "retry" if record.status == "failed" and run.attempt <= job.spec.retries else None


def end_left(
    world: World, who: str, run: RunId, kv: KV, record: Record, then: Sequence[Put | Delete], only_if: Sequence[Compare]
) -> Flow[int | None]:
    """End a run in its worker's place: the revision; 0: not as it was; None: in doubt."""
    entry: Entry = kv.value
    for _ in range(20):
        facts = yield Facts.ask(run)
        if facts is None:
            return None
        holds = entry.locked and facts.lock.create == kv.create
        has_ended = entry.ended or (entry.locked and not holds)
        following = FollowUp() if has_ended else follow(run, entry, record, facts, world.now)
        compares = [*only_if, *following.compares]
        if world.rules.lost_compares_run or not only_if:
            compares.append(mod_is(run.key, kv.mod))
        operations = [*then, *following.then]
        if holds:
            compares.append(create_is(("lock", run.job), kv.create))
            operations.append(Delete(("lock", run.job)))
        answer = yield Txn(who, compares, operations)
        if answer is None:
            return None
        if answer.ok:
            return int(answer.rev)
        if not following.compares:
            return 0
    return 0


# A run of this worker


def settle(w: Worker, run: Run, status: str, reason: str = "") -> Flow[None]:
    """From its end to the freedom of its lock; its key goes when the record is delivered."""
    run.phase = "ended"
    run.record = Record(run=run.id, status=status, reason=reason, fence=run.fence)
    yield 1
    w.machine.spool_append(run.record)
    yield 10
    while not run.unlocked:
        facts = yield from patiently(Facts.ask(run.id))
        if run.entry.locked and facts.lock.create != run.fence:
            break
        following = follow(run.id, run.entry, run.record, facts, w.world.now)
        if (yield from _end(w, run, following)):
            break
        if w.runs.get(run.id) is not run:
            return
    run.unlocked = True
    w.lock_freed(run.id.job)
    yield from delete_when_free(w, run)


def _end(w: Worker, run: Run, following: FollowUp) -> Flow[bool]:
    """Sent until it is answered; False: look again."""
    ended = replace(run.entry, ended=True)
    lock = ("lock", run.id.job)
    in_txn = w.rules.follow_in_txn
    compares = list(following.compares) if in_txn else []
    then: list[Put | Delete] = list(following.then) if in_txn else []
    if run.entry.locked:
        if w.rules.fenced_unlock:
            compares.append(create_is(lock, run.fence))
        then.append(Delete(lock))
    else:
        compares.append(mod_is(run.id.key, run.mod))
        then.append(Put(run.id.key, ended))
    answer = yield from patiently(Txn(w.name, compares, then))
    if answer.ok and not run.entry.locked:
        run.entry, run.mod = ended, answer.rev
    if not answer.ok and not run.entry.locked:
        found = yield from patiently(lambda etcd: etcd.get(run.id.key))
        if not run.take_over(found):
            w.forget(run)
        return run.unlocked
    if answer.ok and not in_txn and following.then:
        yield from patiently(Txn(w.name, following.compares[1:3], following.then))
    return bool(answer.ok) or (not following.compares and in_txn)


def delete_when_free(w: Worker, run: Run) -> Flow[None]:
    while run.unlocked and (run.delivered or not w.rules.ack_before_delete) and w.runs.get(run.id) is run:
        answer = yield from patiently(Txn(w.name, [mod_is(run.id.key, run.mod)], _deletions(w, run.id)))
        if answer.ok or not run.take_over(answer.found[run.id.key]):
            w.forget(run)


def _deletions(w: Worker, run: RunId) -> list[Put | Delete]:
    return [Delete(run.key), *([Delete(run.kill_key)] if run in w.view.kills else [])]


# Records that lie in their keys


def deliver(w: Worker, record: Record, mod: int) -> None:
    """It lies in its run key at this revision: see to its delivery."""
    w.finals[record.run] = mod
    if record not in w.machine.spool:
        w.machine.spool_append(record)


def delete_final(w: Worker, run: RunId) -> Flow[None]:
    mod = w.finals.pop(run, None)
    if mod is not None:
        yield from patiently(Txn(w.name, [mod_is(run.key, mod)], _deletions(w, run)))


def delivered(w: Worker, run_id: RunId) -> None:
    """The log store has acknowledged the record."""
    w.acked.add(run_id)
    run = w.runs.get(run_id)
    if run is not None:
        run.delivered = True
        w.spawn(delete_when_free(w, run))
    elif run_id in w.finals:
        w.spawn(delete_final(w, run_id))
