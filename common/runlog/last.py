"""What each job came to, for lists: its last result, its last run, and the strip of its newest verdicts.

One document a job in the collection ``last``, with ``result`` (the newest record), ``run`` (the newest that started),
``failing`` (whether the newest that was not skipped is a failure; of a broadcast job any
worker's), ``failure`` (the newest failure),
``successTime`` (when a run succeeded last; it never goes back) and ``recent`` (texts that sort as the records do, the
newest ``KEPT`` of them). ``failedKey`` and ``tookKey`` (`ByResult`) put jobs into an order, by an index each.

A text is ``0001790000000000/100001/1:12000/@1790000000000#1 success 1790000000000``: what orders it, how long the run
took (left out where that is unknown), the run without its job, verdict and plan time. A former version wrote the run
with its job, and the durations into a list of their own, ``took``; both are read, and become texts of today where
a writer merges. That version reads ours as its own, but for the job.

Two ways to write it:

* All records are newer than what is there, which ``order`` tells: one update, no read. So it is for nearly every batch.
* Else (delivered again, or out of order): read, merge, and write where no other wrote meanwhile, which ``writes``
  shows. Merging is taking the newest of a union, so repetition and order change nothing.

MongoDB could sort inside ``$push``; nx-27017 ignores that, and has no pipelines in updates. Neither is needed here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from pymongo import UpdateOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import OperationFailure

from common.errors import UnavailableError
from common.forecast import usual_ms
from common.notices.alerts import CameTo
from common.protocol.run import RunRecord, last_order
from common.runlog.client import Document, bulk, by_ids
from common.runlog.documents import ORDER, last_document, last_id
from common.verdicts import Verdict

SHOWN: Final = 60
LISTED: Final = 20
"""So many of these stand in a list of jobs, and are sent as they change."""
KEPT: Final = SHOWN + 4
"""Texts in a strip: some more than are shown, for fires that have several: attempts, and verdicts that came late."""
_FAILING = frozenset(one for one in Verdict if one.is_failure)
_DECIDING = frozenset(one for one in Verdict if one is not Verdict.SKIPPED)
"""How well a job is they tell; a fire that was skipped does not."""
_BEFORE_ALL: Final = "0"
_BEHIND_ALL: Final = "9~"
_IS_ORDER: Final = re.compile(r"[0-9]{16}/", re.ASCII).match
_ENTRY: Final = re.compile(r"([0-9]{16}/[0-9]+/[01])(:[0-9]+)?/(\S*@\S+#[0-9]+) (\w+) [0-9]+", re.ASCII).fullmatch
_MOST_WRITES: Final = 1 << 53
_READ_AT_ONCE: Final = 20
_LEFT_FIRES: Final = 3
_LEFT_MS: Final = 3_600_000


class ByResult(StrEnum):
    """The fields that put jobs into an order: each is 16 digits, ``/`` and the job's name, so that no two are equal."""

    FAILED = "failedKey"
    """When its newest failure ended."""
    TOOK = "tookKey"
    """How long the newest run took of which that is known."""


