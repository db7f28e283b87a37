"""Delivery: every record in the spool comes to the log store, in batches, however often the log store goes away.

    wait until something is there  ->  write a batch to the log  ->  say so  ->  last results, acknowledge the spool
              ^                                                        |  more full batches: those first       |
              '--------------------------------------------------------'---------------------------------------'

The spool is acknowledged up to where the outbox has what the records tell, which it does beside all this.

When a batch is due, ``worker/pacing.py`` says. What an outage has left is caught up with at a quarter of the speed
that there is: the log store and this process have fires to see to; and faster where so much comes meanwhile that it
would never end. If we die anywhere in between, what the spool does not know as delivered is written again; that changes
nothing.

Records that the log store takes in no form go to a file of limited size, for a person to look at. The log store's
indexes are made as soon as it is there; nothing waits for that.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from common.clock import Clock
from common.errors import UnavailableError
from common.process import failpoints
from common.process.disk import sync_directory
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import Advance, OwedResults, Rejection, RunLog, WriteResult
from worker.pacing import RecordPace
from worker.record.spool import CACHE_BYTES, Spool, SpoolError

_log = logging.getLogger(__name__)

_RETRY_S: Final = 5.0


async def prepare_log_store(runlog: RunLog) -> None:
    """Prepares it once, and goes on for ever, as a loop of the process does."""
    is_logged = False
    while True:
        try:
            await runlog.prepare()
            break
        except UnavailableError as error:
            if not is_logged:
                _log.warning("the log store is away: %s", error, extra={"action": "log_store.away"})
        is_logged = True
        await asyncio.sleep(_RETRY_S)
    await asyncio.Event().wait()


REJECTED: Final = "rejected.jsonl"
BEFORE: Final = "rejected.1.jsonl"
"""Where a file goes that has reached its limit; the one before it is removed."""
LIMIT_BYTES: Final = 128 * 1024**2
"""A log store that takes nothing at all, because of a rule of its own, is not to fill the worker's disk."""


def set_aside(directory: Path, refused: Iterable[tuple[RunRecord, str]], *, limit_bytes: int = LIMIT_BYTES) -> None:
    """The records, each with the store's reason, are on the disk in ``rejected.jsonl``; OSError where not."""
    lines = [json.dumps({"reason": reason, "record": record.to_document()}) for record, reason in refused]
    path = directory / REJECTED
    if path.exists() and path.stat().st_size >= limit_bytes:
        path.replace(directory / BEFORE)
    is_new = not path.exists()
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            data = "".join(f"{line}\n" for line in lines).encode("ascii")
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
            if is_new:
                sync_directory(directory)
        except OSError:
            file.truncate(before)  # it is tried again: no half lines, and none twice
            raise


BIGGEST_BATCH = 500
"""When more is waiting than a batch."""
CATCH_UP_BATCH = 200
"""When it is an outage that has left it: the records are read back from the disk, in between those that are written."""
_OWED_LIMIT = 10_000
_OWED_A_JOB = 20
_WORTH_SETTLING = 1_000
"""While more is waiting, the jobs' last results are written once 20 records for each of them are in the log (and 1,000
in all), or 10,000 in all; else when it is over."""
_RECORDS_AT_ONCE = 100
"""Of what the loop is held for; then fires that are due have their turn."""
_REST = 3.0
_LONGEST_REST_SECONDS = 2.0
"""After a batch of what an outage has left: three times as long as the batch took, at most so long."""
_AHEAD = CATCH_UP_BATCH // 2
"""Records that have to be fewer than at the last rest before there is another."""
_MUCH_BYTES = CACHE_BYTES // 2
_LOOK_AGAIN_SECONDS = 0.25
"""While records wait: no event shows that no fire waits for a slot any more."""
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0


class RecordStore(Protocol):
    """What delivery asks of the log store: see `common.runlog.RunLog`."""

    async def write(self, records: Sequence[RunRecord], *, advance_last: bool = True) -> WriteResult: ...

    async def put_last(self, advances: Iterable[Advance]) -> None: ...


class EventSink(Protocol):
    """See `worker.record.outbox_writer.OutboxWriter`."""

    up_to: int

    @property
    def is_full(self) -> bool: ...

    def add(self, records: Sequence[RunRecord], up_to: int) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryState:
    """How delivery is doing, for the beat, the console and the metrics."""

    away_since_ms: int | None
    """Wall clock of the first failure since the last success; None: all is well."""
    last_error: str | None
    """Of the outage under way; holds no password."""
    waiting: int
    """Records in the spool that are not acknowledged."""
    delivered: int
    """Records since the start, those set aside included."""
    set_aside: int
    """Records since the start that the log store took in no form."""

    @property
    def healthy(self) -> bool:
        return self.away_since_ms is None


