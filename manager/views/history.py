"""Runs: those with a verdict from the log store, those that wait or are going from etcd."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as with_values
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec.structs import replace

from common.access.rights import Rights
from common.clock import Clock
from common.errors import EtcdError, InvalidInputError, NotFoundError, Problem, UnavailableError
from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill, is_reached
from common.protocol.run import RunEntry, shown_command
from common.protocol.run_writes import LeftRun
from common.protocol.txn import KeyValue
from common.runlog import ByResult, FailingJob, JobResults, RunFilter, RunLog, RunPage, SpanCounts
from common.runlog.pages import page_key_in
from common.verdicts import Verdict
from manager.background.versions import Versions
from manager.views.cursors import SealedCursors
from manager.views.ending import EndingRunsView, LeftProcesses, shown
from manager.views.pending import Pending, Seen
from manager.views.shapes import open_run_view, run_view

MOST: Final = 500
LOG_STORE_AWAY: Final = "the log store cannot be reached"
NO_RECORDS: Final = (
    "the log store cannot be reached: of fires that are over only what etcd still knows is shown, and runs that have "
    "ended meanwhile may be shown as running"
)


def seen_by(wanted: RunFilter, rights: Rights) -> RunFilter:
    """The same filter for what a caller may know of; as it is where that is everything."""
    return wanted if rights.sees_all else with_values(wanted, seen_by=rights)


def is_seen(document: Mapping[str, Any], rights: Rights) -> bool:
    """Whether a caller may know of the run of a log document, by the labels that it carries itself."""
    labels = document.get("labels")
    return rights.sees(labels if isinstance(labels, Mapping) else {})


async def kept_records(
    etcd: EtcdClient, keys: Keys, runs: Iterable[RunId], rights: Rights
) -> list[dict[str, Any]]:  # fmt: skip
    """The log documents that are in the keys of these runs, of the newest 500 at most; where etcd is away, none.

    Skipped and missed fires have one there, and runs that were settled by others than their worker.
    """
    newest = sorted((run for run in runs if run.plan_ms is not None), key=lambda run: run.plan_ms or 0)[-MOST:]
    try:
        found = await etcd.get_many([keys.run(run) for run in newest]) if newest else {}
    except (EtcdError, UnavailableError):
        return []
    documents = []
    for kv in found.values():
        try:
            record = RunEntry.from_json(kv.value).record
        except ValueError:
            continue
        if record is not None and rights.sees(record.labels):
            documents.append(record.to_document())
    return documents


_MOST_ATTEMPTS: Final = 20
"""So many on either side of an attempt are shown with it."""
_OF_ATTEMPT: Final = ("status", "state", "notBefore")
_TRIED_AGAIN: Final = frozenset(one for one in Verdict if one.is_of_a_run) - {Verdict.SUCCESS}
_LOG_PART: Final = 20
_LOG_PART_BYTES: Final = 2**20
"""How many log documents, with how much output, are read at once; at least one."""
_APART_MS: Final = 60_000
"""So far two clocks may be apart; a restore of etcd takes longer."""
_READS_AT_ONCE: Final = 4
"""Of documents with outputs: others wait. Each may be as large as the log store's largest."""


