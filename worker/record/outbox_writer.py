"""The events of records come to the outbox: beside delivery, before the spool lets go of them.

    in the log store -> has it events? -> is it tried again? -> one document for all of them -> let go
                             | no            | yes: nothing     | not known yet: it waits
                             '---------------'------------------'

A failure after which another attempt follows is no problem yet. What follows is decided by the transaction that ends
the run, which may come later than its record, or have been sent by a former life, or by the steward: what this process
does not know, etcd and the log store say (`Attempts`). Where the attempt that was asked for never ran, its event is
of the one before. What is not known after a while is written: rather once too often than not at all.

If we die before the document is there, the records are read from the spool again, and have the same events.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, ForbiddenError, UnavailableError
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.notices.events import Event, events_of, gave_up, never_began
from common.process import failpoints
from common.protocol.follow_ups import may_be_tried_again
from common.protocol.keys import Keys, RunId
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.run_writes import owns_lock
from common.protocol.txn import KeyValue
from common.runlog import OutboxDocument, RunLog, outbox_documents
from common.verdicts import Verdict
from worker.catalog import Catalog
from worker.record.records import without_long_output
from worker.rules import READ_WITHIN_S, Rules
from worker.runs import Run, RunTable

_log = logging.getLogger(__name__)

_LOOK_AGAIN_S: Final = 0.2
_KNOWN_WITHIN_S: Final = 60.0
"""Then it is written, whether another attempt follows or not: etcd is away, or refuses the end of the run."""
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0
_LOGGED_EVERY_S: Final = 3600.0
_FIND_S: Final = 5.0
_AT_ONCE: Final = 1_000
_MOST_WAITING: Final = 10_000
_RECORDS_A_TURN: Final = 100
"""Of what the loop is held for; then fires that are due have their turn."""


class Attempts:
    """Whether another attempt follows a run, by what etcd and the log store have: also of a former life's."""

    def __init__(self, client: EtcdClient, keys: Keys, store: RunLog) -> None:
        self._client = client
        self._keys = keys
        self._store = store

    async def follow(self, runs: Sequence[RunId]) -> dict[RunId, bool | None]:
        """By run; None: its end has not been carried out, so that is not decided. EtcdError, UnavailableError.

        The next attempt goes from its request to its run key to its record: they are looked for in this order.
        """
        keys = {run: self._keys_of(run) for run in runs}
        found = await self._client.get_many([key for of_run in keys.values() for key in of_run])
        answers: dict[RunId, bool | None] = {}
        for run, (own, lock, *following) in keys.items():
            kv, held = found.get(own), found.get(lock)
            if any(key in found for key in following):
                answers[run] = True
            elif kv is not None and _is_open(kv, held):
                answers[run] = None
        ended = {run: run.next_attempt for run in runs if run not in answers}
        recorded = await self._store.find([*ended.values()], deadline_seconds=_FIND_S) if ended else {}
        return answers | {run: str(following) in recorded for run, following in ended.items()}

    def _keys_of(self, run: RunId) -> tuple[str, ...]:
        keys, following = self._keys, run.next_attempt
        return keys.run(run), keys.lock(run.job), keys.request(following), keys.run(following)


def _is_open(run: KeyValue, lock: KeyValue | None) -> bool:
    """Whether the transaction that ends the run is still to come."""
    try:
        entry = RunEntry.from_json(run.value)
    except ValueError:
        return False
    return entry.state is EntryState.OPEN and (owns_lock(lock, run.create_revision) or not entry.locked)


@dataclass(slots=True, kw_only=True)
class _Record:
    """One that may have events."""

    record: RunRecord
    run: Run | None
    """This worker's own; None: another's, or a former life's."""
    since: float


@dataclass(slots=True, kw_only=True)
class _Batch:
    """What was delivered together, as far as its events are not written."""

    up_to: int
    left: list[_Record] = field(default_factory=list)


