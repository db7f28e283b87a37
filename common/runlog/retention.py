"""What the run log forgets, in small steps: records by age and by number, and what is left of jobs that are gone.

Each step is one range of one index and one deletion by ``_id``; nothing is counted, and every step may be repeated.
Only records with a ``pageKey`` are found: the legacy system's own documents stay.

In the collection ``retention`` stands what is kept, as the worker that sees to it says; nothing where all is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pymongo import DeleteOne
from pymongo.asynchronous.collection import AsyncCollection

from common.protocol.run import plan_key
from common.runlog.client import Document
from common.runlog.documents import ORDER, PAGE_KEY, last_id

_STATE: Final = "retention/current"
_RANGE_END: Final = "rangeEndTime"
_BEFORE_ALL: Final = ""
_AFTER_ALL: Final = "~"
_BEHIND_ALL_JOBS: Final = "job0"
"""The ``_id`` of every job's results begins with ``job/``, which sorts right before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRecord:
    """A record that may go."""

    run_id: str
    page_key: str
    """Where to look on behind it."""
    range_end_ms: int | None = None
    """Of a record of several fires: the plan time of the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptJob:
    """A job of which the log store says what it came to."""

    name: str
    newest_ms: int
    """Plan time of its newest record, the last one of a range."""
    order: str
    """Says whether another record has come since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """What is kept, and how the worker that sees to it is doing."""

    days: int
    """0: records go at no age."""
    per_job: int
    """0: any number of records of a job stays."""
    worker: str
    at_ms: int
    """Wall clock of the last pass that came to its end; of the beginning while there has been none."""
    removed: int
    """Records in the last pass."""


class Removal:
    """What removes; to be used within `asking`, which bounds each call."""

    def __init__(
        self,
        log: AsyncCollection[Document],
        last: AsyncCollection[Document],
        state: AsyncCollection[Document],
    ) -> None:
        self._log = log
        self._last = last
        self._state = state

    async def older(self, before_ms: int, after: str, limit: int) -> list[OldRecord]:
        """The oldest records planned before an instant, behind that page key."""
        return await self._oldest({}, after, {"$lt": plan_key(before_ms)}, limit)

    async def beyond(self, job: str, keep: int, before_ms: int, after: str, limit: int) -> list[OldRecord]:
        """The job's oldest records beyond its newest ``keep`` and planned before an instant, behind that page key."""
        of_job = {"jobName": {"$eq": job}}
        newest_first = self._log.find(
            {**of_job, PAGE_KEY: {"$gt": _BEFORE_ALL, "$lt": _AFTER_ALL}}, {PAGE_KEY: 1}, sort=[(PAGE_KEY, -1)],
            skip=keep, limit=1,
        )  # fmt: skip
        first = await newest_first.to_list()
        upper = {"$lte": min(first[0][PAGE_KEY], plan_key(before_ms))} if first else {}
        return await self._oldest(of_job, after, upper, limit) if upper else []

    async def remove(self, run_ids: Sequence[str]) -> None:
        """These records are not there any more."""
        if run_ids:
            await self._log.bulk_write([DeleteOne({"_id": one}) for one in run_ids], ordered=False)

    async def jobs(self, after: str, limit: int) -> list[KeptJob]:
        """The next jobs behind that name, in the order of their names."""
        cursor = self._last.find(
            {"_id": {"$gt": last_id(after), "$lt": _BEHIND_ALL_JOBS}}, {ORDER: 1}, sort=[("_id", 1)],
            limit=limit, batch_size=limit,
        )  # fmt: skip
        return [_kept(document) for document in await cursor.to_list()]

    async def forget(self, jobs: Iterable[KeptJob]) -> None:
        """What these jobs came to is forgotten, unless another record has come since."""
        deletions = [DeleteOne({"_id": last_id(job.name), ORDER: {"$eq": job.order}}) for job in jobs]
        if deletions:
            await self._last.bulk_write(deletions, ordered=False)

    async def put_state(self, state: RetentionState | None) -> None:
        """What is kept; None: all of it."""
        if state is None:
            await self._state.delete_one({"_id": _STATE})
            return
        document = {
            "days": state.days, "perJob": state.per_job, "worker": state.worker, "atMs": state.at_ms,
            "removed": state.removed,
        }  # fmt: skip
        await self._state.replace_one({"_id": _STATE}, {"_id": _STATE, **document}, upsert=True)

    async def state(self) -> RetentionState | None:
        """As it was put last; None also where what stands there is none of ours."""
        found = await self._state.find_one({"_id": _STATE})
        if found is None:
            return None
        try:
            return RetentionState(
                days=int(found["days"]), per_job=int(found["perJob"]), worker=str(found["worker"]),
                at_ms=int(found["atMs"]), removed=int(found["removed"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            return None

    async def _oldest(self, of: Mapping[str, Any], after: str, upper: Mapping[str, str], limit: int) -> list[OldRecord]:
        cursor = self._log.find(
            {**of, PAGE_KEY: {"$gt": after, **upper}}, {"_id": 1, PAGE_KEY: 1, _RANGE_END: 1}, sort=[(PAGE_KEY, 1)],
            limit=limit, batch_size=limit,
        )  # fmt: skip
        return [
            OldRecord(
                run_id=str(document["_id"]), page_key=str(document[PAGE_KEY]),
                range_end_ms=end_ms if isinstance(end_ms := document.get(_RANGE_END), int) else None,
            )
            for document in await cursor.to_list()
        ]  # fmt: skip


def _kept(document: Mapping[str, Any]) -> KeptJob:
    """By its ``_id`` alone, which is all that a document under such an ``_id`` is certain to have."""
    order = str(document.get(ORDER, ""))
    newest = order.partition("/")[0]
    name = str(document["_id"]).removeprefix(last_id(""))
    return KeptJob(name=name, newest_ms=int(newest) if newest.isdecimal() else 0, order=order)