_ROUNDS = 8
"""How often a merge is tried again because another process wrote the same job's document meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResults:
    """What one job came to."""

    last: Document | None = None
    """The newest record, without its output."""
    last_run: Document | None = None
    """The newest record of a run that started."""
    success_ms: int | None = None
    """When a run of it succeeded last; None: never, or before any version wrote it down."""
    failed_ms: int | None = None
    """When its newest failure ended; None: the same."""
    recent: tuple[Document, ...] = ()
    """``{status, planTime, runId, durationMs}`` of the newest ``SHOWN`` records, oldest first; the last only of those
    that started and ended."""

    def strip(self, newest: int = LISTED) -> Document:
        """The newest of them as ``recent``, and ``usualMs``: how long a run usually takes, absent where unknown."""
        took = [one["durationMs"] for one in self.recent if one["status"] == Verdict.SUCCESS and "durationMs" in one]
        strip: Document = {"recent": list(self.recent[-newest:])}
        return strip if (usual := usual_ms(took)) is None else {**strip, "usualMs": usual}


class FailingJob(Struct, frozen=True, kw_only=True, gc=False):
    """A job whose newest fire that was not skipped is a failure."""

    job: str
    result: Document
    """Its newest failure, without its output; of a broadcast job that of the workers where it fails now."""
    since_ms: int
    """When the first failure since its last success was planned, as far back as its strip goes; of a broadcast job on
    the worker where it has failed the longest."""
    is_bare: bool = False
    """Whether the result has no more of the run than its id, its verdict and its plan time."""


class Advance(Struct, frozen=True, kw_only=True, gc=False):
    """What a batch says about one job, as it would stand in its document."""

    job: str
    oldest: str
    """The order of the batch's oldest record of this job."""
    order: str
    result: Document
    failing: bool | None
    """None: all of them were skipped."""
    run_order: str
    """Empty: none of them started."""
    run: Document | None
    entries: tuple[str, ...]
    success_ms: int = 0
    """When the last of them that succeeded ended; 0: none did."""
    failure_order: str = ""
    """Empty: none of them is a failure."""
    failure: Document | None = None
    failed_key: str = ""
    """`ByResult.FAILED`; empty: none of them failed."""
    took_key: str = ""
    """`ByResult.TOOK`, of the run; empty: it has none."""

    def update(self) -> UpdateOne:
        """Writes it where all of it is newer; fails as a duplicate key where something newer or equal is there."""
        fields: Document = {"jobName": self.job, ORDER: self.order, "result": self.result}
        fields |= {
            by.value: key for by, key in ((ByResult.FAILED, self.failed_key), (ByResult.TOOK, self.took_key)) if key
        }
        first: Document = {}
        (fields if self.run is not None else first).update(runOrder=self.run_order, run=self.run)
        (fields if self.failing is not None else first).update(failing=bool(self.failing))
        if self.failure is not None:
            fields.update(failureOrder=self.failure_order, failure=self.failure)
        change: Document = {
            "$set": fields,
            "$push": {"recent": {"$each": list(self.entries), "$slice": -KEPT}},
            "$inc": {"writes": 1},
        }
        if first:
            change["$setOnInsert"] = first
        if self.success_ms:
            change["$max"] = {"successTime": self.success_ms}
        as_ours: Document = {ORDER: {"$lt": self.oldest}, "writes": {"$gte": 0, "$lt": _MOST_WRITES}}
        if self.failing is False and any(_sequence_in(entry) for entry in self.entries):
            as_ours["failing"] = {"$ne": True}  # it may fail on a worker that is not among these
        return UpdateOne({"_id": last_id(self.job), **as_ours}, change, upsert=True)

    def beyond(self, there: Mapping[str, Any]) -> Document:
        """What has to be written to ``there`` for it to say this, too; empty where it does already."""
        fields: Document = {}
        if self.order > _order_in(there, ORDER):
            fields.update({ORDER: self.order, "result": self.result})
        if self.run is not None and self.run_order > _order_in(there, "runOrder"):
            fields.update(runOrder=self.run_order, run=self.run)
            if self.took_key:
                fields[ByResult.TOOK.value] = self.took_key
        if self.failure is not None and self.failure_order > _order_in(there, "failureOrder"):
            fields.update(failureOrder=self.failure_order, failure=self.failure)
        if self.failed_key > key_in(there, ByResult.FAILED):
            fields[ByResult.FAILED.value] = self.failed_key
        if (recent := merge_entries(_entries_in(there), self.entries)) != _texts_in(there, "recent"):
            fields["recent"] = recent
        if (failing := self._is_failing_with(there, recent)) is not there.get("failing"):
            fields["failing"] = failing
        if there.get("took"):
            fields["took"] = []
        if self.success_ms > _success_in(there):
            fields["successTime"] = self.success_ms
        return fields

    def _is_failing_with(self, there: Mapping[str, Any], recent: Sequence[str]) -> bool:
        failing = _failing_by(recent)
        return there.get("failing") is True or self.failing is True if failing is None else failing

    def merged_into(self, there: Mapping[str, Any]) -> UpdateOne | None:
        """Writes what both together come to, where ``there`` is still there; None where it says it all already."""
        fields = self.beyond(there)
        if not fields:
            return None
        writes, order = there.get("writes"), there.get(ORDER)
        since: Document = {ORDER: {"$eq": order}} if isinstance(order, str) else {}
        change: Document = {"$set": fields, "$inc": {"writes": 1}}
        if type(writes) is int and 0 <= writes < _MOST_WRITES:
            since = {"writes": {"$eq": writes}}
        elif "writes" in there:  # not one of ours
            change = {"$set": {**fields, "writes": 1}}
        return UpdateOne({"_id": last_id(self.job), **since}, change)


