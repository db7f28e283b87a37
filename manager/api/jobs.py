"""``/api/v1/jobs``: list and show what the watch knows; save, pause, resume, delete and kill by way of etcd.

An answer to a change comes once this manager's own watch has seen it (or a second has passed), so who reads next from
the same manager reads what was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.masks import shown_spec
from common.access.rights import Role
from common.errors import EtcdError, InvalidInputError, NotFoundError, Problem, UnavailableError
from common.jobs.job import TIMING, JobSpec
from common.jobs.kinds import AnyText, Number, Schema, about, members_of, object_schema, read_members, reader_of
from common.jobs.reader import check_name, in_zone, parse_job, parse_timing
from common.jobs.reading import check, unknown, wrong
from common.protocol.edits import StaleRevisionError
from common.protocol.saved_job import SavedJob
from manager.access.audited import annotate, annotate_change
from manager.access.needs import needs
from manager.api.schemas import array, text
from manager.console.pages import language_of
from manager.http.bodies import REASON, REASON_AND_FORCE
from manager.http.errors import Failure, failure_of, respond
from manager.http.inputs import if_match, job_in, read_object, read_spec
from manager.http.queries import Cursor, Instant, Limit, Meaning, Parameter, Query, single, whole, word
from manager.parts import PARTS, answer, caller, rights
from manager.use_cases.jobs import Changed, Saved
from manager.views.calendar import MOST_DAYS, calendar_of
from manager.views.fire_verdicts import Span
from manager.views.fires import read_cursor
from manager.views.orders import Sort
from manager.watch.catalog import JobQuery, KnownJob, ListState


def merge_patch(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch's members in place of its own; objects merge, null takes a member away."""
    merged = dict(target)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            there = merged.get(name)
            merged[name] = merge_patch(there if isinstance(there, dict) else {}, value)
        else:
            merged[name] = value
    return merged


MAX_PREVIEW: Final = 100
DEFAULT_PREVIEW: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    name: Annotated[str, AnyText(longest=1_000), about("name", "any text: what H takes its value from", "backup")] = ""
    n: Annotated[int, Number(low=1, high=MAX_PREVIEW, whole=True, unit="fires"), about(
        "n", "how many fires", 10)] = DEFAULT_PREVIEW  # fmt: skip


_read_wish: Final = reader_of(_Wish)
_OWN: Final = members_of(_Wish)


def read_preview(document: Mapping[str, Any]) -> tuple[JobSpec, int]:
    """The schedule to be shown, as a job without a command, and how many fires; InvalidInputError."""
    problems = list(unknown(document, (*TIMING, *_OWN), of="a preview"))
    own = {name: value for name, value in document.items() if name in _OWN}
    wish, wrong = read_members(own, _read_wish, _OWN, of="a preview")
    wish = wish or _Wish()
    try:
        spec = parse_timing(document, name=wish.name)
    except InvalidInputError as error:
        raise InvalidInputError([*problems, *error.problems, *wrong]) from None
    check([*problems, *wrong])
    return spec, wish.n


def preview_schema() -> Schema:
    """What it takes, as JSON Schema."""
    schema, of_job = object_schema(_Wish), object_schema(JobSpec)["properties"]
    schema["properties"] |= {name: of_job[name] for name in TIMING}
    return schema


_MOST_LABELS: Final = 5
_JOB = "/api/v1/jobs/{name:[^/]+}"  # also braces, in the name of a key that is no job


def _labels(texts: list[str]) -> tuple[tuple[str, str | None], ...]:
    """Of ``team=billing``, or ``team`` for any value."""
    parted = (text.partition("=") for text in texts if text)
    labels = tuple(dict.fromkeys((name, value if equals else None) for name, equals, value in parted))
    if len(labels) > _MOST_LABELS:
        raise wrong(f"is given {len(labels):,} times", f"at most {_MOST_LABELS} labels, each once")
    return labels


TextFilter = Annotated[str | None, single(text(200)), Meaning("In the name, the command or a label.")]
LabelFilter = Annotated[
    tuple[tuple[str, str | None], ...], Parameter(_labels, array(text(100), _MOST_LABELS)),
    Meaning("`name=value`, or `name` for any value; may be repeated."),
]  # fmt: skip


