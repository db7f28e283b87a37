"""``POST /api/v1/jobs/bulk``: one action on many jobs; each has its own result, and one that fails stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from aiohttp import web

from common.access.audit_chain import Outcome
from common.access.rights import Rights, Role
from common.errors import EtcronError, Problem
from common.jobs.job import LABELS, MOST_NAMES, JobSpec
from common.jobs.kinds import AnyText, Choice, Kind, Named, Number, Schema, Several, about
from common.jobs.reader import parse_job
from common.jobs.reading import shown, wrong
from common.jobs.spread import SpreadBy, spread
from common.process.lifecycle import all_ended
from manager.access.audited import job_changes, note_part, outcome_of
from manager.access.guard import is_browser
from manager.access.needs import needs
from manager.api.forecast import JITTER
from manager.api.jobs import kill_message
from manager.api.schemas import NAME_PATTERN
from manager.http.bodies import Body, ReasonField
from manager.http.guards import ADDRESS
from manager.parts import PARTS, Parts, answer, caller, rights
from manager.use_cases.jobs import Changed, Saved
from manager.use_cases.run_now import Wanted

MAX_NAMES: Final = 500
AT_ONCE: Final = 16


class Action(StrEnum):
    """What can be done to many jobs at once."""

    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    KILL = "kill"
    RUN = "run"
    LABEL = "label"
    """Gets the given labels, and loses others; the rest of the job stays as it is."""
    SPREAD = "spread"
    """Fires apart from the others, as `POST /forecast/spread` has shown it."""


@dataclass(frozen=True)
class AnyName(Kind):
    """Of a key that is there; not each is one that a job can have."""

    type: str = "name"
    limits: str = ""

    @property
    def schema(self) -> Schema:
        return {"type": "string"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise wrong(f"is {shown(value)}", "needed: a job's name")
        return value


_NAMES_OF_LABELS: Final = Several(
    of=AnyText(longest=128), what="names of labels", least=0, most=MOST_NAMES, alone=False
)
_REVISIONS: Final = Named(
    pattern=NAME_PATTERN.strip("^$"), what="job", most=MAX_NAMES, example='{"backup": 1234}',
    of=Number(low=1, high=10**18 - 1, whole=True, unit=""),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    action: Annotated[Action, Choice(Action), about("action", "what to do with each", "pause")]
    names: Annotated[tuple[str, ...], Several(of=AnyName(), what="names", most=MAX_NAMES, alone=False), about(
        "names", "the jobs; one that is named twice is acted on once", ["backup"])]  # fmt: skip
    reason: ReasonField = None
    labels: Annotated[Mapping[str, str], LABELS, about(
        "labels", "of `label`: what each gets, in place of another value", {"team": "billing"},
    )] = field(default_factory=dict)  # fmt: skip
    without_labels: Annotated[tuple[str, ...], _NAMES_OF_LABELS, about(
        "withoutLabels", "of `label`: what each loses", ["owner"])] = ()  # fmt: skip
    by: Annotated[SpreadBy, Choice(SpreadBy), about("by", "of `spread`: how", "minute")] = SpreadBy.MINUTE
    jitter_s: Annotated[int, JITTER, about("jitterSeconds", "of `spread` by jitter", 600)] = 600
    revisions: Annotated[Mapping[str, int], _REVISIONS, about(
        "revisions", "of `spread`: of each job the one that was looked at; one that is another by now is left as it is",
        {"backup": 1234})] = field(default_factory=dict)  # fmt: skip


def _lacking(wish: _Wish) -> Iterable[Problem]:
    lacking = [name for name in wish.names if name not in wish.revisions] if wish.action is Action.SPREAD else []
    if lacking:
        remedy = "give the revision of each job, as POST /forecast/spread has shown it"
        yield Problem(field="revisions", message=f"lacks {lacking[0][:80]}", remedy=remedy)
    if wish.action is Action.LABEL and not (wish.labels or wish.without_labels):
        yield Problem(field="labels", message="is missing", remedy="give labels, withoutLabels, or both")
    if both := sorted(wish.labels.keys() & set(wish.without_labels)):
        yield Problem(field="withoutLabels", message=f"has {both[0]}, as labels does", remedy="name it in one of them")


BODY: Final = Body(_Wish, also=_lacking)


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_post("/api/v1/jobs/bulk", act_on_jobs)


@needs(Role.OPERATOR)
async def act_on_jobs(request: web.Request) -> web.Response:
    """The results in the order of the names; a name that is given twice is acted on once."""
    parts = request.app[PARTS]
    wish = await BODY.read(request, parts.read_timeout_s)
    act = partial(_act, request, parts, wish, by=caller(request), rights=rights(request))
    return await act_on_each(request, f"job.{wish.action}", wish.names, act, reason=wish.reason)


class Done(NamedTuple):
    """What was done to a job."""

    message: str
    revision: int
    """Of its write; 0: none."""
    changed: bool
    """Whether anything was done."""
    details: Mapping[str, Any] = MappingProxyType({})
    """What the audit has of it beside all this."""


async def act_on_each(
    request: web.Request, action: str, names: Iterable[str], act: Callable[[str], Awaitable[Done]], **details: Any
) -> web.Response:
    """Act on each job, some at once; one that fails stops no other. The audit has each of them."""
    limit = asyncio.Semaphore(AT_ONCE)
    newest = 0

    async def one(name: str) -> dict[str, Any]:
        nonlocal newest
        note = partial(note_part, request, action, f"job {name}")
        async with limit:
            try:
                message, revision, changed, found = await act(name)
            except BaseException as error:
                note(outcome_of(error), why=str(error)[:300] or type(error).__name__)
                if not isinstance(error, EtcronError):
                    raise
                return {"name": name, "ok": False, "message": str(error)}
        newest = max(newest, revision)
        note(Outcome.DONE, **details, **found, message=message, changed=None if changed else False)
        return {"name": name, "ok": True, "message": message, "changed": changed}

    results = await all_ended(map(one, dict.fromkeys(names)))
    if newest:
        await request.app[PARTS].watching.has_reached(newest)
    return answer({"results": results})


async def _act(request: web.Request, parts: Parts, wish: _Wish, name: str, *, by: str, rights: Rights) -> Done:
    reason = wish.reason
    match wish.action:
        case Action.PAUSE:
            paused = await parts.jobs.pause(name, by=by, rights=rights, reason=reason)
            message = "; ".join(("paused", *paused.warnings))
            return Done(message if paused.changed else "was paused already", paused.revision, paused.changed)
        case Action.RESUME:
            resumed = await parts.jobs.resume(name, by=by, rights=rights)
            return Done("resumed" if resumed.changed else "was not paused", resumed.revision, resumed.changed)
        case Action.DELETE:
            deleted = await parts.jobs.delete(name, by=by, rights=rights)
            message = "; ".join(("deleted", *deleted.warnings)) if deleted.changed else f"there was no job {name}"
            return Done(message, deleted.revision, deleted.changed, _changes(deleted, None))
        case Action.KILL:
            killed = [str(run) for run in await parts.kills.of_job(name, by=by, rights=rights, reason=reason)]
            return Done(kill_message(name, killed), 0, bool(killed))
        case Action.RUN:
            wanted = Wanted(reason=reason, is_by_hand=is_browser(request))
            asked = await parts.run_now.ask(name, wanted, by=by, rights=rights, address=request[ADDRESS])
            return Done("run requested", 0, True, {"runId": asked.answer.get("runId")})
        case Action.LABEL:
            labelled = await parts.jobs.change(name, partial(_labelled, wish), by=by, rights=rights)
            message = "; ".join(("labels changed", *labelled.warnings))
            message = message if labelled.changed else "has these labels already"
            return Done(message, labelled.revision, labelled.changed, _changes(labelled, labelled.spec))
        case Action.SPREAD:
            saved = await parts.jobs.change(
                name, lambda spec: spread(spec, wish.by, wish.jitter_s), by=by, rights=rights,
                if_match=wish.revisions[name],
            )  # fmt: skip
            now = saved.spec.to_stored()
            made = (f"{name}: {now[name]}" for name in ("cronExpr", "offset", "jitterSeconds") if name in now)
            message = "; ".join((f"spread: {', '.join(made)}", *saved.warnings))
            message = message if saved.changed else "fires apart already"
            return Done(message, saved.revision, saved.changed, _changes(saved, saved.spec))


def _changes(done: Saved | Changed, spec: JobSpec | None) -> Mapping[str, Any]:
    before = done.before.saved
    return {"changes": job_changes(None if before is None else before.spec, spec)} if done.changed else {}


def _labelled(wish: _Wish, spec: JobSpec) -> JobSpec:
    kept = {name: value for name, value in spec.labels.items() if name not in wish.without_labels}
    labels = {**kept, **wish.labels}
    return (
        spec if labels == spec.labels else parse_job({**spec.to_stored(), "timezone": spec.timezone, "labels": labels})
    )
