"""Locks that something waits for: one batched read a second tells all who wait, however many they are.

The worker that frees a lock tries at once; this is for locks that others free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Final, Protocol

from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.txn import KeyValue

LOOK_AT_LOCKS_S: Final = 1.0


class LockWaiter(Protocol):
    """A queue, some of which waits for locks."""

    def waits_for_locks(self) -> Collection[str]:
        """By what they go by: the job, or a worker's own sequence of a broadcast job."""

    async def locks_read(self, sequences: Collection[str], held: Mapping[str, KeyValue]) -> None:
        """Those of these locks that are held. EtcdError, UnavailableError: it looks again with the next read."""


class LockWatch:
    """Reads while something waits."""

    def __init__(self, client: EtcdClient, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._waiters: list[LockWaiter] = []
        self._some = asyncio.Event()

    def add(self, waiter: LockWaiter) -> None:
        """Have it told from now on."""
        self._waiters.append(waiter)

    def wake(self) -> None:
        """Something waits."""
        self._some.set()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is read."""
        return not self._some.is_set()

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            await self._some.wait()
            await asyncio.sleep(LOOK_AT_LOCKS_S)
            with suppress(EtcdError, UnavailableError):  # whoever decides finds out as well
                await self.look()

    async def look(self) -> None:
        """One read for all, and each is told."""
        wanted = [(waiter, waiter.waits_for_locks()) for waiter in self._waiters]
        sequence_of = {self._keys.lock(sequence): sequence for _, sequences in wanted for sequence in sequences}
        if not sequence_of:
            self._some.clear()
            return
        held = {sequence_of[key]: kv for key, kv in (await self._client.get_many(list(sequence_of))).items()}
        for waiter, sequences in wanted:
            if sequences:
                with suppress(EtcdError, UnavailableError):
                    await waiter.locks_read(sequences, held)
