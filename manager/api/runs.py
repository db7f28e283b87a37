"""``/api/v1/runs``: records by pages, one run with its output; its kill, and giving it up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Role
from common.errors import ConflictError, NotFoundError, Problem, UnavailableError
from common.jobs.reading import all_wrong
from common.protocol.keys import RunId
from common.protocol.run import Trigger
from common.runlog import RunFilter
from common.verdicts import Verdict
from manager.access.audited import annotate
from manager.access.needs import needs
from manager.api.jobs import LabelFilter
from manager.api.schemas import array, text
from manager.http.bodies import NEEDED_REASON, REASON
from manager.http.queries import Cursor, Instant, Limit, Meaning, Parameter, Query, single, word
from manager.parts import PARTS, Parts, answer, caller, rights
from manager.use_cases.kills import KillOutcome
from manager.use_cases.run_rights import check_record, no_run
from manager.views.history import read_run_id

_END_S: Final = 3.0
"""How long an answer to a kill waits for the run's end."""
_VERDICT_S: Final = 4.5
"""How long an answer to a wish to give a run up waits for the steward."""
_LOOK_S: Final = 0.1
RUNNING: Final = "running"
"""The status, beside the verdicts, of a run that has none yet: it is claimed or running."""
_STATUSES: Final = (RUNNING, *map(str, Verdict))


class Group(StrEnum):
    """What runs are counted together by."""

    ERROR = "error"


def _any_of(words: Sequence[str]) -> Parameter:
    """Any of several: repeated, or separated by commas."""

    def read(texts: list[str]) -> frozenset[str]:
        wanted = dict.fromkeys(text for text in ",".join(texts).split(",") if text)
        if odd := [text for text in wanted if text not in words]:
            remedy = f"one of: {', '.join(words)}"
            raise all_wrong(Problem(field="", message=f"is {text[:60]!r}", remedy=remedy) for text in odd)
        return frozenset(wanted)

    return Parameter(read, array({"type": "string", "enum": list(words)}, len(words)))


class ListQuery(Query):
    job: Annotated[str | None, single(text(300)), Meaning("Of this job, by its whole name.")]
    q: Annotated[str | None, single(text(200)), Meaning("Of jobs with this in their names.")]
    status: Annotated[
        frozenset[str], _any_of(_STATUSES), Meaning("May be repeated. `running`: those that are going."),
    ]  # fmt: skip
    worker: Annotated[str | None, single(text(128)), Meaning("On this worker.")]
    trigger: Annotated[frozenset[str], _any_of(list(Trigger)), Meaning("May be repeated.")]
    label: LabelFilter
    error: Annotated[str | None, single(text(200)), Meaning("The `error` of a group.")]
    group: Annotated[
        Group | None, word(Group),
        Meaning("`error`: not the runs, but how many of the newest failed in the same way."),
    ]  # fmt: skip
    from_ms: Annotated[Instant, Meaning("Planned from here on.", name="from")]
    to: Annotated[Instant, Meaning("Planned before.")]
    cursor: Cursor
    limit: Limit


def add_routes(app: web.Application) -> None:
    """The calls on runs."""
    app.router.add_get("/api/v1/runs", list_runs)
    app.router.add_get("/api/v1/runs/{id}", show_run)
    app.router.add_post("/api/v1/runs/{id}/kill", kill_run)
    app.router.add_post("/api/v1/runs/{id}/give-up", give_up_run)


@needs(Role.VIEWER)
async def list_runs(request: web.Request) -> web.Response:
    """A page of runs: those that are going, then records, skipped and missed fires among them. Without output.

    The first page of one job's runs, not narrowed down any further, has those beside it that wait to be claimed. With
    `group` there are no items, but how many of the newest runs that did not go well have the same cause.
    """
    parts, asked = request.app[PARTS], ListQuery.read(request)
    going = (not asked.status or RUNNING in asked.status) and asked.error is None
    ended = asked.status != {RUNNING}
    wanted = RunFilter(
        job=asked.job, part=asked.q or "", statuses=frozenset(map(Verdict, asked.status - {RUNNING})),
        worker=asked.worker, triggers=frozenset(map(Trigger, asked.trigger)), labels=asked.label, cause=asked.error,
        from_ms=asked.from_ms, to_ms=asked.to,
    )  # fmt: skip
    if asked.group is Group.ERROR:
        return answer(await parts.run_lists.by_cause(wanted, rights(request)))
    page = await parts.run_lists.page(
        wanted, rights(request), going=going, ended=ended, cursor=asked.cursor, limit=asked.limit
    )
    body: dict[str, Any] = {
        "items": page.items, "nextCursor": page.next_cursor, "lookedTime": page.looked_ms, "warnings": page.warnings,
    }  # fmt: skip
    if wanted.job is not None and wanted == RunFilter(job=wanted.job) and going and ended and asked.cursor is None:
        body["waiting"] = await parts.pending.of_job(wanted.job, rights(request))
    return answer(body)


