"""Runs whose worker is gone get a verdict from the steward, and their locks pass on.

A run is lost when the session that its run key names has had no key for the run's `lostAfterMs`, counted from the
later of seeing it gone and seeing the run key as it is. Before any verdict the log store is asked (once for all of a
turn, 1 s): a record there is the verdict. What follows the run (a rerun, a retry by that record, the next link of its
job's chain) is put by the same transaction. Final keys that no worker has delivered for 60 s are delivered as they
stand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient
from common.process import failpoints
from common.protocol.give_up import while_gone
from common.protocol.keys import Keys, RunId
from common.protocol.records import lost_record
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.protocol.run_writes import KeyAfter, LeftRun
from common.protocol.txn import Guards, KeyValue
from worker.lead.leader import Term
from worker.members import Members
from worker.quarantine import Quarantine
from worker.record.follow_up_reader import FollowUpReader
from worker.record.left_runs import RecordFinder, end_run, read_command
from worker.record.settlement import Settlement

_log = logging.getLogger(__name__)


class LeftRunSettlement:
    """Settles runs as the steward: by the record that the log store has, or else as lost."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        follow_ups: FollowUpReader,
        settlement: Settlement,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._follow_ups = follow_ups
        self._settlement = settlement
        self._clock = clock

    async def settle(self, run: LeftRun, found: RunRecord | None, *, why: str, only_if: Guards) -> None:
        """``found``: its record in the log store, which is the verdict; None: it is lost, for this reason.

        Changes nothing where the run is not as it was, or ``only_if`` is false.
        """
        if found is not None:
            await end_run(self._client, self._keys, self._follow_ups, run, found, KeyAfter.GONE, only_if=only_if)
            return
        run_id, entry, kv = run.run_id, run.entry, run.kv
        command, labels = await read_command(self._client, self._keys, run_id, entry)
        record = lost_record(
            run_id, entry, fence=kv.create_revision, reason=why, now_ms=self._clock.wall_ms(),
            command=command, labels=labels,
        )  # fmt: skip
        final = final_entry(record, worker=self._worker)
        revision = await end_run(self._client, self._keys, self._follow_ups, run, record, final, only_if=only_if)
        if revision is None:
            return
        self._settlement.deliver_final(record, revision)
        extra = {"action": "run.lost", "run": str(run_id), "worker": entry.worker, "reason": why}
        _log.warning("%s on worker %s is lost: %s", run_id, entry.worker, why, extra=extra)


SCAN_S: Final = 5.0
FINAL_PATIENCE_S: Final = 60.0
STORE_PAUSE_S: Final = 15.0
"""How long a run that has ended waits before the log store, which did not answer, is asked for it again."""
_STORE_DEADLINE_S: Final = 1.0
_IN_ONE_TURN: Final = 500
_AT_ONCE: Final = 16


@dataclass(slots=True, kw_only=True)
class _Seen:
    """A run key as it was when first seen like this."""

    run_id: RunId
    kv: KeyValue
    entry: RunEntry
    since: float
    not_before: float = float("-inf")
    """When it is looked at again; what waits must not stand in the way of others."""


