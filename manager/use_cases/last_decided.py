"""The newest fire of a job that is known to be decided, by what there is of it: for a mark that does not tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from common.errors import UnavailableError
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.run import RunEntry
from common.protocol.txn import KeyValue
from common.runlog import RunFilter
from manager.use_cases.unblock import Decided
from manager.views.fire_verdicts import end_ms, run_id_of
from manager.views.history import History

_RECORDS: Final = 200
"""Looked through for one of a planned fire: runs that a user asked for are among them."""


class LastDecided:
    """Asks etcd, then the log store: in the order in which a run goes."""

    def __init__(self, etcd: EtcdClient, keys: Keys, history: History) -> None:
        self._etcd = etcd
        self._keys = keys
        self._history = history

    async def before(self, name: str, now_ms: int) -> Decided:
        """Its plan time, ms since the epoch, at ``now_ms`` or before; None only where waiting would not help.

        UnavailableError: etcd or the log store does not answer.
        """
        # In etcd first, of fires that wait as requests, have a run, or a record: what goes from there meanwhile is in
        # the log store by then. Read anew: a mirror may lag.
        ends = [plan_ms async for plan_ms, _ in self._planned(self._keys.requests_of(name))]
        async for plan_ms, kv in self._planned(self._keys.runs_of(name)):
            ends.append(plan_ms)
            with suppress(ValueError):  # not our value; the key alone tells that the fire is decided
                record = RunEntry.from_json(kv.value).record
                ends.append(0 if record is None else record.range_end_ms or 0)
        page = await self._history.runs(RunFilter(job=name, to_ms=now_ms + 1), cursor=None, limit=_RECORDS)
        recorded = [
            end_ms(one) for one in page.items if (run := run_id_of(one)) is not None and run.plan_ms is not None
        ]
        if not recorded and page.next_cursor is not None:
            return None, f"the newest {_RECORDS} records of {name} are of no planned fire"
        if not page.items:
            results = await self._history.results([name])
            if results is None:
                raise UnavailableError("the log store does not answer")
            if name in results:
                return None, f"the records of {name} have been removed with the older ones"
        ends += recorded
        return max((last_ms for last_ms in ends if last_ms <= now_ms), default=0), ""

    async def _planned(self, prefix: str) -> AsyncIterator[tuple[int, KeyValue]]:
        """The keys of planned fires, and their plan times."""
        async for page in self._etcd.read_prefix(prefix):
            for kv in page.kvs:
                try:
                    plan_ms = self._keys.run_of(kv.key).plan_ms
                except ValueError:
                    continue  # not ours; the steward quarantines it
                if plan_ms is not None:
                    yield plan_ms, kv