class ListQuery(Query):
    q: TextFilter
    label: LabelFilter
    state: Annotated[ListState | None, word(ListState), Meaning("Only these.")]
    sort: Annotated[Sort | None, word(Sort), Meaning(
        "By the name, the next fire, the newest failure or how long the newest run took; with `-` in front "
        "the other way round. Jobs without one come last. `name` where it is left out.")]  # fmt: skip
    cursor: Cursor
    limit: Limit


class FiresQuery(Query):
    before: Annotated[Instant, Meaning("Recent ones planned before it; now.")]
    after: Annotated[Instant, Meaning("Upcoming ones after it; now.")]
    from_ms: Annotated[Instant, Meaning("With `to`: every fire planned from here on.", name="from")]
    to: Annotated[Instant, Meaning("Up to and with it.")]
    cursor: Cursor
    limit: Limit


class DurationsQuery(Query):
    from_ms: Annotated[Instant, Meaning("Of runs planned from here on; of the newest.", name="from")]
    to: Annotated[Instant, Meaning("Until then; now.")]


class CalendarQuery(Query):
    days: Annotated[int, whole(1, MOST_DAYS, MOST_DAYS), Meaning("So many, today in the job's zone included.")]


def add_routes(app: web.Application) -> None:
    """The calls on jobs, but for those on many at once."""
    app.router.add_get("/api/v1/jobs", list_jobs)
    app.router.add_post("/api/v1/jobs/check", check_job)
    app.router.add_get(_JOB, show_job)
    app.router.add_put(_JOB, put_job)
    app.router.add_patch(_JOB, patch_job)
    app.router.add_delete(_JOB, delete_job)
    app.router.add_post(f"{_JOB}/pause", pause_job)
    app.router.add_post(f"{_JOB}/resume", resume_job)
    app.router.add_post(f"{_JOB}/unblock", unblock_job)
    app.router.add_post(f"{_JOB}/kill", kill_job)
    app.router.add_get(f"{_JOB}/fires", list_fires)
    app.router.add_get(f"{_JOB}/durations", show_durations)
    app.router.add_get(f"{_JOB}/calendar", show_calendar)


@needs(Role.VIEWER)
async def list_jobs(request: web.Request) -> web.Response:
    """A page of jobs, and how many there are in all. One in another order than by name may be short, with a next."""
    asked = ListQuery.read(request)
    query = JobQuery(text=(asked.q or "").casefold(), labels=asked.label, state=asked.state)
    page, rows, warnings = await request.app[PARTS].rows.page(
        query, rights(request), cursor=asked.cursor, limit=asked.limit, sort=asked.sort or Sort.NAME,
        language=language_of(request),
    )  # fmt: skip
    return answer({"items": rows, "nextCursor": page.next_cursor, "total": page.total, "warnings": warnings})


@needs(Role.VIEWER)
async def show_job(request: web.Request) -> web.Response:
    """One job, with its ETag."""
    parts, name = request.app[PARTS], job_in(request)
    await parts.watching.ready()
    job = parts.watching.catalog.seen(name, rights(request))
    if job is None and (warnings := parts.watching.warnings):
        raise UnavailableError(f"it is not known whether there is a job {name[:130]!r}: {warnings[0]}")
    if job is None:
        raise NotFoundError(f"there is no job {name}")
    row = await parts.rows.row(job, rights(request), language=language_of(request))
    row["problem"] = row["problem"] or await parts.fires.fault_of(job)
    return answer(row, headers={"ETag": f'"{job.revision}"'})


@needs(Role.EDITOR)
async def put_job(request: web.Request) -> web.Response:
    """Save the job under the path's name: 201 where it is new, 412 where it is not at the revision that was named."""
    parts, name = request.app[PARTS], request.match_info["name"]
    revision = if_match(request)
    document = await read_spec(request, parts.read_timeout_s, name=name)
    spec = parse_job(in_zone(document, parts.config.default_timezone))
    try:
        saved = await parts.jobs.save(spec, by=caller(request), rights=rights(request), if_match=revision)
    except StaleRevisionError as error:
        return await stale(request, error)
    return await _saved(request, name, saved)