def advances_of(records: Iterable[RunRecord]) -> list[Advance]:
    """One for each job among the records."""
    by_job: dict[str, list[RunRecord]] = {}
    for record in records:
        by_job.setdefault(record.run_id.job_name, []).append(record)
    return [_advance_of(job, of_job) for job, of_job in by_job.items()]


def joined(one: Advance, other: Advance) -> Advance:
    """What two batches say about the same job, in whatever order they came."""
    newer = max(one, other, key=lambda advance: advance.order)
    ran = max(one, other, key=lambda advance: advance.run_order)
    failed = max(one, other, key=lambda advance: advance.failure_order)
    entries = merge_entries(one.entries, other.entries)
    if (failing := _failing_by(entries)) is None:
        failing = next((each.failing for each in (newer, one, other) if each.failing is not None), None)
    return replace(
        newer, oldest=min(one.oldest, other.oldest), run_order=ran.run_order, run=ran.run, failing=failing,
        entries=tuple(entries), success_ms=max(one.success_ms, other.success_ms),
        failure_order=failed.failure_order, failure=failed.failure,
        failed_key=max(one.failed_key, other.failed_key), took_key=ran.took_key,
    )  # fmt: skip


def merge_entries(*strips: Iterable[str]) -> list[str]:
    """The newest ``KEPT`` of all entries, oldest first, one for each fire: that of its last attempt that started.

    Where these are all of fires that were skipped, as beside a long run, the newest that was not is kept with them
    by who merges.
    """
    entries = sorted({one for strip in strips for one in strip})
    if len(entries) < 2:
        return entries
    # What orders an entry ends with the run, and that is the fire and the attempt.
    by_fire = {entry.split("/", 3)[-1].partition("#")[0]: entry for entry in entries}
    of_fires = sorted(by_fire.values())
    if len(of_fires) > KEPT and not any(map(_decides, of_fires[-KEPT:])):
        decided = [*filter(_decides, of_fires[:-KEPT])][-1:]
        return decided + of_fires[len(decided) - KEPT :]
    return of_fires[-KEPT:]


def _decides(entry: str) -> bool:
    """Whether it tells how well the job is."""
    return _verdict_in(entry) in _DECIDING


def results_in(document: Mapping[str, Any], job: str) -> JobResults:
    """What the job's document says."""
    recent: list[Document] = []
    for entry in merge_entries(_entries_in(document))[-SHOWN:]:
        try:  # nothing else is as quick, and lists have thousands of them
            _, _, settled, rest = entry.split("/", 3)
            run, status, plan = rest.rsplit(" ", 2)
            shown: Document = {"status": status, "planTime": int(plan), "runId": job + run}
        except ValueError:
            continue  # it is none of ours
        if (duration_ms := settled[2:]).isdecimal():
            shown["durationMs"] = int(duration_ms)
        recent.append(shown)
    return JobResults(
        last=document.get("result"), last_run=document.get("run"), success_ms=_success_in(document) or None,
        failed_ms=int(key_in(document, ByResult.FAILED).partition("/")[0] or 0) or None, recent=tuple(recent),
    )  # fmt: skip


def came_to_in(document: Mapping[str, Any], job: str) -> CameTo:
    """What alerts have to know of the job."""
    successes, failing = list[str](), set[str]()
    entries = merge_entries(_entries_in(document))
    left = _left(entries)
    for one in filter(None, map(_ENTRY, entries)):
        sequence = one[3].partition("@")[0]
        if sequence in left:
            continue
        if not sequence or "" in failing:  # before the job was made a broadcast one, or ceased to be
            failing.clear()
        if one[4] in _FAILING:
            failing.add(sequence)
            while sequence and successes and successes[-1][:16] == one[1][:16]:  # of the same fire on other workers
                successes.pop()
        elif one[4] == Verdict.SUCCESS:
            failing.discard(sequence)
            if not failing:
                successes.append(f"{one[1]}/{job}{one[3]}")
    return CameTo(
        order=_order_in(document, ORDER), successes=tuple(successes), success_ms=_success_in(document) or None
    )


