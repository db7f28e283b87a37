"""``/api/v1/alerts``: the problems that are open, those that ended last, and who is told of a job's."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Rights, Role
from common.cursors import decode_cursor, encode_cursor, no_cursor
from common.errors import ConflictError, NotFoundError
from common.jobs.kinds import AnyText, about
from common.jobs.values import JobName
from common.notices.alerts import Alert
from common.notices.applying import applying_to_job, jobs_of_commands
from common.notices.silences import MAX_REASON, MOST_JOBS, AlertOf, Quiet, Silence
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.schemas import NAME_PATTERN, text
from manager.api.silences import seen_view, sees_silence, silence_view
from manager.http.bodies import Body
from manager.http.inputs import job_in
from manager.http.queries import Cursor, Limit, Meaning, Query, single, word
from manager.parts import PARTS, Parts, answer, caller, rights
from manager.use_cases.notice_records import Kept
from manager.use_cases.silences import acknowledgement_id
from manager.views.alerts import alert_cause, by_cause

_ALERTS: Final = "/api/v1/alerts"
MOST_OF_A_GROUP: Final = 20
"""So many of its alerts are shown with all about them."""


class AlertState(StrEnum):
    """Of an alert."""

    OPEN = "open"
    ENDED = "ended"


class Grouped(StrEnum):
    """What alerts of a list are together by."""

    CAUSE = "cause"


class ListQuery(Query):
    state: Annotated[AlertState | None, word(AlertState), Meaning("`open` where it is left out.")]
    job: Annotated[str | None, single({"type": "string", "pattern": NAME_PATTERN}), Meaning(
        "Of this job alone.")]  # fmt: skip
    cause: Annotated[str | None, single(text(300)), Meaning("Of this cause alone, as `groups` name it.")]
    group: Annotated[Grouped | None, word(Grouped), Meaning(
        "`cause`: `groups` in place of items: those with most alerts first, each with its newest ones."
    )]  # fmt: skip
    cursor: Cursor
    limit: Limit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Acknowledged:
    job: Annotated[str, JobName(), about("job", "whose open alert it is", "nightly-report")]
    reason: Annotated[str, AnyText(longest=MAX_REASON), about("reason", "why; it is kept", "somebody is on it")] = ""


ACKNOWLEDGED: Final = Body(_Acknowledged)


def add_routes(app: web.Application) -> None:
    """The calls on alerts."""
    app.router.add_get(_ALERTS, list_alerts)
    app.router.add_post(f"{_ALERTS}/ack", acknowledge_alert)
    app.router.add_get("/api/v1/jobs/{name:[^/]+}/notifications", show_notifications)


@needs(Role.VIEWER)
async def list_alerts(request: web.Request) -> web.Response:
    """A page of alerts, the newest first, or of what they are together by; and how many are open in all.

    Of those that the caller may see.
    """
    parts, query, may = request.app[PARTS], ListQuery.read(request), rights(request)
    still_open = [one for one in await parts.alerts.open() if sees_alert(one, may)]
    found: Sequence[Alert] = still_open
    if query.state is AlertState.ENDED:
        found = [one for one in await parts.alerts.ended() if sees_alert(one, may)]
    wanted = [
        one for one in found
        if query.job in (None, one.event.job) and (query.cause is None or query.cause == alert_cause(one))
    ]  # fmt: skip
    counts = {"open": len(still_open), "untold": sum(not one.told and not one.held for one in still_open)}
    if query.group is not None:
        groups = by_cause(wanted)
        first = 0 if query.cursor is None else max(0, -_place(query.cursor)[0])
        end = first + query.limit
        return answer({
            "items": [], "groups": await _groups(parts, groups[first:end]),
            "nextCursor": encode_cursor(f"{end}/") if end < len(groups) else None, **counts,
        })  # fmt: skip
    if query.cursor is not None:
        behind = _place(query.cursor)
        wanted = [one for one in wanted if _order(one) > behind]
    page = wanted[: query.limit]
    more = len(wanted) > len(page)
    return answer({"items": await _views(parts, page), "nextCursor": _cursor(page[-1]) if more else None, **counts})


@needs(Role.OPERATOR)
async def acknowledge_alert(request: web.Request) -> web.Response:
    """The job's open alert is quiet until it is over. 409: it has none."""
    parts = request.app[PARTS]
    body = await ACKNOWLEDGED.read(request, parts.read_timeout_s)
    annotate(request, object=f"job {body.job}", reason=body.reason or None)
    await parts.watching.ready()
    parts.silences.check(Silence(jobs=(body.job,), from_ms=0, until_ms=1), rights(request))
    alert = next((one for one in await parts.alerts.open() if one.event.job == body.job), None)
    if alert is None:
        raise ConflictError(f"job {body.job} has no open alert")
    kept = await parts.silences.acknowledge(
        AlertOf(job=body.job, since_ms=alert.since_ms), reason=body.reason, by=caller(request), rights=rights(request)
    )
    return answer({"silence": silence_view(kept)})


