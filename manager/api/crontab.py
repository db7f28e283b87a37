"""``/api/v1/crontab``: what each line of a crontab becomes, and saving its jobs in one step.

Both calls read the same text alike, so what is saved is what was looked at. A job that is there already stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from aiohttp import web

from common.access.rights import Rights, Role
from common.crontab.jobs import LineOutcome, LineResult, translate
from common.crontab.lines import MAX_LINES, Entry, read_lines
from common.errors import ForbiddenError, InvalidInputError, Problem
from common.jobs.job import LABELS, SELECTOR, JobSpec
from common.jobs.kinds import AnyText, Truth, about
from common.jobs.reader import parse_job
from common.jobs.values import ZoneName
from common.json_text import dumps
from common.process.lifecycle import all_ended
from common.words.job_words import job_words
from manager.access.needs import needs
from manager.api.bulk import AT_ONCE, MAX_NAMES, Done, act_on_each
from manager.console.pages import language_of
from manager.http.bodies import Body
from manager.http.errors import failure_of
from manager.parts import PARTS, Parts, answer, caller, rights
from manager.views.advice import next_fire

_PATH: Final = "/api/v1/crontab"
MOST_TEXT: Final = 200_000
MOST_OF_JOBS: Final = 4_000_000
"""Bytes of JSON: each entry has the variables above it, so that a short text may become large jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    text: Annotated[str, AnyText(longest=MOST_TEXT), about("text", "the crontab", "30 2 * * * /usr/local/bin/backup")]
    timezone: Annotated[str, ZoneName(), about(
        "timezone", "the zone of the machine that it is of; else `defaultTimezone`", "Europe/Berlin")] = ""  # fmt: skip
    system: Annotated[bool, Truth(), about("system", "it has a user column, as /etc/crontab has", True)] = False
    name_prefix: Annotated[str, AnyText(longest=60), about(
        "namePrefix", "what the jobs' names begin with", "web-1.")] = ""  # fmt: skip
    labels: Annotated[Mapping[str, str], LABELS, about("labels", "of all the jobs", {"team": "billing"})] = field(
        default_factory=dict
    )
    workers: Annotated[Mapping[str, tuple[str, ...]], SELECTOR, about(
        "workers", "what a worker has to have to run any of them", {"host": "web-1"})] = field(
        default_factory=dict
    )  # fmt: skip
    enabled: Annotated[bool, Truth(), about("enabled", "the jobs fire at once; else they are paused", True)] = False


def _too_many(wish: _Wish) -> Iterable[Problem]:
    count = wish.text.count("\n") + 1
    if count > MAX_LINES:
        remedy = f"at most {MAX_LINES:,}: give it in parts, or use `etcron crontab import`"
        yield Problem(field="text", message=f"has {count:,} lines", remedy=remedy)
        return
    entries = sum(isinstance(line, Entry) for line in read_lines(wish.text, system=wish.system))
    if entries > MAX_NAMES:
        remedy = f"at most {MAX_NAMES:,}: give it in parts, or use `etcron crontab import`"
        yield Problem(field="text", message=f"has {entries:,} entries", remedy=remedy)


BODY: Final = Body(_Wish, also=_too_many)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What became of a line, and what a save of its job would say."""

    outcome: LineOutcome
    spec: JobSpec | None = None
    is_there: bool = False
    """Some job has its name."""
    refusal: Mapping[str, Any] = field(default_factory=dict)
    """The members of an answer that say why the job cannot be saved."""
    warnings: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether a save makes a job of it."""
        return self.spec is not None and not self.is_there


def add_routes(app: web.Application) -> None:
    """The calls."""
    app.router.add_post(f"{_PATH}/preview", preview_crontab)
    app.router.add_post(_PATH, save_crontab)


@needs(Role.EDITOR)
async def preview_crontab(request: web.Request) -> web.Response:
    """What each line becomes, or why not, and what a save of its job would say; nothing is stored."""
    parts, language = request.app[PARTS], language_of(request)
    lines = await _account(request)
    now_ms = parts.clock.wall_ms()
    return answer({
        "items": [_shown(line, now_ms, language) for line in lines],
        "new": sum(line.is_new for line in lines),
        "refused": sum(_became(line) is LineResult.REFUSED for line in lines),
        "warnings": parts.watching.warnings,
    })  # fmt: skip