class LostRuns:
    """Settles what dead workers have left."""

    name = "looking after lost runs"
    every_s = 0.5

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        members: Members,
        settlement: Settlement,
        left_runs: LeftRunSettlement,
        store: RecordFinder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._settlement = settlement
        self._left_runs = left_runs
        self._store = store
        self._clock = clock
        self._quarantine = Quarantine("run")
        self._etcd_away = False
        self._forget()

    def begin(self) -> None:
        """A new steward starts afresh."""
        self._forget()

    def end(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._seen: dict[str, _Seen] = {}
        self._gone_since: dict[str, float] = {}
        self._known_sessions: frozenset[str] = frozenset()
        self._scanned = float("-inf")

    async def perform(self, term: Term) -> None:
        sessions = self._members.sessions
        somebody_left = bool(self._known_sessions - sessions)
        if somebody_left or self._clock.monotonic() - self._scanned >= SCAN_S:
            await self._scan()
        self._known_sessions = sessions
        await self._note_gone(sessions)
        now = self._clock.monotonic()
        for seen in self._seen.values():
            record = seen.entry.record
            if record is None or now - seen.since < FINAL_PATIENCE_S or self._settlement.is_delivering(seen.run_id):
                continue
            self._settlement.deliver_final(record, seen.kv.mod_revision)
            seen.since = now
        lost = list(islice((seen for seen in self._seen.values() if self._is_lost(seen, now)), _IN_ONE_TURN))
        if lost:
            await self._settle(term, lost)

    # What there is

    async def _scan(self) -> None:
        began = self._clock.monotonic()
        found: dict[str, _Seen] = {}
        keys: set[str] = set()
        async for page in self._client.read_prefix(self._keys.runs):
            for kv in page.kvs:
                keys.add(kv.key)
                if (seen := self._read(kv)) is not None:
                    found[kv.key] = seen
        self._seen, self._scanned = found, began
        self._quarantine.keep_only(keys)

    def _read(self, kv: KeyValue) -> _Seen | None:
        before = self._seen.get(kv.key)
        if before is not None and before.kv.mod_revision == kv.mod_revision:
            return before
        try:
            run_id, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
            if self._keys.run(run_id) != kv.key or (entry.record is not None and entry.record.run_id != run_id):
                raise ValueError(f"it is not the key of {run_id}")
            f"{entry.worker}/{entry.session}".encode()  # ValueError: no key can be asked for that names such a session
        except ValueError as error:
            self._quarantine.add(kv.key, kv.mod_revision, error)
            return None
        return _Seen(run_id=run_id, kv=kv, entry=entry, since=self._clock.monotonic())

    async def _note_gone(self, sessions: frozenset[str]) -> None:
        """Since when each session is gone, by a look at its key: the watch may be behind, and time counts from here.

        A session's key is never used again, so one that is absent stays so.
        """
        workers = {seen.entry.session: seen.entry.worker for seen in self._seen.values() if seen.entry.session}
        gone = workers.keys() - sessions
        unsure = {self._keys.worker(workers[one], one): one for one in gone - self._gone_since.keys()}
        there = await self._client.get_keys(list(unsure)) if unsure else {}
        now = self._clock.monotonic()
        alive = {session for key, session in unsure.items() if key in there}
        self._gone_since = {session: self._gone_since.get(session, now) for session in gone - alive}

    # Lost runs

    def _is_lost(self, seen: _Seen, now: float) -> bool:
        entry = seen.entry
        if entry.state is EntryState.FINAL or entry.lost_after_ms is None or now < seen.not_before:
            return False
        gone_since = self._gone_since.get(entry.session)
        return gone_since is not None and now - max(gone_since, seen.since) >= entry.lost_after_ms / 1000

    async def _settle(self, term: Term, lost: Sequence[_Seen]) -> None:
        """One look at their locks and one at the log store, then a transaction for each."""
        wanted = {self._keys.lock(seen.run_id.job) for seen in lost if seen.entry.locked}
        locks = await self._client.get_keys(list(wanted)) if wanted else {}
        runs = [
            LeftRun.read(seen.run_id, seen.entry, seen.kv, locks.get(self._keys.lock(seen.run_id.job))) for seen in lost
        ]
        found: Mapping[str, RunRecord] = {}
        try:
            found = await self._store.find([seen.run_id for seen in lost], deadline_seconds=_STORE_DEADLINE_S)
        except UnavailableError:
            for seen, run in zip(lost, runs, strict=True):
                if run.has_ended:  # it has a record there, and waits for it
                    seen.not_before = self._clock.monotonic() + STORE_PAUSE_S
        limit = asyncio.Semaphore(_AT_ONCE)
        self._etcd_away = False

        async def one(seen: _Seen, run: LeftRun) -> None:
            async with limit:
                await self._settle_one(term, seen, run, found.get(str(seen.run_id)))

        async with asyncio.TaskGroup() as tasks:
            for seen, run in zip(lost, runs, strict=True):
                if self._clock.monotonic() >= seen.not_before:
                    tasks.create_task(one(seen, run), name=f"verdict on {seen.run_id}")

    async def _settle_one(self, term: Term, seen: _Seen, run: LeftRun, found: RunRecord | None) -> None:
        if self._etcd_away:
            return
        if failpoints.armed:
            failpoints.hit("steward_before_verdict")
        try:
            with self._quarantine.isolate(seen.kv.key, seen.kv.mod_revision):
                why = "result not delivered" if run.has_ended else "worker gone"
                # The steward judges, and the session that the run key names is gone.
                only_if = [*term.holds, *while_gone(self._keys.worker(run.entry.worker, run.entry.session))]
                await self._left_runs.settle(run, found, why=why, only_if=only_if)
                self._seen.pop(seen.kv.key, None)
                return
        except (EtcdError, UnavailableError):
            self._etcd_away = True  # again next time; what was carried out all the same shows in the key's revision
            return
        seen.not_before = self._clock.monotonic() + SCAN_S  # set aside, and yet lost since when it was
