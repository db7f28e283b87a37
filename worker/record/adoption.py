"""What a new session takes over: the running runs of the one before, and what an earlier life of this worker left.

A session that ended ends no command. Its successor puts every run key again under its own name, one transaction each,
comparing that it is still this worker's: a run that the steward has given up meanwhile is not ours any more, and what
still runs of it is ended. A worker that starts again settles the open runs of *its own instance* at once: with the
verdict in its spool or in the log store, else as lost (never as missed: it cannot know). What follows a run by its
job's policy is put by the transaction that settles it, as at any end. Where processes of such a run live that could not
be ended, it is put under the new session instead, and settled once they are gone (see ``ending``). One that has ended,
as etcd knows, waits in the same way for a log store that does not answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from common.clock import Clock
from common.errors import EtcdError, EtcdRefusedError, UnavailableError
from common.etcd import EtcdClient, Session
from common.etcd.settle import Bears, Patience, answered, is_for_good
from common.process.lifecycle import until_all
from common.protocol.keys import Keys, RunId
from common.protocol.member import WorkerIdentity
from common.protocol.records import lost_record
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.protocol.run_writes import KeyAfter, LeftRun, restamp
from common.protocol.txn import KeyValue, TxnResult
from worker.kills import Kills
from worker.record.ending import EndingRuns
from worker.record.follow_up_reader import FollowUpReader
from worker.record.left_runs import RecordFinder, end_run, read_command
from worker.record.settlement import Settlement
from worker.record.spool import Spooled
from worker.refusals import Refusals
from worker.run.shortage import once_possible
from worker.runs import Run, RunTable

_log = logging.getLogger(__name__)

_OPEN: Final = EntryState.OPEN
_RESTARTED: Final = "worker restarted"
_AT_ONCE: Final = 32
_RETRY_S: Final = 0.3
_STRAGGLERS_S: Final = 1.0
_STORE_DEADLINE_S: Final = 1.0

SpoolFinder = Callable[[Collection[str]], Awaitable[Mapping[str, Spooled]]]
"""What a former process has left in the spool of these runs."""


@dataclass(frozen=True, slots=True, eq=False)
class _Former:
    """An open run of this instance, from before this process."""

    run_id: RunId
    entry: RunEntry
    kv: KeyValue


@dataclass(slots=True, kw_only=True, eq=False)
class _StuckFormer:
    """A run of an earlier life that is not settled yet, and its record as far as it is known.

    Processes of it could not be ended, or its record is in the log store, which does not answer.
    """

    former: _Former
    in_spool: Spooled | None
    delivered: RunRecord | None
    is_recorded: bool
    """Its worker has made a record: where none is known, the log store is asked until it answers."""
    why_lost: str = _RESTARTED
    """What the record says where there is none."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing is known of how it ended."""
        return not self.is_recorded and self.in_spool is None and self.delivered is None

    @property
    def has_to_be_asked_for(self) -> bool:
        """Whether its record is in the log store alone."""
        return self.is_recorded and self.in_spool is None and self.delivered is None


