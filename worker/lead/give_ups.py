"""Runs that users give up: their locks are freed at once, and their records say who did it, and why.

A run is given up only where its worker cannot settle it: the session that its run key names is gone, or a kill of it
has been pending for a minute beyond the job's grace. The transaction compares that again, so a live, well run never
loses its lock. A wish that applies to nothing any more is deleted, and so is one that is a day old. Of a run that is
ending its own worker frees the lock (see ``worker/record/ending.py``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.errors import UnavailableError
from common.etcd import Change, EtcdClient
from common.protocol import give_up
from common.protocol.give_up import GiveUp
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.run import EntryState, RunEntry, RunRecord
from common.protocol.run_writes import LeftRun
from common.protocol.txn import Guards
from common.timings import START_OVER_S
from worker.catalog import Catalog
from worker.lead.leader import Term
from worker.lead.lost_runs import LeftRunSettlement
from worker.quarantine import Quarantine
from worker.record.left_runs import RecordFinder

_log = logging.getLogger(__name__)

_KEPT_MS: Final = 86_400_000
_CLOCKS_APART_MS: Final = 10_000
"""A manager allows a wish by its own clock. One whose kill is overdue so soon by the steward's waits for that."""
_STORE_DEADLINE_S: Final = 1.0
_LOOK_S: Final = 60.0
"""So often it looks for wishes though the watch shows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A run that is given up, and what has to be true in etcd for that."""

    wish: GiveUp
    run: LeftRun
    only_if: Guards


@dataclass(frozen=True, slots=True)
class _Over:
    """The run is settled, or well, or the wish too old: the wish is swept."""


class GiveUps:
    """Settles the runs that users give up, and sweeps their wishes."""

    name = "giving up runs"
    every_s = 1.0

    def __init__(
        self, *, client: EtcdClient, keys: Keys, catalog: Catalog, left_runs: LeftRunSettlement, store: RecordFinder,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._client = client
        self._keys = keys
        self._catalog = catalog
        self._left_runs = left_runs
        self._store = store
        self._clock = clock
        self._quarantine = Quarantine("wish to give up a run")
        self._wished: set[str] = set()
        """The keys of wishes, as a watch has shown them."""
        self._look_at_s = 0.0
        self._unchanged: dict[RunId, tuple[int, float]] = {}
        """The mod revision of each run key, and since when this steward has known it."""

    def on_changes(self, changes: Sequence[Change]) -> None:
        """Wishes that have come and gone."""
        self._wished -= {change.key for change in changes if change.new is None}
        self._wished |= {change.key for change in changes if change.new is not None}

    def begin(self) -> None:
        self._unchanged.clear()

    def end(self) -> None:
        self._unchanged.clear()
        self._wished.clear()
        self._look_at_s = 0.0

    async def perform(self, term: Term) -> None:
        if not self._wished and self._clock.monotonic() < self._look_at_s:
            return
        self._look_at_s = self._clock.monotonic() + _LOOK_S
        cases, wished = [], set()
        async for page in self._client.read_prefix(self._keys.give_ups):
            for kv in page.kvs:
                with self._quarantine.isolate(kv.key, kv.mod_revision):
                    wish = GiveUp.from_json(kv.value, run_id=self._keys.run_of(kv.key), revision=kv.create_revision)
                    wished.add(wish.run_id)
                    match await self._look(wish):
                        case _Case() as case:
                            cases.append(case)
                        case _Over():
                            await self._client.txn(give_up.sweep(self._keys, wish, guards=term.holds))
                        case None:
                            pass
        self._unchanged = {run: known for run, known in self._unchanged.items() if run in wished}
        if ready := [case for case in cases if self._is_start_over(case.run)]:
            await self._settle(term, ready)

    async def _look(self, wish: GiveUp) -> _Case | _Over | None:
        """None: later. The run is ending, and its live worker is to free its lock; or its kill is almost overdue."""
        keys, now_ms = self._keys, self._clock.wall_ms()
        found = await self._client.txn(give_up.look(keys, wish))
        kv, kill, lock = found.one(0), found.one(1), found.key(2)
        if kv is None or not wish.reaches(kv.create_revision) or now_ms - wish.at_ms > _KEPT_MS:
            return _Over()
        entry = RunEntry.from_json(kv.value)
        if entry.state is EntryState.FINAL:
            return _Over()
        run = LeftRun.read(wish.run_id, entry, kv, lock)
        session = keys.worker(entry.worker, entry.session)
        only_if = give_up.while_wished(keys, wish)
        if not await self._client.get_keys([session]):
            return _Case(wish=wish, run=run, only_if=[*only_if, *give_up.while_gone(session)])
        if not run.has_ended and kill is not None:
            wished = Kill.from_json(kill.value, run_id=run.run_id, revision=kill.create_revision)
            job = self._catalog.jobs.get(wish.run_id.job_name)
            left_ms = wished.overdue_in_ms(now_ms, grace_s=0 if job is None else job.spec.kill_grace_s)
            if wished.reaches(kv.create_revision) and left_ms <= 0:
                return _Case(wish=wish, run=run, only_if=[*only_if, *give_up.while_pending(kill)])
            if wished.reaches(kv.create_revision) and left_ms <= _CLOCKS_APART_MS:
                return None
        if wish.is_of_ending:
            return None
        extra = {"action": "run.give_up_refused", "run": str(wish.run_id), "worker": entry.worker}
        _log.warning("%s is not given up: its worker %s is live", wish.run_id, entry.worker, extra=extra)
        return _Over()

    def _is_start_over(self, run: LeftRun) -> bool:
        now, revision = self._clock.monotonic(), run.kv.mod_revision
        known, since = self._unchanged.get(run.run_id, (0, now))
        self._unchanged[run.run_id] = (revision, since if known == revision else now)
        return known == revision and now - since >= START_OVER_S

    async def _settle(self, term: Term, cases: Sequence[_Case]) -> None:
        found: dict[str, RunRecord] = {}
        try:
            found.update(
                await self._store.find([case.wish.run_id for case in cases], deadline_seconds=_STORE_DEADLINE_S)
            )
        except UnavailableError:
            cases = [case for case in cases if not case.run.has_ended]  # what has ended has a record: it waits for it
        for case in cases:
            with self._quarantine.isolate(case.run.kv.key, case.run.kv.mod_revision):
                record = found.get(str(case.wish.run_id))
                only_if = [*term.holds, *case.only_if]
                await self._left_runs.settle(case.run, record, why=str(case.wish), only_if=only_if)
