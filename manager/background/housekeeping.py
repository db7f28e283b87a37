"""Delivers the final records that this manager wrote: into the log store, and then out of etcd.

The record of a skipped fire lies in its run key until the log store has it. Who wrote it delivers it; what this
manager does not manage (a full queue, the store away, a crash) the workers' steward delivers after 60 s. So giving up
here loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.run import RunRecord
from common.protocol.run_writes import delivered
from common.runlog import RunLog

_log = logging.getLogger(__name__)

_BATCH = 100
_QUEUE = 1_000
_TRIES = 6
_FIRST_PAUSE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A final record, and the run key that carries it."""

    record: RunRecord
    key: str
    revision: int
    """The mod revision at which we put the key: put again by another, it is no longer ours to delete."""


class Housekeeping:
    """A bounded queue of deliveries and the loop that works it off; never in a caller's way."""

    def __init__(self, etcd: EtcdClient, runlog: RunLog) -> None:
        self._etcd = etcd
        self._runlog = runlog
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue(_QUEUE)

    def deliver(self, delivery: Delivery) -> None:
        """Take it on, unless too much waits already; returns at once."""
        try:
            self._queue.put_nowait(delivery)
        except asyncio.QueueFull:
            _give_up([delivery], "too many records wait")

    async def run(self) -> None:
        """Deliver what comes, for ever."""
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            await self._deliver(batch)

    async def _deliver(self, batch: Sequence[Delivery]) -> None:
        pause_s, why = _FIRST_PAUSE_S, ""
        for _ in range(_TRIES):
            try:
                await self._write(batch)
                return
            except (EtcdError, UnavailableError) as error:
                why = str(error)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        _give_up(batch, why)

    async def _write(self, batch: Sequence[Delivery]) -> None:
        """The records, then the keys of those that the store has taken; it may be repeated as a whole."""
        result = await self._runlog.write([delivery.record for delivery in batch])
        rejected = {rejection.run_id: rejection.reason for rejection in result.rejected}
        for delivery in batch:
            if delivery.record.run_id in rejected:
                _give_up([delivery], rejected[delivery.record.run_id])
                continue
            # If we die here, the steward writes the same record again, and deletes the key.
            await self._etcd.txn(delivered(delivery.key, delivery.revision))


def _give_up(batch: Sequence[Delivery], why: str) -> None:
    _log.warning(
        "%d records are left to the steward", len(batch),
        extra={"action": "delivery.given_up", "records": len(batch), "why": why},
    )  # fmt: skip
