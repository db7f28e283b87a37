"""What makes and ends sessions and tokens: each stands on a record that is still as it was read.

    if   each record that it stands on is as it was read     a user, or the one-time link that is used up
    and  sessions/S (or tokens/T) is not there
    then sessions/S = the session, under its lease           and what goes with it: the link is deleted, the user has
                                                             another password, sessions of before are over

So no user logs in with a password that was changed a moment ago, and a link works once however many use it at a time.

Pure: functions of what etcd held.
"""

from __future__ import annotations

from collections.abc import Sequence

from common.protocol.compares import absent, create_revision_is, mod_revision_is
from common.protocol.txn import Delete, Earlier, Fate, Get, Put, Txn, TxnResult


def open_session(
    session: Put, *, stands_on: Sequence[tuple[str, int]], puts: Sequence[Put] = (), deletes: Sequence[str] = ()
) -> Txn:
    """``stands_on``: keys with the revision of their last change, 0: not there. Refused, it reads the session's key."""
    compares = [absent(session.key), *(mod_revision_is(key, revision) for key, revision in stands_on)]
    return Txn(compares, [session, *puts, *map(Delete, deletes)], [Get(session.key)])


def make_token(token: Put, *, owner: tuple[str, int], new_owner: Put | None = None) -> Txn:
    """``owner``: the key of whose it is, with the revision at which it was made. ``new_owner``: who has no record yet
    gets one with it. Refused, it reads the token's key."""
    compares = [absent(token.key), create_revision_is(*owner)]
    return Txn(compares, [token] if new_owner is None else [token, new_owner], [Get(token.key)])


def earlier(txn: Txn, refusal: TxnResult) -> Earlier:
    """What became of an earlier sending of one of these. Others do not know the key, and what the transaction stands on
    does not become again what it was."""
    now = refusal.one(0)
    return now.mod_revision if now is not None and txn.has_put(now) else Fate.NEVER


def end(keys: Sequence[str]) -> Txn:
    """Sessions and tokens that are over, even if others end them at the same time. Its results: how many of each were
    there."""
    return Txn([], [Delete(key) for key in keys])


def sweep_token(key: str, revision: int) -> Txn:
    """A token that expired long ago, as it was read."""
    return Txn([mod_revision_is(key, revision)], [Delete(key)])