class History:
    """Reads runs; whatever the log store cannot be asked for is said to be unavailable, not absent."""

    def __init__(
        self,
        runlog: RunLog,
        pending: Pending,
        ending: EndingRunsView,
        versions: Versions,
        *,
        clock: Clock,
        deadline_s: float,
        cursors: SealedCursors,
        labels_at: Callable[[str, int], Mapping[str, str]],
        command_at: Callable[[str, int], str | None],
        is_away: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_away``: whether the log store is known to be away.

        ``labels_at``: the labels of a job at a revision, as far as they are known: older workers do not write a run's.
        ``command_at``: its command then, in one line.
        """
        self._cursors = cursors
        self._labels_at = labels_at
        self._command_at = command_at
        self._runlog = runlog
        self._pending = pending
        self._ending = ending
        self._versions = versions
        self._clock = clock
        self._deadline_s = deadline_s
        self._is_away = is_away
        self._reading = asyncio.Semaphore(_READS_AT_ONCE)
        self._telling = asyncio.Semaphore(_READS_AT_ONCE)  # taken until its client has taken the part
        self._tellings: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        """By caller, while it takes an answer: no caller takes all of it."""

    @property
    def is_away(self) -> bool:
        """Whether the log store is known to be away."""
        return self._is_away()

    async def job_log(
        self, job: str, rights: Rights, *, skip: int, limit: int, by: str
    ) -> AsyncGenerator[list[dict[str, Any]]]:  # fmt: skip
        """The log documents of the job's runs that started, newest start first; no call holds many outputs at once.

        ``by``: who asks. However slowly they take it, others get theirs.
        """
        of_caller = self._tellings.setdefault(by, asyncio.Semaphore(_READS_AT_ONCE // 2))
        async with of_caller, self._telling:
            log = await self._runlog.job_log(
                job, seen_by=None if rights.sees_all else rights, skip=skip, limit=limit,
                most_bytes=_LOG_PART_BYTES // limit if limit <= _LOG_PART else None,
                deadline_seconds=self._deadline_s,
            )  # fmt: skip
            if log.documents is not None:
                yield log.documents
                return
        for part in _parts(log.sizes):
            async with of_caller, self._telling:
                if there := await self._runlog.documents(part, deadline_seconds=self._deadline_s):
                    yield there  # retention may have removed all of them meanwhile

    async def runs(self, wanted: RunFilter, *, cursor: str | None, limit: int) -> RunPage:
        """A page of records, newest plan time first, for what this manager does itself."""
        return await self._runlog.runs(wanted, cursor=cursor, limit=limit, deadline_seconds=self._deadline_s)

    async def walk(self, wanted: RunFilter, rights: Rights, *, cursor: str | None, limit: int) -> RunPage:
        """A page of the records that a caller may know of; its cursor is for this manager alone, as it may name others.

        It may hold fewer than asked for, even none, and have a next one all the same: a page looks at about 1,000.
        """
        return await self.runs(seen_by(wanted, rights), cursor=cursor, limit=limit)

    async def seen_runs(self, wanted: RunFilter, rights: Rights, *, cursor: str | None, limit: int) -> RunPage:
        """The same, with a cursor that may be handed out."""
        page = await self.walk(
            wanted, rights, cursor=None if cursor is None else await self._cursors.opened(cursor), limit=limit
        )
        if page.next_cursor is None or rights.sees_all:
            return page
        return with_values(page, next_cursor=await self._cursors.sealed(page.next_cursor))

    async def spans(self, wanted: RunFilter, rights: Rights, *, limit: int) -> tuple[list[dict[str, Any]], bool]:
        """When the newest records that a caller may know of ran; and whether there are older ones, not looked at."""
        return await self._runlog.spans(seen_by(wanted, rights), limit=limit, deadline_seconds=self._deadline_s)

    async def spans_by_start(self, job: str, rights: Rights, *, to_ms: int, limit: int) -> list[dict[str, Any]]:
        """The same of those of the job's runs that started last before that time."""
        wanted = seen_by(RunFilter(), rights)
        return await self._runlog.spans_by_start(
            job, wanted, to_ms=to_ms, limit=limit, deadline_seconds=self._deadline_s
        )

    async def check_cursor(self, cursor: str) -> None:
        """Return where it is one of the log store's pages; InvalidInputError."""
        page_key_in(await self._cursors.opened(cursor))

    async def results(self, jobs: Sequence[str], *, including: Iterable[RunId] = ()) -> Mapping[str, JobResults] | None:
        """What each of these jobs came to, those runs included that the log has only just got; None: it is away."""
        if not jobs:
            return {}
        if self._is_away():
            return None  # a page need not wait until that is found once more
        try:
            return await self._runlog.job_results(jobs, including=including, deadline_seconds=self._deadline_s)
        except UnavailableError:
            return None

    async def failing(self, limit: int) -> frozenset[str]:
        """The names of the jobs that are failing."""
        return frozenset(await self._runlog.failing_jobs(limit=limit, deadline_seconds=self._deadline_s))

    async def failing_results(self, *, after: str, limit: int) -> list[FailingJob]:
        """The same with what they came to, at most so many behind that name, by name."""
        if self._is_away():
            raise UnavailableError(LOG_STORE_AWAY)
        return await self._runlog.failing_results(after=after, limit=limit, deadline_seconds=self._deadline_s)

    async def in_order(self, by: ByResult, behind: str, *, descending: bool, limit: int) -> list[str]:
        """The keys of the next jobs behind that one, also of those that are deleted."""
        return await self._runlog.jobs_in_order(
            by, behind=behind, descending=descending, limit=limit, deadline_seconds=self._deadline_s
        )

    async def order_keys(self, by: ByResult, jobs: Sequence[str]) -> dict[str, str]:
        """The keys of those of these jobs that have one, by job."""
        return await self._runlog.order_keys(by, jobs, deadline_seconds=self._deadline_s)

    async def count_failing(self, jobs: Container[str], limit: int) -> int:
        """How many of these jobs are failing; no more than ``limit`` are counted.

        The log store knows it of deleted jobs, too, so it may have to be asked for more names than are counted.
        """
        count, after = 0, ""
        while count < limit:
            names = await self._runlog.failing_jobs(after=after, limit=limit, deadline_seconds=self._deadline_s)
            count += sum(name in jobs for name in names)
            if len(names) < limit:
                break
            after = names[-1]
        return min(count, limit)

    async def statistics(self, job: str | None, numbers: Sequence[int], unit_ms: int) -> list[SpanCounts]:
        """What those of the days or hours (since 1970-01-01) came to that have any record, oldest first.

        ``job`` None: of all jobs together.
        """
        return await self._runlog.statistics(job, numbers, unit_ms, deadline_seconds=self._deadline_s)

    async def record(self, run: RunId) -> dict[str, Any] | None:
        """The run's document with its output; None where there is none (yet)."""
        async with self._reading:
            return await self._runlog.run(str(run), deadline_seconds=self._deadline_s)

    async def output(self, text: str, rights: Rights) -> str:
        """The output of the run of this id. NotFoundError where it has none yet, or the caller may not know of it."""
        document = await self.record(read_run_id(text))
        if document is None or not is_seen(document, rights):
            raise NotFoundError(f"there is no output of {text}: it is there once the run has ended and is in the log")
        return str(document.get("output", ""))

    async def run(self, text: str, rights: Rights) -> dict[str, Any]:
        """The run of this id, from the moment at which it was asked for.

        NotFoundError where there is none, and in the same words where the caller may not know of it.
        """
        run = read_run_id(text)
        # etcd first: a key that is gone by now was deleted after the log store had the record, so that is found below.
        seen, away = None, None
        try:
            seen = await self._pending.look(run)
        except (EtcdError, UnavailableError) as error:
            away = error
        if seen is not None and seen.request is not None and self._pending.is_seen(seen, rights):
            view = await self._pending.view(seen)
            with suppress(UnavailableError):
                view |= await self._attempts(run, view, rights)
            return view
        entry_kv = None if seen is None or seen.run is None or not self._is_seen(run, seen.run, rights) else seen.run
        document = None
        try:
            document = await self.record(run)
        except UnavailableError:
            if entry_kv is None:
                raise
        if document is not None and is_seen(document, rights):
            view = shown(run_view(document), await self._what_is_left(run, seen))
            return view | await self._attempts(run, view, rights)
        if seen is None or entry_kv is None or document is not None:
            if away is not None and document is None:
                raise away
            raise NotFoundError(f"no run {run}: it never was, it is not due yet, or its record has been removed")
        view = shown(self._open(run, entry_kv, seen.lock, seen.kill), await self._what_is_left(run, seen))
        with suppress(EtcdError, UnavailableError):  # nor then is the run itself less known
            view |= await self._attempts(run, view, rights)
            if command := await self._command(run, entry_kv):
                view["command"] = command
        return view

    async def _attempts(self, run: RunId, view: Mapping[str, Any], rights: Rights) -> dict[str, Any]:
        """The attempts of the run's fire, where it has others than this one: what each came to, or where it stands."""
        near = range(max(1, run.attempt - _MOST_ATTEMPTS), run.attempt + _MOST_ATTEMPTS)
        ids = [replace(run, attempt=one) for one in near]
        records = await self._runlog.find(ids, deadline_seconds=self._deadline_s)
        known = {one.run_id: {"status": str(one.status)} for one in records.values() if rights.sees(one.labels)}
        known[run] = {name: view[name] for name in _OF_ATTEMPT if name in view}
        newest = max(known)
        if known[newest].get("status") in _TRIED_AGAIN:
            with suppress(EtcdError, UnavailableError):
                known |= await self._going(newest.next_attempt, rights)
        if len(known) == 1:
            return {}
        return {"attempts": [{"id": str(one), "attempt": one.attempt, **known[one]} for one in sorted(known)]}

    async def _going(self, run: RunId, rights: Rights) -> dict[RunId, dict[str, Any]]:
        """Where a run stands that has no record yet; nothing where there is none, or none that a caller may know of."""
        seen = await self._pending.look(run)
        if seen.request is not None and self._pending.is_seen(seen, rights):
            return {run: {"state": "created", "notBefore": seen.request.not_before_ms}}
        if seen.run is not None and self._is_seen(run, seen.run, rights):
            view = self._open(run, seen.run, seen.lock, None)
            return {run: {name: view[name] for name in ("state", "status") if name in view}}
        return {}

    async def _command(self, run: RunId, kv: KeyValue) -> str | None:
        """What a run that has no record yet runs, by the job as it was claimed; None where that is not known."""
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return None
        line = self._command_at(run.job_name, entry.revision)
        if line is None:
            # Restored from a backup, etcd counts again from there: what had ended by the claim is another version.
            former = [one for one in await self._versions.of(run.job_name) if one.ended_ms > entry.claim_ms - _APART_MS]
            command = next((one.spec.get("command") for one in former if one.revision == entry.revision), None)
            line = shlex.join(map(str, command)) if isinstance(command, list) else command
        return shown_command(line, entry.args) if isinstance(line, str) else None

    def _is_seen(self, run: RunId, kv: KeyValue, rights: Rights) -> bool:
        """Whether a caller may know of the run in this key, by the labels that it carries itself."""
        if rights.sees_all:
            return True
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return False
        if entry.record is not None:
            return rights.sees(entry.record.labels)
        return rights.sees(entry.labels or self._labels_at(run.job_name, entry.revision))

    async def _what_is_left(self, run: RunId, seen: Seen | None) -> LeftProcesses | None:
        return await self._ending.of(run) if seen is not None and seen.run is not None else None

    def _open(self, run: RunId, kv: KeyValue, lock: KeyValue | None, kill: KeyValue | None) -> dict[str, Any]:
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError as error:
            raise NotFoundError(f"the run key of {run} in etcd is not one of ours: {error}") from error
        has_ended = LeftRun.read(run, entry, kv, lock).has_ended
        now_ms = self._clock.wall_ms()
        view = open_run_view(run, entry, fence=kv.create_revision, now_ms=now_ms, has_ended=has_ended)
        if kill is not None and is_reached(kv, kill):
            try:
                asked_ms = Kill.from_json(kill.value, run_id=run, revision=kill.create_revision).at_ms
                view["killPendingMs"] = max(0, now_ms - asked_ms)
            except ValueError:
                view["killPendingMs"] = None  # not ours; the workers quarantine it
        return view


def read_run_id(text: str) -> RunId:
    """A run id as a user gives it; InvalidInputError where it is none."""
    try:
        return RunId.parse(text)
    except ValueError as error:
        remedy = "<job>@<plan time in ms>#<attempt>, with # written as %23 in an address"
        raise InvalidInputError([Problem(field="id", message=f"is {text[:80]!r}", remedy=remedy)]) from error


def _parts(sizes: Mapping[object, int]) -> Iterator[list[object]]:
    """The ids in their order, as many together as may be read at once."""
    part, held = list[object](), 0
    for one, size in sizes.items():
        if part and (len(part) >= _LOG_PART or held + size > _LOG_PART_BYTES):
            yield part
            part, held = [], 0
        part.append(one)
        held += size
    if part:
        yield part