def _failing_by(entries: Sequence[str]) -> bool | None:
    """By the newest that was not skipped, of a broadcast job by each worker's; None: there is none, or none of ours."""
    newest = _newest_by_sequence(entries).values()
    return any(_verdict_in(text) in _FAILING for text in newest) if newest else None


def _newest_by_sequence(entries: Sequence[str]) -> dict[str, str]:
    """The newest entry of each sequence that was not skipped, the newest of all first, but for workers that left."""
    newest, left = dict[str, str](), _left(entries)
    for text in reversed(entries):
        if _decides(text) and (sequence := _sequence_in(text)) not in left:
            if newest and ("" in newest) is not (sequence == ""):
                break  # before the job was made a broadcast one, or ceased to be
            newest.setdefault(sequence, text)
    return newest


def _left(entries: Sequence[str]) -> set[str]:
    """The sequences of workers that take no fires any more: one that is there has a record of each, skipped ones too.

    Another has had ``_LEFT_FIRES`` fires since, and for ``_LEFT_MS`` beyond what its own runs took: an order is by the
    time of the fire, and a run is recorded when it ends.
    """
    left, fires, took_ms = set[str](), dict[str, set[int]](), dict[str, int]()
    if not entries or not _IS_ORDER(entries[-1]) or "~" not in entries[-1]:
        return left
    found = [(*one[3].partition("#")[0].partition("@"), one) for one in map(_ENTRY, reversed(entries)) if one]
    for sequence, _, _, one in found:
        took_ms[sequence] = max(took_ms.get(sequence, 0), int((one[2] or ":0")[1:]))
    for sequence, _, fire, one in found:
        at_ms = int(one[1][:16])
        if sequence not in fires:
            is_long = int(entries[-1][:16]) - at_ms >= _LEFT_MS + took_ms[sequence]
            if is_long and any(len(others - {at_ms}) >= _LEFT_FIRES for others in fires.values()):
                left.add(sequence)
            fires[sequence] = set()
        if fire.isdecimal():  # the schedule planned it
            fires[sequence].add(at_ms)
    return left


def _sequence_in(entry: str) -> str:
    """``~`` and the worker whose own sequence the fire belongs to; empty: it is one of the job's."""
    return entry.split("/", 3)[-1].partition("@")[0]


def _verdict_in(entry: str) -> str:
    return entry.rpartition(" ")[0].rpartition(" ")[2]


def _order_in(document: Mapping[str, Any], field: str) -> str:
    """What decides which record is newer; what is not one of ours is older than all."""
    order = document.get(field)
    return order if isinstance(order, str) and _IS_ORDER(order) else ""


def _failing_job(document: Mapping[str, Any]) -> FailingJob | None:
    """None where nothing is known but that it fails.

    The newest record, or the newest failure where that is none. A former version writes its newest record alone, and
    that is the failure then.
    """
    job, result, failure = str(document["jobName"]), document.get("result"), document.get("failure")
    found = failure if isinstance(result, dict) and result.get("status") not in _FAILING and failure else result
    if not isinstance(found, dict):
        return None
    sequence = _sequence_in(_key_of(str(found.get("runId"))))
    if not sequence:
        return FailingJob(job=job, result=found, since_ms=_failing_since_ms(document, found.get("planTime")))
    entries = [one for one in merge_entries(_entries_in(document)) if _ENTRY(one)]
    newest = _newest_by_sequence(entries)
    failing = {one: text for one, text in newest.items() if _verdict_in(text) in _FAILING} or {sequence: ""}
    is_bare = False
    if text := next(iter(failing.values())):
        order, status, plan = text.rsplit(" ", 2)
        run = job + order.split("/", 3)[-1]
        if is_bare := run != found.get("runId"):  # that is over
            found = {"status": status, "planTime": int(plan), "runId": run}
    planned_ms, going = found.get("planTime"), set(failing)
    since_ms = planned_ms if isinstance(planned_ms, int) else 0
    for text in reversed(entries):
        if (one := _sequence_in(text)) in going:
            _, status, plan = text.rsplit(" ", 2)
            if status == Verdict.SUCCESS:
                going.remove(one)
            elif status in _FAILING:
                since_ms = min(since_ms or int(plan), int(plan))
    return FailingJob(job=job, result=found, since_ms=since_ms, is_bare=is_bare)


