"""What keeps etcd tidy: what is of no use any more goes.

The steward's deletions compare what each was found by; ``guards``: its session and leadership. A manager deletes old
versions without a compare: a version never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.protocol.compares import absent, create_revision_is, mod_revision_is, none_under, value_is
from common.protocol.keys import Keys, Watched
from common.protocol.kill import Kill
from common.protocol.txn import Delete, Guards, KeyValue, Put, Txn


def kill(keys: Keys, old: Kill, *, guards: Guards) -> Txn:
    """Of a run that is settled: it has neither a run key nor a request."""
    key = keys.kill(old.run_id)
    compares = [
        *guards,
        absent(keys.run(old.run_id)),
        absent(keys.request(old.run_id)),
        create_revision_is(key, old.revision),
    ]
    return Txn(compares, [Delete(key), Put(keys.seen(Watched.KILLS), b"")])


def lock(orphan: KeyValue, *, guards: Guards) -> Txn:
    """Whose run key is gone. Whatever comes to hold the lock makes it anew: this one, by its create revision, stays an
    orphan."""
    return Txn([*guards, create_revision_is(orphan.key, orphan.create_revision)], [Delete(orphan.key)])


def delete_unchanged(*kvs: KeyValue, guards: Guards = ()) -> Txn:
    """Keys that are of no use as they are; all or none."""
    return Txn([*guards, *(mod_revision_is(kv.key, kv.mod_revision) for kv in kvs)], [Delete(kv.key) for kv in kvs])


def dead_session(key: str, revision: int) -> Txn:
    """A session's key under no lease, which would bar its name for ever; a worker of that name deletes it."""
    return Txn([mod_revision_is(key, revision)], [Delete(key)])


def mark_of_no_job(keys: Keys, mark: KeyValue, job: str, *, guards: Guards) -> Txn:
    """While there is no such job, and the mark has not moved."""
    return Txn([*guards, absent(keys.job(job)), value_is(mark.key, mark.value)], [Delete(mark.key)])


def mark_of_no_worker(keys: Keys, mark: KeyValue, worker: str, *, guards: Guards) -> Txn:
    """Of a worker's own sequence, while it is away.

    A worker moves the mark of its own sequence to now when it starts, so while it is away the mark says nothing.
    """
    away = none_under(keys.worker_sessions(worker))
    return Txn([*guards, away, value_is(mark.key, mark.value)], [Delete(mark.key)])


def missed_something(keys: Keys, watched: Watched, *, guards: Guards) -> Txn:
    """The sentinel: those that watch the prefix read all of it again."""
    return Txn(guards, [Put(keys.seen(watched), b"")])


def old_versions(kvs: Sequence[KeyValue]) -> Txn:
    """Former specs that a later one makes needless."""
    return Txn([], [Delete(kv.key) for kv in kvs])
