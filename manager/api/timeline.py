"""``/api/v1/timeline``: lanes over at most a week of past and future, for people who look at a chart of them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import InvalidInputError, Problem
from manager.access.needs import needs
from manager.api.forecast import WhichJobs
from manager.api.schemas import text
from manager.http.queries import Cursor, Instant, Meaning, single, whole, word
from manager.parts import PARTS, answer, rights
from manager.views.timelines import MOST_LANES, LaneBy, Window

_DAY_MS: Final = 86_400_000
_LONGEST_MS: Final = 7 * _DAY_MS


class PausedJobs(StrEnum):
    """What becomes of them among the lanes of jobs."""

    SHOWN = "shown"
    HIDDEN = "hidden"


class TimelineQuery(WhichJobs):
    from_ms: Annotated[Instant, Meaning("From here on; a day ago when left out.", name="from")]
    to: Annotated[Instant, Meaning("Up to here, at most a week later; a day ahead when left out.")]
    by: Annotated[LaneBy | None, word(LaneBy), Meaning("What has a lane; `job` when left out.")]
    key: Annotated[str | None, single(text(128)), Meaning("Of `by=label`: the label's name.")]
    paused: Annotated[PausedJobs | None, word(PausedJobs), Meaning(
        "Of `by=job`: `hidden` leaves paused jobs out; `shown` when left out."
    )]  # fmt: skip
    cursor: Cursor
    limit: Annotated[int, whole(1, MOST_LANES, 30), Meaning("Lanes, at most.")]


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/api/v1/timeline", show_timeline)


@needs(Role.VIEWER)
async def show_timeline(request: web.Request) -> web.Response:
    """What ran, what runs and what is to come, of what the caller may know."""
    asked, parts = TimelineQuery.read(request), request.app[PARTS]
    now_ms = parts.clock.wall_ms()
    window = Window(
        from_ms=now_ms - _DAY_MS if asked.from_ms is None else asked.from_ms,
        to_ms=now_ms + _DAY_MS if asked.to is None else asked.to, now_ms=now_ms,
    )  # fmt: skip
    by = asked.by or LaneBy.JOB
    problems = []
    if not 0 < window.to_ms - window.from_ms <= _LONGEST_MS:
        remedy = "give one that is later than from, by at most seven days"
        problems.append(Problem(field="to", message="makes no such span with from", remedy=remedy))
    if by is LaneBy.LABEL and asked.key is None:
        problems.append(Problem(field="key", message="is missing", remedy="name the label whose values have lanes"))
    if problems:
        raise InvalidInputError(problems)
    found = await parts.timelines.of(
        by, asked.jobs, rights(request), window, label=asked.key or "", cursor=asked.cursor, limit=asked.limit,
        hides_paused=asked.paused is PausedJobs.HIDDEN,
    )  # fmt: skip
    return answer({
        "from": window.from_ms, "to": window.to_ms, "now": now_ms, "bucketMs": window.bucket_ms, "by": str(by),
        "items": [lane.view() for lane in found.lanes], "total": found.total,
        "paused": found.paused, "nextCursor": found.next_cursor,
        "used": [{"time": time_ms, "slots": slots} for time_ms, slots in found.used], "usedFrom": found.used_from_ms,
        "usedMean": [{"time": time_ms, "slots": slots} for time_ms, slots in found.used_mean],
        "warnings": list(found.warnings),
    })  # fmt: skip