def _failing_since_ms(document: Mapping[str, Any], newest_ms: object) -> int:
    """Of one that is failing. Thousands are looked at in a row, so its strip is read only as far back as needed."""
    since_ms = newest_ms
    for entry in reversed(_texts_in(document, "recent")):
        if "~" in entry and _sequence_in(_of_today(entry, {})):
            continue
        with suppress(ValueError):  # it is none of ours
            _, status, plan = entry.rsplit(" ", 2)
            if status == Verdict.SUCCESS:
                break
            since_ms = int(plan) if status in _FAILING else since_ms
    return int(since_ms) if isinstance(since_ms, int) else 0


def key_in(document: Mapping[str, Any], by: ByResult) -> str:
    """Empty where it has none, or none of ours."""
    key = document.get(by.value)
    return key if isinstance(key, str) and _IS_ORDER(key) else ""


def _success_in(document: Mapping[str, Any]) -> int:
    success_ms = document.get("successTime")
    return int(success_ms) if isinstance(success_ms, int) else 0  # bson.Int64 is no plain number


def _texts_in(document: Mapping[str, Any], field: str) -> list[str]:
    """A list of a document of the collection, as far as it is one: a later version may write another."""
    texts = document.get(field)
    return [one for one in texts if isinstance(one, str)] if isinstance(texts, list) else []


def _key_of(run: str) -> str:
    """The run's id without the job, which is in the document already; also of a text that begins with one."""
    at = run.find("~")
    return run[max(run.find("@"), 0) if at < 0 else at :]


def _entries_in(document: Mapping[str, Any]) -> list[str]:
    """The strip of a document, in texts of today."""
    texts = _texts_in(document, "recent")
    if all(text.startswith(("@", "~"), text.rfind("/") + 1) for text in texts):
        return texts
    took = {run: duration_ms for run, _, duration_ms in (text.rpartition(" ") for text in _texts_in(document, "took"))}
    return [_of_today(text, took) for text in texts]


def _of_today(text: str, took: Mapping[str, str]) -> str:
    order, slash, rest = text.rpartition("/")
    run, space, verdict = _key_of(rest).partition(" ")
    duration_ms = took.get(run, "") if ":" not in order else ""
    return f"{order}{':' if duration_ms else ''}{duration_ms}{slash}{run}{space}{verdict}"


class LastResults:
    """The collection; to be used within `asking`, which bounds each call."""

    def __init__(self, collection: AsyncCollection[Document]) -> None:
        self._collection = collection

    async def advance(self, advances: Sequence[Advance]) -> None:
        """Every job's document says at least this much."""
        _, faults = await bulk(self._collection, [one.update() for one in advances])
        await self._merge([advances[index] for index in (*faults.duplicates, *faults.refused)])

    async def read(self, jobs: Sequence[str]) -> dict[str, Document]:
        """The documents of those of the jobs that have one, by job name."""
        names = {last_id(job): job for job in jobs}
        documents = await by_ids(self._collection, list(names), projection={"jobName": 0})
        return {names[document.pop("_id")]: document for document in documents}

    async def failing(self, after: str, limit: int) -> list[str]:
        """The names of jobs that are failing, at most ``limit`` of them behind that name, in order."""
        wanted = {"failing": {"$eq": True}, "jobName": {"$gt": after}}
        with suppress(OperationFailure):  # some 400,000 names are too many for one answer
            names = await self._collection.distinct("jobName", wanted)
            if all(isinstance(name, str) for name in names):  # nx-27017 gives a number for the name 7.50
                return sorted(names)[:limit]
        cursor = self._collection.find(wanted, {"_id": 0, "jobName": 1}, sort=[("jobName", 1)], limit=limit)
        return [str(document["jobName"]) for document in await cursor.to_list()]

    async def failing_results(self, after: str, limit: int) -> list[FailingJob]:
        """The same with what they came to."""
        wanted = {"failing": {"$eq": True}, "jobName": {"$gt": after}}
        fields = {"_id": 0, "jobName": 1, "result": 1, "failure": 1, "recent": 1}
        cursor = self._collection.find(wanted, fields, sort=[("jobName", 1)], limit=limit, batch_size=limit)
        found = list[FailingJob]()
        for number, document in enumerate(await cursor.to_list()):
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)
            if (job := _failing_job(document)) is not None:
                found.append(job)
        return found

    async def in_order(self, by: ByResult, *, behind: str, descending: bool, limit: int) -> list[str]:
        """The next keys behind that one ("": from the first on); jobs that have none are left out."""
        span = {"$lt": behind or _BEHIND_ALL} if descending else {"$gt": behind or _BEFORE_ALL}
        other = {"$gt": _BEFORE_ALL} if descending else {"$lt": _BEHIND_ALL}
        order = [(by.value, -1 if descending else 1)]
        cursor = self._collection.find(
            {by.value: span | other}, {"_id": 0, by.value: 1}, sort=order, limit=limit, batch_size=limit
        )
        return [str(document[by.value]) for document in await cursor.to_list()]

    async def keys(self, by: ByResult, jobs: Sequence[str]) -> dict[str, str]:
        """Those of these jobs that have one."""
        found = await by_ids(self._collection, [last_id(job) for job in jobs], projection={by.value: 1})
        keys = (key for document in found if (key := key_in(document, by)))
        return {key.partition("/")[2]: key for key in keys}

    async def _merge(self, advances: Sequence[Advance]) -> None:
        for _ in range(_ROUNDS):
            if not advances:
                return
            there = await self.read([one.job for one in advances])
            merged = [(one, one.merged_into(there.get(one.job, {}))) for one in advances]
            updates = [(one, update) for one, update in merged if update is not None]
            if not updates:
                return
            matched, _ = await bulk(self._collection, [update for _, update in updates])
            # Which of them were too late is not known: all of this round are looked at again; most are written already.
            advances = [] if matched == len(updates) else [one for one, _ in updates]
        raise UnavailableError("the last results were written by others all the time; they are tried again")


