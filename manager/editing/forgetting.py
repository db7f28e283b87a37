"""Forgetting a worker that was here and will not come back: nothing is said of it any more."""

from __future__ import annotations

import logging

from common.errors import ConflictError, NotFoundError
from common.etcd import EtcdClient
from common.protocol import roster
from common.protocol.keys import Keys
from common.protocol.member import is_worker_name

_log = logging.getLogger(__name__)


async def forget(etcd: EtcdClient, keys: Keys, worker: str, *, by: str) -> None:
    """Deletes what is remembered of it. NotFoundError: nothing is; ConflictError: it is live."""
    unknown = NotFoundError(f"there is no worker {worker[:80]!r}: none of this name is remembered")
    if not is_worker_name(worker):
        raise unknown
    result = await etcd.txn(roster.forget(keys, worker))
    if result.succeeded:
        _log.info("%s is forgotten", worker, extra={"action": "worker.forgotten", "worker": worker, "by": by})
        return
    if result.key(0) is None and not await etcd.count(keys.worker_sessions(worker)):
        raise unknown
    raise ConflictError(f"{worker} is live: stop it first, then forget it")
