"""The fires of one job: *why did it not run?* is answered here.

Two lists of what `fire_verdicts` says: the newest records and runs, each attempt by itself, with what is due as one,
and the next fires to come; and every planned fire in a span of time, with what became of it, page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from common.access.rights import Rights
from common.clock import Clock
from common.cursors import no_cursor
from common.errors import EtcdError, InvalidInputError, UnavailableError
from common.etcd import EtcdClient
from common.instants import from_ms, iso, to_ms
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.protocol.keys import MAX_MARK_MS, Keys, RunId, decode_mark, sequence_name
from common.protocol.saved_job import SavedJob
from common.runlog import RunFilter
from common.runlog.documents import plan_ms_of
from common.runlog.pages import page_key_in
from manager.background.versions import Versions, sees_version
from manager.views.advice import fire_view, mark_fault
from manager.views.fire_verdicts import (
    NOT_TAKEN,
    OF_RANGES,
    RANGES,
    Fire,
    Read,
    Span,
    Unrecorded,
    end_ms,
    newest_due_ms,
    of_records,
    of_run,
    verdicts,
    waiting_together,
    waits_for_run,
    without_any,
)
from manager.views.history import NO_RECORDS, History, kept_records
from manager.views.pending import NO_FREE_SLOT, FreeSlots, Pending
from manager.watch.catalog import KnownJob
from manager.watch.eligibility import Eligibility
from manager.watch.watching import Watching

RECENT: Final = 50
UPCOMING: Final = 10
_SHOWN_OF_RECENT: Final = (
    "planTime", "rangeEndTime", "count", "reason", "startTime", "endTime", "worker", "verdict", "runId",
)  # fmt: skip
_RECORDS: Final = 2000
"""Read for one page: attempts and requests are among them."""
_RECORDS_A_PAGE: Final = 500
MOST_PAGES: Final = 10
"""Of records that a caller may not see there may be any number among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """Log documents, newest first; from ``from_ms`` on (ms since the epoch) they are all that there are."""

    documents: Sequence[Mapping[str, Any]]
    from_ms: int
    goes_on_ms: int | None = None
    """The newest record before, where ranges that reach in from there begin among others: these are listed by then."""
    is_away: bool = False
    """The log store was not asked, or did not answer: these are the documents that etcd keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """The planned fires of a span, newest first: all of them."""

    span: Span
    fires: Sequence[int]
    """Plan times, ms since the epoch."""
    former: Mapping[int, JobSpec]
    """Of those among them that a former version of the job had, that version."""
    is_cut: bool
    """Whether there may be older ones in the span that was asked for."""

    def from_on(self, from_ms: int) -> _Plan:
        """Its part from there on."""
        return _Plan(
            span=self.span.since(from_ms),
            fires=[plan_ms for plan_ms in self.fires if plan_ms >= from_ms],
            former=self.former,
            is_cut=self.is_cut or from_ms > self.span.from_ms,
        )


class Fires:
    """Reads what is known of a job's fires, and makes the lists."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, watching: Watching, history: History, versions: Versions, pending: Pending,
        slots: FreeSlots, *, clock: Clock,
    ) -> None:  # fmt: skip
        self._etcd = etcd
        self._keys = keys
        self._watching = watching
        self._history = history
        self._versions = versions
        self._pending = pending
        self._slots = slots
        self._clock = clock

    async def recent(
        self, job: KnownJob | None, name: str, rights: Rights, *, before_ms: int | None, after_ms: int | None
    ) -> dict[str, Any]:
        """Recent fires (newest first) before one instant, and upcoming ones after another; now by default.

        ``job``: None also where the caller may not know of it. Each run is judged by its own labels.
        Where the log store is away, of the recent ones what etcd knows; a warning says so.
        """
        now_ms, saved = self._clock.wall_ms(), job.saved if job is not None else None
        spec = None if saved is None or not saved.spec.enabled else saved.spec
        documents: Sequence[Mapping[str, Any]] | None = None
        if not self._history.is_away:  # else a page would wait until that is found once more
            with suppress(UnavailableError):
                page = await self._history.walk(RunFilter(job=name, to_ms=before_ms), rights, cursor=None, limit=RECENT)
                documents = page.items
        warnings = self._watching.warnings
        if is_away := documents is None:
            unrecorded = self._watching.open_runs.unrecorded(name, rights)
            kept = await kept_records(self._etcd, self._keys, unrecorded, rights)
            documents = [one for one in kept if before_ms is None or one["planTime"] < before_ms]
            warnings = [*warnings, NO_RECORDS]
        fires = [of_records([document]) for document in documents or ()]
        if before_ms is None:
            known = {fire["runId"] for fire in fires}
            going = self._watching.open_runs.of(name, rights)
            fires += [of_run(run, now_ms) for run in going if str(run.run_id) not in known]
            if saved is not None and spec is not None and not spec.broadcast:
                fires += waiting_together(await self._unrecorded(name, saved, rights, no_records=is_away))
        fires.sort(key=lambda fire: fire["rangeEndTime"] or fire["planTime"], reverse=True)
        recent = [{name: fire[name] for name in _SHOWN_OF_RECENT} for fire in fires[:RECENT]]
        upcoming = []
        if saved is not None and spec is not None:
            after = from_ms(max(after_ms or now_ms, saved.anchor_ms))
            upcoming = [fire_view(fire, spec.schedule) for fire in spec.schedule.upcoming(after, UPCOMING)]
        return {"recent": recent, "upcoming": upcoming, "warnings": warnings}

    async def between(
        self, job: KnownJob | None, name: str, span: Span, rights: Rights, *, limit: int
    ) -> dict[str, Any]:  # fmt: skip
        """Fires of the span, newest first: ``limit``, and of the last instant all (a broadcast job has several).

        ``nextCursor`` goes on with the older ones.
        Where the log store is away, of the past what etcd knows; a warning says so. ``isPartial``: asked again, there
        may be more, though nothing has happened.
        """
        saved = job.saved if job is not None else None
        plan = await self._plan(name, saved, span, limit, rights)
        # What is settled while the records are read may be in none of them: so it is looked at before and after.
        settling = self._watching.open_runs.unrecorded(name, rights)
        past = await self._past(name, plan.span, settling, rights, most=_RECORDS if plan.is_cut else _RECORDS_A_PAGE)
        without = sorted(self._watching.open_runs.unrecorded(name, rights).union(settling))
        going = self._watching.open_runs.of(name, rights)
        is_readable = saved is not None and not self._is_out_of_reach
        plan = plan.from_on(past.from_ms)
        recorded = {document.get("_id") for document in past.documents}
        read = Read(
            name=name,
            span=plan.span,
            documents=past.documents,
            requests=await self._pending.of_job(name, rights) if is_readable else (),
            settling=[run_id for run_id in without if str(run_id) not in recorded],
            going=going,
            planned=plan.fires,
            former=plan.former,
            no_records=past.is_away,
            unrecorded=await self._unrecorded(name, saved, rights, no_records=past.is_away)
            if saved and plan.fires
            else None,
        )
        fires = verdicts(read, self._clock.wall_ms())
        passing = [*self._watching.warnings, *([NO_RECORDS] if past.is_away else [])]
        warnings = list(passing)
        if job is None:
            warnings.append(f"there is no job {name} any more: these fires are of its past")
        elif saved is None:
            warnings.append(f"nothing fires, as the job cannot be read: {job.problem}")
        elif not past.is_away:
            warnings += _unplanned(saved, plan, fires.values())
        items, next_cursor = _page([fires[key] for key in sorted(fires, reverse=True)], plan, limit, past.goes_on_ms)
        if job is None and not items:
            next_cursor = None  # as of one that there is not: of hidden records there may be any number
        if saved is not None and not items and next_cursor is None:
            warnings += _none_planned(saved.spec, span)
        return {"items": items, "nextCursor": next_cursor, "warnings": warnings, "isPartial": bool(passing)}

    async def fault_of(self, job: KnownJob) -> str | None:
        """What is wrong with the job's mark, which a claim may have moved as well as a save; None: nothing is known."""
        if job.saved is None or job.saved.spec.broadcast or self._is_out_of_reach:
            return None  # of a broadcast job each worker has its own mark, and no other owes what it was away for
        return mark_fault(await self._mark(job.name), now_ms=self._clock.wall_ms())

    @property
    def _is_out_of_reach(self) -> bool:
        """Whether etcd has been silent for a while: then it is not asked, as each question would wait in vain."""
        return self._watching.stale_since_ms is not None

    async def _plan(self, name: str, saved: SavedJob | None, span: Span, limit: int, rights: Rights) -> _Plan:
        """As many of the span's planned fires as the page has room for."""
        former = await self._former(name, saved, span, limit, rights)
        # Before its save there is nothing of the job as it is: of then the records and its former versions tell.
        planned = [] if saved is None else _planned(saved.spec, span.since(saved.anchor_ms + 1), limit)
        fires = sorted({*former, *planned}, reverse=True)
        is_cut = len(fires) > limit
        plan = _Plan(span=span, fires=fires, former=former, is_cut=is_cut)
        return plan.from_on(fires[limit - 1]) if is_cut else plan

    async def _unrecorded(self, name: str, saved: SavedJob, rights: Rights, *, no_records: bool) -> Unrecorded:
        now_ms, spec, mark_ms = self._clock.wall_ms(), saved.spec, None
        takers, due_ms = Eligibility(spec, self._watching.members), newest_due_ms(spec, now_ms)
        if not self._is_out_of_reach:
            mark_ms = await (self._own_marks(name, takers) if spec.broadcast else self._mark(name))
        view = Unrecorded(
            saved=saved,
            takers=takers,
            mark_ms=mark_ms,
            fault=None if spec.broadcast else mark_fault(mark_ms, now_ms=now_ms),
            due_ms=-1 if due_ms is None else due_ms,
            out_of_reach=self._is_out_of_reach,
            no_records=no_records,
        )
        if not spec.enabled or view.out_of_reach or view.waiting is None:
            return view
        # A fire waits that a worker could take.
        why = waits_for_run(spec, self._watching.open_runs.of(name, rights)) or self._slots.standstill()
        if why is None:
            why = f"waits for {NO_FREE_SLOT}" if await self._slots.are_taken(spec) else NOT_TAKEN
        return replace(view, waits_for=why)

    async def _mark(self, name: str) -> int | None:
        """None: it is not known."""
        try:
            kv = await self._etcd.get(self._keys.mark(name))
            return None if kv is None else decode_mark(kv.value)
        except (EtcdError, UnavailableError, ValueError):
            return None

    async def _own_marks(self, name: str, takers: Eligibility) -> int | None:
        """Up to where no live worker owes a broadcast job's fires: its mark has passed over what it was away for."""
        own = {self._keys.mark(sequence_name(name, worker)) for worker in takers.takers("").workers}
        prefix = self._keys.mark(sequence_name(name, ""))
        try:
            marks = [kv async for page in self._etcd.read_prefix(prefix) for kv in page.kvs if kv.key in own]
            return min((decode_mark(kv.value) for kv in marks), default=MAX_MARK_MS)
        except (EtcdError, UnavailableError, ValueError):
            return None

    async def _former(
        self, name: str, saved: SavedJob | None, span: Span, limit: int, rights: Rights
    ) -> dict[int, JobSpec]:  # fmt: skip
        """What former versions of the job had planned, each fire with its version, as far as one page has room.

        Where etcd does not answer, none is known.
        """
        if self._is_out_of_reach or (saved is not None and span.from_ms > saved.anchor_ms):
            return {}  # in the latter case the version that there is tells of all of the span
        try:
            former = [one for one in await self._versions.of(name) if sees_version(one, rights)]
        except (EtcdError, UnavailableError):
            return {}
        found: dict[int, JobSpec] = {}
        for version in former:  # newest first: what is older than a full page is on the next
            if len(found) > limit:
                break
            try:
                spec = parse_job(version.spec)
            except InvalidInputError:
                continue  # it cannot be read as a job any more
            low_ms, high_ms = max(version.saved_ms + 1, span.from_ms), min(version.ended_ms, span.to_ms)
            if saved is not None:
                high_ms = min(high_ms, saved.anchor_ms)
            for plan_ms in _planned(spec, Span(from_ms=low_ms, to_ms=high_ms), limit):
                found.setdefault(plan_ms, spec)
        return found

    async def _past(
        self, name: str, span: Span, settling: Iterable[RunId], rights: Rights, *, most: int
    ) -> _Past:  # fmt: skip
        """The records of the span, and the range that reaches into it; without the log store those that etcd keeps."""
        if not self._history.is_away:
            try:
                documents, from_ms = await self._documents(name, span, most, rights)
                before = await self._history.walk(
                    RunFilter(job=name, statuses=OF_RANGES, to_ms=from_ms), rights, cursor=None, limit=RANGES
                )
                ranges = [one for one in before.items if one.get("rangeEndTime", 0) >= from_ms]
                goes_on_ms = None
                if ranges:
                    # Others may lie among them: those of a broadcast job's other workers, what an unblock has run anew.
                    since_ms = min(one["planTime"] for one in ranges)
                    there = await self._history.walk(
                        RunFilter(job=name, from_ms=since_ms, to_ms=from_ms), rights, cursor=None, limit=len(ranges) + 1
                    )
                    goes_on_ms = there.items[0]["planTime"] if len(there.items) > len(ranges) else None
                return _Past(documents=[*documents, *ranges], from_ms=from_ms, goes_on_ms=goes_on_ms)
            except UnavailableError:
                pass
        kept = await kept_records(self._etcd, self._keys, settling, rights)
        inside = [one for one in kept if one["planTime"] <= span.to_ms and end_ms(one) >= span.from_ms]
        return _Past(documents=inside, from_ms=span.from_ms, is_away=True)

    async def _documents(
        self, name: str, span: Span, most: int, rights: Rights
    ) -> tuple[list[Mapping[str, Any]], int]:  # fmt: skip
        """The newest records in the span, newest first, and from which instant on they are all there are."""
        documents: list[Mapping[str, Any]] = []
        cursor, pages = None, 0
        while len(documents) < most:
            if pages == MOST_PAGES and cursor is not None:
                last_ms = plan_ms_of(page_key_in(cursor))
                return [one for one in documents if one["planTime"] > last_ms], last_ms + 1
            page = await self._history.walk(
                RunFilter(job=name, from_ms=span.from_ms, to_ms=span.to_ms + 1), rights, cursor=cursor,
                limit=_RECORDS_A_PAGE,
            )  # fmt: skip
            documents += page.items
            pages += 1
            cursor = page.next_cursor
            if cursor is None:
                return documents, span.from_ms
        last_ms = documents[-1]["planTime"]  # of which there may be more
        whole = [one for one in documents if one["planTime"] > last_ms]
        return (whole, last_ms + 1) if whole else (documents, last_ms)


