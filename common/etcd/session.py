"""The session: one lease, one key under it, and what the owner may rely on while it lasts.

Ownership is a comparison, not a belief: `session.alive` goes into every transaction of the owner, and is false as
soon as the key is gone or detached from the lease, whatever this process thinks at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Self

from common.clock import Clock
from common.errors import ConflictError, EtcdError, EtcdLeaseGoneError, UnavailableError
from common.etcd import _rpc
from common.etcd.calls import Stream
from common.etcd.client import EtcdClient
from common.etcd.settle import Bears, Patience, answered
from common.etcd.types import Lease
from common.protocol.compares import Compare, absent, lease_is, mod_revision_is
from common.protocol.txn import Get, GetPrefix, KeyValue, Operation, Put, Txn

_log = logging.getLogger(__name__)

KEEP_ALIVES_PER_TTL = 4
"""Each is waited for as long as it is to the next: two in a row may be lost, and keep-alive x 3 < ttl holds."""
_RETRY_S = 0.2
"""The pause after a keep-alive that was not confirmed."""


class SessionRefusedError(ConflictError):
    """The session was not opened: what was to be true when its key was put was not. `found` holds what was there."""

    def __init__(self, message: str, *, found: tuple[KeyValue, ...]) -> None:
        super().__init__(message)
        self.found = found
        """The keys that the caller's compares are about, as they were."""


class SessionEnd(Enum):
    """How a session ended: by etcd's own word or its owner's, never by silence."""

    LEASE_GONE = "the lease is gone"
    KEY_GONE = "the session key is gone"
    KEY_TAKEN = "the session key was made again by somebody else"
    CLOSED = "closed by its owner"


