"""``/api/v1/statistics``: how many runs of each verdict each day or hour had, of one job or all, and how long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import NotFoundError
from common.instants import iso
from common.runlog import SpanCounts
from common.runlog.statistics import DAY_MS, HOUR_MS, ROLLED_UP_DAYS
from common.verdicts import Verdict
from manager.access.needs import needs
from manager.api.schemas import text
from manager.http.queries import Meaning, Query, single, whole
from manager.parts import PARTS, answer, rights

MAX_DAYS: Final = 400
"""The steward keeps no more."""
MAX_HOURS: Final = 24 * ROLLED_UP_DAYS


class StatisticsQuery(Query):
    days: Annotated[int, whole(1, MAX_DAYS, 30), Meaning("The last so many, today (UTC) included.")]
    hours: Annotated[int, whole(0, MAX_HOURS, 0), Meaning("The last so many hours instead, the current one included.")]
    job: Annotated[str | None, single(text(300)), Meaning("Of this job; of all when left out.")]


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/statistics", show_statistics)


@needs(Role.VIEWER)
async def show_statistics(request: web.Request) -> web.Response:
    """The last days or hours, newest first, the current one included; and all together. 404: there is no such job.

    Of what the caller may know; 403 where too many jobs would have to be added up for it.
    """
    parts, asked = request.app[PARTS], StatisticsQuery.read(request)
    job, count, unit, unit_ms = asked.job, asked.days, "day", DAY_MS
    if asked.hours:
        count, unit, unit_ms = asked.hours, "hour", HOUR_MS
    last = parts.clock.wall_ms() // unit_ms
    numbers = range(last - count + 1, last + 1)
    found, warnings = await parts.statistics.of(job, numbers, unit_ms, rights(request))
    if job is not None and not found and parts.watching.catalog.seen(job, rights(request)) is None:
        raise NotFoundError(f"there is no job {job}, and none of that name has had a fire in the last {count} {unit}s")
    counts = {one.number: _view([one]) for one in found}
    texts = {number: iso(number * unit_ms) for number in numbers}
    if unit == "day":
        texts = {number: text[:10] for number, text in texts.items()}
    items = [{unit: texts[number], **counts.get(number, _view([]))} for number in reversed(numbers)]
    return answer({
        "job": job, "from": texts[numbers[0]], "to": texts[last], "items": items, "total": _view(found),
        "warnings": warnings,
    })  # fmt: skip


def _view(spans: Sequence[SpanCounts]) -> dict[str, Any]:
    """Some of them together."""
    by_status = {status: sum(one.by_status[status] for one in spans) for status in Verdict}
    timed, duration_ms = sum(one.timed for one in spans), sum(one.duration_ms for one in spans)
    return {
        "runs": sum(number for status, number in by_status.items() if status.is_of_a_run),
        **{str(status): number for status, number in by_status.items()},
        "timed": timed,
        "totalDurationMs": duration_ms,
        "averageDurationMs": round(duration_ms / timed) if timed else None,
        "maxDurationMs": max((one.max_duration_ms for one in spans), default=0) if timed else None,
    }
