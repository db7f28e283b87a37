"""The run log in one database: write a batch, find, page.

Every call ends within its deadline, as UnavailableError where the store did not do it; nothing is assumed then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pymongo
from msgspec.structs import replace
from pymongo import IndexModel, ReadPreference, ReplaceOne
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import BulkWriteError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from common.access.audit_chain import Entry
from common.access.rights import Rights
from common.cursors import encode_cursor
from common.jobs.job import MAX_OUTPUT_LIMIT_BYTES
from common.notices.alerts import CameTo
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog.alerts import Alerts
from common.runlog.audit import AuditEntries, AuditFilter, AuditPage, KeptEntry
from common.runlog.client import (
    NO_FAULTS,
    Document,
    WriteFaults,
    WriteResult,
    asking,
    bulk,
    by_ids,
    faults_of,
    open_client,
)
from common.runlog.documents import PAGE_KEY, Encoded, Rejection, encode, encode_late, last_document, plan_ms_of, tidy
from common.runlog.last import (
    Advance,
    ByResult,
    FailingJob,
    JobResults,
    LastResults,
    advances_of,
    came_to_in,
    results_in,
)
from common.runlog.notices import Notices
from common.runlog.outbox import Outbox
from common.runlog.pages import WALK, PagePlan, Range, RunFilter, RunPage, plan_page
from common.runlog.retention import KeptJob, OldRecord, Removal, RetentionState
from common.runlog.statistics import DAY_MS, Counts, SpanCounts, Statistics
from common.runlog.tails import TailStore
from common.runlog.versions import Versions
from common.verdicts import Verdict

_log = logging.getLogger(__name__)

_PING_SECONDS = 1.0
_READ_SECONDS = 5.0
_WRITE_SECONDS = 30.0
_INDEX_SECONDS = 600.0
"""An index over a big log of the legacy system takes its time; a short deadline would make the server undo it."""

LOG_WALK = 10_000
"""How many runs of a job are looked at for a caller who may not see them all."""
_JOBS_A_WRITE = 200
_ENCODED_AT_ONCE = 50
"""Then others have their turn: a worker's fires are due meanwhile."""

