"""What a new session takes over: the running runs of the one before, and what an earlier life of this worker left.

A session that ended ends no command. Its successor puts every run key again under its own name, one transaction each,
comparing that it is still this worker's: a run that the steward has given up meanwhile is not ours any more, and what
still runs of it is ended. A worker that starts again settles the open runs of *its own instance* at once: with the
verdict in its spool, else as lost (never as missed: it cannot know).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import (
    Delete,
    EtcdClient,
    Get,
    KeyValue,
    Put,
    Session,
    create_revision_is,
    mod_revision_is,
)
from common.keys import Keys, RunId
from common.run import EntryState, RunEntry, final_entry
from worker.identity import Identity
from worker.kills import Kills
from worker.lost import lost_record, put_lost, read_command
from worker.runs import Run, RunTable
from worker.settlement import Settlement

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
_RETRY_S: Final = 0.3


class Adoption:
    """Takes over runs for a session, or settles them."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        identity: Identity,
        table: RunTable,
        kills: Kills,
        settlement: Settlement,
        on_lost: Callable[[Run], None],
        clock: Clock,
    ) -> None:
        """``on_lost``: the run has been given up by the steward; whatever of it still runs is to be ended."""
        self._client = client
        self._keys = keys
        self._identity = identity
        self._table = table
        self._kills = kills
        self._settlement = settlement
        self._on_lost = on_lost
        self._clock = clock

    async def readopt(self, session: Session) -> None:
        """Every run of this worker under the new session; kills that came meanwhile are read first."""
        await self._read_kills()
        runs = [run for run in self._table if run.session is not session and not (run.delivered and run.unlocked)]
        limit = asyncio.Semaphore(_AT_ONCE)

        async def one(run: Run) -> None:
            async with limit:
                await self._readopt(run, session)

        await asyncio.gather(*(one(run) for run in runs))
        extra = {"action": "runs.readopted", "runs": len(runs)}
        _log.info("%d runs are under the new session", len(runs), extra=extra)

    async def _read_kills(self) -> None:
        async for page in self._client.read_prefix(self._keys.kills):
            for kv in page.kvs:
                self._kills.take(kv)

    async def _readopt(self, run: Run, session: Session) -> None:
        key = self._keys.run(run.run_id)
        while not session.ended.is_set():
            entry = replace(run.entry, session=session.id)
            compares = [session.alive, mod_revision_is(key, run.mod_revision)]
            sent = self._clock.monotonic()
            try:
                result = await self._client.txn(compares, [Put(key, entry.to_json())], [Get(key)])
            except (EtcdError, UnavailableError):
                await asyncio.sleep(_RETRY_S)
                continue
            if result.succeeded:
                run.entry, run.session, run.mod_revision, run.sent = entry, session, result.revision, sent
                return
            if not self._still_mine(run, result.one(0)):
                self._given_up(run)
                return
            await asyncio.sleep(_RETRY_S)

    def _still_mine(self, run: Run, kv: KeyValue | None) -> bool:
        """Whether the run key is this run's own, as a write of ours in doubt may have left it."""
        if kv is None or kv.create_revision != run.fence:
            return False
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return False
        if entry.state is EntryState.FINAL or entry.instance != self._identity.instance:
            return False
        run.mod_revision = kv.mod_revision
        return True

    def _given_up(self, run: Run) -> None:
        if self._table.get(run.run_id) is not run or (run.delivered and run.unlocked):
            return
        self._settlement.lost_to_others(run)
        self._on_lost(run)

    # A former life of this worker

    async def settle_former(self, in_spool: Iterable[RunId]) -> int:
        """Settles what this instance left open when it last ended; returns how many runs that were."""
        known = frozenset(in_spool)
        settled = 0
        async for page in self._client.read_prefix(self._keys.runs):
            for kv in page.kvs:
                settled += await self._settle_former(kv, known)
        return settled

    async def _settle_former(self, kv: KeyValue, in_spool: frozenset[RunId]) -> bool:
        try:
            run_id, entry = self._keys.run_of(kv.key), RunEntry.from_json(kv.value)
        except ValueError:
            return False
        if entry.instance != self._identity.instance:
            return False
        if entry.state is EntryState.FINAL:
            assert entry.record is not None
            self._settlement.deliver_final(entry.record, kv.mod_revision)
        elif run_id in in_spool:
            await self._free_lock(run_id, entry, kv)
            self._settlement.expect(run_id, kv.mod_revision)
        else:
            await self._give_up(run_id, entry, kv)
        return True

    async def _free_lock(self, run_id: RunId, entry: RunEntry, kv: KeyValue) -> None:
        if entry.locked:
            lock = self._keys.lock(run_id.job)
            await self._client.txn([create_revision_is(lock, kv.create_revision)], [Delete(lock)])

    async def _give_up(self, run_id: RunId, entry: RunEntry, kv: KeyValue) -> None:
        command, labels = await read_command(self._client, self._keys, run_id, entry)
        record = lost_record(
            run_id, entry, fence=kv.create_revision, reason="worker restarted", now_ms=self._clock.wall_ms(),
            command=command, labels=labels,
        )  # fmt: skip
        final = final_entry(record, worker=self._identity.worker, instance=self._identity.instance)
        revision = await put_lost(self._client, self._keys, run_id, entry, kv, final)
        if revision is not None:
            self._settlement.deliver_final(record, revision)
        extra = {"action": "run.lost", "run": str(run_id)}
        _log.warning("%s is lost: this worker was started again while it was going", run_id, extra=extra)
