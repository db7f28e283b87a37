"""Which fires of a job were started before their time: what an unblocking must not start again.

Read in the order in which a run goes: what etcd has of it at one revision (asked for, claimed, ended), then the log
store, which has what had gone from etcd by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from common.errors import UnavailableError
from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.run import RunEntry, Verdict
from common.protocol.txn import KeyValue
from common.protocol.unblock_edit import Started
from common.runlog import RunFilter, RunPage

_PAGE: Final = 500
_MOST: Final = 20_000
_NOT_STARTED: Final = frozenset({Verdict.MISSED, Verdict.SKIPPED})


class Records(Protocol):
    """The log store's records."""

    async def runs(self, wanted: RunFilter, *, cursor: str | None, limit: int) -> RunPage: ...


async def look_for_started(etcd: EtcdClient, keys: Keys, records: Records, name: str, *, after_ms: int) -> Started:
    """Those planned later than that. UnavailableError: the log store is away, or has too many records."""
    runs, revision = await _in_etcd(etcd, keys, name)
    runs += await _in_log_store(records, name, after_ms)
    found: dict[str, list[int]] = {}
    for run in runs:
        if run.plan_ms is not None and run.plan_ms > after_ms:
            found.setdefault(run.of_worker or "", []).append(run.plan_ms)
    return Started(revision=revision, by_worker=found)


async def _in_etcd(etcd: EtcdClient, keys: Keys, name: str) -> tuple[list[RunId], int]:
    found: list[RunId] = []
    revision = 0
    prefixes: tuple[tuple[str, Callable[[KeyValue], bool]], ...] = (
        (keys.runs_of(name), _has_started), (keys.own_runs_of(name), _has_started),
        (keys.requests_of(name), _always), (keys.own_requests_of(name), _always),
    )  # fmt: skip
    for prefix, counts in prefixes:
        async for page in etcd.read_prefix(prefix, revision=revision):
            revision = page.revision
            found += [run for kv in page.kvs if counts(kv) and (run := _run_of(keys, kv)) is not None]
    return found, revision


async def _in_log_store(records: Records, name: str, after_ms: int) -> list[RunId]:
    found: list[RunId] = []
    cursor, read = None, 0
    while True:
        page = await records.runs(RunFilter(job=name, from_ms=after_ms + 1), cursor=cursor, limit=_PAGE)
        found += _started_in(page.items)
        cursor, read = page.next_cursor, read + len(page.items)
        if cursor is None:
            return found
        if read > _MOST:
            raise UnavailableError(f"there are more than {_MOST:,} records of fires of {name} that are still to come")


def _started_in(documents: tuple[dict[str, Any], ...]) -> Iterator[RunId]:
    for document in documents:
        if document.get("status") not in _NOT_STARTED:
            yield RunId.parse(str(document["_id"]))


def _has_started(kv: KeyValue) -> bool:
    """What cannot be read may have."""
    try:
        record = RunEntry.from_json(kv.value).record
    except ValueError:
        return True
    return record is None or record.status not in _NOT_STARTED


def _always(_: KeyValue) -> bool:
    return True


def _run_of(keys: Keys, kv: KeyValue) -> RunId | None:
    try:
        return keys.run_of(kv.key)
    except ValueError:
        return None