@needs(Role.VIEWER)
async def show_run(request: web.Request) -> web.Response:
    """One run with all its times and its output; one that waits or is still open as etcd knows it."""
    return answer(await request.app[PARTS].history.run(request.match_info["id"], rights(request)))


@needs(Role.OPERATOR)
async def kill_run(request: web.Request) -> web.Response:
    """Ask for the end of one run, and wait a moment for it: killed, finished (by itself) or pending."""
    parts = request.app[PARTS]
    run = read_run_id(request.match_info["id"])
    reason = (await REASON.read(request, parts.read_timeout_s)).reason
    is_known = await parts.kills.check(run, rights=rights(request))
    annotate(request, reason=reason)
    if is_known and (ending := await parts.ending.of(run)) is not None:
        raise ConflictError(f"{run} has ended, but {ending}: give it up to free its lock, whatever these do")
    asked = await parts.kills.of_run(run, by=caller(request), rights=rights(request), reason=reason)
    if asked is KillOutcome.ASKED:
        return answer(_outcome(run, await _record_after_the_end(parts, run, _END_S)))
    return await _had_ended(request, run, asked)


@needs(Role.OPERATOR)
async def give_up_run(request: web.Request) -> web.Response:
    """Ask that a run that its worker cannot settle is given up, and wait a moment: lost, finished or pending."""
    parts = request.app[PARTS]
    run = read_run_id(request.match_info["id"])
    reason = (await NEEDED_REASON.read(request, parts.read_timeout_s)).reason
    annotate(request, reason=reason)
    asked = await parts.give_ups.of_run(run, by=caller(request), rights=rights(request), reason=reason)
    if asked is not KillOutcome.ASKED:
        return await _had_ended(request, run, asked)
    record = await _record_after_the_end(parts, run, _VERDICT_S)
    if record is None:
        message = f"{run} is to be given up; the steward has not done it, or its record is on its way to the log"
        return answer({"outcome": "pending", "message": message})
    if record.get("status") == Verdict.LOST:
        return answer({"outcome": "lost", "message": f"{run} is lost: {record.get('reason')}"})
    return answer({"outcome": "finished", "message": f"{run} had ended: {record.get('status')}"})


async def _had_ended(request: web.Request, run: RunId, found: KillOutcome) -> web.Response:
    """There was nothing to ask for. NotFoundError where there is no such run."""
    match found:
        case KillOutcome.HAD_ENDED:
            return answer({"outcome": "finished", "message": f"{run} had ended; its record is on its way to the log"})
        case _:
            record = await request.app[PARTS].history.record(run)
            if record is None:
                raise NotFoundError(no_run(run))
            check_record(run, record, rights(request))
            message = f"{run} had ended already: {record.get('status')}"
            return answer({"outcome": "finished", "message": message})


async def _record_after_the_end(parts: Parts, run: RunId, within_s: float) -> dict[str, Any] | None:
    """The record of the run, once it is in the log; None where that does not come about soon."""
    open_runs = parts.watching.open_runs
    try:
        async with asyncio.timeout(min(within_s, parts.write_timeout_s)):
            await open_runs.changes.until(lambda: not open_runs.has(run), within_s)
            while True:
                record = await parts.history.record(run)
                if record is not None:
                    return record
                await asyncio.sleep(_LOOK_S)
    except (TimeoutError, UnavailableError):
        return None


def _outcome(run: RunId, record: dict[str, Any] | None) -> dict[str, str]:
    if record is None:
        return {"outcome": "pending", "message": f"{run} was asked to end, and has not ended yet"}
    if record.get("status") == Verdict.KILLED:
        return {"outcome": "killed", "message": f"{run} was killed"}
    return {"outcome": "finished", "message": f"{run} had ended before the kill reached it: {record.get('status')}"}