class Session:
    """A lease kept alive, and a key attached to it; open it, then run it in the owner's task group.

    It is over when etcd says so: the lease or the key is gone. While etcd is silent it is *unconfirmed*: `healthy`
    turns false after a TTL without confirmation, `ended` does not, because only etcd knows, and a transaction that
    is still on its way could yet succeed. The owner decides nothing then, and goes on when it is healthy again.
    """

    def __init__(self, client: EtcdClient, *, lease: Lease, key: str, value: bytes, clock: Clock) -> None:
        """Use `Session.open`."""
        self._client = client
        self._clock = clock
        self._value = value
        self._stream: Stream | None = None
        self._writing = asyncio.Lock()  # of new values, each after the one before
        self._missing = False  # whether the last keep-alive was not answered
        self._woken = asyncio.Event()  # once it has ended, or is to be confirmed
        self.lease_id = lease.id
        self.id = f"{lease.id:x}"
        """The lease's id in hex, as in the key's name."""
        self.ttl_s = lease.ttl_s
        """The TTL that etcd granted."""
        self.key = key
        self.incarnation = 0
        """The create revision of the session's key: no other session ever has the same."""
        self.confirmed_boottime = clock.boottime()
        """The boot clock when the newest confirmed keep-alive was *sent*: at that time, or later, the key existed."""
        self.ended = asyncio.Event()
        """Set once the session is over, for good."""
        self.how_ended: SessionEnd | None = None
        """How it ended."""

    @classmethod
    async def open(
        cls,
        client: EtcdClient,
        *,
        key_of: Callable[[str], str],
        value: bytes,
        ttl: int,
        clock: Clock,
        compares: Sequence[Compare] = (),
        operations: Sequence[Operation] = (),
    ) -> Self:
        """A session whose key exists: put in one transaction with `operations`, where all `compares` were true.

        `key_of` gives the key's name from the lease's id in hex; `ttl` is in seconds. SessionRefusedError: a compare
        was false; nothing is left behind. UnavailableError, EtcdError: etcd could not be asked, or gave no answer
        for a TTL; what may be left expires by itself.
        """
        lease = await client.lease_grant(ttl)
        session = cls(client, lease=lease, key=key_of(f"{lease.id:x}"), value=value, clock=clock)
        try:
            await session._put_first(compares, operations)
        except BaseException:
            await session._revoke_quietly()
            raise
        return session

    @property
    def alive(self) -> Compare:
        """True in etcd exactly while this session lasts; belongs into every transaction of its owner."""
        return lease_is(self.key, self.lease_id)

    @property
    def silent_s(self) -> float:
        """Seconds since the newest confirmed keep-alive was sent, counting suspension."""
        return self._clock.boottime() - self.confirmed_boottime

    @property
    def healthy(self) -> bool:
        """Whether it was confirmed within its TTL and has not ended: worth deciding something under it."""
        return not self.ended.is_set() and not self.expired

    @property
    def expired(self) -> bool:
        """Whether a TTL has passed without confirmation: the lease *may* be gone."""
        return self.silent_s >= self.ttl_s

    def confirm_soon(self) -> None:
        """Does not wait for the next keep-alive: time may have passed that no clock of this machine has counted."""
        self._woken.set()

    async def run(self) -> None:
        """Keeps the session alive; returns when it is over (see `how_ended`)."""
        try:
            while not self.ended.is_set():
                confirmed = await self._keep_alive()
                left_s = self.ttl_s / KEEP_ALIVES_PER_TTL - self.silent_s if confirmed else 0
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(left_s, _RETRY_S)):
                        await self._woken.wait()
                self._woken.clear()
        finally:
            self._drop_stream()

    async def update_value(self, value: bytes) -> bool:
        """Puts a new value under the session's key; False: the session is over. In doubt: call it again."""
        async with self._writing:
            self._value = value  # also what a detached key is put with from now on
            result = await self._client.txn(Txn([self.alive], [Put(self.key, value, self.lease_id)]))
        return result.succeeded

    async def close(self) -> None:
        """Ends the session: its lease and every key under it go, at the latest when the TTL is over."""
        if not self.ended.is_set():
            self._end(SessionEnd.CLOSED)
            await self._revoke_quietly()

    # Opening

    async def _put_first(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
        guards = [absent(self.key), *compares]
        then = [Put(self.key, self._value, self.lease_id), *operations]
        otherwise: list[Operation] = [Get(self.key)]
        otherwise += [GetPrefix(c.key, limit=10) if c.prefix else Get(c.key) for c in dict.fromkeys(compares)]
        sent_boottime = self._clock.boottime()
        # For as long as the lease may live.
        patience = Patience(bears=Bears.ABSENCE, pause_s=lambda _: _RETRY_S, is_over=lambda: self.expired)
        result = await answered(partial(self._client.txn, Txn(guards, then, otherwise)), patience)
        if result.succeeded:
            self.incarnation = result.revision
        elif (mine := result.one(0)) is not None and mine.lease == self.lease_id:
            self.incarnation = mine.create_revision  # an earlier sending, in doubt, had been carried out
        else:
            found = {kv.key: kv for index in range(len(otherwise)) for kv in result.kvs(index)}
            names = ", ".join(found) or "nothing"
            message = f"the session {self.key} was not opened: its conditions do not hold (found: {names})"
            raise SessionRefusedError(message, found=tuple(found.values()))
        self.confirmed_boottime = sent_boottime
        extra = {"action": "session.opened", "key": self.key, "incarnation": self.incarnation}
        _log.info("session %s opened", self.key, extra=extra)

    # Living

    async def _keep_alive(self) -> bool:
        """One keep-alive and one look at the key; whether both confirmed the session."""
        sent_boottime = self._clock.boottime()
        try:
            if not await self._lease_kept():
                self._end(SessionEnd.LEASE_GONE)
                return False
            if not await self._key_attached():
                return False
        except EtcdLeaseGoneError:
            self._end(SessionEnd.LEASE_GONE)
            return False
        except (UnavailableError, EtcdError) as error:
            level = logging.DEBUG if self._missing else logging.WARNING  # one line for each change of state
            self._missing = True
            extra = {"action": "session.unconfirmed", "key": self.key, "silent_s": round(self.silent_s, 1)}
            _log.log(level, "session %s is not confirmed: %s", self.key, error, extra=extra)
            return False
        if self._missing:
            self._missing = False
            extra = {"action": "session.confirmed", "key": self.key, "silent_s": round(self.silent_s, 1)}
            _log.info("session %s is confirmed again after %.1f s", self.key, self.silent_s, extra=extra)
        self.confirmed_boottime = max(self.confirmed_boottime, sent_boottime)
        return True

    async def _lease_kept(self) -> bool:
        """Whether the lease still exists; if so, it has its full TTL again."""
        if self._stream is None:
            self._stream = await self._client.keep_alive_stream()
        request = _rpc.messages.LeaseKeepAliveRequest(ID=self.lease_id)
        timeout_s = min(self._client.timeout_s, self.ttl_s / KEEP_ALIVES_PER_TTL)
        try:
            answer = await self._stream.exchange(request, timeout_s=timeout_s)
        except BaseException:
            self._drop_stream()
            raise
        return bool(answer.TTL > 0)

    async def _key_attached(self) -> bool:
        """Whether the session's key is there and under the lease; a detached one is put again first.

        Asked for half a TTL at most: the lease must not end because the next keep-alive waits for the answer.
        """
        kv = await self._client.get(self.key, within_s=self.ttl_s / 2)
        if kv is None:
            self._end(SessionEnd.KEY_GONE)
        elif kv.create_revision != self.incarnation:
            self._end(SessionEnd.KEY_TAKEN)
        elif kv.lease == self.lease_id:
            return True
        else:
            extra = {"action": "session.detached", "key": self.key}
            _log.warning("session key %s was detached from its lease; it is put again", self.key, extra=extra)
            compare = mod_revision_is(self.key, kv.mod_revision)
            result = await self._client.txn(Txn([compare], [Put(self.key, self._value, self.lease_id)]))
            return result.succeeded
        return False

    # Ending

    def _end(self, end: SessionEnd) -> None:
        if not self.ended.is_set():
            self.how_ended = end
            self.ended.set()
            self._woken.set()
            extra = {"action": "session.ended", "key": self.key, "ending": end.name.lower()}
            level = logging.INFO if end is SessionEnd.CLOSED else logging.WARNING
            _log.log(level, "session %s is over: %s", self.key, end.value, extra=extra)

    def _drop_stream(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    async def _revoke_quietly(self) -> None:
        try:
            await self._client.lease_revoke(self.lease_id)
        except (UnavailableError, EtcdError) as error:
            extra = {"action": "session.revoke_failed", "key": self.key}
            _log.warning("lease %s was not revoked, it expires by itself: %s", self.id, error, extra=extra)
