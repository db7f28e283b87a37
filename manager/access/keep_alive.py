"""Keeps the sessions that are used from becoming idle: each has a lease in etcd, and goes with it."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from common.access.credentials import LoginSession
from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from manager.access.directory import Versioned

_log = logging.getLogger(__name__)

IDLE_S: Final = 1800
"""A session that is not used for so long is over."""
_EACH_S: Final = 60.0
"""How often the lease of a session in use is kept alive."""
_MOST: Final = 10_000


class Leases(Protocol):
    """What is asked of etcd."""

    async def lease_keep_alive(self, lease_id: int) -> bool: ...


class SessionKeepAlive:
    """Keeps the session of each call alive, at most once a minute; in memory, of this manager."""

    def __init__(self, etcd: Leases, *, clock: Clock) -> None:
        self._etcd = etcd
        self._clock = clock
        self._kept_at: dict[int, float] = {}
        """When the lease was last kept alive."""
        self._used: asyncio.Queue[int] = asyncio.Queue(_MOST)

    def used(self, held: Versioned[LoginSession]) -> None:
        """The session is in use."""
        now, lease = self._clock.monotonic(), held.lease
        if not lease or now - self._kept_at.get(lease, float("-inf")) < _EACH_S or self._used.full():
            return
        if len(self._kept_at) >= _MOST:
            self._kept_at = {one: at for one, at in self._kept_at.items() if now - at < _EACH_S}
        self._kept_at[lease] = now
        self._used.put_nowait(lease)

    async def run(self) -> None:
        """Keep the leases alive, for ever."""
        while True:
            lease = await self._used.get()
            try:
                await self._etcd.lease_keep_alive(lease)
            except (EtcdError, UnavailableError) as error:
                self._kept_at.pop(lease, None)  # the next use tries again
                extra = {"action": "session.not_kept", "error": str(error)}
                _log.debug("a session that is used was not kept alive: %s", error, extra=extra)
