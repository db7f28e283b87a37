"""The steward's first duty: runs whose worker is gone get a verdict, and their locks pass on.

A run is lost when the session that its run key names has had no key for the run's `lostAfterMs`, counted from the
later of seeing it gone and seeing the run key as it is. Before any verdict the log store is asked (1 s): a record
there is the verdict. Final keys that nobody has delivered for 60 s are delivered as they stand.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, Protocol

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import Delete, EtcdClient, KeyValue, absent, create_revision_is, mod_revision_is
from common.keys import Keys, RunId
from common.run import EntryState, RunEntry, RunRecord, final_entry
from worker.lost import lost_record, put_lost, read_command
from worker.members import Members
from worker.settlement import Settlement
from worker.steward import Term

_log = logging.getLogger(__name__)

SCAN_S: Final = 5.0
FINAL_PATIENCE_S: Final = 60.0
_STORE_DEADLINE_S: Final = 1.0


class RecordFinder(Protocol):
    """Where delivered records can be looked up."""

    async def find(self, run_ids: list[RunId], *, deadline_seconds: float) -> dict[str, RunRecord]:
        """Those that exist, by run id; UnavailableError where the store does not answer in time."""


@dataclass(slots=True, kw_only=True)
class _Seen:
    """A run key as it was when first seen like this."""

    kv: KeyValue
    entry: RunEntry
    since: float


class LostRuns:
    """Settles what dead workers have left."""

    name = "looking after lost runs"
    every_s = 0.5

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        worker: str,
        members: Members,
        settlement: Settlement,
        store: RecordFinder,
        clock: Clock,
    ) -> None:
        self._client = client
        self._keys = keys
        self._worker = worker
        self._members = members
        self._settlement = settlement
        self._store = store
        self._clock = clock
        self._seen: dict[RunId, _Seen] = {}
        self._gone_since: dict[str, float] = {}
        self._known_sessions: frozenset[str] = frozenset()
        self._scanned = float("-inf")
        self._set_aside: set[str] = set()

    def begin(self) -> None:
        """A new steward starts afresh."""
        self._seen.clear()
        self._gone_since.clear()
        self._known_sessions = frozenset()
        self._scanned = float("-inf")

    @property
    def open_runs(self) -> dict[RunId, RunEntry]:
        """The run keys of the newest scan."""
        return {run_id: seen.entry for run_id, seen in self._seen.items()}

    async def perform(self, term: Term) -> None:
        now = self._clock.monotonic()
        sessions = self._members.sessions
        somebody_left = bool(self._known_sessions - sessions)
        self._known_sessions = sessions
        if somebody_left or now - self._scanned >= SCAN_S:
            await self._scan(now)
        self._note_gone(sessions, now)
        for run_id, seen in list(self._seen.items()):
            await self._judge(term, run_id, seen, sessions, now)

    async def _scan(self, now: float) -> None:
        found: dict[RunId, _Seen] = {}
        async for page in self._client.read_prefix(self._keys.runs):
            for kv in page.kvs:
                self._take(found, kv, now)
        self._seen = found
        self._scanned = now

    def _take(self, found: dict[RunId, _Seen], kv: KeyValue, now: float) -> None:
        try:
            run_id, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
        except ValueError as error:
            if kv.key not in self._set_aside:
                self._set_aside.add(kv.key)
                extra = {"action": "run.set_aside", "key": kv.key}
                _log.warning("the run key %r is set aside: %s", kv.key, error, extra=extra)
            return
        before = self._seen.get(run_id)
        same = before is not None and before.kv.mod_revision == kv.mod_revision
        found[run_id] = before if same and before is not None else _Seen(kv=kv, entry=entry, since=now)

    def _note_gone(self, sessions: frozenset[str], now: float) -> None:
        named = {seen.entry.session for seen in self._seen.values() if seen.entry.session}
        gone = named - sessions
        self._gone_since = {session: self._gone_since.get(session, now) for session in gone}

    async def _judge(self, term: Term, run_id: RunId, seen: _Seen, sessions: frozenset[str], now: float) -> None:
        entry = seen.entry
        if entry.state is EntryState.FINAL:
            if now - seen.since >= FINAL_PATIENCE_S and entry.record is not None:
                self._settlement.deliver_final(entry.record, seen.kv.mod_revision)
                seen.since = now
            return
        if entry.session in sessions or entry.lost_after_ms is None:
            return
        since = max(self._gone_since.get(entry.session, now), seen.since)
        if now - since >= entry.lost_after_ms / 1000:
            try:
                await self._settle(term, run_id, seen)
            except (EtcdError, UnavailableError) as error:
                extra = {"action": "run.lost_postponed", "run": str(run_id)}
                _log.warning("the verdict on %s is postponed: %s", run_id, error, extra=extra)

    async def _settle(self, term: Term, run_id: RunId, seen: _Seen) -> None:
        entry, kv = seen.entry, seen.kv
        lock = await self._client.get(self._keys.lock(run_id.job)) if entry.locked else None
        holds_lock = lock is not None and lock.create_revision == kv.create_revision
        ended = entry.state is EntryState.ENDED or (entry.locked and not holds_lock)
        try:
            found = await self._store.find([run_id], deadline_seconds=_STORE_DEADLINE_S)
        except UnavailableError:
            if ended:
                return  # its record may be on the way: it waits for the log store
            found = {}
        if str(run_id) in found:
            await self._clear(term, run_id, entry, kv)
        else:
            await self._give_up(term, run_id, entry, kv, "result not delivered" if ended else "worker gone")

    async def _clear(self, term: Term, run_id: RunId, entry: RunEntry, kv: KeyValue) -> None:
        """Its record is in the log store: free its lock, delete its key."""
        gone = absent(self._keys.worker(entry.worker, entry.session))
        lock = self._keys.lock(run_id.job)
        mine = create_revision_is(lock, kv.create_revision)
        if entry.locked:
            await self._client.txn([*term.holds, gone, mine], [Delete(lock)])
        await self._client.txn([*term.holds, gone, mod_revision_is(kv.key, kv.mod_revision)], [Delete(kv.key)])
        self._seen.pop(run_id, None)

    async def _give_up(self, term: Term, run_id: RunId, entry: RunEntry, kv: KeyValue, why: str) -> None:
        command, labels = await read_command(self._client, self._keys, run_id, entry)
        record = lost_record(
            run_id, entry, fence=kv.create_revision, reason=why, now_ms=self._clock.wall_ms(),
            command=command, labels=labels,
        )  # fmt: skip
        only_if = [*term.holds, absent(self._keys.worker(entry.worker, entry.session))]
        revision = await put_lost(
            self._client, self._keys, run_id, entry, kv, final_entry(record, worker=self._worker), only_if=only_if
        )
        self._seen.pop(run_id, None)
        if revision is None:
            return
        self._settlement.deliver_final(record, revision)
        extra = {"action": "run.lost", "run": str(run_id), "worker": entry.worker, "reason": why}
        _log.warning("%s on worker %s is lost: %s", run_id, entry.worker, why, extra=extra)
