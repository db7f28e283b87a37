"""What days and hours came to, for a caller who may not know of everything: the log store sums by name, not by label.

Since a job was saved as it is, its sums are those of its labels. Up to then each record is looked at; it
may be of a job that had the name, or other labels, before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from common.access.rights import Rights
from common.errors import ForbiddenError
from common.runlog import RunFilter, SpanCounts
from common.runlog.statistics import span_counts_of
from common.verdicts import Verdict
from manager.views.history import History
from manager.watch.catalog import Catalog

MOST_SUMMED: Final = 20
"""So many jobs are added up for one call."""
_PAGES: Final = 2
_RECORDS_A_PAGE: Final = 500


class SeenStatistics:
    """Adds up what a caller may know of."""

    def __init__(self, history: History, catalog: Catalog) -> None:
        self._history = history
        self._catalog = catalog

    async def of(
        self, job: str | None, numbers: Sequence[int], unit_ms: int, rights: Rights
    ) -> tuple[list[SpanCounts], list[str]]:  # fmt: skip
        """As `History.statistics`, of one job or of all that the caller may know of; and what is missing, in words.

        ForbiddenError: these are too many to be added up.
        """
        if rights.sees_all:
            return await self._history.statistics(job, numbers, unit_ms), []
        if job is not None:
            return await self._of_job(job, numbers, unit_ms, rights)
        seen = self._catalog.names_seen(rights)
        if len(seen) > MOST_SUMMED:
            raise ForbiddenError(
                "statistics of all jobs together are for those who may read all of them, or no more than "
                f"{MOST_SUMMED}: name one job at a time, or ask for the role viewer on everything"
            )
        found, warnings = list[SpanCounts](), [f"the sum of the {len(seen)} jobs that you may read"]
        for name in tuple(seen):
            counts, missing = await self._of_job(name, numbers, unit_ms, rights)
            found += counts
            warnings += missing
        return together(found), warnings

    async def _of_job(
        self, name: str, numbers: Sequence[int], unit_ms: int, rights: Rights
    ) -> tuple[list[SpanCounts], list[str]]:  # fmt: skip
        job = self._catalog.seen(name, rights)
        last = numbers[-1]
        since = last if job is None or job.saved is None else min(job.saved.saved_ms // unit_ms, last)
        newer = [number for number in numbers if number > since]
        found = await self._history.statistics(name, newer, unit_ms) if newer else []
        if since < numbers[0]:
            return found, []
        span = RunFilter(job=name, from_ms=numbers[0] * unit_ms, to_ms=(since + 1) * unit_ms)
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._history.walk(span, rights, cursor=cursor, limit=_RECORDS_A_PAGE)
            found += span_counts_of(page.items, unit_ms)
            if (cursor := page.next_cursor) is None:
                break
        missing = f"{name}: up to its last save only the newest records are counted"
        return together(found), [] if cursor is None else [missing]


def together(counts: Iterable[SpanCounts]) -> list[SpanCounts]:
    """One for each day or hour, oldest first."""
    by_number: dict[int, list[SpanCounts]] = {}
    for one in counts:
        by_number.setdefault(one.number, []).append(one)
    return [
        SpanCounts(
            number=number,
            by_status={status: sum(one.by_status[status] for one in some) for status in Verdict},
            timed=sum(one.timed for one in some),
            duration_ms=sum(one.duration_ms for one in some),
            max_duration_ms=max(one.max_duration_ms for one in some),
        )
        for number, some in sorted(by_number.items())
    ]