def _advance_of(job: str, records: Sequence[RunRecord]) -> Advance:
    """Nearly always of one record, which ran: each of its parts is made once."""
    ascending = sorted(((last_order(record), record) for record in records), key=itemgetter(0))
    order, newest = ascending[-1]
    run_order, ran = next((one for one in reversed(ascending) if one[1].start_ms is not None), ("", None))
    result = last_document(newest)
    entries = [_entry(order_of, record) for order_of, record in ascending]
    failure_order, failed = next((one for one in reversed(ascending) if one[1].status in _FAILING), ("", None))
    return Advance(
        job=job,
        oldest=ascending[0][0],
        order=order,
        result=result,
        failing=_failing_by(entries),
        run_order=run_order,
        run=result if ran is newest else None if ran is None else last_document(ran),
        entries=tuple(merge_entries(entries)),
        success_ms=max((one.end_ms or 0 for one in records if one.status is Verdict.SUCCESS), default=0),
        failure_order=failure_order,
        failure=result if failed is newest else None if failed is None else last_document(failed),
        failed_key="" if failed is None else _key(failed.end_ms or failed.range_end_ms or failed.plan_ms, job),
        took_key="" if ran is None or (took_ms := _took_ms(ran)) is None else _key(took_ms, job),
    )


def _entry(order: str, record: RunRecord) -> str:
    sorts_by, _, run = order.rpartition("/")
    took_ms = _took_ms(record)
    took = "" if took_ms is None else f":{took_ms}"
    return f"{sorts_by}{took}/{_key_of(run)} {record.status} {record.plan_ms}"


def _took_ms(record: RunRecord) -> int | None:
    """None: it has not started, or when it ended is not known."""
    if record.start_ms is None or record.end_ms is None or not record.status.end_is_known:
        return None
    return max(0, record.end_ms - record.start_ms)


def _key(number: int, job: str) -> str:
    return f"{max(0, number):016d}/{job}"


class OwedResults:
    """What the last results of jobs still lack of records that are in the log already: an `Advance` for each job.

    It grows with the jobs, not with their records.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, Advance] = {}
        self.records = 0
        """How many records it stands for."""

    def __len__(self) -> int:
        """How many jobs."""
        return len(self._by_job)

    def __iter__(self) -> Iterator[Advance]:
        return iter(list(self._by_job.values()))

    def add(self, records: Iterable[RunRecord]) -> None:
        """These are in the log now. Repetition and order change nothing."""
        records = list(records)
        self.records += len(records)
        for advance in advances_of(records):
            there = self._by_job.get(advance.job)
            self._by_job[advance.job] = advance if there is None else joined(there, advance)

    def clear(self) -> None:
        """The log store says all of it now."""
        self._by_job.clear()
        self.records = 0
