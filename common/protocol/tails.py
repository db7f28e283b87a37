"""Looks at what a run prints, ``tails/<worker>/<job>/<plan>/<attempt>/<manager>``: while one is there, the worker sends
the run's output to the log store.

A key is its manager's alone: both transactions may be sent again and again. Pure: its neighbours.
"""

from __future__ import annotations

from common.protocol.keys import Keys, RunId
from common.protocol.txn import Delete, Owner, Put, Txn


def look(keys: Keys, worker: str, run: RunId, manager: str, owner: Owner) -> Txn:
    """Somebody looks at the run through this manager, for as long as its session lasts at most. Refused: that is
    over."""
    return Txn([owner.alive], [Put(keys.tail(worker, run, manager), b"{}", owner.lease_id)])


def look_away(keys: Keys, worker: str, run: RunId, manager: str) -> Txn:
    """Nobody does any more."""
    return Txn([], [Delete(keys.tail(worker, run, manager))])
