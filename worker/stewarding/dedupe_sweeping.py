"""The steward forgets calls that are remembered no longer: dedupe keys and idempotency keys past their time."""

from __future__ import annotations

from typing import Final

from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol import sweeps
from common.protocol.keys import Keys
from common.protocol.remembered import Remembered
from common.protocol.txn import KeyValue
from worker.aside import Aside
from worker.stewarding.steward import Term

MARGIN_MS: Final = 60_000
"""Managers' clocks differ, and a call in doubt looks for its own key a little longer than it is asked to."""
_IN_ONE: Final = 60
_REST: Final = 100
"""How many times as long as it took, it rests: the more there is, the rarer."""


class DedupeSweeping:
    """Deletes what has expired, a minute late."""

    name = "sweeping dedupe keys"
    every_s = 60.0

    def __init__(self, *, client: EtcdClient, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._aside = Aside("dedupe key")
        self._not_before = float("-inf")

    def begin(self) -> None:
        self._not_before = float("-inf")

    def end(self) -> None:
        self._not_before = float("-inf")

    async def perform(self, term: Term) -> None:
        began = self._clock.monotonic()
        if began < self._not_before:
            return
        async for page in self._client.read_prefix(self._keys.dedupe):
            await self._delete(term, [kv for kv in page.kvs if self._is_over(kv)])
        self._not_before = began + _REST * (self._clock.monotonic() - began)

    def _is_over(self, kv: KeyValue) -> bool:
        try:
            return Remembered.from_json(kv.value).is_over(self._clock.wall_ms() - MARGIN_MS)
        except ValueError as error:
            self._aside.add(kv.key, kv.mod_revision, error)
            return False

    async def _delete(self, term: Term, kvs: list[KeyValue]) -> None:
        """Together; where one of them has been put again meanwhile, the others wait for the next time."""
        for start in range(0, len(kvs), _IN_ONE):
            batch = kvs[start : start + _IN_ONE]
            await self._client.txn(sweeps.delete_unchanged(*batch, guards=term.holds))
