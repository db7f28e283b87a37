"""Looks at what a run prints, ``tails/<worker>/<job>/<plan>/<attempt>/<manager>``: while one is there, the worker sends
the run's output to the log store.

A key is its manager's alone: both transactions may be sent again and again. Pure: its neighbours.
"""

from __future__ import annotations

import json

from common.protocol.keys import Keys, RunId
from common.protocol.txn import Delete, Owner, Put, Txn
from common.protocol.values import MALFORMED


def put(keys: Keys, worker: str, run: RunId, manager: str, owner: Owner, *, is_short: bool) -> Txn:
    """A user looks at the run through this manager, for as long as its session lasts at most; ``is_short``: at the last
    lines alone. Refused: the session is over."""
    value = b'{"short":true}' if is_short else b"{}"
    return Txn([owner.alive], [Put(keys.tail(worker, run, manager), value, owner.lease_id)])


def is_short(value: bytes) -> bool:
    """Whether they look at the last lines alone."""
    try:
        return json.loads(value).get("short") is True
    except MALFORMED:
        return False


def remove(keys: Keys, worker: str, run: RunId, manager: str) -> Txn:
    """No user of this manager does any more."""
    return Txn([], [Delete(keys.tail(worker, run, manager))])
