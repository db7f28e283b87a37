"""The steward's comparison of clocks as this process has read it last, and whether it is still worth anything."""

from __future__ import annotations

import logging
from typing import Final

from common.clock import Clock
from common.protocol.clocks import Clocks
from common.protocol.txn import KeyValue

_log = logging.getLogger(__name__)

STALE_S: Final = 30.0
"""A comparison that has not been written anew for so long says nothing any more."""


class ClocksRead:
    """Fresh as long as its mod revision moves, by our own monotonic clock: a time inside would be one more clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._revision = 0
        self._fresh_s = clock.monotonic()
        self.newest: Clocks | None = None
        """However old; None: none was read."""

    @property
    def fresh(self) -> Clocks | None:
        """The newest comparison; None: there has been none for 30 s."""
        return self.newest if self._clock.monotonic() - self._fresh_s <= STALE_S else None

    def take(self, kv: KeyValue | None) -> None:
        """What etcd holds now."""
        if kv is None or kv.mod_revision == self._revision:
            return
        self._revision = kv.mod_revision
        try:
            self.newest = Clocks.from_json(kv.value)
        except ValueError as error:
            extra = {"action": "clocks.set_aside", "key": kv.key}
            _log.warning("the comparison of clocks in %r is set aside: %s", kv.key, error, extra=extra)
        else:
            self._fresh_s = self._clock.monotonic()

    def unread(self) -> None:
        """etcd did not answer, so nobody knows how old it is: the 30 s begin with the next answer."""
        self._fresh_s = self._clock.monotonic()
