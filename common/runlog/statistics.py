"""How many runs of each verdict a day had, and how long they took: the collection ``statistics``.

    new/w<writer>/<position>   what a writer adds, with each batch or some of them: one insert, however many jobs
         |  folded by the steward, all that there are at once
         v
    day/2026-03-29/<bucket>    the counts of that day (UTC, of the plan time), of the jobs of one bucket of 256
    day/2026-03-29/all         of all jobs together
    writer/w<writer>           up to which of a writer's records all is folded

A document of a day says which deltas it has; it is replaced where nobody has replaced it meanwhile. So a fold that
dies, or runs twice at once, is done again without harm. Deltas are removed last. Reads and removal go by ``_id``.

The counts are JSON text: the name of a job need not be one of a field, and one text costs both servers least.
"""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, Self

from pymongo import DeleteOne, ReplaceOne, UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import DuplicateKeyError

from common.errors import UnavailableError
from common.protocol.run import Verdict
from common.protocol.values import LARGEST
from common.runlog.client import Document, bulk, by_ids
from common.runlog.counting import DURATION, LAST_DAY, LONGEST, TIMED, Counts, Delta, OwedCounts, add_counts

_log = logging.getLogger(__name__)

_BUCKETS: Final = 256
_ALL: Final = "all"
_DOCUMENTS_AT_ONCE: Final = 50
_ROUNDS: Final = 8
_EPOCH: Final = date(1970, 1, 1).toordinal()
_AFTER_ALL: Final = "~"
_LOOKED_AT: Final = 20
"""Of a writer's newest deltas: one of them is ours."""
_LAST_POSITION: Final = 10**15
_WHOLE: Final = {"writes": 1, "folded": 1, "counts": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCounts:
    """What one UTC day came to."""

    day: int
    """Days since 1970-01-01."""
    by_status: Mapping[Verdict, int]
    """Every verdict stands in it."""
    timed: int
    """How many runs the durations are of: those that started, and whose end is known."""
    duration_ms: int
    """Of all of them together."""
    max_duration_ms: int

    @classmethod
    def nothing(cls, day: int) -> Self:
        """A day that has no record yet."""
        return cls(day=day, by_status=dict.fromkeys(Verdict, 0), timed=0, duration_ms=0, max_duration_ms=0)


class Statistics:
    """The collection; to be used within `asking`, which bounds each call."""

    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self._collection = collection

    async def put(self, owed: OwedCounts) -> None:
        """All of it is there, once; the owner forgets it then. Of one writer one call at a time."""
        for _ in range(_ROUNDS):
            if owed.counted is None:
                owed.are_counted(await self._counted(owed.column))
            while (delta := owed.delta()) is not None:
                owed.counted = None  # whoever is not answered has to look
                if not await self._insert(delta):
                    break
                owed.are_counted(delta.last)
            else:
                return
        raise UnavailableError("the statistics are written by another with the same spool; they are tried again")

    async def fold(self, limit: int) -> int:
        """The oldest deltas, at most so many, are in the days' counts and gone; how many."""
        deltas = await self._deltas(limit)
        parts: dict[str, _Part] = {}
        counted = await self._writers({str(delta["column"]) for delta in deltas})
        # Others are folded already; or come so late that their writer has looked meanwhile, and counted otherwise.
        valid = [delta for delta in deltas if _first(delta) > counted.get(delta["column"], 0)]
        for delta in valid:
            _take_apart(delta, parts)
            await asyncio.sleep(0)  # one may be of thousands of jobs
        ids = list(parts)
        for start in range(0, len(ids), _DOCUMENTS_AT_ONCE):
            await self._add([parts[one] for one in ids[start : start + _DOCUMENTS_AT_ONCE]])
        newest = {str(delta["column"]): int(delta["last"]) for delta in valid}
        if newest:
            said = [_saying(column, last, is_odd=counted.get(column) == 0) for column, last in newest.items()]
            await bulk(self._collection, said)
        # If we die before this, they are folded once more, which changes nothing.
        await self._remove(deltas)
        return len(deltas)

    async def read(self, job: str | None, days: Sequence[int]) -> list[DayCounts]:
        """Those of the days that have something, oldest first; ``job`` None: all jobs together."""
        wanted = {_id(day, job): day for day in days}
        found = await by_ids(self._collection, list(wanted), projection={"counts": 1})
        by_day = {wanted[one["_id"]]: _by_job(_table(one.get("counts"))).get(job or _ALL) for one in found}
        return [_day_counts(day, counts) for day, counts in sorted(by_day.items()) if counts]

    async def forget(self, before: int, limit: int) -> int:
        """The oldest counts of the days before this one are gone, at most so many documents; how many."""
        old = await self._span("day/", limit, end=f"day/{_text(before)}/")
        await self._remove(old)
        return len(old)

    async def _insert(self, delta: Delta) -> bool:
        """False: one that begins there is there already, it may count less."""
        document = {
            "_id": f"new/{delta.column}/{delta.first:016d}", "column": delta.column, "last": delta.last,
            "counts": delta.to_json(),
        }  # fmt: skip
        try:
            await self._collection.insert_one(document)
        except DuplicateKeyError:
            there = await self._collection.find_one({"_id": document["_id"]})
            if there is None or _is_ours(there):
                return False
            await self._collection.replace_one({"_id": document["_id"]}, document)
        return True

    async def _counted(self, column: str) -> int:
        # The deltas first: one that is gone by then is in what is read second.
        span = {"$gt": f"new/{column}/", "$lt": f"new/{column}/{_AFTER_ALL}"}
        found = await self._collection.find({"_id": span}, sort=[("_id", -1)], limit=_LOOKED_AT).to_list()
        newest = next((one for one in found if _is_ours(one)), None)
        said = (await self._writers([column])).get(column, 0)
        return int(newest["last"]) if newest is not None and _first(newest) > said else said

    async def _writers(self, columns: Iterable[str]) -> dict[str, int]:
        """Up to which of their records what these writers have counted is folded; 0 where nobody can tell."""
        wanted = {_writer(column): column for column in columns}
        found = await by_ids(self._collection, list(wanted), projection={"counted": 1})
        return {wanted[one["_id"]]: _position(one.get("counted")) for one in found}

    async def _deltas(self, limit: int) -> list[Document]:
        """The oldest ones, at most so many; also behind what is none, which stays."""
        deltas: list[Document] = []
        after = "new/"
        while (left := limit - len(deltas)) > 0:
            page = await self._span(after, left, end=f"new/{_AFTER_ALL}")
            deltas += [delta for delta in page if _is_ours(delta)]
            if len(page) < left:
                break
            after = page[-1]["_id"]
        return deltas

    async def _add(self, parts: Sequence[_Part]) -> None:
        for _ in range(_ROUNDS):
            found = await by_ids(self._collection, [part.id for part in parts], projection=_WHOLE)
            there = {document["_id"]: document for document in found}
            changed: list[tuple[_Part, ReplaceOne[Document]]] = []
            for part in parts:
                if (replacement := part.added_to(there.get(part.id, {}))) is not None:
                    changed.append((part, replacement))
                await asyncio.sleep(0)
            if not changed:
                return
            # Where another has replaced it meanwhile, none is found, and the one that is to be made is there.
            _, faults = await bulk(self._collection, [replacement for _, replacement in changed])
            if refused := list(faults.refused.values()):
                raise UnavailableError(f"the log store does not take the counts of a day: {refused[0]}")
            parts = [changed[index][0] for index in faults.duplicates]
        raise UnavailableError("the counts were written by others all the time; they are tried again")

    async def _span(self, after: str, limit: int, *, end: str) -> list[Document]:
        span = {"$gt": after, "$lt": end}
        return await self._collection.find({"_id": span}, sort=[("_id", 1)], limit=limit, batch_size=limit).to_list()

    async def _remove(self, documents: Sequence[Document]) -> None:
        if documents:
            await self._collection.bulk_write([DeleteOne({"_id": one["_id"]}) for one in documents], ordered=False)


@dataclass(slots=True, kw_only=True)
class _Part:
    """What some deltas add to one document."""

    id: str
    deltas: list[tuple[str, int, Mapping[str, Counts]]] = field(default_factory=list)
    """Writer, up to which of its records, and the counts by job; of each writer in their order."""

    def added_to(self, there: Mapping[str, Any]) -> ReplaceOne[Document] | None:
        """Puts the document with all of it in the place of what is there; None where that has it already."""
        folded = {column: _position(last) for column, last in _table(there.get("folded")).items()}
        counts = _by_job(_table(there.get("counts")))
        news = [(column, last, by_job) for column, last, by_job in self.deltas if last > folded.get(column, 0)]
        for column, last, by_job in news:
            folded[column] = last
            for job, added in by_job.items():
                add_counts(added, counts.setdefault(job, {}))
        if not news:
            return None
        before = _position(there.get("writes"))
        as_read: Document = {"writes": {"$eq": before}} if before else {}
        if "writes" not in there:
            as_read = {"writes": {"$exists": False}}
        document = {"_id": self.id, "writes": before + 1, "folded": _json(folded), "counts": _json(counts)}
        return ReplaceOne({"_id": self.id, **as_read}, document, upsert=True)


def _take_apart(delta: Document, parts: dict[str, _Part]) -> None:
    """A delta, by the documents that it goes into."""
    column, last = str(delta["column"]), int(delta["last"])
    for day, jobs in _days_in(delta).items():
        whole: Counts = {}
        by_document: dict[str, dict[str, Counts]] = {_id(day, None): {_ALL: whole}}
        for job, counts in jobs.items():
            add_counts(counts, whole)
            by_document.setdefault(_id(day, job), {})[job] = counts
        for one, by_job in by_document.items():
            parts.setdefault(one, _Part(id=one)).deltas.append((column, last, by_job))


def _id(day: int, job: str | None) -> str:
    bucket = _ALL if job is None else f"{zlib.crc32(job.encode(errors='surrogatepass')) % _BUCKETS:03d}"
    return f"day/{_text(day)}/{bucket}"


def _writer(column: str) -> str:
    return f"writer/{column}"


def _is_ours(delta: Document) -> bool:
    """Others stay where they are, and are told of."""
    is_ours = isinstance(delta.get("column"), str) and _position(delta.get("last")) > 0
    if not is_ours or not _first_in(delta["_id"]).isdecimal() or not _days_in(delta):
        extra = {"action": "statistics.odd", "id": delta["_id"]}
        _log.error("%s in the collection statistics is not one of ours; remove it", delta["_id"], extra=extra)
        return False
    return True


def _table(text: object) -> dict[str, Any]:
    """What the text says; nothing where it is not one of ours."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _days_in(delta: Document) -> dict[int, dict[str, Counts]]:
    """What a delta adds, by day; nothing where any of it is not one of ours."""
    days: dict[int, dict[str, Counts]] = {}
    for day, jobs in _table(delta.get("counts")).items():
        by_job = _by_job(jobs) if isinstance(jobs, dict) else {}
        is_day = day.isdecimal() and len(day) <= len(str(LAST_DAY)) and int(day) <= LAST_DAY
        if not is_day or not isinstance(jobs, dict) or len(by_job) != len(jobs):
            return {}
        days[int(day)] = by_job
    return days


def _by_job(table: Mapping[str, Any]) -> dict[str, Counts]:
    """The counts by job, but for those that are none."""
    return {job: counts for job, counts in table.items() if _are_counts(counts)}


def _are_counts(value: object) -> bool:
    return isinstance(value, dict) and all(type(number) is int and abs(number) <= LARGEST for number in value.values())


def _position(value: object) -> int:
    """0: it is none."""
    return value if type(value) is int and 0 < value <= _LAST_POSITION else 0


def _saying(column: str, last: int, *, is_odd: bool) -> UpdateOne:
    """Of a writer up to where all is folded, whoever says so first. ``is_odd``: what is there is no position."""
    change = {"$set" if is_odd else "$max": {"counted": last}}
    return UpdateOne({"_id": _writer(column)}, change, upsert=True)


def _first_in(delta_id: object) -> str:
    first = str(delta_id).rpartition("/")[2]
    return first if first.isascii() and len(first) <= len(str(LARGEST)) else ""


def _first(delta: Document) -> int:
    return int(_first_in(delta["_id"]))


def _text(day: int) -> str:
    return date.fromordinal(_EPOCH + day).isoformat()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _day_counts(day: int, counts: Mapping[str, int]) -> DayCounts:
    return DayCounts(
        day=day,
        # Below nothing: the `lost` that a late record took the place of had not been counted.
        by_status={status: max(0, counts.get(status.value, 0)) for status in Verdict},
        timed=counts.get(TIMED, 0),
        duration_ms=counts.get(DURATION, 0),
        max_duration_ms=counts.get(LONGEST, 0),
    )
