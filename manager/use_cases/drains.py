"""Drains: an administrator's wish that a worker takes nothing new, kept in etcd until an administrator takes it back.

The worker sees it by itself and says so under its session's key; one that is down finds it when it starts again. Only
an undrain deletes the key.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial

from common.access.rights import Rights, Role
from common.clock import Clock
from common.errors import ConflictError, NotFoundError, OvertakenError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, Settled, growing_pause_s, settle
from common.protocol import record_edits, roster
from common.protocol.drain import Drain
from common.protocol.keys import Keys
from common.protocol.member import is_worker_name
from common.protocol.txn import KeyValue
from manager.use_cases.records import OVERTAKEN

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What a drain or an undrain did."""

    drain: Drain | None
    """As it is now; None: the worker is not drained."""
    changed: bool
    """False: it was so already, and nothing was written."""


class DrainService:
    """Drains, undrains and forgets workers; any number of managers may do so at once."""

    def __init__(self, etcd: EtcdClient, keys: Keys, *, clock: Clock, patience_s: float) -> None:
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._patience_s = patience_s

    async def drain(self, worker: str, *, by: str, rights: Rights, reason: str | None = None) -> Drained:
        """The worker takes nothing new; what runs there goes on.

        Drained already, another reason takes the place of the old one, and it stays drained since when it was.
        NotFoundError: no such worker is live. UnavailableError: its text says whether it may have been drained.
        """
        rights.check_everywhere(Role.ADMIN)
        _refuse_no_name(worker)
        now_ms = self._clock.wall_ms()
        key, deadline, tries = self._keys.drain(worker), self._clock.monotonic() + self._patience_s, 0
        while True:
            there = await self._etcd.get(key)
            before = wanted = None if there is None else Drain.from_json(there.value)
            if wanted is None or reason not in (None, wanted.reason):
                wanted = Drain(by=by, since_ms=now_ms if before is None else before.since_ms, reason=reason)
            if there is not None and there.value == wanted.to_json():
                return Drained(drain=wanted, changed=False)
            if there is None and not await self._etcd.count(self._keys.worker_sessions(worker)):
                raise NotFoundError(f"there is no worker {worker}: none of this name is live")
            if (await self._write(worker, there, wanted, deadline)).done:
                extra = {"action": "worker.drained", "worker": worker, "by": by, "reason": reason}
                _log.info("%s is drained by %s", worker, by, extra=extra)
                return Drained(drain=wanted, changed=True)
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    async def undrain(self, worker: str, *, by: str, rights: Rights) -> Drained:
        """The worker takes fires again, if nothing else keeps it from that. Errors as for a drain."""
        rights.check_everywhere(Role.ADMIN)
        _refuse_no_name(worker)
        key, deadline, tries = self._keys.drain(worker), self._clock.monotonic() + self._patience_s, 0
        while True:
            there = await self._etcd.get(key)
            if there is None:
                return Drained(drain=None, changed=False)
            settled = await self._write(worker, there, None, deadline)
            if settled.done:
                extra = {"action": "worker.undrained", "worker": worker, "by": by}
                _log.info("%s is undrained by %s", worker, by, extra=extra)
                now = None if settled.answer.succeeded else settled.answer.one(0)  # drained again meanwhile
                return Drained(drain=None if now is None else Drain.from_json(now.value), changed=True)
            tries += 1
            await asyncio.sleep(growing_pause_s(tries))

    async def _write(self, worker: str, there: KeyValue | None, wanted: Drain | None, deadline: float) -> Settled:
        """Where it was not carried out, another call was faster: look again."""

        def in_doubt(error: Exception) -> str:
            why = f"etcd gave no answer ({error})"
            return f"it is not known whether {worker} is drained now: {why}. Look before you go on."

        value = None if wanted is None else wanted.to_json()
        txn = record_edits.put(self._keys.drain(worker), there, value)
        patience = Patience.until(deadline, self._clock, in_doubt)
        settled = await settle(self._etcd, self._clock, txn, patience, partial(record_edits.earlier, txn, there, value))
        if not settled.done and self._clock.monotonic() > deadline:
            raise OvertakenError(OVERTAKEN)
        return settled

    async def forget(self, worker: str, *, by: str, rights: Rights) -> None:
        """Nothing is kept any more of a worker that will not come back. NotFoundError: nothing is; ConflictError: it is
        live. UnsettledError: it may have been forgotten."""
        rights.check_everywhere(Role.ADMIN)
        unknown = NotFoundError(f"there is no worker {worker[:80]!r}: none of this name is remembered")
        if not is_worker_name(worker):
            raise unknown

        def in_doubt(error: Exception) -> str:
            return f"{worker} may or may not have been forgotten: etcd gave no answer. Look before you go on. ({error})"

        patience = Patience.until(self._clock.monotonic() + self._patience_s, self._clock, in_doubt)
        txn = roster.forget(self._keys, worker)
        settled = await settle(self._etcd, self._clock, txn, patience, roster.forgotten_earlier)
        if not settled.done:
            if settled.answer.key(0) is None and not await self._etcd.count(self._keys.worker_sessions(worker)):
                raise unknown
            raise ConflictError(f"{worker} is live: stop it first, then forget it")
        _log.info("%s is forgotten", worker, extra={"action": "worker.forgotten", "worker": worker, "by": by})


def _refuse_no_name(worker: str) -> None:
    if not is_worker_name(worker):
        raise NotFoundError(f"there is no worker {worker[:80]!r}: it is no worker's name")
