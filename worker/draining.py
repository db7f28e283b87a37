"""Whether this worker is drained: its key under ``drains/`` is watched, and the worker is given each change, in order.

taking --key put--> drained (who, why) --key deleted--> taking

The key is under no lease: a worker that starts again, or an etcd that does, finds it as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from common.clock import Clock
from common.etcd import Change, EtcdClient, Mirror
from common.protocol.drain import Drain
from common.protocol.keys import Keys


class DrainWatch:
    """Announces that the worker is drained, why, and that it is not any more."""

    def __init__(
        self,
        client: EtcdClient,
        keys: Keys,
        *,
        worker: str,
        announce: Callable[[Drain | None], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """``announce`` is given the drain, or None once it is over; never twice the same."""
        self._key = keys.drain(worker)
        self._announce = announce
        self._announced: Drain | None = None
        self._changed = asyncio.Event()
        self.drain: Drain | None = None
        """As etcd has it, as far as is known."""
        self.mirror = Mirror(client, self._key, self._on_changes, clock=clock)

    async def run(self) -> None:
        """Announces until cancelled; the mirror runs beside it."""
        while True:
            self._changed.clear()
            if self.drain != self._announced:
                self._announced = self.drain
                await self._announce(self._announced)
                continue
            await self._changed.wait()

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.key == self._key:  # others begin with it: worker-1, worker-10
                self.drain = None if change.new is None else Drain.from_json(change.new.value)
        self._changed.set()