@needs(Role.VIEWER)
async def show_notifications(request: web.Request) -> web.Response:
    """Who is told of what about the job, and by which rule; its open alert, and the silences that cover it."""
    parts, name, may = request.app[PARTS], job_in(request), rights(request)
    await parts.watching.ready()
    job = parts.watching.catalog.seen(name, may)
    if job is None or job.saved is None:
        raise NotFoundError(f"there is no job {name}")
    spec, known, now_ms = job.saved.spec, parts.watching.notices, parts.clock.wall_ms()
    alert = next((one for one in await parts.alerts.open() if one.event.job == name and sees_alert(one, may)), None)
    kept, _ = await parts.silences.kept.all()
    covering = [one for one in kept if _covers(one, name, spec.labels, alert, now_ms)]
    return answer({
        "items": [
            {"rule": one.rule, "on": [str(kind) for kind in one.on], "after": one.after, "to": list(one.to)}
            for one in applying_to_job(
                spec.labels, spec.notify, known.rules, known.channels,
                is_of_command=name in jobs_of_commands(known.channels),
            )
        ],
        "alert": None if alert is None else (await _views(parts, [alert]))[0],
        "silences": [seen_view(request, one) for one in covering if sees_silence(request, one)],
    })  # fmt: skip


def sees_alert(alert: Alert, may: Rights) -> bool:
    """Whether a caller may know of it: by the labels that the job had; what is of the system is for who sees all."""
    return may.sees(alert.event.labels) if alert.event.job else may.sees_all


def _covers(
    kept: Kept[Silence], job: str, labels: Mapping[str, str], alert: Alert | None, now_ms: int
) -> bool:  # fmt: skip
    since_ms = 0 if alert is None else alert.since_ms
    return kept.record is not None and kept.record.covers(job=job, labels=labels, since_ms=since_ms, now_ms=now_ms)


async def _groups(parts: Parts, groups: Sequence[tuple[str, Sequence[Alert]]]) -> list[dict[str, Any]]:
    views = {
        view["id"]: view for view in await _views(parts, [one for _, of in groups for one in of[:MOST_OF_A_GROUP]])
    }
    return [
        {
            "cause": cause, "kind": str(of[0].event.kind), "exitCode": of[0].event.exit_code, "count": len(of),
            "sinceTime": min(one.since_ms for one in of), "times": sum(one.count for one in of),
            "items": [views[one.id] for one in of[:MOST_OF_A_GROUP]],
            "jobs": [one.event.job for one in of[:MOST_JOBS] if one.event.job],
        }
        for cause, of in groups
    ]  # fmt: skip


async def _views(parts: Parts, alerts: Collection[Alert]) -> list[dict[str, Any]]:
    """As calls show them, with who has acknowledged each, as etcd has it."""
    keys = {parts.keys.silence(acknowledgement_id(one.event.job)) for one in alerts if one.event.job}
    held = await parts.etcd.get_many(sorted(keys))
    acknowledged = {}
    for kv in held.values():
        kept = parts.silences.kept.read(kv)
        if kept.record is not None and kept.record.alert is not None:
            acknowledged[kept.record.alert] = silence_view(kept)
    quiet = Quiet(parts.watching.notices.silences.values(), now_ms=parts.clock.wall_ms())
    views = []
    for one in alerts:
        views.append(_view(one, acknowledged, quiet))
        await asyncio.sleep(0)
    return views


def _view(alert: Alert, acknowledged: Mapping[AlertOf, Mapping[str, Any]], quiet: Quiet) -> dict[str, Any]:
    event = alert.event
    by = acknowledged.get(AlertOf(job=event.job, since_ms=alert.since_ms)) if event.job else None
    return {
        "id": alert.id, "job": event.job or None, "subject": event.subject or None, "kind": str(event.kind),
        "state": "open" if alert.end_ms is None else "ended", "sinceTime": alert.since_ms, "endTime": alert.end_ms,
        "count": alert.count, "firstRun": alert.first_run or None, "lastRun": event.run or None,
        "reason": event.reason or event.err, "lastSuccessTime": alert.last_ok_ms,
        "toldTime": max(alert.told.values(), default=None), "channels": sorted(alert.told),
        "labels": dict(event.labels), "flapping": alert.is_flapping,
        "well": not alert.is_bad, "silencedUntil": quiet.until_ms(event.job, event.labels),
        "acknowledged": None if by is None else {
            "by": by["by"], "time": by["fromTime"], "reason": by["reason"], "silence": by["id"],
        },
    }  # fmt: skip


def _order(alert: Alert) -> tuple[int, str]:
    """Of a list: the newest first."""
    return -(alert.end_ms if alert.end_ms is not None else alert.since_ms), alert.id


def _cursor(alert: Alert) -> str:
    at_ms, alert_id = _order(alert)
    return encode_cursor(f"{-at_ms}/{alert_id}")


def _place(cursor: str) -> tuple[int, str]:
    at, _, alert_id = decode_cursor(cursor).partition("/")
    try:
        return -int(at[:20]), alert_id
    except ValueError:
        raise no_cursor() from None