@needs(Role.EDITOR)
async def save_crontab(request: web.Request) -> web.Response:
    """The jobs of those lines that become new ones; each has its own result, in the order of the lines."""
    parts = request.app[PARTS]
    specs = {line.spec.name: line.spec for line in await _account(request) if line.is_new and line.spec is not None}
    if not specs:
        remedy = "preview it: that says what becomes of each line"
        raise InvalidInputError([Problem(field="text", message="has no line that becomes a new job", remedy=remedy)])

    async def save(name: str) -> Done:
        saved = await parts.jobs.save(specs[name], by=caller(request), rights=rights(request), if_match=0)
        return Done("; ".join(("created", *saved.warnings)), saved.revision, saved.changed)

    return await act_on_each(request, "job.save", specs, save)


async def _account(request: web.Request) -> Sequence[_Line]:
    parts = request.app[PARTS]
    wish = await BODY.read(request, parts.read_timeout_s)
    await parts.watching.ready()
    outcomes = translate(
        read_lines(wish.text, system=wish.system), timezone=wish.timezone or parts.config.default_timezone,
        prefix=wish.name_prefix, labels=wish.labels,
    )  # fmt: skip
    if (size := sum(len(dumps(one.document)) for one in outcomes if one.document is not None)) > MOST_OF_JOBS:
        remedy = f"at most {MOST_OF_JOBS:,}: give it in parts, or with fewer variables"
        raise InvalidInputError([Problem(field="text", message=f"becomes jobs of {size:,} bytes", remedy=remedy)])
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(outcome: LineOutcome) -> _Line:
        if outcome.document is None:
            return _Line(outcome=outcome)
        own: dict[str, Any] = {"enabled": wish.enabled}
        if wish.workers:
            own["workers"] = {label: list(values) for label, values in wish.workers.items()}
        async with limit:
            return await _checked(parts, replace(outcome, document={**outcome.document, **own}), rights(request))

    return await all_ended(map(one, outcomes))


async def _checked(parts: Parts, outcome: LineOutcome, caller_rights: Rights) -> _Line:
    """What a save would say; a channel that is not there yet keeps no job back: it is made without `notify`."""
    document = outcome.document or {}
    try:
        spec = parse_job(document)
        if parts.watching.catalog.seen(outcome.name, caller_rights) is not None:
            return _Line(outcome=outcome, spec=spec, is_there=True)
        warnings, _ = await parts.jobs.check(spec, rights=caller_rights)
    except InvalidInputError as error:
        if "notify" in document and all(problem.field.startswith("notify") for problem in error.problems):
            without = {name: value for name, value in document.items() if name != "notify"}
            notes = (*outcome.notes, f"no notifications: {'; '.join(map(str, error.problems))}")
            return await _checked(parts, replace(outcome, document=without, notes=notes), caller_rights)
        return _Line(outcome=outcome, refusal=_faults(*error.problems))
    except ForbiddenError as error:
        return _Line(outcome=outcome, refusal={"problem": str(error)})
    return _Line(outcome=outcome, spec=spec, warnings=warnings)


def _faults(*problems: Problem) -> dict[str, Any]:
    return {"errors": failure_of(InvalidInputError(problems)).errors}


def _became(line: _Line) -> LineResult:
    return LineResult.REFUSED if line.refusal else line.outcome.result


def _shown(line: _Line, now_ms: int, language: str) -> dict[str, Any]:
    outcome = line.outcome
    shown: dict[str, Any] = {"line": outcome.line.number, "text": outcome.line.text, "became": str(_became(line))}
    if outcome.result is LineResult.REFUSED:
        return shown | (_faults(outcome.problem) if outcome.problem else {"problem": outcome.notes[0]})
    shown |= {"notes": [*outcome.notes, *line.warnings], **line.refusal}
    if (spec := line.spec) is not None:
        shown |= {
            "name": spec.name, "isThere": line.is_there, "words": job_words(spec, language), "user": spec.user or None,
            "next": next_fire(replace(spec, enabled=True), after_ms=now_ms), "spec": spec.to_stored(),
        }  # fmt: skip
    return shown