def read_cursor(text: str | None, to_ms: int) -> int:
    """Where the page ends; InvalidInputError where the text is none of ours."""
    if text is None:
        return to_ms
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise no_cursor()
    return min(int(text), to_ms)


def _planned(spec: JobSpec, span: Span, limit: int) -> list[int]:
    """One more than the limit where there are more; newest first."""
    fires: list[int] = []
    at = spec.schedule.last_before_ms(span.to_ms + 1)
    while at is not None and at >= span.from_ms and len(fires) <= limit:
        fires.append(at)
        at = spec.schedule.last_before_ms(at)
    return fires


def _unplanned(saved: SavedJob, plan: _Plan, fires: Iterable[Fire]) -> list[str]:
    """That the schedule has not been so for all of the span, where a fire that it would have had is not there."""
    at = saved.spec.schedule.last_before_ms(min(plan.span.to_ms, saved.anchor_ms) + 1)
    if at is None or at < plan.span.from_ms or at in plan.former or not without_any([at], fires):
        return []
    since = f"the job is as it is now since {iso(saved.anchor_ms)}, when it was saved or resumed"
    return [f"{since}: of what this schedule would have had before, as at {iso(at)}, there is no record"]


def _none_planned(spec: JobSpec, span: Span) -> list[str]:
    """Where the schedule has no fire in all of the span: between which that lies, and what the clocks did there."""
    if span.from_ms > span.to_ms:
        return [f"nothing lies from {iso(span.from_ms)} to {iso(span.to_ms)}, which is before; swap them"]
    last_ms = spec.schedule.last_before_ms(span.to_ms + 1)
    if spec.after is not None or spec.at_boot or (last_ms is not None and last_ms >= span.from_ms):
        return []
    following = next(iter(spec.schedule.upcoming(from_ms(span.from_ms - 1), 1)), None)
    last = "there is none before that" if last_ms is None else f"the last one before that is {iso(last_ms)}"
    coming = "there is none after it" if following is None else f"the next one is {iso(to_ms(following.at))}"
    note = f" ({following.note})" if following is not None and following.note else ""
    return [f"no fire is planned from {iso(span.from_ms)} to {iso(span.to_ms)}: {last}, {coming}{note}"]


def _page(newest_first: list[Fire], plan: _Plan, limit: int, goes_on_ms: int | None) -> tuple[list[Fire], str | None]:
    """What is shown of the fires on one page, and the cursor of the next one; None: there are no older ones."""
    end = min(limit, len(newest_first))
    # All of the last instant: a cursor goes on before it.
    while 0 < end < len(newest_first) and newest_first[end]["planTime"] == newest_first[end - 1]["planTime"]:
        end += 1
    items, are_all = newest_first[:end], end == len(newest_first)
    if are_all and plan.is_cut and goes_on_ms is not None:
        return [one for one in items if one["planTime"] >= plan.span.from_ms], str(goes_on_ms)
    oldest_ms = items[-1]["planTime"] if items else plan.span.from_ms
    if are_all:
        oldest_ms = min(oldest_ms, plan.span.from_ms)  # all that there is down to there has been listed
    goes_on = (plan.is_cut or not are_all) and oldest_ms > 0
    return items, str(oldest_ms - 1) if goes_on else None
