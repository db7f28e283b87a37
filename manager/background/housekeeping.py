"""Delivers the final records that this manager wrote: into the log store, and then out of etcd.

The record of a skipped fire lies in its run key until the log store has it. Who wrote it delivers it; what this
manager does not manage (a full queue, the store away, a crash) the workers' steward delivers after 60 s. So giving up
here loses nothing. What a record tells is in the outbox before its key goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock
from common.errors import EtcdError, ForbiddenError, UnavailableError
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.notices.events import Event, events_of, gave_up, never_began
from common.notices.wanted import Wanted
from common.protocol.run import RunRecord
from common.protocol.run_writes import delivered
from common.runlog import OutboxDocument, RunLog, outbox_documents

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

    def __init__(
        self, etcd: EtcdClient, runlog: RunLog, *, wanted: Callable[[], Wanted],
        spec_of: Callable[[str], JobSpec | None], clock: Clock,
    ) -> None:  # fmt: skip
        """``wanted``: what rules ask for. ``spec_of``: a job as it is now."""
        self._etcd = etcd
        self._runlog = runlog
        self._wanted = wanted
        self._spec_of = spec_of
        self._clock = clock
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
        made: list[OutboxDocument] | None = None
        for _ in range(_TRIES):
            try:
                stored = await self._write(batch)
                if made is None:  # made once: the same ids, however often they are sent
                    made = outbox_documents(await self._events_of(stored), self._clock.wall_ms())
                await self._tell(made)
                await self._let_go(stored)
                return
            except (EtcdError, UnavailableError) as error:
                why = str(error)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        _give_up(batch, why)

    async def _let_go(self, stored: Sequence[Delivery]) -> None:
        """Their run keys go. If we die here, the steward writes the same records again, and deletes the keys."""
        for delivery in stored:
            await self._etcd.txn(delivered(delivery.key, delivery.revision))

    async def _write(self, batch: Sequence[Delivery]) -> list[Delivery]:
        """Those whose records the store has taken; it may be repeated as a whole."""
        result = await self._runlog.write([delivery.record for delivery in batch])
        rejected = {rejection.run_id: rejection.reason for rejection in result.rejected}
        for delivery in batch:
            if delivery.record.run_id in rejected:
                _give_up([delivery], rejected[delivery.record.run_id])
        return [delivery for delivery in batch if delivery.record.run_id not in rejected]

    async def _events_of(self, stored: Sequence[Delivery]) -> list[Event]:
        before = {one.record.run_id: one.record.run_id.attempt_before for one in stored if never_began(one.record)}
        found = await self._runlog.find(before.values()) if before else {}
        events: list[Event] = []
        for record in (delivery.record for delivery in stored):
            spec = self._spec_of(record.run_id.job_name)
            if record.run_id in before:
                events.append(gave_up(record, found.get(str(before[record.run_id])), spec=spec))
            else:
                events += events_of(record, self._wanted().kinds(record.labels, spec), spec=spec)
        return events

    async def _tell(self, documents: Sequence[OutboxDocument]) -> None:
        if documents:
            try:
                await self._runlog.outbox.put(documents)
            except ForbiddenError as error:
                _log.error("nothing is told of these records: %s", error, extra={"action": "outbox.forbidden"})


def _give_up(batch: Sequence[Delivery], why: str) -> None:
    _log.warning(
        "%d records are left to the steward", len(batch),
        extra={"action": "delivery.given_up", "records": len(batch), "why": why},
    )  # fmt: skip
