"""Drains: an administrator's wish that a worker takes nothing new, kept in etcd until somebody takes it back.

The worker sees it by itself and says so under its session's key; one that is down finds it when it starts again. Only
an undrain deletes the key.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from common.clock import Clock
from common.errors import EtcdInDoubtError, NotFoundError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.drain import Drain, put
from common.protocol.keys import Keys
from common.protocol.member import is_worker_name
from common.protocol.txn import KeyValue
from manager.editing.service import pause_before_retry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain or an undrain did."""

    drain: Drain | None
    """As it is now; None: the worker is not drained."""
    changed: bool
    """False: it was so already, and nothing was written."""


class DrainService:
    """Drains and undrains; any number of managers may do so at once."""

    def __init__(self, etcd: EtcdClient, keys: Keys, *, clock: Clock, patience_s: float) -> None:
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._patience_s = patience_s

    async def drain(self, worker: str, *, by: str, reason: str | None = None) -> Drained:
        """The worker takes nothing new; what runs there goes on.

        Drained already, another reason takes the place of the old one, and it stays drained since when it was.
        NotFoundError: no such worker is live. UnavailableError: its text says whether it may have been drained.
        """
        _refuse_no_name(worker)
        now_ms = self._clock.wall_ms()

        def plan(there: KeyValue | None) -> Drain | None:
            before = None if there is None else Drain.from_json(there.value)
            if before is not None and reason in (None, before.reason):
                return before
            return Drain(by=by, since_ms=now_ms if before is None else before.since_ms, reason=reason)

        key, deadline, tries = self._keys.drain(worker), self._clock.monotonic() + self._patience_s, 0
        while True:
            there = await self._etcd.get(key)
            wanted = plan(there)
            assert wanted is not None
            if there is not None and there.value == wanted.to_json():
                return Drained(drain=wanted, changed=tries > 0)  # an earlier sending, whose answer was lost
            if there is None and not await self._etcd.count(self._keys.worker_sessions(worker)):
                raise NotFoundError(f"there is no worker {worker}: none of this name is live")
            if await self._write(worker, there, wanted, deadline):
                extra = {"action": "worker.drained", "worker": worker, "by": by, "reason": reason}
                _log.info("%s is drained by %s", worker, by, extra=extra)
                return Drained(drain=wanted, changed=True)
            tries += 1
            await pause_before_retry(tries)

    async def undrain(self, worker: str, *, by: str) -> Drained:
        """The worker takes fires again, if nothing else keeps it from that. Errors as for a drain."""
        _refuse_no_name(worker)
        key, deadline, tries = self._keys.drain(worker), self._clock.monotonic() + self._patience_s, 0
        while True:
            there = await self._etcd.get(key)
            if there is None:
                return Drained(drain=None, changed=tries > 0)  # an earlier sending, or somebody else's
            if await self._write(worker, there, None, deadline):
                extra = {"action": "worker.undrained", "worker": worker, "by": by}
                _log.info("%s is undrained by %s", worker, by, extra=extra)
                return Drained(drain=None, changed=True)
            tries += 1
            await pause_before_retry(tries)

    async def _write(self, worker: str, there: KeyValue | None, wanted: Drain | None, deadline: float) -> bool:
        """Whether it was carried out; if not, somebody was faster, or nobody knows: look again."""
        try:
            if (await self._etcd.txn(put(self._keys, worker, there, wanted))).succeeded:
                return True
            late = "others changed it all the time"
        except EtcdInDoubtError as error:
            late = f"etcd gave no answer ({error})"
        if self._clock.monotonic() > deadline:
            raise UnavailableError(f"it is not known whether {worker} is drained now: {late}. Look before you go on.")
        return False


def _refuse_no_name(worker: str) -> None:
    if not is_worker_name(worker):
        raise NotFoundError(f"there is no worker {worker[:80]!r}: it is no worker's name")
