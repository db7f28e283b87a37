"""``/api/v1/statistics``: how many runs of each verdict each day had, of one job or of all, and how long they took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field

from common.access.rights import Role
from common.errors import NotFoundError
from common.protocol.run import Verdict
from common.runlog import DayCounts
from manager.access.needs import needs
from manager.api.schemas import text
from manager.http.queries import Query, single, whole
from manager.parts import PARTS, answer, rights

MAX_DAYS: Final = 400
"""The steward keeps no more."""
_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class StatisticsQuery(Query):
    days: Annotated[int, whole(1, MAX_DAYS, 30), Field(description="The last so many, today (UTC) included.")]
    job: Annotated[str | None, single(text(300)), Field(description="Of this job; of all when left out.")]


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/statistics", show_statistics)


@needs(Role.VIEWER)
async def show_statistics(request: web.Request) -> web.Response:
    """The last days, newest first, today included; and all of them together. 404: nobody knows the job.

    Of what the caller may know; 403 where too many jobs would have to be added up for it.
    """
    parts, asked = request.app[PARTS], StatisticsQuery.read(request)
    job, count, today = asked.job, asked.days, parts.clock.wall_ms() // _DAY_MS
    days = range(today - count + 1, today + 1)
    found, warnings = await parts.statistics.of(job, days, rights(request))
    if job is not None and not found and parts.watching.catalog.seen(job, rights(request)) is None:
        raise NotFoundError(f"there is no job {job}, and none of that name has had a fire in the last {count} days")
    by_day = {one.day: _view([one]) for one in found}
    items = [{"day": _text(day), **by_day.get(day, _view([]))} for day in reversed(days)]
    return answer({
        "job": job, "from": _text(days[0]), "to": _text(today), "items": items, "total": _view(found),
        "warnings": warnings,
    })  # fmt: skip


def _view(days: Sequence[DayCounts]) -> dict[str, Any]:
    """Some days together."""
    by_status = {status: sum(one.by_status[status] for one in days) for status in Verdict}
    timed, duration_ms = sum(one.timed for one in days), sum(one.duration_ms for one in days)
    return {
        "runs": sum(number for status, number in by_status.items() if status.is_of_a_run),
        **{str(status): number for status, number in by_status.items()},
        "timed": timed,
        "totalDurationMs": duration_ms,
        "averageDurationMs": round(duration_ms / timed) if timed else None,
        "maxDurationMs": max((one.max_duration_ms for one in days), default=0) if timed else None,
    }


def _text(day: int) -> str:
    return (_EPOCH + timedelta(days=day)).date().isoformat()
