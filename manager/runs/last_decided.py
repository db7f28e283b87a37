"""The newest fire of a job that is known to be decided, by what there is of it: for a mark that does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from common.errors import UnavailableError
from common.etcd import EtcdClient
from common.runlog import RunFilter
from common.stored.keys import Keys
from manager.editing.unblock import Decided
from manager.runs.history import History
from manager.runs.kept_records import kept_records
from manager.runs.told_fires import end_ms, run_id_of
from manager.watching.watching import Watching

_RECORDS: Final = 200
"""Looked through for one of a planned fire: runs that somebody asked for are among them."""


class LastDecided:
    """Asks the log store, and what etcd has that the log store has not."""

    def __init__(self, etcd: EtcdClient, keys: Keys, watching: Watching, history: History) -> None:
        self._etcd = etcd
        self._keys = keys
        self._watching = watching
        self._history = history

    async def before(self, name: str, now_ms: int) -> Decided:
        """Its plan time, ms since the epoch, at ``now_ms`` or before; None only where waiting would not help.

        UnavailableError: etcd or the log store does not answer.
        """
        ends = await self._asked_for(name)  # first: what is claimed meanwhile is found as a run
        page = await self._history.runs(RunFilter(job=name, to_ms=now_ms + 1), cursor=None, limit=_RECORDS)
        runs = self._watching.open_runs
        kept = await kept_records(self._etcd, self._keys, runs.unrecorded(name))
        recorded = [last_ms for document in page.items if (last_ms := _planned_end_ms(document)) is not None]
        if not recorded and page.next_cursor is not None:
            return None, f"the newest {_RECORDS} records of {name} are of no planned fire"
        if not page.items and await self._had_records(name):
            return None, f"the records of {name} have been removed with the older ones"
        ends += recorded
        ends += [last_ms for document in kept if (last_ms := _planned_end_ms(document)) is not None]
        ends += [run.plan_ms for run in runs.of(name) if run.run_id.plan_ms is not None]
        ends += [run.plan_ms for run in runs.unrecorded(name) if run.plan_ms is not None]
        return max((last_ms for last_ms in ends if last_ms <= now_ms), default=0), ""

    async def _had_records(self, name: str) -> bool:
        results = await self._history.results([name])
        if results is None:
            raise UnavailableError("the log store does not answer")
        return name in results

    async def _asked_for(self, name: str) -> list[int]:
        """The plan times of fires that wait as requests: decided, though nothing has come of them yet."""
        found = []
        async for page in self._etcd.read_prefix(self._keys.requests_of(name)):
            for kv in page.kvs:
                with suppress(ValueError):  # somebody else's; the steward sets it aside
                    found.append(self._keys.run_of(kv.key).plan_ms)
        return [plan_ms for plan_ms in found if plan_ms is not None]


def _planned_end_ms(document: Mapping[str, Any]) -> int | None:
    """The plan time of the last fire that the record is about; None: it is of no planned one."""
    run_id = run_id_of(document)
    return None if run_id is None or run_id.plan_ms is None else end_ms(document)