class OutboxWriter:
    """Takes what delivery has stored; says up to where the spool may let go of it. `run` belongs into the TaskGroup."""

    def __init__(
        self, *, store: RunLog, attempts: Attempts, catalog: Catalog, jobs_read: Callable[[], asyncio.Event],
        rules: Rules, table: RunTable, up_to: int, on_progress: asyncio.Event, clock: Clock,
    ) -> None:  # fmt: skip
        """``up_to``: the spool's cursor. ``on_progress`` is set whenever `up_to` has come further."""
        self._store = store
        self._attempts = attempts
        self._catalog = catalog
        self._jobs_read = jobs_read
        self._rules = rules
        self._table = table
        self._on_progress = on_progress
        self._clock = clock
        self._batches: deque[_Batch] = deque()
        self._came = asyncio.Event()
        self._knows = False
        """Whether jobs and rules were read: until then every record may have events."""
        self._logged_at = float("-inf")
        self.up_to = up_to
        """The position in the spool up to which all events are written."""
        self.problem: str | None = None
        """Why no event is written, for the beat."""

    @property
    def is_full(self) -> bool:
        """Whether so many records wait here that no more should come."""
        return sum(len(batch.left) for batch in self._batches) >= _MOST_WAITING

    def add(self, records: Sequence[RunRecord], up_to: int) -> None:
        """The log store has these; the last of them stands there in the spool."""
        now = self._clock.monotonic()
        left = [
            _Record(record=without_long_output(record), run=self._ended_here(record), since=now)
            for record in records
            if self._may_have_events(record)
        ]
        if not left and not self._batches:
            self.up_to = up_to
            return
        self._batches.append(_Batch(up_to=up_to, left=left))
        self._came.set()

    async def run(self) -> None:
        """Writes until cancelled."""
        await self._jobs_read().wait()
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                await self._rules.mirror.synced.wait()
        except TimeoutError:
            _log.warning("rules cannot be read: what they ask for is not known", extra={"action": "rules.unread"})
        self._knows = True
        while True:
            await self._came.wait()
            self._came.clear()
            while self._batches:
                await self._write_events()
                if self._batches:  # also where more came meanwhile: what is not known yet becomes known by others' work
                    await asyncio.sleep(_LOOK_AGAIN_S)

    def _ended_here(self, record: RunRecord) -> Run | None:
        run = self._table.get(record.run_id)
        own = None if run is None else run.record
        return run if own is not None and own.status is record.status else None

    def _may_have_events(self, record: RunRecord) -> bool:
        """One cheap look: so it is for nearly every record."""
        if not record.status.is_quiet or not self._knows or self._rules.wanted:
            return True
        spec = self._spec_of(record)
        if spec is not None and (spec.notify or spec.late_after_s or spec.suspicious_below_s):
            return True
        return record.status is not Verdict.SUCCESS and never_began(record)

    def _spec_of(self, record: RunRecord) -> JobSpec | None:
        job = self._catalog.jobs.get(record.run_id.job_name)
        return None if job is None else job.spec

    async def _write_events(self) -> None:
        """What is known by now, of many batches in one go."""
        batches, waiting = [], list[_Record]()
        for batch in self._batches:
            batches.append(batch)
            waiting += batch.left
            if len(waiting) >= _AT_ONCE:
                break
        follows = await self._follows([one for one in waiting if may_be_tried_again(one.record)])
        known = [one for one in waiting if follows.get(one.record.run_id, False) is not None]
        before = await self._attempts_before(one.record for one in known if never_began(one.record))
        events: list[Event] = []
        for start in range(0, len(known), _RECORDS_A_TURN):
            for one in known[start : start + _RECORDS_A_TURN]:
                try:
                    events += self._events(one.record, follows, before)
                except Exception:  # what one record has in it ends no worker, nor the next one, which reads it again
                    extra = {"action": "outbox.event_failed", "run": str(one.record.run_id)}
                    _log.exception("what the record of %s tells is told to nobody", one.record.run_id, extra=extra)
            await asyncio.sleep(0)
        await self._put(outbox_documents(events, self._clock.wall_ms()))
        for batch in batches:
            batch.left = [one for one in batch.left if follows.get(one.record.run_id, False) is None]
        while self._batches and not self._batches[0].left:
            self.up_to = self._batches.popleft().up_to
            self._on_progress.set()

    def _events(
        self, record: RunRecord, follows: Mapping[RunId, bool | None], before: Mapping[RunId, RunRecord]
    ) -> Sequence[Event]:
        spec, is_tried_again = self._spec_of(record), bool(follows.get(record.run_id))
        if never_began(record) and not is_tried_again:
            return (gave_up(record, before.get(record.run_id), spec=spec),)
        wanted = self._rules.wanted.kinds(record.labels, spec)
        return events_of(record, wanted, spec=spec, is_tried_again=is_tried_again)

    async def _follows(self, waiting: Sequence[_Record]) -> dict[RunId, bool | None]:
        """Whether another attempt follows each; None: it is not known yet."""
        answers: dict[RunId, bool | None] = {}
        to_ask = []
        for one in waiting:
            run, run_id = one.run, one.record.run_id
            if run is None or (run.tried_again is None and (run.unlocked or run.forgotten)):
                to_ask.append(run_id)
            else:
                answers[run_id] = False if run.is_ending else run.tried_again  # what cannot be ended is a problem now
        try:
            answers |= await self._attempts.follow(to_ask) if to_ask else {}
        except (EtcdError, UnavailableError):
            answers |= dict.fromkeys(to_ask)
        now = self._clock.monotonic()
        overdue = [one.record.run_id for one in waiting if now - one.since >= _KNOWN_WITHIN_S]
        return answers | {run_id: False for run_id in overdue if answers[run_id] is None}

    async def _attempts_before(self, records: Iterator[RunRecord]) -> dict[RunId, RunRecord]:
        """By the run that never began, the record of the attempt before it, as far as the log store has it."""
        before = {one.run_id: one.run_id.attempt_before for one in records}
        found: Mapping[str, RunRecord] = {}
        for pause_s in _pauses() if before else ():
            try:
                found = await self._store.find([*before.values()], deadline_seconds=_FIND_S)
                break
            except UnavailableError:
                await asyncio.sleep(pause_s)
        return {run_id: found[str(one)] for run_id, one in before.items() if str(one) in found}

    async def _put(self, documents: Sequence[OutboxDocument]) -> None:
        """They are in the outbox, each by the id that it has now, however often it is sent."""
        if failpoints.armed and documents:
            failpoints.hit("before_outbox")
        for pause_s in _pauses() if documents else ():
            try:
                await self._store.outbox.put(documents)
                self.problem = None
                break
            except ForbiddenError as error:  # the spool is not to fill up for ever, for want of a right
                self._say(str(error))
                break
            except UnavailableError:
                await asyncio.sleep(pause_s)
            except Exception as error:  # what a record, or the log store, has in it ends no worker
                self._say(f"for a reason that nobody foresaw: {error!r}")
                await asyncio.sleep(pause_s)
        if failpoints.armed and documents:
            failpoints.hit("after_outbox")

    def _say(self, why: str) -> None:
        self.problem = f"nothing is told of this worker's runs: {why}"
        now = self._clock.monotonic()
        if now - self._logged_at >= _LOGGED_EVERY_S:
            self._logged_at = now
            _log.error("%s", self.problem, extra={"action": "outbox.forbidden"})


def _pauses() -> Iterator[float]:
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