class Adoption:
    """Takes over runs for a session, or settles them."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: WorkerIdentity,
        table: RunTable,
        kills: Kills,
        settlement: Settlement,
        follow_ups: FollowUpReader,
        refusals: Refusals,
        store: RecordFinder,
        ending: EndingRuns,
        on_lost: Callable[[Run], None],
        is_clock_off: Callable[[], bool],
        clock: Clock,
    ) -> None:
        """``on_lost``: the run has been given up by the steward; whatever of it still runs is to be ended.

        ``is_clock_off``: whether nothing may be dated now.
        """
        self._client = client
        self._keys = keys
        self._identity = identity
        self._table = table
        self._kills = kills
        self._settlement = settlement
        self._follow_ups = follow_ups
        self._refusals = refusals
        self._store = store
        self._ending = ending
        self._on_lost = on_lost
        self._is_clock_off = is_clock_off
        self._clock = clock
        self._session: Session | None = None
        self._kept: dict[RunId, _StuckFormer] = {}
        self._over: dict[RunId, _StuckFormer] = {}
        """Those of which nothing is left: to be settled, once the log store has shown what became of them, and once
        the clock may date those that are lost."""
        self._one_at_a_time = asyncio.Lock()
        """Of taking these over and settling them: each counts on the revision of the run key."""
        self._written: Callable[[], int] = lambda: 0

    async def readopt(self, session: Session) -> None:
        """Every run of this worker under the new session; kills that came meanwhile are read first."""
        async for page in self._client.read_prefix(self._keys.kills):
            for kv in page.kvs:
                self._kills.take(kv)
        runs = await self._readopt_all(session)
        await self._keep_all(session)
        self._session = session
        extra = {"action": "runs.readopted", "runs": runs}
        _log.info("%d runs are under the new session", runs, extra=extra)

    async def run(self) -> None:
        """Takes over, until cancelled, what comes too late for `readopt`.

        That is a run whose claim was answered when the session that had sent it was over already. It would else be
        given up as lost in the middle of its life.
        """
        while True:
            await asyncio.sleep(_STRAGGLERS_S)
            if self._session is not None and not self._session.ended.is_set():
                await self._readopt_all(self._session)
                await self._keep_all(self._session)
                if self._over:
                    async with self._one_at_a_time:
                        await self._settle_over()

    async def _readopt_all(self, session: Session) -> int:
        runs = [run for run in self._table if run.session is not session and not (run.delivered and run.unlocked)]
        await _at_once([partial(self._readopt, run, session) for run in runs])
        return len(runs)

    async def _readopt(self, run: Run, session: Session) -> None:
        while not session.ended.is_set():
            sent = self._clock.boottime()
            entry, result = await self._restamped(run.run_id, run.entry, run.mod_revision, session)
            if result is None:
                return
            if result.succeeded:
                run.entry, run.session, run.mod_revision, run.sent = entry, session, result.revision, sent
                return
            if not run.reread(result.one(0)):  # given up by the steward
                if self._table.get(run.run_id) is run and not (run.delivered and run.unlocked):
                    self._settlement.lost_to_others(run)
                    self._on_lost(run)
                return
            await asyncio.sleep(_RETRY_S)

    async def _restamped(
        self, run_id: RunId, entry: RunEntry, mod_revision: int, session: Session
    ) -> tuple[RunEntry, TxnResult | None]:
        """The run key's new value, and etcd's answer; None: etcd refuses it, or the session is over: a straggler."""
        entry, txn = restamp(self._keys, run_id, entry, mod_revision=mod_revision, session=session)
        patience = Patience(bears=Bears.ABSENCE, pause_s=lambda _: _RETRY_S, is_over=session.ended.is_set)
        try:
            return entry, await answered(partial(self._client.txn, txn), patience)
        except (EtcdError, UnavailableError) as error:
            self._refusals.note(str(run_id), error)
            return entry, None

    # A former life of this worker

    async def settle_former(self, session: Session, find_in_spool: SpoolFinder, *, written: Callable[[], int]) -> int:
        """Settles what this instance left open when it last ended; returns how many runs that were.

        ``find_in_spool``: among the records that were there when this process began. ``written``: up to which position
        of the spool the log store has them. Those that are ending are kept under this session.
        """
        self._written = written
        pages = [page async for page in self._client.read_prefix(self._keys.runs)]
        former = [one for page in pages for kv in page.kvs if (one := self._former(kv)) is not None]
        open_ones = [one for one in former if one.entry.state is not EntryState.FINAL]
        wanted = {str(one.run_id) for one in open_ones}
        in_spool = await once_possible(lambda: find_in_spool(wanted), what="its records")
        unknown = {one.run_id for one in open_ones if str(one.run_id) not in in_spool}
        # Asked last: what was in neither place is lost. Where it is away: what it has counts there all the same.
        delivered: Mapping[str, RunRecord] = {}
        if unknown:
            with suppress(UnavailableError):
                delivered = await self._store.find([*unknown], deadline_seconds=_STORE_DEADLINE_S)
                unknown.clear()

        async def settle(one: _Former) -> None:
            in_its_spool, found = in_spool.get(str(one.run_id)), delivered.get(str(one.run_id))
            is_ending = one.entry.state is _OPEN and one.run_id in self._ending
            try:
                is_recorded = self._ending.is_recorded(one.run_id)
                if one.run_id in unknown and (await self._left(one)).has_ended:
                    is_recorded = True  # the spool may have let go of it: then the log store has it
                kept = _StuckFormer(former=one, in_spool=in_its_spool, delivered=found, is_recorded=is_recorded)
                if one.entry.state is not EntryState.FINAL and (is_ending or kept.has_to_be_asked_for):
                    (self._kept if is_ending else self._over)[one.run_id] = kept
                    await self._keep(one.run_id, kept, session)
                    return
                if not await self._settle_one(one, in_its_spool, found) and kept.is_lost:
                    self._over[one.run_id] = kept  # the clock is off, or the steward was first: looked at again
            except EtcdRefusedError as error:
                if not is_for_good(error):
                    raise
                self._refusals.note(str(one.run_id), error)  # left to the steward, whose patience is longer

        await _at_once([partial(settle, one) for one in former])
        # Of what has ended etcd says so itself: processes of it that live were given up.
        over = {run_id for run_id, kept in self._over.items() if kept.former.entry.state is _OPEN}
        self._ending.keep_only(self._kept.keys() | over)
        self._session = session
        return len(former)

    def _former(self, kv: KeyValue) -> _Former | None:
        try:
            run_id, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
            if entry.record is not None and entry.record.run_id != run_id:
                return None  # delivered, it would be another's
        except ValueError:
            return None  # the steward says so
        return _Former(run_id, entry, kv) if entry.instance == self._identity.instance else None

    def over(self, run_id: RunId, given_up: str | None) -> None:
        """Nothing is left of a run that was ending, or it was given up, in these words: it is settled soon."""
        if (kept := self._kept.pop(run_id, None)) is not None:
            kept.why_lost = given_up or kept.why_lost
            self._over[run_id] = kept

    async def _keep_all(self, session: Session) -> None:
        """Those whose keys do not name this session yet."""
        if not self._kept and not self._over:
            return
        async with self._one_at_a_time:
            kept = [
                partial(self._keep, run_id, one, session)
                for run_id, one in (self._kept | self._over).items()
                # Of what is lost nothing goes on: a steward whose clock is right may settle it first.
                if one.former.entry.session != session.id and (run_id in self._kept or not one.is_lost)
            ]  # fmt: skip
            await _at_once(kept)

    async def _keep(self, run_id: RunId, kept: _StuckFormer, session: Session) -> None:
        """Its key names this session: while that lives, the steward does not give it up as lost."""
        while not session.ended.is_set():
            former = kept.former
            entry, result = await self._restamped(run_id, former.entry, former.kv.mod_revision, session)
            if result is None:
                return
            if result.succeeded:
                kv = replace(former.kv, value=entry.to_json(), mod_revision=result.revision)
                kept.former = _Former(run_id, entry, kv)
                return
            now = self._still(former, result.one(0))
            if now is None or now.entry.state is EntryState.FINAL:
                self._forget(run_id)  # the steward was first: its lock has passed on
                return
            kept.former = now
            await asyncio.sleep(_RETRY_S)

    def _still(self, former: _Former, kv: KeyValue | None) -> _Former | None:
        """The run as it is now; None: it is not there any more, or not this worker's."""
        return None if kv is None or kv.create_revision != former.kv.create_revision else self._former(kv)

    def _forget(self, run_id: RunId) -> None:
        self._kept.pop(run_id, None)
        self._over.pop(run_id, None)
        self._ending.forget(run_id)

    async def _settle_over(self) -> None:
        over = dict(self._over)
        to_ask = [run_id for run_id, kept in over.items() if kept.has_to_be_asked_for]
        try:
            found = await self._store.find(to_ask, deadline_seconds=_STORE_DEADLINE_S) if to_ask else {}
        except UnavailableError:
            found = {}
            over = {run_id: kept for run_id, kept in over.items() if not kept.has_to_be_asked_for}
        for run_id, kept in over.items():
            delivered = kept.delivered or found.get(str(run_id))
            try:
                # By its key as it is now: an answer may have been lost. What was changed meanwhile: again in a second.
                now = self._still(kept.former, await self._client.get(kept.former.kv.key))
                if now is None or await self._settle_one(now, kept.in_spool, delivered, why_lost=kept.why_lost):
                    self._forget(run_id)
            except (EtcdError, UnavailableError) as error:
                self._refusals.note(str(run_id), error)  # again in a second

    async def _settle_one(
        self, former: _Former, in_spool: Spooled | None, delivered: RunRecord | None, *, why_lost: str = _RESTARTED
    ) -> bool:
        """False: its key is not as it was, and nothing was done."""
        if former.entry.record is not None:
            self._settlement.deliver_final(former.entry.record, former.kv.mod_revision)
            return True
        if (record := in_spool.record if in_spool else delivered) is None:
            return await self._give_up(former, why_lost)
        if (revision := await self._end(former, record)) is None:
            return False
        self._settlement.expect(former.run_id, revision)
        # Delivery did not wait for us; what it delivers from now on, it tells.
        if in_spool is None or in_spool.position <= self._written():
            self._settlement.delivered([former.run_id])
        return True

    async def _end(self, former: _Former, record: RunRecord) -> int | None:
        """Its record is known: free its lock, or say that it has ended, with what follows; its key's revision then.

        None: its key or its lock is not as it was.
        """
        run = await self._left(former)
        if run.has_ended:
            return former.kv.mod_revision
        ended = replace(former.entry, state=EntryState.ENDED)
        becomes = KeyAfter.SAME if former.entry.locked else ended
        revision = await end_run(self._client, self._keys, self._follow_ups, run, record, becomes)
        return former.kv.mod_revision if revision is not None and former.entry.locked else revision

    async def _left(self, former: _Former) -> LeftRun:
        lock = await self._client.get(self._keys.lock(former.run_id.job)) if former.entry.locked else None
        return LeftRun.read(former.run_id, former.entry, former.kv, lock)

    async def _give_up(self, former: _Former, why: str) -> bool:
        """False: its key or its lock is not as it was, or the clock is off."""
        run_id, entry, kv, now_ms = former.run_id, former.entry, former.kv, self._clock.wall_ms()
        if self._is_clock_off():
            return False
        command, labels = await read_command(self._client, self._keys, run_id, entry)
        record = lost_record(
            run_id, entry, fence=kv.create_revision, reason=why, now_ms=now_ms, command=command, labels=labels,
        )  # fmt: skip
        final = final_entry(record, worker=self._identity.worker, instance=self._identity.instance)
        left = await self._left(former)
        revision = await end_run(self._client, self._keys, self._follow_ups, left, record, final)
        if revision is None:
            return False
        self._settlement.deliver_final(record, revision)
        extra = {"action": "run.lost", "run": str(run_id)}
        _log.warning("%s is lost: %s", run_id, why, extra=extra)
        return True


async def _at_once(work: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """All of it, a few at a time; the first error ends the rest."""
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(step: Callable[[], Awaitable[None]]) -> None:
        async with limit:
            await step()

    await until_all(*(one(step) for step in work))