@needs(Role.EDITOR)
async def patch_job(request: web.Request) -> web.Response:
    """Change the named fields and leave the others (a JSON merge patch; null is the default). 404: no such job."""
    parts, name = request.app[PARTS], request.match_info["name"]
    check_name(name)
    revision = if_match(request)
    patch = await read_spec(request, parts.read_timeout_s, name=name)

    def merged(there: JobSpec) -> JobSpec:
        merged_one = merge_patch({**there.to_stored(), "timezone": there.timezone}, patch)
        return parse_job(in_zone(merged_one, parts.config.default_timezone))

    try:
        saved = await parts.jobs.change(name, merged, by=caller(request), rights=rights(request), if_match=revision)
    except StaleRevisionError as error:
        return await stale(request, error)
    return await _saved(request, name, saved)


async def _saved(request: web.Request, name: str, saved: Saved) -> web.Response:
    before = saved.before.saved
    annotate_change(request, before.spec if before else None, saved.spec, revision=saved.revision)
    return answer(
        {
            "job": await row_at(request, name, saved.revision),
            "before": shown_before(request, before),
            "changed": saved.changed,
            "warnings": list(saved.warnings),
        },
        status=200 if saved.before.job else 201,
        headers={"ETag": f'"{saved.revision}"'},
    )


@needs(Role.EDITOR)
async def delete_job(request: web.Request) -> web.Response:
    """Delete the job; what runs goes on."""
    parts, name = request.app[PARTS], job_in(request)
    try:
        done = await parts.jobs.delete(name, by=caller(request), rights=rights(request), if_match=if_match(request))
    except StaleRevisionError as error:
        return await stale(request, error)
    await parts.watching.has_seen(name, done.revision)
    before = done.before.saved
    annotate_change(request, before.spec if before else None, None, deleted=done.changed)
    return answer(
        {
            "before": shown_before(request, before),
            "deleted": done.changed,
            "warnings": list(done.warnings),
        }
    )


@needs(Role.OPERATOR)
async def pause_job(request: web.Request) -> web.Response:
    """The job fires no more; what runs goes on."""
    parts, name = request.app[PARTS], request.match_info["name"]
    reason = (await REASON.read(request, parts.read_timeout_s)).reason
    annotate(request, reason=reason)
    return await _changed(
        request, name, await parts.jobs.pause(name, by=caller(request), rights=rights(request), reason=reason)
    )


async def _changed(request: web.Request, name: str, done: Changed) -> web.Response:
    row = await row_at(request, name, done.revision)
    annotate(request, changed=done.changed)
    return answer({"job": row, "changed": done.changed, "warnings": list(done.warnings)})


@needs(Role.OPERATOR)
async def resume_job(request: web.Request) -> web.Response:
    """The job fires again, from now on."""
    parts, name = request.app[PARTS], request.match_info["name"]
    annotate(request, reason=(await REASON.read(request, parts.read_timeout_s)).reason)
    return await _changed(request, name, await parts.jobs.resume(name, by=caller(request), rights=rights(request)))


@needs(Role.ADMIN)
async def unblock_job(request: web.Request) -> web.Response:
    """A mark that a wrong clock has put ahead goes back to now; 409 where none lies there."""
    parts, name = request.app[PARTS], request.match_info["name"]
    wish = await REASON_AND_FORCE.read(request, parts.read_timeout_s)
    annotate(request, reason=wish.reason, force=wish.force)
    done = await parts.unblocking.unblock(
        name, by=caller(request), rights=rights(request), reason=wish.reason, force=wish.force
    )
    return await _changed(request, name, done)


@needs(Role.OPERATOR)
async def kill_job(request: web.Request) -> web.Response:
    """Ask for the end of every run of the job that has begun."""
    parts, name = request.app[PARTS], request.match_info["name"]
    reason = (await REASON.read(request, parts.read_timeout_s)).reason
    killed = [
        str(run) for run in await parts.kills.of_job(name, by=caller(request), rights=rights(request), reason=reason)
    ]
    annotate(request, reason=reason, killed=killed[:20], count=len(killed))
    return answer({"killed": killed, "message": kill_message(name, killed)})


@needs(Role.EDITOR)
async def check_job(request: web.Request) -> web.Response:
    """What a save of this spec would say; nothing is stored."""
    parts = request.app[PARTS]
    document = await read_object(request, parts.read_timeout_s)
    try:
        spec = parse_job(in_zone(document, parts.config.default_timezone))
        warnings, skips = await parts.jobs.check(spec, rights=rights(request))
    except Exception as error:
        failure = failure_of(error)
        if not failure.problems:
            raise
        return answer({"errors": failure.errors, "warnings": [], "skips": []})
    return answer({"errors": [], "warnings": [*warnings, *skips], "skips": list(skips)})