_NEWEST_FIRST = [(PAGE_KEY, pymongo.DESCENDING)]
_STARTED_LAST_FIRST = [("startTime", pymongo.DESCENDING), (PAGE_KEY, pymongo.DESCENDING)]
_INDEXES = (
    [("jobName", pymongo.ASCENDING), *_STARTED_LAST_FIRST],
    _NEWEST_FIRST,
    [("jobName", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("jobName", pymongo.ASCENDING), ("status", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("status", pymongo.ASCENDING), *_NEWEST_FIRST],
    [("worker", pymongo.ASCENDING), *_NEWEST_FIRST],
)
_OF_A_SPAN = dict.fromkeys(
    (PAGE_KEY, "jobName", "status", "planTime", "startTime", "endTime", "rangeEndTime", "count", "worker", "labels"), 1
)
_FAILING_BY_NAME = [("failing", pymongo.ASCENDING), ("jobName", pymongo.ASCENDING)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLog:
    """Runs of a job, in order."""

    sizes: Mapping[object, int]
    """The bytes of each output, by the id of its document: to read some at a time."""
    documents: list[Document] | None
    """All of them with output; None where they are not asked for, or an output is longer than asked for."""


class RunLog:
    """The run log in one MongoDB database; an async context manager that closes its connections."""

    def __init__(
        self, uri: str, *, database: str = "cron", connect_timeout_ms: int = 5000, password: str | None = None
    ) -> None:
        """``uri`` as MongoDB's; nothing is sent before the first call. ConfigError where it is no such URI.

        ``password``: that of the user in the URI, where none stands there.
        """
        self._client = open_client(uri, connect_timeout_ms, password)
        journaled = WriteConcern(w="majority", j=True)
        # Whatever the URI says: what is read here decides, and a secondary may be behind what was written.
        store = self._client.get_database(database, read_preference=ReadPreference.PRIMARY, write_concern=journaled)
        self._log: AsyncCollection[Document] = store.get_collection("log")
        self._jobs: AsyncCollection[Document] = store.get_collection("last")
        self._last = LastResults(self._jobs)
        self._removal = Removal(self._log, self._jobs, store.get_collection("retention"))
        self.versions = Versions(self._client, store.get_collection("versions"))
        """What jobs were."""
        self._audit = AuditEntries(store.get_collection("audit"))
        self.notices = Notices(self._client, store)
        """What is sent to people, and how far each channel is."""
        self.alerts = Alerts(self._client, store.get_collection("alerts"))
        """What is open, as the notifier knows it."""
        self.tails = TailStore(
            self._client,
            self._client.get_database(
                f"{database}-live", read_preference=ReadPreference.PRIMARY, write_concern=WriteConcern(w=1)
            ),
        )
        """What runs print while a user looks."""
        self.outbox = Outbox(self._client, store.get_collection("outbox"))
        """What records tell, until notices are made of it."""
        self._statistics = Statistics(store.get_collection("statistics"), self._log)
        # What the steward finds here ends a run: it must not be a write that a new primary would roll back.
        self._settled = self._log.with_options(read_concern=ReadConcern("majority"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """No connection is left."""
        await self._client.close()

    async def ping(self, *, deadline_seconds: float = _PING_SECONDS) -> str:
        """The server's version (``unknown`` where it does not say), and its name where it is none of MongoDB's;
        UnavailableError where it does not answer."""
        async with asking(self._client, deadline_seconds):
            # Not `server_info()`, which spells it in small letters: nx-27017 knows the command as it is documented.
            information = await self._client.admin.command("buildInfo")
        version, program = information.get("version") or "unknown", information.get("process")
        return f"{version} ({program})" if program else str(version)

    async def prepare(self, *, deadline_seconds: float = _READ_SECONDS) -> None:
        """All indexes exist; may be repeated. UnavailableError where the store does not answer within the deadline.

        Building an index over a log that is already big may take longer, up to 10 minutes.
        """
        await self.ping(deadline_seconds=deadline_seconds)
        async with asking(self._client, _INDEX_SECONDS):
            await self._log.create_indexes([IndexModel(keys) for keys in _INDEXES])
            by_result = [IndexModel([(by.value, pymongo.ASCENDING)]) for by in ByResult]
            await self._jobs.create_indexes([IndexModel(_FAILING_BY_NAME), *by_result])

    async def write(
        self,
        records: Sequence[RunRecord],
        *,
        advance_last: bool = True,
        deadline_seconds: float = _WRITE_SECONDS,
    ) -> WriteResult:
        """Every record is stored, or was already, or is rejected with the reason; repeating it changes nothing.

        A record replaces the stored one of its run only where that is ``lost`` and it is not. UnavailableError: any
        part of the batch may have been stored; send it again. Keep a batch below some 16 MiB and 1,000 records.
        Without ``advance_last`` the caller owes `advance_last` before it forgets the records.
        """
        results: list[Encoded | Rejection] = []
        for start in range(0, len(records), _ENCODED_AT_ONCE):
            results += map(encode, records[start : start + _ENCODED_AT_ONCE])
            await asyncio.sleep(0)
        encoded, rejected = _split(results)
        if not encoded:
            return WriteResult(rejected=tuple(rejected))
        async with asking(self._client, deadline_seconds):
            faults = NO_FAULTS
            try:
                await self._log.insert_many([item.document for item in encoded], ordered=False)
            except BulkWriteError as error:
                faults = faults_of(error.details, len(encoded))
            late, refused_late = await self._replace_lost([encoded[index] for index in faults.duplicates])
        refused = [*refused_late, *_rejections(encoded, faults)]
        if advance_last:
            gone = {rejection.run_id for rejection in refused}
            stored = [item.record for item in encoded if item.record.run_id not in gone]
            await self.advance_last(stored, deadline_seconds=deadline_seconds)
        return WriteResult(
            inserted=len(encoded) - len(faults.duplicates) - len(faults.refused),
            already_there=len(faults.duplicates) - late - len(refused_late),
            late=late,
            rejected=(*rejected, *refused),
        )

    async def count_hour(
        self, hour: int, *, after: str, limit: int, to: dict[str, Counts], deadline_seconds: float = _READ_SECONDS
    ) -> str | None:
        """Adds what some records of an hour (since the epoch, of the plan time) come to, by job, for `put_hour`.

        Those behind the page key ``after``, "" for the first; where to go on, None: those were the last.
        """
        async with asking(self._client, deadline_seconds):
            return await self._statistics.count(hour, after, limit, to)

    async def newest_hour(self, before: int, *, deadline_seconds: float = _READ_SECONDS) -> int | None:
        """The hour (since the epoch, of the plan time) of the newest record before that hour; None: there is none."""
        async with asking(self._client, deadline_seconds):
            return await self._statistics.newest_hour(before)

    async def put_hour(
        self, hour: int, found: Mapping[str, Counts], *, deadline_seconds: float = _WRITE_SECONDS
    ) -> None:
        """The statistics say what the hour's records were found to come to; repeating it changes nothing."""
        async with asking(self._client, deadline_seconds):
            await self._statistics.put(hour, found)

    async def counted_hours(self, *, deadline_seconds: float = _READ_SECONDS) -> dict[int, int]:
        """When each hour was counted last (wall clock, ms), of those that may be counted again."""
        async with asking(self._client, deadline_seconds):
            return await self._statistics.counted()

    async def put_counted_hours(self, hours: Mapping[int, int], *, deadline_seconds: float = _WRITE_SECONDS) -> None:
        """The same, for the next steward that counts."""
        async with asking(self._client, deadline_seconds):
            await self._statistics.put_counted(hours)

    async def roll_up_statistics(self, before_day: int, *, deadline_seconds: float = _WRITE_SECONDS) -> bool:
        """Some hours of a day before this one have become part of their day; False: no such hour is left."""
        async with asking(self._client, deadline_seconds):
            return await self._statistics.roll_up(before_day)

    async def statistics(
        self, job: str | None, numbers: Sequence[int], unit_ms: int = DAY_MS, *, deadline_seconds: float = _READ_SECONDS
    ) -> list[SpanCounts]:
        """What those of the days came to that have any record, oldest first; ``job`` None: all jobs together.

        ``numbers``: days since 1970-01-01, or hours where that is the unit. What has not been counted yet is not in it.
        """
        read = self._statistics.read if unit_ms == DAY_MS else self._statistics.read_hours
        async with asking(self._client, deadline_seconds):
            return await read(job, numbers)

    async def forget_statistics(self, before_day: int, *, limit: int, deadline_seconds: float = _READ_SECONDS) -> int:
        """The oldest counts of days before this one are gone, at most so many documents; how many."""
        async with asking(self._client, deadline_seconds):
            return await self._statistics.forget(before_day, limit)

    async def advance_last(self, records: Iterable[RunRecord], *, deadline_seconds: float = _WRITE_SECONDS) -> None:
        """What each job came to includes these records, and never goes back; repetition and order change nothing.

        One write a job, and no read, where the records are newer than all those before.
        """
        await self.put_last(advances_of(records), deadline_seconds=deadline_seconds)

    async def put_last(self, advances: Iterable[Advance], *, deadline_seconds: float = _WRITE_SECONDS) -> None:
        """The same for a writer that has joined what many records say: one advance a job."""
        wanted = list(advances)
        for start in range(0, len(wanted), _JOBS_A_WRITE):
            async with asking(self._client, deadline_seconds):
                await self._last.advance(wanted[start : start + _JOBS_A_WRITE])

    async def find(self, run_ids: Iterable[RunId], *, deadline_seconds: float = _READ_SECONDS) -> dict[str, RunRecord]:
        """The records of these runs that are there for good, without their output, by run id as a string.

        What stands there and is no record (a verdict of a later version, say) is logged, and counts as not there.
        """
        asked = [str(run_id) for run_id in run_ids]
        async with asking(self._client, deadline_seconds):
            documents = await by_ids(self._settled, asked, projection={"output": 0})
        records: dict[str, RunRecord] = {}
        for document in documents:
            try:
                records[document["_id"]] = RunRecord.from_document(document)
            except ValueError as error:
                extra = {"action": "record.odd", "run": document["_id"]}
                _log.error("%s in the collection log is no record of a run: %s", document["_id"], error, extra=extra)
        return records

    async def job_log(
        self, job: str, *, seen_by: Rights | None = None, skip: int = 0, limit: int = 20, most_bytes: int | None = None,
        deadline_seconds: float = _READ_SECONDS,
    ) -> JobLog:  # fmt: skip
        """The job's runs that started, newest start first, then by descending plan time and run id.

        ``seen_by``: only those whose own labels these rights let a caller see, among the newest ``LOG_WALK``.
        ``most_bytes``: the documents come, too, unless an output has more; never together with ``seen_by``.
        """
        selector = {"jobName": {"$eq": job}, "startTime": {"$gt": 0}}
        wanted: dict[str, Any] = {"_id": 1, "outputBytes": 1}
        async with asking(self._client, deadline_seconds):
            if seen_by is None:
                if most_bytes is not None:
                    wanted["whole"] = _whole_up_to(most_bytes)
                cursor = self._log.find(selector, wanted, sort=_STARTED_LAST_FIRST, skip=skip, limit=limit)
                found = await cursor.to_list()
            else:
                visible = RunFilter(seen_by=seen_by)
                cursor = self._log.find(selector, {**wanted, "labels": 1}, sort=_STARTED_LAST_FIRST, limit=LOG_WALK)
                seen = [document for document in await cursor.to_list() if visible.sees(document.get("labels"))]
                found = seen[skip : skip + limit]
        return JobLog(
            sizes={one["_id"]: _bytes_of(one.get("outputBytes")) for one in found},
            documents=[tidy(one["whole"]) for one in found] if all("whole" in one for one in found) else None,
        )

    async def documents(self, ids: Sequence[object], *, deadline_seconds: float = _READ_SECONDS) -> list[Document]:
        """Those of these documents that are still there, in this order; with output."""
        async with asking(self._client, deadline_seconds):
            found = {document["_id"]: document async for document in self._log.find({"_id": {"$in": list(ids)}})}
        return [tidy(found[one]) for one in ids if one in found]

    async def runs(
        self,
        wanted: RunFilter = RunFilter(),  # noqa: B008 - frozen
        *,
        cursor: str | None = None,
        limit: int = 50,
        deadline_seconds: float = _READ_SECONDS,
    ) -> RunPage:
        """A page of all records (also of fires that did not run), newest plan time first; without output.

        A page can hold fewer items than ``limit``, even none, and have a next one all the same, where no index decides
        all conditions. InvalidInputError where the cursor is not one of ours.
        """
        plan = plan_page(wanted, cursor)
        ranges, step = plan.ranges(), plan.step(limit)
        found: list[Document] = []
        below, walked = plan.below, 0
        async with asking(self._client, deadline_seconds):
            while True:
                for one in ranges:
                    if one.ahead or one.is_over:
                        continue
                    if one.is_begun and walked >= WALK:
                        return _cut(found, below, looked_ms=plan_ms_of(below))
                    walked += await self._read_on(plan, one, step)
                ahead = [one for one in ranges if one.ahead]
                if not ahead:
                    return _cut(found, None)
                document = max(ahead, key=lambda one: str(one.ahead[0][PAGE_KEY])).ahead.popleft()
                if wanted.takes(document):
                    if len(found) == limit:
                        return _cut(found, found[-1][PAGE_KEY])
                    found.append(document)
                below = str(document[PAGE_KEY])

    async def spans(
        self, wanted: RunFilter, *, limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> tuple[list[Document], bool]:
        """The newest records, newest plan time first, with no more than when they ran, where, and what they came to.

        By one index range, so of a job, of a worker, or of all; at most ``limit`` are looked at. And whether there are
        older ones that were not.
        """
        plan = plan_page(wanted, None)
        async with asking(self._client, deadline_seconds):
            cursor = self._log.find(
                plan.selector(plan.ranges()[0]), _OF_A_SPAN, sort=_NEWEST_FIRST, limit=limit + 1,
                batch_size=limit + 1,
            )  # fmt: skip
            found = await cursor.to_list()
        seen = [document for document in found[:limit] if wanted.takes(document)]
        return [tidy(document) for document in seen], len(found) > limit

    async def spans_by_start(
        self, job: str, wanted: RunFilter, *, to_ms: int, limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> list[Document]:
        """The same of the job's runs that started last before that time, so many at most, newest start first."""
        selector = {"jobName": {"$eq": job}, "startTime": {"$gt": 0, "$lt": to_ms}}
        async with asking(self._client, deadline_seconds):
            cursor = self._log.find(selector, _OF_A_SPAN, sort=_STARTED_LAST_FIRST, limit=limit, batch_size=limit)
            found = await cursor.to_list()
        return [tidy(document) for document in found if wanted.takes(document)]

    async def run(self, run_id: str, *, deadline_seconds: float = _READ_SECONDS) -> Document | None:
        """The document of one run, with its output; None where there is none."""
        async with asking(self._client, deadline_seconds):
            document = await self._log.find_one({"_id": run_id})
        return tidy(document) if document is not None else None

    async def job_results(
        self, jobs: Iterable[str], *, including: Iterable[RunId] = (), deadline_seconds: float = _READ_SECONDS
    ) -> dict[str, JobResults]:
        """What each of these jobs came to, by job name; one that never had a record is left out.

        Records come first and what jobs came to a moment later: the runs in ``including`` count from their record on.
        """
        async with asking(self._client, deadline_seconds):
            documents = await self._last.read(list(jobs))
        records = await self.find(including, deadline_seconds=deadline_seconds)
        for advance in advances_of(records.values()):
            there = documents.get(advance.job, {})
            documents[advance.job] = {**there, **advance.beyond(there)}
        return {job: results_in(document, job) for job, document in documents.items()}

    async def came_to(self, jobs: Iterable[str], *, deadline_seconds: float = _READ_SECONDS) -> dict[str, CameTo]:
        """What alerts have to know of each of these jobs; one that never had a record is left out."""
        async with asking(self._client, deadline_seconds):
            documents = await self._last.read(list(jobs))
        return {job: came_to_in(document, job) for job, document in documents.items()}

    async def failing_jobs(self, *, after: str = "", limit: int, deadline_seconds: float = _READ_SECONDS) -> list[str]:
        """The names of the jobs that are failing, also of those that are deleted.

        At most ``limit`` of them, behind that name, in order.
        """
        async with asking(self._client, deadline_seconds):
            return await self._last.failing(after, limit)

    async def failing_results(
        self, *, after: str = "", limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> list[FailingJob]:
        """The same jobs with what they came to."""
        async with asking(self._client, deadline_seconds):
            found = await self._last.failing_results(after, limit)
        bare = [RunId.parse(one.result["runId"]) for one in found if one.is_bare]
        records = await self.find(bare, deadline_seconds=deadline_seconds) if bare else {}
        return [
            replace(one, result=last_document(records[run]))
            if one.is_bare and (run := one.result["runId"]) in records
            else one
            for one in found
        ]

    async def jobs_in_order(
        self, by: ByResult, *, behind: str = "", descending: bool, limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> list[str]:
        """The keys (`ByResult`) of the next jobs behind that key, also of those that are deleted."""
        async with asking(self._client, deadline_seconds):
            return await self._last.in_order(by, behind=behind, descending=descending, limit=limit)

    async def order_keys(
        self, by: ByResult, jobs: Sequence[str], *, deadline_seconds: float = _READ_SECONDS
    ) -> dict[str, str]:
        """The keys of those of these jobs that have one, by job."""
        async with asking(self._client, deadline_seconds):
            return await self._last.keys(by, jobs)

    async def prepare_audit(self, *, deadline_seconds: float = _READ_SECONDS) -> None:
        """The audit's indexes exist; apart from the others, as workers have no rights on that collection."""
        await self.ping(deadline_seconds=deadline_seconds)
        async with asking(self._client, _INDEX_SECONDS):
            await self._audit.prepare()

    async def put_audit(self, entries: Sequence[Entry], *, deadline_seconds: float = _WRITE_SECONDS) -> list[int]:
        """These entries of one chain are stored; may be repeated. The numbers of those in whose place another one is.

        They are only ever inserted: a user of the log store that may do nothing else is enough.
        """
        async with asking(self._client, deadline_seconds):
            return await self._audit.insert(entries)

    async def audit(
        self, wanted: AuditFilter, *, cursor: str | None, limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> AuditPage:
        """A page of the audit, newest first; InvalidInputError where the cursor is none of this list.

        It looks at 2,000 entries at most, so it may have fewer than asked for, and a next page.
        """
        async with asking(self._client, deadline_seconds):
            return await self._audit.page(wanted, cursor, limit)

    async def audit_behind(
        self, last_id: str, *, limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> list[KeptEntry]:
        """The audit's entries that follow this one as they are kept, chain by chain, for a verifier."""
        async with asking(self._client, deadline_seconds):
            return await self._audit.behind(last_id, limit)

    async def old_records(
        self, before_ms: int, *, after: str = "", limit: int, deadline_seconds: float = _READ_SECONDS
    ) -> list[OldRecord]:
        """The oldest records that were planned before an instant, those behind the page key ``after``."""
        async with asking(self._client, deadline_seconds):
            return await self._removal.older(before_ms, after, limit)

    async def records_beyond(
        self, job: str, keep: int, before_ms: int, *, after: str = "", limit: int,
        deadline_seconds: float = _READ_SECONDS,
    ) -> list[OldRecord]:  # fmt: skip
        """The job's oldest records beyond its newest ``keep`` that were planned before an instant.

        Those behind the page key ``after``.
        """
        async with asking(self._client, deadline_seconds):
            return await self._removal.beyond(job, keep, before_ms, after, limit)

    async def remove(self, run_ids: Sequence[str], *, deadline_seconds: float = _READ_SECONDS) -> None:
        """These records are gone; repeating it changes nothing. What jobs came to stays."""
        async with asking(self._client, deadline_seconds):
            await self._removal.remove(run_ids)

    async def kept_jobs(self, *, after: str, limit: int, deadline_seconds: float = _READ_SECONDS) -> list[KeptJob]:
        """The jobs that the log store knows, behind that name, in order; also those that are deleted."""
        async with asking(self._client, deadline_seconds):
            return await self._removal.jobs(after, limit)

    async def forget_jobs(self, jobs: Iterable[KeptJob], *, deadline_seconds: float = _READ_SECONDS) -> None:
        """What these jobs came to is forgotten, unless another record has come since; repeating it changes nothing."""
        async with asking(self._client, deadline_seconds):
            await self._removal.forget(jobs)

    async def put_retention(self, state: RetentionState | None, *, deadline_seconds: float = _READ_SECONDS) -> None:
        """Says what is kept, for people; None: all of it."""
        async with asking(self._client, deadline_seconds):
            await self._removal.put_state(state)

    async def retention(self, *, deadline_seconds: float = _READ_SECONDS) -> RetentionState | None:
        """What is kept, as the worker that sees to it has written last; None: all of it."""
        async with asking(self._client, deadline_seconds):
            return await self._removal.state()

    async def _replace_lost(self, duplicates: Iterable[Encoded]) -> tuple[int, list[Rejection]]:
        """A verdict that came late takes the place of ``lost``; how many did, and which the store does not take."""
        late, rejected = _split(encode_late(item.record) for item in duplicates if item.record.status.end_is_known)
        if not late:
            return 0, rejected
        is_lost = {"status": {"$eq": str(Verdict.LOST)}}
        replacements: list[ReplaceOne[Document]] = [
            ReplaceOne({"_id": str(item.record.run_id), **is_lost}, item.document) for item in late
        ]
        result, faults = await bulk(self._log, replacements)
        return result, [*rejected, *_rejections(late, faults)]

    async def _read_on(self, plan: PagePlan, one: Range, count: int) -> int:
        """The next ``count`` documents of the range lie ahead; how many there were."""
        cursor = self._log.find(plan.selector(one), {"output": 0}, sort=_NEWEST_FIRST, limit=count, batch_size=count)
        one.ahead.extend(await cursor.to_list())
        one.is_begun, one.is_over = True, len(one.ahead) < count
        if one.ahead:
            one.below = str(one.ahead[-1][PAGE_KEY])
        return len(one.ahead)


def _split(results: Iterable[Encoded | Rejection]) -> tuple[list[Encoded], list[Rejection]]:
    encoded: list[Encoded] = []
    rejected: list[Rejection] = []
    for result in results:
        match result:
            case Encoded():
                encoded.append(result)
            case Rejection():
                rejected.append(result)
    return encoded, rejected


def _rejections(sent: Sequence[Encoded], faults: WriteFaults) -> list[Rejection]:
    return [Rejection(run_id=sent[index].record.run_id, reason=reason) for index, reason in faults.refused.items()]


def _cut(documents: Sequence[Document], last_key: str | None, *, looked_ms: int | None = None) -> RunPage:
    return RunPage(
        items=tuple(tidy(document) for document in documents),
        next_cursor=encode_cursor(last_key) if last_key is not None else None,
        looked_ms=looked_ms,
    )


def _whole_up_to(most_bytes: int) -> Document:
    """For a projection: the document itself, unless its output may have more bytes."""
    size = {"$ifNull": ["$outputBytes", MAX_OUTPUT_LIMIT_BYTES]}
    return {"$cond": [{"$lte": [size, most_bytes]}, "$$ROOT", "$$REMOVE"]}


def _bytes_of(value: object) -> int:
    """What is not shown may be as long as any."""
    return value if isinstance(value, int) and value >= 0 else MAX_OUTPUT_LIMIT_BYTES
