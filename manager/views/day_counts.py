"""What days came to, for a caller who may not know of everything: the log store keeps sums of names, and no labels.

Since a job was saved as it is, its sums are those of its labels. Of the days up to then each record is looked at; it
may be of a job that had the name, or other labels, before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from common.access.rights import Rights
from common.errors import ForbiddenError
from common.protocol.run import Verdict
from common.runlog import DayCounts, RunFilter
from common.runlog.statistics import day_counts_of
from manager.views.history import History
from manager.watch.catalog import Catalog

DAY_MS: Final = 86_400_000
MOST_SUMMED: Final = 20
"""So many jobs are added up for one call."""
_PAGES: Final = 2
_RECORDS_A_PAGE: Final = 500


class SeenStatistics:
    """Adds up what a caller may know of."""

    def __init__(self, history: History, catalog: Catalog) -> None:
        self._history = history
        self._catalog = catalog

    async def of(self, job: str | None, days: Sequence[int], rights: Rights) -> tuple[list[DayCounts], list[str]]:
        """As `History.statistics`, of one job or of all that the caller may know of; and what is missing, in words.

        ForbiddenError: these are too many to be added up.
        """
        if rights.sees_all:
            return await self._history.statistics(job, days), []
        if job is not None:
            return await self._of_job(job, days, rights)
        seen = self._catalog.names_seen(rights)
        if len(seen) > MOST_SUMMED:
            raise ForbiddenError(
                "statistics of all jobs together are for those who may read all of them, or no more than "
                f"{MOST_SUMMED}: name one job at a time, or ask for the role viewer on everything"
            )
        found, warnings = list[DayCounts](), [f"the sum of the {len(seen)} jobs that you may read"]
        for name in tuple(seen):
            counts, missing = await self._of_job(name, days, rights)
            found += counts
            warnings += missing
        return together(found), warnings

    async def _of_job(self, name: str, days: Sequence[int], rights: Rights) -> tuple[list[DayCounts], list[str]]:
        job = self._catalog.seen(name, rights)
        since = days[-1] if job is None or job.saved is None else min(job.saved.saved_ms // DAY_MS, days[-1])
        newer = [day for day in days if day > since]
        found = await self._history.statistics(name, newer) if newer else []
        if since < days[0]:
            return found, []
        span = RunFilter(job=name, from_ms=days[0] * DAY_MS, to_ms=(since + 1) * DAY_MS)
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._history.walk(span, rights, cursor=cursor, limit=_RECORDS_A_PAGE)
            found += day_counts_of(page.items)
            if (cursor := page.next_cursor) is None:
                break
        missing = f"{name}: of the days up to its last save only the newest records are counted"
        return together(found), [] if cursor is None else [missing]


def together(counts: Iterable[DayCounts]) -> list[DayCounts]:
    """One for each day, oldest first."""
    by_day: dict[int, list[DayCounts]] = {}
    for one in counts:
        by_day.setdefault(one.day, []).append(one)
    return [
        DayCounts(
            day=day,
            by_status={status: sum(one.by_status[status] for one in of_day) for status in Verdict},
            timed=sum(one.timed for one in of_day),
            duration_ms=sum(one.duration_ms for one in of_day),
            max_duration_ms=max(one.max_duration_ms for one in of_day),
        )
        for day, of_day in sorted(by_day.items())
    ]
