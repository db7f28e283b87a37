"""How many runs of each verdict a day had, and how long they took: counted from the records, by the steward.

    log                          the records planned within an hour: one range of the index on ``pageKey``, in pages
     |  counted each minute while the hour lasts, then less and less often for a week
     v
    hour/2026-03-29/017/14       what they came to, of the jobs of one bucket of 256
    hour/2026-03-29/all/14       of all jobs together
     |  rolled up once the day is a week old
     v
    day/2026-03-29/017, .../all  the same of a whole day, kept for longer than its records may be
    counted                      when each of these hours was counted last

Each step replaces a document by what was counted, so that doing it again, or twice at the same time, does no harm.
Where fewer fires are found of a job than before, the former count stays: retention has removed records meanwhile. For
the same reason a day is read from whichever knows of more: its own document, or those of its hours.

The counts are JSON text: the name of a job need not be one of a field, and one text costs both servers least.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Self, TypeAlias, TypeGuard

import pymongo
from pymongo import DeleteOne, ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection

from common.protocol.run import plan_key
from common.protocol.values import LARGEST
from common.runlog.client import Document, by_ids
from common.runlog.documents import PAGE_KEY, plan_ms_of
from common.verdicts import ENDS_UNKNOWN, Verdict

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
ROLLED_UP_DAYS: Final = 7
"""For so long after its day an hour is counted again; then its day is rolled up."""

Counts: TypeAlias = dict[str, int]
"""Fires, by verdict; how many runs took how long together (`_TIMED`, `_DURATION`), and the longest (`_LONGEST`)."""

_DURATION: Final = "durationMs"
_LONGEST: Final = "maxDurationMs"
_TIMED: Final = "timed"
_VERDICTS: Final = tuple(map(str, Verdict))
_FIELDS: Final = {"_id": 0, PAGE_KEY: 1, "jobName": 1, "status": 1, "count": 1, "startTime": 1, "endTime": 1}
_HOURS: Final = 24
_BUCKETS: Final = 256
_ALL: Final = "all"
_DOCUMENTS_AT_ONCE: Final = 50
_JOBS_AT_ONCE: Final = 500
"""Then others have their turn."""
_COUNTED: Final = "counted"
_EPOCH: Final = date(1970, 1, 1).toordinal()
_OF_A_BUCKET: Final = len("hour/2026-03-29/017/")
_AFTER_ALL: Final = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """What one UTC day, or one hour, came to."""

    number: int
    """Days, or hours, since 1970-01-01."""
    by_status: Mapping[Verdict, int]
    """Every verdict stands in it."""
    timed: int
    """How many runs the durations are of: those that started, and whose end is known."""
    duration_ms: int
    """Of all of them together."""
    max_duration_ms: int

    @classmethod
    def nothing(cls, number: int) -> Self:
        """One that has no record yet."""
        return cls(number=number, by_status=dict.fromkeys(Verdict, 0), timed=0, duration_ms=0, max_duration_ms=0)


class Statistics:
    """The collection, and the records that it is counted from; to be used within `asking`, which bounds each call."""

    def __init__(self, collection: AsyncCollection[Document], log: AsyncCollection[Document]) -> None:
        self._collection = collection
        self._log = log

    async def count(self, hour: int, after: str, limit: int, to: dict[str, Counts]) -> str | None:
        """Adds what the hour's next records come to, by job, behind that page key; where to go on, None at its end."""
        span = {"$gt": after or plan_key(hour * HOUR_MS), "$lt": plan_key((hour + 1) * HOUR_MS)}
        page = self._log.find({PAGE_KEY: span}, _FIELDS, sort=[(PAGE_KEY, 1)], limit=limit, batch_size=limit)
        documents = await page.to_list()
        for document in documents:
            _count(document, to)
        return str(documents[-1][PAGE_KEY]) if len(documents) == limit else None

    async def newest_hour(self, before: int) -> int | None:
        """The hour of the newest record that is planned before that hour begins; None: there is none."""
        span = {"$gte": plan_key(0), "$lt": plan_key(before * HOUR_MS)}
        newest = await self._log.find_one({PAGE_KEY: span}, {PAGE_KEY: 1}, sort=[(PAGE_KEY, pymongo.DESCENDING)])
        return None if newest is None else plan_ms_of(newest[PAGE_KEY]) // HOUR_MS

    async def put(self, hour: int, found: Mapping[str, Counts]) -> None:
        """This is what the hour's records come to, by job."""
        if not found:
            return
        day, of_day = divmod(hour, _HOURS)
        # All buckets: of jobs whose records are gone by now the former counts are part of the sum.
        parts: dict[str, dict[str, Counts]] = {_hour_id(day, f"{one:03d}", of_day): {} for one in range(_BUCKETS)}
        for number, (job, counts) in enumerate(found.items(), start=1):
            parts[_hour_id(day, _bucket(job), of_day)][job] = counts
            if number % _JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
        total = await self._put(parts)
        await self._put({_hour_id(day, _ALL, of_day): {_ALL: total}})

    async def counted(self) -> dict[int, int]:
        """When each hour was counted last (wall clock, ms), of those that may be counted again."""
        found = await self._collection.find_one({"_id": _COUNTED}) or {}
        hours = _table(found.get("hours"))
        return {int(hour): at_ms for hour, at_ms in hours.items() if hour.isdecimal() and type(at_ms) is int}

    async def put_counted(self, hours: Mapping[int, int]) -> None:
        """The same, to be written down."""
        await self._collection.replace_one({"_id": _COUNTED}, {"_id": _COUNTED, "hours": _json(hours)}, upsert=True)

    async def roll_up(self, before: int) -> bool:
        """Hours of the oldest day before this one are that day's, those of one bucket; False: there are none."""
        first = await self._span("hour/", 1, end=f"hour/{_text(before)}/")
        if not first:
            return False
        of_a_bucket = first[0]["_id"][:_OF_A_BUCKET]
        hours = await self._span(of_a_bucket, _HOURS, end=of_a_bucket + _AFTER_ALL)
        whole: dict[str, Counts] = {}
        for hour in hours:
            for job, counts in _by_job(hour).items():
                _add(counts, whole.setdefault(job, {}))
            await asyncio.sleep(0)
        await self._put({f"day/{of_a_bucket[len('hour/') : -1]}": whole})
        await self._remove(hours)  # if we die before this, it is done once more
        return True

    async def read(self, job: str | None, days: Sequence[int]) -> list[SpanCounts]:
        """Those of the days that have something, oldest first; ``job`` None: all jobs together."""
        bucket = _ALL if job is None else _bucket(job)
        whole = {f"day/{_text(day)}/{bucket}": day for day in days}
        recent = sorted(days)[-(ROLLED_UP_DAYS + 2) :]
        hours = {_hour_id(day, bucket, hour): day for day in recent for hour in range(_HOURS)}
        of_day: dict[int, Counts] = {}
        of_hours: dict[int, Counts] = {}
        for found in await by_ids(self._collection, [*whole, *hours], projection={"counts": 1}):
            one = found["_id"]
            if counts := _by_job(found).get(job or _ALL):
                day, to = (whole[one], of_day) if one in whole else (hours[one], of_hours)
                _add(counts, to.setdefault(day, {}))
        fullest = {day: _fuller(of_day.get(day, {}), of_hours.get(day, {})) for day in of_day.keys() | of_hours.keys()}
        return [_span_counts(day, counts) for day, counts in sorted(fullest.items())]

    async def read_hours(self, job: str | None, hours: Sequence[int]) -> list[SpanCounts]:
        """The same of hours, as long as their day is not rolled up."""
        ids = {_hour_id(hour // _HOURS, _ALL if job is None else _bucket(job), hour % _HOURS): hour for hour in hours}
        found = await by_ids(self._collection, list(ids), projection={"counts": 1})
        of_hour = {ids[one["_id"]]: _by_job(one).get(job or _ALL) for one in found}
        return [_span_counts(hour, counts) for hour, counts in sorted(of_hour.items()) if counts]

    async def forget(self, before: int, limit: int) -> int:
        """The oldest counts of the days before this one are gone, at most so many documents; how many."""
        old = await self._span("day/", limit, end=f"day/{_text(before)}/")
        await self._remove(old)
        return len(old)

    async def _put(self, parts: Mapping[str, Mapping[str, Counts]]) -> Counts:
        """What these documents then come to together."""
        ids, total = list(parts), Counts()
        for start in range(0, len(ids), _DOCUMENTS_AT_ONCE):
            some = ids[start : start + _DOCUMENTS_AT_ONCE]
            there = {one["_id"]: one for one in await by_ids(self._collection, some, projection={"counts": 1})}
            changes = []
            for one in some:
                before = _by_job(there.get(one, {}))
                counts = before | {job: _fuller(before.get(job, {}), now) for job, now in parts[one].items()}
                for each in counts.values():
                    _add(each, total)
                if counts != before:
                    changes.append(ReplaceOne({"_id": one}, {"_id": one, "counts": _json(counts)}, upsert=True))
                await asyncio.sleep(0)  # one may be of hundreds of jobs
            if changes:
                await self._collection.bulk_write(changes, ordered=False)
        return total

    async def _span(self, first: str, limit: int, *, end: str) -> list[Document]:
        span = {"$gte": first, "$lt": end}
        found = self._collection.find({"_id": span}, sort=[("_id", pymongo.ASCENDING)], limit=limit, batch_size=limit)
        return await found.to_list()

    async def _remove(self, documents: Sequence[Document]) -> None:
        if documents:
            await self._collection.bulk_write([DeleteOne({"_id": one["_id"]}) for one in documents], ordered=False)


def span_counts_of(documents: Iterable[Mapping[str, Any]], unit_ms: int) -> list[SpanCounts]:
    """What these log documents come to by the day, or the hour, that they are planned on, oldest first."""
    by_span: dict[int, dict[str, Counts]] = {}
    for document in documents:
        if _is_number(plan_ms := document.get("planTime")):
            _count(document, by_span.setdefault(plan_ms // unit_ms, {}))
    found: list[SpanCounts] = []
    for number, by_job in sorted(by_span.items()):
        whole = Counts()
        for counts in by_job.values():
            _add(counts, whole)
        found.append(_span_counts(number, whole))
    return found


def _count(document: Mapping[str, Any], to: dict[str, Counts]) -> None:
    """One record more; nothing where it is none of ours."""
    job, status = document.get("jobName"), document.get("status")
    if not isinstance(job, str) or status not in _VERDICTS:
        return
    fires, start_ms, end_ms = document.get("count"), document.get("startTime"), document.get("endTime")
    added = {str(status): fires if _is_number(fires) and fires > 0 else 1}
    if _is_number(start_ms) and _is_number(end_ms) and status not in ENDS_UNKNOWN:
        took_ms = max(0, end_ms - start_ms)
        added |= {_TIMED: 1, _DURATION: took_ms, _LONGEST: took_ms}
    _add(added, to.setdefault(job, {}))


def _add(counts: Mapping[str, int], to: Counts) -> None:
    for name, number in counts.items():
        there = to.get(name, 0)
        to[name] = max(there, number) if name == _LONGEST else there + number


def _fuller(before: Counts, now: Counts) -> Counts:
    """What knows of more fires; of two that know of as many the one with fewer that were lost, else the newer.

    A run that was lost may have succeeded, and none is lost later.
    """

    def known(counts: Counts) -> tuple[int, int]:
        lost = sum(counts.get(status, 0) for status in ENDS_UNKNOWN)
        return sum(counts.get(status, 0) for status in _VERDICTS), -lost

    return max(now, before, key=known)


def _hour_id(day: int, bucket: str, hour: int) -> str:
    return f"hour/{_text(day)}/{bucket}/{hour:02d}"


def _bucket(job: str) -> str:
    return f"{zlib.crc32(job.encode(errors='surrogatepass')) % _BUCKETS:03d}"


def _text(day: int) -> str:
    return date.fromordinal(_EPOCH + day).isoformat()


def _table(text: object) -> dict[str, Any]:
    """What the text says; nothing where it is not one of ours."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _by_job(document: Mapping[str, Any]) -> dict[str, Counts]:
    """The counts of a document by job, but for those that are none."""
    found = _table(document.get("counts")).items()
    return {job: counts for job, counts in found if isinstance(counts, dict) and all(map(_is_number, counts.values()))}


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _span_counts(number: int, counts: Mapping[str, int]) -> SpanCounts:
    return SpanCounts(
        number=number,
        # A former version let a number fall below nothing.
        by_status={status: max(0, counts.get(status.value, 0)) for status in Verdict},
        timed=counts.get(_TIMED, 0),
        duration_ms=counts.get(_DURATION, 0),
        max_duration_ms=counts.get(_LONGEST, 0),
    )
