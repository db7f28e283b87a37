"""``/api/v1/forecast``: how many fires are to come, what slots they want, whose they are, and how to spread them."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Role
from common.cursors import decode_cursor, encode_cursor, no_cursor
from common.errors import InvalidInputError, NotFoundError, Problem
from common.forecast import MINUTE_MS, Wanted
from common.jobs.job import JobSpec
from common.jobs.kinds import Choice, Number, Several, about
from common.jobs.spread import SpreadBy, spread
from common.jobs.values import JobName
from common.protocol.keys import MAX_MARK_MS
from common.words.job_words import job_words
from manager.access.needs import needs
from manager.api.jobs import LabelFilter, TextFilter
from manager.console.pages import language_of
from manager.http.bodies import Body
from manager.http.queries import Cursor, Instant, Meaning, Query, whole
from manager.parts import PARTS, answer, rights
from manager.views.advice import next_fire
from manager.views.forecasts import Crowding, Forecast, whole_minute
from manager.watch.catalog import JobQuery, KnownJob

_PATH: Final = "/api/v1/forecast"
MOST_BUCKETS: Final = 400
MOST_SPREAD: Final = 2_000
_AT_ONCE: Final = 100
"""Jobs whose preview is made without a pause."""
_HOUR_MS: Final = 3_600_000
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360, 720, 1440, 2880)
"""Minutes of a bucket."""
_WEEK_HOURS: Final = 168
_SHOWN: Final = ("cronExpr", "every", "offset", "jitterSeconds")
JITTER: Final = Number(low=1, high=86_400, whole=True)
_MS: Final = Number(low=0, high=MAX_MARK_MS, whole=True, unit="milliseconds since 1970")


class WhichJobs(Query):
    q: TextFilter
    label: LabelFilter

    @property
    def jobs(self) -> JobQuery:
        return JobQuery(text=(self.q or "").casefold(), labels=self.label)


class ForecastQuery(WhichJobs):
    from_ms: Annotated[Instant, Meaning("From here on; now. With `to`, at most 24 hours.", name="from")]
    to: Annotated[Instant, Meaning("Up to here, instead of `hours`.")]
    hours: Annotated[int, whole(1, 24, 24), Meaning("So many hours.")]
    buckets: Annotated[int, whole(1, MOST_BUCKETS, 300), Meaning("At most so many.")]


class CrowdQuery(WhichJobs):
    from_ms: Annotated[Instant, Meaning("From here on; now, and on further pages as on the first.", name="from")]
    to: Annotated[Instant, Meaning("Up to here, at most an hour later; an hour later when left out.")]
    cursor: Cursor
    limit: Annotated[int, whole(1, 500, 100), Meaning("Jobs of a page, at most.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    names: Annotated[tuple[str, ...], Several(of=JobName(), what="names", most=MOST_SPREAD, alone=False), about(
        "names", "the jobs", ["backup"])]  # fmt: skip
    by: Annotated[SpreadBy, Choice(SpreadBy), about(
        "by", "`minute`: a minute that the name gives (`H`; of `every` an offset); `jitter`", "minute")]  # fmt: skip
    jitter_s: Annotated[int, JITTER, about("jitterSeconds", "of `jitter`", 600)] = 600
    from_ms: Annotated[int | None, _MS, about(
        "from", "the crowded minute, to be told by itself; the day from its hour on is looked at, else from now on",
        1_774_828_800_000)] = None  # fmt: skip


BODY: Final = Body(_Wish)


def add_routes(app: web.Application) -> None:
    """The calls."""
    app.router.add_get(_PATH, show_forecast)
    app.router.add_get(f"{_PATH}/week", show_week)
    app.router.add_get(f"{_PATH}/jobs", show_crowd)
    app.router.add_post(f"{_PATH}/spread", preview_spread)


@needs(Role.VIEWER)
async def show_forecast(request: web.Request) -> web.Response:
    """At most a day, from the whole bucket in which it begins on."""
    asked, parts = ForecastQuery.read(request), request.app[PARTS]
    start_ms = parts.clock.wall_ms() if asked.from_ms is None else asked.from_ms
    end_ms = start_ms + asked.hours * _HOUR_MS if asked.to is None else asked.to
    _check_span(start_ms, end_ms, 24)
    starts = _bucket_starts(start_ms, end_ms, asked.buckets)
    found = await parts.forecasts.of(asked.jobs, rights(request), starts[0], starts[-1] + starts.step)
    return answer(_view(found, starts.step // MINUTE_MS, parts.watching.warnings))


@needs(Role.VIEWER)
async def show_week(request: web.Request) -> web.Response:
    """Hour by hour, a week from the one that goes on."""
    asked, parts = WhichJobs.read(request), request.app[PARTS]
    start_ms = whole_minute(parts.clock.wall_ms(), 60)
    found = await parts.forecasts.of(asked.jobs, rights(request), start_ms, start_ms + _WEEK_HOURS * _HOUR_MS)
    return answer(_view(found, 60, parts.watching.warnings))


@needs(Role.VIEWER)
async def show_crowd(request: web.Request) -> web.Response:
    """The jobs that fire in at most an hour, those whose runs take most first; which of them had better be spread."""
    asked, parts, may = CrowdQuery.read(request), request.app[PARTS], rights(request)
    start_ms, after = (parts.clock.wall_ms(), None) if asked.cursor is None else _place(asked.cursor)
    start_ms = start_ms if asked.from_ms is None else asked.from_ms
    end_ms = start_ms + _HOUR_MS if asked.to is None else asked.to
    _check_span(start_ms, end_ms, 1)
    found = await parts.forecasts.crowd(asked.jobs, may, start_ms, end_ms)
    first = 0 if after is None else bisect_right(found, after, key=lambda one: one.order)
    page = found[first : first + asked.limit]
    suggested = (one.job.name for one in found if one.suggested and may.may(Role.EDITOR, one.job.labels))
    language = language_of(request)
    return answer({
        "from": start_ms, "to": end_ms, "total": len(found), "fires": sum(one.fires for one in found),
        "items": [
            {
                "name": one.job.name, "revision": one.job.revision, "fires": one.fires, "slots": one.slots,
                "usualMs": one.usual_ms, "words": job_words(one.job.saved.spec, language),
                "timezone": one.job.saved.spec.timezone, "maySpread": may.may(Role.EDITOR, one.job.labels),
            }
            for one in page if one.job.saved is not None
        ],
        "suggested": list(islice(suggested, MOST_SPREAD)),
        "nextCursor": _cursor(start_ms, page[-1]) if first + len(page) < len(found) else None,
        "warnings": parts.watching.warnings,
    })  # fmt: skip


def _cursor(start_ms: int, one: Crowding) -> str:
    less, name = one.order
    return encode_cursor(f"{start_ms}/{-less}/{name}")


def _place(cursor: str) -> tuple[int, tuple[int, str]]:
    """When the span of the first page begins, and after which job this page does."""
    try:
        start, harm, name = decode_cursor(cursor).split("/", 2)
        start_ms, less = int(start[:20]), -int(harm[:20])
    except ValueError:
        raise no_cursor() from None
    if not 0 <= start_ms <= MAX_MARK_MS:
        raise no_cursor()
    return start_ms, (less, name)


@needs(Role.VIEWER)
async def preview_spread(request: web.Request) -> web.Response:
    """What would become of each of the jobs, and what all jobs together want before and after; nothing is stored."""
    parts, may = request.app[PARTS], rights(request)
    wish = await BODY.read(request, parts.read_timeout_s)
    await parts.watching.ready()
    jobs = [_job(parts.watching.catalog.seen(name, may), name) for name in dict.fromkeys(wish.names)]
    before = [job.saved.spec for job in jobs if job.saved is not None]
    after = [spread(spec, wish.by, wish.jitter_s) for spec in before]
    now_ms, language = parts.clock.wall_ms(), language_of(request)
    start_ms = whole_minute(now_ms) if wish.from_ms is None else whole_minute(wish.from_ms, 60)
    changed = {spec.name: spec for spec in after}
    was, would = await parts.forecasts.spread(changed, may, start_ms, start_ms + 24 * _HOUR_MS)
    items = list[dict[str, Any]]()
    for place, (job, old, new) in enumerate(zip(jobs, before, after, strict=True)):
        if place % _AT_ONCE == 0:
            await asyncio.sleep(0)
        items.append({
            "name": job.name, "revision": job.revision, "changes": old != new, "timezone": old.timezone,
            "may": may.may(Role.EDITOR, job.labels),
            "before": _schedule(old, now_ms, language), "after": _schedule(new, now_ms, language),
        })  # fmt: skip
    at = None if wish.from_ms is None else (wish.from_ms - start_ms) // MINUTE_MS
    return answer({
        "by": str(wish.by), "jitterSeconds": wish.jitter_s if wish.by is SpreadBy.JITTER else None,
        "slots": was.slots, "before": _peak(was.wanted, was.slots), "after": _peak(would, was.slots),
        "minute": None if at is None else {
            "time": start_ms + at * MINUTE_MS, "before": _minute(was.wanted, at, was.slots),
            "after": _minute(would, at, was.slots),
        },
        "items": items,
    })  # fmt: skip


def _job(job: KnownJob | None, name: str) -> KnownJob:
    if job is None or job.saved is None:
        raise NotFoundError(f"there is no job {name}")
    return job


def _schedule(spec: JobSpec, now_ms: int, language: str) -> dict[str, Any]:
    document = spec.to_stored()
    shown: dict[str, Any] = {name: document[name] for name in _SHOWN if name in document}
    return {**shown, "words": job_words(spec, language), "next": next_fire(spec, after_ms=now_ms)}


def _peak(wanted: Wanted, there: int) -> dict[str, Any]:
    """The fullest minute."""
    at = wanted.fullest
    most = round(max(wanted.fires, default=0))
    return {"time": wanted.from_ms + at * MINUTE_MS, **_minute(wanted, at, there), "mostFires": most}


def _minute(wanted: Wanted, at: int, there: int) -> dict[str, Any]:
    return {
        "fires": round(wanted.fires[at]), "slots": round(wanted.slots[at]),
        "waitMs": wanted.waits_ms[at] if there else None,
    }  # fmt: skip


def _view(found: Forecast, minutes: int, warnings: list[str]) -> dict[str, Any]:
    return {
        "from": found.wanted.from_ms, "to": found.wanted.from_ms + len(found.wanted.fires) * MINUTE_MS,
        "bucketMs": minutes * MINUTE_MS, "slots": found.slots, "jobs": found.jobs, "estimated": found.wanted.estimated,
        "unknown": found.unknown,
        "items": [
            {
                "time": time_ms, "fires": round(fires, 1), "slots": round(slots, 1),
                "waitMs": wait_ms if found.slots else None,
            }
            for time_ms, fires, slots, wait_ms in found.wanted.in_buckets(minutes)
        ],
        "warnings": warnings,
    }  # fmt: skip


def _bucket_starts(start_ms: int, end_ms: int, most: int) -> range:
    """As short as so many allow; where no step has the span in one bucket, that is as long as the span."""
    for step in _STEPS:
        starts = range(whole_minute(start_ms, step), end_ms, step * MINUTE_MS)
        if len(starts) <= most:
            return starts
    first_ms = whole_minute(start_ms)
    return range(first_ms, end_ms, whole_minute(end_ms - first_ms - 1) + MINUTE_MS)


def _check_span(start_ms: int, end_ms: int, hours: int) -> None:
    if not 0 < end_ms - start_ms <= hours * _HOUR_MS:
        remedy = f"give one that is later than from, by at most {hours} {'hours' if hours > 1 else 'hour'}"
        raise InvalidInputError([Problem(field="to", message="makes no such span with from", remedy=remedy)])
