"""``/api/v1/silences``: times in which some notices are kept back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.fields import SelectorField
from common.access.rights import Role
from common.access.selectors import Selector
from common.errors import Problem
from common.instants import iso
from common.jobs.kinds import AnyText, Number, Several, about
from common.jobs.reading import check
from common.jobs.values import JobName
from common.notices.silences import AHEAD_MS, LONGEST_MS, MAX_REASON, MOST_JOBS, MS, Silence
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.notice_bodies import ListQuery
from manager.http.bodies import Body
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.notice_records import Kept
from manager.use_cases.records import Damaged

_SILENCES: Final = "/api/v1/silences"
_MS_AN_HOUR: Final = 3_600_000
_NAMES: Final = {"untilMs": "untilTime", "fromMs": "fromTime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewSilence:
    labels: Annotated[Selector | None, SelectorField(), about(
        "labels", "of the jobs that it is for", {"team": ["billing"]})] = None  # fmt: skip
    jobs: Annotated[tuple[str, ...], Several(
        of=JobName(), what="jobs", least=0, most=MOST_JOBS, alone=False, unique=True), about(
        "jobs", "in place of labels: the jobs by name", ["nightly-report"])] = ()  # fmt: skip
    hours: Annotated[float | None, Number(low=0, high=LONGEST_MS // _MS_AN_HOUR, unit="hours"), about(
        "hours", "how long", 4)] = None  # fmt: skip
    from_ms: Annotated[int | None, MS, about(
        "fromTime", "its begin; now where it is left out", 1_774_742_400_000)] = None  # fmt: skip
    until_ms: Annotated[int | None, MS, about("untilTime", "its end, in place of hours", 1_774_828_800_000)] = None
    reason: Annotated[str, AnyText(longest=MAX_REASON), about("reason", "why", "the disk is being replaced")] = ""


def _ends_once(body: _NewSilence) -> Iterable[Problem]:
    if (body.hours is None) == (body.until_ms is None):
        what = "is missing" if body.hours is None else "is given beside untilTime"
        yield Problem(field="hours", message=what, remedy="needed: hours, or untilTime, within 30 days")


NEW_SILENCE: Final = Body(_NewSilence, also=_ends_once)


def add_routes(app: web.Application) -> None:
    """The calls on silences."""
    app.router.add_get(_SILENCES, list_silences)
    app.router.add_post(_SILENCES, add_silence)
    app.router.add_delete(f"{_SILENCES}/{{id}}", end_silence)


@needs(Role.VIEWER)
async def list_silences(request: web.Request) -> web.Response:
    """A page of those that may cover a job that the caller sees, by id; those that are over are gone within days."""
    parts, query = request.app[PARTS], ListQuery.read(request)
    await parts.watching.ready()
    kept, _ = await parts.silences.kept.all()  # filtered before it is cut: a cursor is of what the caller sees
    seen = [one for one in kept if sees_silence(request, one) and one.name > (query.cursor or "")]
    items = [seen_view(request, one) for one in seen[: query.limit]]
    return answer({"items": items, "nextCursor": items[-1]["id"] if len(seen) > len(items) else None})


@needs(Role.OPERATOR)
async def add_silence(request: web.Request) -> web.Response:
    """201 with the silence. It needs the role operator on each job that it selects."""
    parts = request.app[PARTS]
    body = await NEW_SILENCE.read(request, parts.read_timeout_s)
    now_ms = parts.clock.wall_ms()
    from_ms = now_ms if body.from_ms is None else body.from_ms
    until_ms = body.until_ms if body.until_ms is not None else from_ms + int((body.hours or 0) * _MS_AN_HOUR)
    silence = Silence(labels=body.labels, jobs=body.jobs, from_ms=from_ms, until_ms=until_ms, reason=body.reason)
    problems = [replace(one, field=_NAMES.get(one.field, one.field)) for one in silence.problems()]
    if until_ms <= now_ms and not problems:
        problems.append(Problem(field="untilTime", message="is past", remedy="needed: a time to come"))
    if from_ms > now_ms + AHEAD_MS:
        remedy = "needed: a time within the next 366 days"
        problems.append(Problem(field="fromTime", message=f"is {iso(from_ms)}", remedy=remedy))
    check(problems)
    await parts.watching.ready()
    kept = await parts.silences.add(silence, by=caller(request), rights=rights(request))
    annotate(request, object=f"silence {kept.name}", reason=silence.reason or None, untilTime=until_ms)
    return answer({"silence": silence_view(kept)}, status=201, headers={"Location": f"{_SILENCES}/{kept.name}"})


@needs(Role.OPERATOR)
async def end_silence(request: web.Request) -> web.Response:
    """It is over, also one of another user: for this a caller needs what they would need to make it."""
    parts, silence_id = request.app[PARTS], request.match_info["id"]
    await parts.watching.ready()
    await parts.silences.end(silence_id, by=caller(request), rights=rights(request))
    return answer({"id": silence_id, "message": f"silence {silence_id} is over"})


def sees_silence(request: web.Request, kept: Kept[Silence]) -> bool:
    """Whether the caller may know of it; of what is none only who administers everything may."""
    if kept.record is None:
        return rights(request).sees_unlabelled
    return request.app[PARTS].silences.sees(kept.record, rights(request))


def seen_view(request: web.Request, kept: Kept[Silence]) -> dict[str, Any]:
    """A silence as calls show it, with those of its jobs that the caller may know of."""
    view = silence_view(kept)
    if "jobs" in view and kept.record is not None:
        view["jobs"] = request.app[PARTS].silences.jobs_seen(kept.record, rights(request))
    return view


def silence_view(kept: Kept[Silence]) -> dict[str, Any]:
    """A silence as calls show it."""
    if isinstance(kept.found, Damaged):
        return {"id": kept.name, "problem": kept.found.problem}
    silence = kept.found.record
    view: dict[str, Any] = {
        "id": kept.name, "fromTime": silence.from_ms, "untilTime": silence.until_ms, "reason": silence.reason,
        "by": kept.found.created_by, "createdTime": kept.found.created_ms, "alert": None,
    }  # fmt: skip
    if silence.labels is not None:
        view["labels"] = silence.labels.to_json()
    if silence.jobs:
        view["jobs"] = list(silence.jobs)
    if silence.alert is not None:
        view["alert"] = {"job": silence.alert.job, "sinceTime": silence.alert.since_ms}
    return view
