"""What changes a record that managers keep: one in each transaction, in place of what was read.

    if   mod_revision(channels/C) is what was read     it has not changed meanwhile
    [and each channel that a rule names is there]       the rule leads somewhere
    [and no rule was written since they were read]      none of them names the channel that goes
    then channels/C = the new record (or delete it)

Pure: functions of what etcd held. Source: ``docs/internals/protocol.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from common.protocol.compares import mod_revision_is, none_under_since, present, unchanged
from common.protocol.keys import Keys
from common.protocol.txn import Delete, Earlier, Fate, Get, Guards, KeyValue, Put, Txn, TxnResult


def put(key: str, there: KeyValue | None, value: bytes | None, guards: Guards = ()) -> Txn:
    """In place of what was read; None: it is deleted. Refused, it reads what is there instead."""
    return Txn([unchanged(key, there), *guards], [Delete(key) if value is None else Put(key, value)], [Get(key)])


def earlier(txn: Txn, there: KeyValue | None, value: bytes | None, refusal: TxnResult) -> Earlier:
    """What became of an earlier sending."""
    now = refusal.one(0)
    if now is not None and there is not None and now.mod_revision == there.mod_revision:
        return Fate.NEVER  # untouched; a guard is false, and none of them becomes true again
    if value is not None:
        return now.mod_revision if now is not None and txn.has_put(now) else Fate.UNKNOWN
    is_same = now is not None and there is not None and now.create_revision == there.create_revision
    return Fate.NEVER if is_same else 0


def channels_are_there(keys: Keys, channels: Iterable[str]) -> Guards:
    """What a rule leads to."""
    return tuple(present(keys.channel(channel)) for channel in channels)


def none_written(prefix: str, revision: int) -> Guards:
    """No record of this kind was written since all of them were read: what held for all of them then, holds."""
    return (none_under_since(prefix, revision),)


def sweep_as_read(kvs: Sequence[KeyValue]) -> Txn:
    """Silences that are over: gone, where no other was put in place of one. Sent twice, it does no harm."""
    return Txn([mod_revision_is(kv.key, kv.mod_revision) for kv in kvs], [Delete(kv.key) for kv in kvs])