class Delivery:
    """The one writer of a worker's records. `run` belongs into the owner's TaskGroup."""

    def __init__(
        self, spool: Spool, runlog: RecordStore, outbox: EventSink, *,
        batch_size: int = 100, commit_timeout_ms: int = 1000, clock: Clock,
        on_delivered: Callable[[list[RunId]], None], is_pressed: Callable[[], bool] = lambda: False,
        jitter: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        """``on_delivered`` hears of every record once the log store has it (or it was set aside); maybe repeatedly.
        ``is_pressed``: whether due fires wait for slots."""
        self._spool = spool
        self._runlog = runlog
        self._outbox = outbox
        self._batch_size = batch_size
        self._clock = clock
        self._pace = RecordPace(
            batch_size=batch_size, commit_timeout_ms=commit_timeout_ms, fires_wait=is_pressed,
            has_room=self._has_room, clock=clock,
        )  # fmt: skip
        self._on_delivered = on_delivered
        self._jitter = jitter
        self._written = spool.cursor
        """Up to here all is in the log."""
        self._settled = spool.cursor
        """Up to here the last results are there, too. The spool's cursor stays behind until what it tells is."""
        self._owed = OwedResults()
        """What those in between say."""
        self._catching_up = spool.pending > batch_size
        """Whether more than a batch has waited since an outage, of the log store or of this worker."""
        self._waiting_at_rest: int | None = None
        """How many records waited when it rested last; None: it has not rested since the outage."""
        self._is_acknowledged = True
        """Whether the spool's disk has taken that what is settled is."""
        self._hurrying = False
        self._emptied = asyncio.Event()
        self._failures = 0
        self._away_since_ms: int | None = None
        self._last_error: str | None = None
        self._delivered = 0
        self._set_aside = 0

    @property
    def state(self) -> DeliveryState:
        """As of now."""
        return DeliveryState(
            away_since_ms=self._away_since_ms, last_error=self._last_error, waiting=self._spool.pending,
            delivered=self._delivered, set_aside=self._set_aside,
        )  # fmt: skip

    async def run(self) -> None:
        """Delivers until it is cancelled; an outage of the log store, or of the spool's disk, is waited out."""
        while True:
            await self._wait_until_due()
            try:
                await self._deliver()
            except (UnavailableError, SpoolError, OSError) as error:
                self._note_failure(error)
                await self._pause()
            except Exception as error:  # what a record, or the log store, has in it ends no worker, nor the next one
                if str(error) != self._last_error:
                    extra = {"action": "delivery.failed"}
                    _log.exception("records cannot be delivered, for a reason that nobody foresaw", extra=extra)
                self._note_failure(error)
                await self._pause()
            else:
                if self._away_since_ms is not None:
                    away_ms = self._clock.wall_ms() - self._away_since_ms
                    back = {"action": "log_store_back", "away_ms": away_ms, "waiting": self._spool.pending}
                    _log.info("records are delivered again", extra=back)
                self._failures, self._away_since_ms, self._last_error = 0, None, None

    async def flush(self, deadline_seconds: float) -> bool:
        """Whether all in the spool was delivered within the deadline; waits for no batch to fill. `run` has to run."""
        self._emptied.clear()
        self._hurrying = True
        self._spool.changed.set()
        try:
            async with asyncio.timeout(deadline_seconds):
                await self._emptied.wait()
        except TimeoutError:
            return False
        finally:
            self._hurrying = False
        return True

    @property
    def written(self) -> int:
        """The position in the spool up to which the log store has all, whether that is acknowledged or not."""
        return self._written

    @property
    def _unwritten(self) -> int:
        return self._spool.last - self._written

    async def _wait_until_due(self) -> None:
        while True:
            self._spool.changed.clear()
            is_empty = not self._unwritten and not self._owed
            if is_empty and self._outbox.up_to >= self._written:
                self._emptied.set()
            has_work = not is_empty or not self._is_acknowledged or self._may_let_go > self._spool.cursor
            if has_work and (self._hurrying or self._pace.due_in(self._unwritten) <= 0):
                return
            due_in = self._pace.due_in(self._unwritten)
            await self._sleep(min(due_in, _LOOK_AGAIN_SECONDS) if has_work else None)

    @property
    def _may_let_go(self) -> int:
        """The position in the spool up to which it needs nothing any more."""
        return min(self._settled, self._outbox.up_to)

    def _has_room(self) -> bool:
        """Not where an outage is to be caught up with, nor where so much waits that it would be read from the disk."""
        return not self._catching_up and self._spool.cached_bytes <= _MUCH_BYTES

    async def _sleep(self, seconds: float | None) -> None:
        """Until the spool has changed, a caller is in a hurry, or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                await self._spool.changed.wait()
        except TimeoutError:
            pass

    async def _deliver(self) -> None:
        while self._outbox.is_full:  # etcd is away, and an outage of the log store has left a lot
            self._spool.changed.clear()
            await self._sleep(_LOOK_AGAIN_SECONDS)
        began = self._clock.monotonic()
        if self._unwritten:
            await self._write_batch()
        if 0 < self._unwritten < self._batch_size and self._owed.records >= _WORTH_SETTLING:
            await self._write_batch()  # the end of a burst: not behind the last results of thousands of jobs
        is_over = self._unwritten < self._batch_size
        much = min(_OWED_LIMIT, max(_WORTH_SETTLING, _OWED_A_JOB * len(self._owed)))
        if is_over or self._owed.records >= much:
            await self._runlog.put_last(self._owed)
            self._owed.clear()
            self._delivered += self._written - self._settled
            self._settled = self._written
        if not self._is_acknowledged or self._may_let_go > self._spool.cursor:
            # That is over and done with: the last results know of it, its event is written, the spool lets go of it.
            self._is_acknowledged = False
            await self._spool.acknowledge(self._may_let_go)
            self._is_acknowledged = True
        self._catching_up = self._catching_up and not is_over
        # It rests only where less waits than at the last rest: else more comes in a rest than a batch takes away.
        before = self._waiting_at_rest
        if self._catching_up and (before is None or self._unwritten <= before - _AHEAD):
            self._waiting_at_rest = self._unwritten
            await self._rest(self._clock.monotonic() - began)

    async def _rest(self, took_seconds: float) -> None:
        """The longer a batch has taken, the more others need the time; who is in a hurry does not rest."""
        until = self._clock.monotonic() + min(_LONGEST_REST_SECONDS, took_seconds * _REST)
        while not self._hurrying and (left := until - self._clock.monotonic()) > 0:
            self._spool.changed.clear()
            await self._sleep(left)

    async def _write_batch(self) -> None:
        size = self._batch_size
        if self._unwritten > size:
            size = max(size, CATCH_UP_BATCH if self._catching_up else BIGGEST_BATCH)
        batch = await self._spool.read(size, after=self._written)
        up_to = batch[-1][0] if batch else self._spool.last  # none that is there now can be read; others may come
        records = [record for _, record in batch]
        stored = await self._write(records)
        if failpoints.armed:
            failpoints.hit("after_ack")
        # If we die here, the batch is written once more: every record is there already, and stays.
        self._written = up_to
        self._outbox.add(records, up_to)  # also of such as the store takes in no form
        self._pace.written()
        self._on_delivered([record.run_id for record in records])
        for start in range(0, len(stored), _RECORDS_AT_ONCE):
            self._owed.add(stored[start : start + _RECORDS_AT_ONCE])
            await asyncio.sleep(0)

    async def _write(self, records: list[RunRecord]) -> list[RunRecord]:
        """The records as they were stored. One that is not taken is stored without its output, or set aside."""
        result = await self._runlog.write(records, advance_last=False)
        refused = _with_reasons(records, result.rejected)
        if not refused:
            return records
        shortened = [record.without_output(f"output not stored: {reason}") for record, reason in refused]
        result = await self._runlog.write(shortened, advance_last=False)
        hopeless = _with_reasons(shortened, result.rejected)
        if hopeless:
            await self._spool.disk.call(set_aside, self._spool.directory, hopeless)
            self._set_aside += len(hopeless)
            for record, reason in hopeless:
                _log.error(
                    "the log store takes this record in no form; it is in %s", self._spool.directory / REJECTED,
                    extra={"action": "record_set_aside", "run": str(record.run_id), "reason": reason},
                )  # fmt: skip
        gone = {record.run_id for record, _ in refused}
        lost = {record.run_id for record, _ in hopeless}
        whole = [record for record in records if record.run_id not in gone]
        return whole + [record for record in shortened if record.run_id not in lost]

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        self._catching_up, self._waiting_at_rest = True, None
        self._last_error = str(error)
        if self._away_since_ms is None:
            self._away_since_ms = self._clock.wall_ms()
            _log.warning(
                "records cannot be delivered and wait in the spool: %s", error,
                extra={"action": "log_store_away", "waiting": self._spool.pending},
            )  # fmt: skip

    async def _pause(self) -> None:
        """Longer with each failure in a row, never the same for all workers; short for who is in a hurry."""
        longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10))
        began, pause = self._clock.monotonic(), longest * (0.5 + self._jitter() / 2)
        while True:
            left = began + (min(pause, _FIRST_PAUSE_SECONDS) if self._hurrying else pause) - self._clock.monotonic()
            if left <= 0:
                return
            self._spool.changed.clear()
            await self._sleep(left)


def _with_reasons(records: Sequence[RunRecord], rejections: Sequence[Rejection]) -> list[tuple[RunRecord, str]]:
    reasons = {rejection.run_id: rejection.reason for rejection in rejections}
    return [(record, reasons[record.run_id]) for record in records if record.run_id in reasons]
