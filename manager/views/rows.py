"""Jobs as the console shows them: what the watch knows, joined with what the log store says they came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from common.access.masks import shown_spec
from common.access.rights import Rights, Role
from common.clock import Clock
from common.runlog import JobResults
from common.runlog.last import LISTED, SHOWN
from common.words.phrases import DEFAULT
from manager.views.ending import EndingRunsView, shown
from manager.views.fire_verdicts import NOT_TAKEN, first_due_ms
from manager.views.history import History
from manager.views.orders import JobOrders, Sort
from manager.views.shapes import job_row
from manager.watch.catalog import CatalogPage, JobQuery, KnownJob, ListState
from manager.watch.eligibility import Eligibility
from manager.watch.watching import Watching

_ON_ITS_WAY_MS: Final = 10_000
"""A fire that is due for less may be on its way through a job that fires often."""
MAX_FAILING: Final = 10_000
"""How many failing jobs a list can be narrowed to."""
NO_RESULTS: Final = "the log store cannot be reached: last results are not shown"


class Rows:
    """Lists and single jobs; none of it asks etcd."""

    def __init__(
        self,
        watching: Watching,
        history: History,
        ending: EndingRunsView,
        orders: JobOrders,
        *,
        standstill: Callable[[], str | None],
        clock: Clock,
    ) -> None:
        """``standstill``: why nothing starts anywhere, where that is known."""
        self._watching = watching
        self._history = history
        self._ending = ending
        self._orders = orders
        self._standstill = standstill
        self._clock = clock

    async def page(
        self,
        query: JobQuery,
        rights: Rights,
        *,
        cursor: str | None,
        limit: int,
        sort: Sort = Sort.NAME,
        language: str = DEFAULT,
    ) -> tuple[CatalogPage, list[dict[str, Any]], list[str]]:
        """A page of the catalog, its rows, and warnings. UnavailableError: nothing has been read yet."""
        await self._watching.ready()
        match query.state:
            case ListState.RUNNING:
                query = replace(query, state=None, among=self._watching.open_runs.jobs(rights))
            case ListState.FAILING:
                query = replace(query, state=None, among=await self._history.failing(MAX_FAILING))
            case _:
                pass
        if sort is Sort.NAME:
            page = await self._watching.catalog.page(query, rights, cursor=cursor, limit=limit)
        else:
            page = await self._orders.page(query, rights, sort, cursor=cursor, limit=limit)
        rows, warnings = await self.rows(page.jobs, rights, language=language)
        return page, rows, [*self._watching.warnings, *warnings]

    async def rows(
        self, jobs: Sequence[KnownJob], rights: Rights, *, language: str = DEFAULT, newest: int = LISTED
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows of these jobs, which the caller may know of; and warnings where the log store is away.

        ``newest``: so many verdicts are in a strip.
        """
        # What is not a job may have any bytes for a name, and never ran.
        results = await self._history.results([job.name for job in jobs if job.saved is not None])
        now_ms, reads_all = self._clock.wall_ms(), rights.has_everywhere(Role.OPERATOR)
        of = self._watching.open_runs.of
        rows = [
            job_row(
                job, of(job.name, rights), seen_results((results or {}).get(job.name), job, rights), now_ms=now_ms,
                language=language, blocked_ms=self._watching.blocked.of(job.name), newest=newest,
            )
            for job in jobs
        ]  # fmt: skip
        ending = await self._ending.all()
        for job, row in zip(jobs, rows, strict=True):
            if job.saved is not None and not reads_all:
                row["spec"] = shown_spec(row["spec"], rights, job.saved.spec.labels)
            row["running"] = [shown(run, ending.get(run["id"])) for run in row["running"]]
            row["waiting"] = None if results is None or row["lastResult"] else self._due(job, row, now_ms)
        return rows, [] if results is not None else [NO_RESULTS]

    def _due(self, job: KnownJob, row: dict[str, Any], now_ms: int, after_ms: int = 0) -> dict[str, Any] | None:
        """The first fire after an instant, where it is due and nothing has come of it; it may wait for slots, which no
        watch shows."""
        if job.saved is None or row["running"] or self._watching.open_runs.awaits_record(job.name):
            return None
        plan_ms = first_due_ms(job.saved.spec, max(job.saved.anchor_ms, after_ms), now_ms)
        if plan_ms is None:
            return None
        reason = Eligibility(job.saved.spec, self._watching.members).takers(str(plan_ms)).reason
        return {"planTime": plan_ms, "reason": reason or self._standstill() or NOT_TAKEN}

    async def row(self, job: KnownJob, rights: Rights, *, language: str = DEFAULT) -> dict[str, Any]:
        """The row of one job, which the caller may know of, with its whole strip, and its warnings in it."""
        (row,), warnings = await self.rows([job], rights, language=language, newest=SHOWN)
        row["warnings"] = [*self._watching.warnings, *warnings]
        if (last := row["lastResult"]) is not None:
            after_ms = max(last.get("rangeEndTime") or last["planTime"], row["blockedUntil"] or 0)
            if overdue := self._due(job, row, self._clock.wall_ms() - _ON_ITS_WAY_MS, after_ms):
                row["overdue"] = overdue
        return row


def seen_results(came_to: JobResults | None, job: KnownJob | None, rights: Rights) -> JobResults | None:
    """What a job came to, as far as a caller may know: it may have had other labels before, or been another's.

    A result carries the labels of its run. The strip of verdicts does not, nor does what an older version has written:
    of these a caller who does not see everything is shown what was planned since the job was saved as it is.
    """
    if came_to is None or rights.sees_all:
        return came_to
    saved = job.saved if job is not None and job.is_seen_by(rights) else None

    def is_seen(document: Mapping[str, Any] | None) -> bool:
        if document is None:
            return False
        if isinstance(labels := document.get("labels"), Mapping):
            return rights.sees(labels)
        return saved is not None and document.get("planTime", 0) > saved.saved_ms

    return JobResults(
        last=came_to.last if is_seen(came_to.last) else None,
        last_run=came_to.last_run if is_seen(came_to.last_run) else None,
        failed_ms=came_to.failed_ms if is_seen({"planTime": came_to.failed_ms or 0}) else None,
        recent=tuple(one for one in came_to.recent if is_seen(one)),
    )


def seen_usual_ms(came_to: JobResults | None, job: KnownJob | None, rights: Rights) -> int | None:
    """How long a job's runs usually take, by those that a caller may know of; None: that is not known."""
    seen = seen_results(came_to, job, rights)
    usual: int | None = None if seen is None else seen.strip().get("usualMs")
    return usual