@needs(Role.VIEWER)
async def list_fires(request: web.Request) -> web.Response:
    """With ``from`` or ``to``: every planned fire between, and what became of it. Else recent and upcoming ones.

    A job that has been deleted still has its recorded ones.
    """
    parts, name = request.app[PARTS], request.match_info["name"]
    check_name(name)
    given, clashes = request.query, list[Problem]()
    between = bool(given.get("from") or given.get("to"))
    if between and (given.get("before") or given.get("after")):
        remedy = "give from and to, or before and after"
        clashes.append(Problem(field="from", message="stands beside before or after", remedy=remedy))
    for alone in ("cursor", "limit"):
        if alone in given and not between:
            remedy = "give from or to as well: pages are of the fires between"
            clashes.append(Problem(field=alone, message="stands without from and to", remedy=remedy))
    asked = FiresQuery.read(request, clashes=clashes)
    await parts.watching.ready()
    job = parts.watching.catalog.seen(name, rights(request))
    if not between:
        return answer(
            await parts.fires.recent(job, name, rights(request), before_ms=asked.before, after_ms=asked.after)
        )
    to_ms = read_cursor(asked.cursor, asked.to if asked.to is not None else parts.clock.wall_ms())
    span = Span(from_ms=asked.from_ms or 0, to_ms=to_ms)
    return answer(await parts.fires.between(job, name, span, rights(request), limit=asked.limit))


@needs(Role.VIEWER)
async def show_durations(request: web.Request) -> web.Response:
    """How long the newest 2,000 runs took, as at most 400 points, with what was usual; a deleted job has them still."""
    parts, name = request.app[PARTS], request.match_info["name"]
    check_name(name)
    asked = DurationsQuery.read(request)
    await parts.watching.ready()
    job = parts.watching.catalog.seen(name, rights(request))
    return answer(await parts.durations.of(job, name, rights(request), from_ms=asked.from_ms, to_ms=asked.to))


@needs(Role.VIEWER)
async def show_calendar(request: web.Request) -> web.Response:
    """How many fires its next days have, and what the next changes of its clocks do to them, paused or not."""
    parts, name = request.app[PARTS], request.match_info["name"]
    check_name(name)
    asked = CalendarQuery.read(request)
    await parts.watching.ready()
    job = parts.watching.catalog.seen(name, rights(request))
    if job is None or job.saved is None:
        raise NotFoundError(f"there is no job {name}" if job is None else f"{name} cannot be read as a job")
    return answer(calendar_of(job.saved.spec, asked.days, now_ms=parts.clock.wall_ms()))


def kill_message(name: str, killed: list[str]) -> str:
    """In words what a kill of a job did."""
    if not killed:
        return f"no run of {name} was going"
    return f"{len(killed)} {'run' if len(killed) == 1 else 'runs'} of {name} asked to end"


async def row_at(request: web.Request, name: str, revision: int) -> dict[str, Any] | None:
    """The job's row once the watch has seen this revision of it; None also where the caller may not know of it, and
    where etcd does not show what it has just taken."""
    parts = request.app[PARTS]
    try:
        job = await parts.watching.job(name, revision=revision)
    except (EtcdError, UnavailableError):
        return None
    if job is None or not job.is_seen_by(rights(request)):
        return None
    return await parts.rows.row(job, rights(request), language=language_of(request))


def shown_before(request: web.Request, before: SavedJob | None) -> Mapping[str, Any] | None:
    """What a change has replaced, as the caller may see it."""
    if before is None or not rights(request).sees(before.spec.labels):
        return None
    return shown_spec(before.spec.to_document(), rights(request), before.spec.labels)


async def stale(request: web.Request, error: StaleRevisionError) -> web.Response:
    """412 with what the job is now, so that the difference can be shown."""
    there = error.there
    current = None
    if there.job is not None and (job := KnownJob.read(there.name, there.job)).is_seen_by(rights(request)):
        current = await request.app[PARTS].rows.row(job, rights(request), language=language_of(request))
    failure = Failure(status=412, code="stale-revision", detail=str(error), members={"current": current})
    return respond(request, failure)
