"""`etcron crontab sync`: a crontab of this machine and its jobs are kept alike, and change hands safely.

line is new      its job is saved, paused: cron runs the line
line changes     its job changes with it: the one of its command, else of its name, else of the command most alike
line is gone     its job is paused; not while etcron runs a line that is refused, as that may be its job
line is cron's   its job is paused, if it was enabled: never do both run it
line is taken    etcron runs it, while its job is enabled (takeover.py)
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Final

from cli.client import Client, Document, job_path
from cli.crontab.commands import checked, outcomes_of, over_what_is_there, saved, set_values, wanted_of
from cli.crontab.sources import STDIN, Source, is_user, name_of, source_of
from cli.crontab.takeover import Line, Takeover, by_reason, lines_of, why_not_ready
from cli.crontab.until_now import CronsView, crons_view, daemon_here, noted
from cli.errors import CommandError, ExitStatus
from cli.import_report import ImportReport, paused_if_new
from cli.manifests.carrying import make_plan
from cli.manifests.plan import OWNER_LABEL, Action, Row, Step
from cli.printing import print_json, say, tell, warn
from common.crontab.jobs import LineOutcome, LineResult
from common.crontab.lines import Entry, Unreadable, read_lines

_ALIKE: Final = 0.6
_COMPARED: Final = 200
"""Jobs, and lines, at most: each with each."""
_CRONS_PATH: Final = "/usr/bin:/bin"
_CRON_RUNS_IT: Final = "cron runs its line of the crontab"
_LINE_IS_GONE: Final = "its line of the crontab is gone"
_Pairs = Callable[[Sequence[LineOutcome], Mapping[str, Document]], Iterable[tuple[LineOutcome, str]]]
"""Lines, and jobs that may be theirs, of those that are left."""


def sync(arguments: argparse.Namespace) -> int:
    """The command; its exit status."""
    if arguments.file == STDIN:
        raise CommandError("FILE: - cannot be synced, as it is no place; `etcron crontab import -` takes it",
                           ExitStatus.USAGE)  # fmt: skip
    source = source_of(arguments.file, arguments.user, system=True if arguments.system else None)
    source = replace(source, is_live=source.is_live or arguments.live)
    if (arguments.takeover or arguments.give_back) and not source.is_live:
        message = f"{source.title}: cron does not run it here as far as is known; --live says that it does"
        raise CommandError(message, ExitStatus.USAGE)
    arguments.owner = arguments.owner or source.owner
    text = source.read()
    lines = list(read_lines(text, system=source.user is None, taken=True))
    outcomes = [_with_user(one, source) for one in outcomes_of(lines, arguments, by_comment=True)]
    with Client.of(arguments) as client:
        rows = {row["name"]: row for row in client.items("/api/v1/jobs", _owned_by(arguments.owner), warnings=[])}
        named = renamed(outcomes, rows)
        outcomes, daemon = _of_known_users(client, checked(client, named)), daemon_here()
        view = crons_view(lines, source, text, daemon)
        problems = list[str]()
        by_cron = [line.job for line in lines_of(named) if source.is_live and not line.is_taken]
        by_etcron = {line.job for line in lines_of(named) if line.is_taken}
        if not arguments.dry_run:
            problems += _pause(client, [name for name in by_cron if _is_enabled(rows.get(name))], _CRON_RUNS_IT)
        steps = make_plan(
            client, [wanted_of(one) for one in outcomes if one.document is not None], owner=arguments.owner, prune=True,
            over=partial(over_what_is_there, given=set_values(arguments)),
        )  # fmt: skip
        _refuse_strangers(steps, source)
        gone = [
            step.name for step in steps
            if step.action is Action.PRUNE and step.state_before == "enabled" and step.name not in by_etcron
        ]  # fmt: skip
        if gone and (nameless := [one for one in named if _is_taken(one) and one.document is None]):
            warn([_why_none_is_gone(nameless[0], gone)])
            gone = []
        steps = paused_if_new(step for step in steps if step.action is not Action.PRUNE)
        results: dict[str, str] = {}
        if not arguments.dry_run:
            results = saved(client, steps)
            problems += _pause(client, gone, _LINE_IS_GONE)
            # A job of that name and command which did not bear the label of this crontab yet.
            enabled = {step.name for step in steps if step.state_after == "enabled"}
            problems += _pause(client, [name for name in by_cron if name in enabled], _CRON_RUNS_IT)
        report = ImportReport.of(noted(outcomes, view, daemon), steps, results)
        _print(report, gone, arguments, source, view)
        if not arguments.dry_run and (arguments.takeover or arguments.give_back):
            takeover = Takeover(client, source, text, daemon=daemon)
            unsaved = {name for name, result in results.items() if result == "failed"}
            problems += _change_hands(client, takeover, named if arguments.give_back else outcomes, unsaved, arguments)
        if not arguments.give_back:
            problems += _run_by_nobody(outcomes, report.steps)
    return ExitStatus.NO if problems else report.status


def renamed(outcomes: Sequence[LineOutcome], rows: Mapping[str, Row]) -> list[LineOutcome]:
    """The outcomes, each line with the name of the job that it has, whatever has come, or gone, above and below it.

    ``rows``: the jobs of this crontab. A line has the job of its command, user and time, else the one of its name and
    command, else the one of its command, else the one of its name. A line whose name is not a comment's else changes
    the job, left over, whose command is most alike; of the same time, unless etcron runs the line, which so has a job.
    Any other is new. What etcron runs comes first to the jobs that are enabled, and only last to others.
    """
    jobs = [one for one in outcomes if one.document is not None]
    names = _kept(jobs, {name: dict(row.get("spec") or {}) for name, row in rows.items()})
    used = {*rows, *names.values()}
    for one in jobs:
        if one.line.number not in names:
            free = itertools.chain([one.name], (f"{one.name}-{number}" for number in itertools.count(2)))
            names[one.line.number] = next(name for name in free if name not in used)
            used.add(names[one.line.number])
    return [
        one if one.document is None else replace(one, document={**one.document, "name": names[one.line.number]})
        for one in outcomes
    ]


def _kept(jobs: Sequence[LineOutcome], left: dict[str, Document]) -> dict[int, str]:
    """The names of the jobs that are there, by the number of the line; what no line has stays ``left``."""
    found: dict[int, str] = {}
    enabled = {name for name, spec in left.items() if spec.get("enabled") is not False}
    taken, crons = [one for one in jobs if _is_taken(one)], [one for one in jobs if not _is_taken(one)]
    turns = [(taken, enabled), (crons, set(left)), (taken, set(left))]
    ways = [(lines, names, key) for keys in _KEYS for lines, names in turns for key in keys]
    ways += [(lines, names, _alike) for lines, names in turns]
    for lines, names, pairs in ways:
        still = [one for one in lines if one.line.number not in found]
        for one, name in pairs(still, {name: spec for name, spec in left.items() if name in names}):
            if name in left and one.line.number not in found:
                found[one.line.number] = name
                del left[name]
    return found


def _alike(lines: Sequence[LineOutcome], left: Mapping[str, Document]) -> list[tuple[LineOutcome, str]]:
    """Lines without a comment, and jobs whose commands are like theirs; the most alike first."""
    pairs = [
        (ratio, one.line.number, name, one)
        for one in [one for one in lines if not one.is_named][:_COMPARED]
        for name, spec in list(left.items())[:_COMPARED]
        if _is_taken(one) or (one.document or {}).get("cronExpr") == spec.get("cronExpr")
        if (ratio := SequenceMatcher(None, _what(one.document or {})[0], _what(spec)[0]).ratio()) >= _ALIKE
    ]
    return [(one, name) for *_, name, one in sorted(pairs, key=lambda pair: (-pair[0], pair[1:3]))]


def _is_taken(one: LineOutcome) -> bool:
    return isinstance(one.line, Entry | Unreadable) and one.line.taken


def _what(spec: Mapping[str, Any]) -> tuple[str, str]:
    """What a job runs, and as whom."""
    return str(spec.get("command") or ""), str(spec.get("user") or "")


def _when(spec: Mapping[str, Any]) -> tuple[str, str]:
    return str(spec.get("cronExpr") or ""), str(spec.get("timezone") or "")


def _by(key: Callable[[str, Document], object]) -> _Pairs:
    """Lines, and jobs with the same key, of name and document."""

    def pairs(lines: Sequence[LineOutcome], left: Mapping[str, Document]) -> Iterable[tuple[LineOutcome, str]]:
        of_key = defaultdict[object, list[str]](list)
        for name, spec in left.items():
            of_key[key(name, spec)].append(name)
        return ((one, name) for one in lines for name in of_key.get(key(one.name, one.document or {}), ()))

    return pairs


_KEYS: Final = (
    (_by(lambda name, spec: (name, _what(spec), _when(spec))), _by(lambda _, spec: (_what(spec), _when(spec)))),
    (_by(lambda name, spec: (name, _what(spec))), _by(lambda _, spec: _what(spec)), _by(lambda name, _: name)),
)


def _owned_by(owner: str) -> Mapping[str, str]:
    return {"label": f"{OWNER_LABEL}={owner}"}


def _with_user(one: LineOutcome, source: Source) -> LineOutcome:
    """The job runs as whom cron would run it; a user's name where the command should be is a mistake of the format."""
    if one.document is None or not isinstance(one.line, Entry) or source.user is None:
        return one
    first = one.line.command.split()[0]
    if is_user(first) and shutil.which(first, path=_CRONS_PATH) is None:  # `mail` and `man` are both
        why = (
            f"{first} is a user of this machine, and here the command begins: is this a crontab with a user column? "
            "Then use --system; else write the command with its path"
        )
        return LineOutcome(line=one.line, result=LineResult.REFUSED, notes=(why,))
    return replace(one, document={"user": source.user, **one.document})


def _of_known_users(client: Client, outcomes: Sequence[LineOutcome]) -> list[LineOutcome]:
    """The outcomes, with those lines refused whose user no live worker may run commands as."""
    workers = [one.get("runsAs") for one in client.get("/api/v1/workers")["items"] if one.get("beat") is not None]
    known = [one for one in workers if one is not None]
    if not known or len(known) < len(workers):  # none that says it: a run by hand will show it
        return list(outcomes)
    return [
        LineOutcome(line=one.line, result=LineResult.REFUSED, notes=(_no_worker_for(user),))
        if one.document is not None and (user := one.document.get("user")) and not any(_runs(of, user) for of in known)
        else one
        for one in outcomes
    ]


def _runs(runs_as: Mapping[str, Any], user: str) -> bool:
    uid, default, allowed = runs_as["uid"], runs_as["default"], runs_as["allowed"]
    restricts_root = uid == 0 and bool(default or allowed)
    if user == name_of(uid) and not restricts_root:
        return True
    return uid == 0 and user in (default, *allowed)


def _no_worker_for(user: str) -> str:
    return (
        f"no live worker runs commands as {user}: add {user} to allowedUsers of a worker that runs "
        "as root, and start it again"
    )


def _refuse_strangers(steps: Iterable[Step], source: Source) -> None:
    """CommandError where a job of the same name is there that has nothing to do with this crontab.

    One's own may give a user to a job of its command that has none yet; another's would get a job of its own by that,
    with the labels and secrets that it has.
    """
    strangers = [
        step.name
        for step in steps
        if step.action is Action.CHANGE
        and any(
            field == "command" or (field == "user" and (before is not None or source.is_of_another))
            for field, before, _ in step.changes
        )
        and any(field == f"labels.{OWNER_LABEL}" and before is None for field, before, _ in step.changes)
    ]
    if strangers:
        raise CommandError(
            f"nothing was changed: there are jobs of these names that are not of this crontab: "
            f"{', '.join(strangers[:10])}; give --name-prefix, or another comment above the line", ExitStatus.CONFLICT,
        )  # fmt: skip


def _is_enabled(row: Row | None) -> bool:
    return row is not None and row["state"] == "enabled"


def _pause(client: Client, names: Iterable[str], why: str) -> list[str]:
    """The names of those that could not be paused."""
    failed = []
    for name in names:
        try:
            client.post(job_path(name, "pause"), {"reason": why})
        except CommandError as error:
            if error.status is ExitStatus.UNAVAILABLE:
                raise
            warn([f"{name}: not paused: {error}"])
            failed.append(name)
    return failed


def _why_none_is_gone(refused: LineOutcome, gone: Sequence[str]) -> str:
    return (
        f"etcron runs line {refused.line.number}, which is refused; one of these jobs may be its, so none is paused "
        f"as gone: {', '.join(gone)}"
    )


def _run_by_nobody(outcomes: Sequence[LineOutcome], steps: Mapping[str, Step]) -> list[str]:
    """The jobs of lines that are out of the crontab, paused since this sync."""
    paused = {name for name, step in steps.items() if step.state_after == "paused" and step.state_before != "paused"}
    idle = [one for one in outcomes if _is_taken(one) and one.name in paused]
    warn(
        f"line {one.line.number} is out of the crontab, and its job is paused: neither runs it; "
        f"etcron job resume {one.name}"
        for one in idle
    )
    return [one.name for one in idle]


def _change_hands(
    client: Client, takeover: Takeover, outcomes: Sequence[LineOutcome], unsaved: Collection[str],
    arguments: argparse.Namespace,
) -> list[str]:  # fmt: skip
    """Take over what is ready, or give back; the names of the jobs that stay where they are.

    ``unsaved``: the jobs that are not as their lines say.
    """
    lines = lines_of(outcomes)
    if arguments.give_back:
        delayed = takeover.give_back([line for line in lines if line.is_taken])
        for why, jobs in by_reason(delayed).items():
            say(f"{', '.join(jobs)}: with etcron still: {why}; give back then")
        return list(delayed)
    unfinished = takeover.unfinished
    ready, not_ready = list[Line](), dict[str, str]()
    for line in (one for one in lines if not one.is_taken):
        if line.job in unsaved:
            reason: str | None = "its job could not be saved"
        else:
            reason = None if arguments.untested else why_not_ready(client.find(job_path(line.job)))
        if reason is None:
            ready.append(line)
        else:
            not_ready[line.job] = reason
    left = [line for line in lines if line.is_taken and line.job in unfinished]
    later = [line.job for line in left if line.job in unsaved]
    warn(f"{job}: out of the crontab, and its job could not be saved: neither runs it" for job in later)
    takeover.take(ready, [line for line in left if line.job not in unsaved], later=later)
    for why, jobs in by_reason(not_ready).items():
        say(f"{', '.join(jobs)}: with cron still: {why}")
    if not_ready and not arguments.untested:
        say("(--untested takes lines over that have not run by hand)")
    return [*not_ready, *later]


def _print(
    report: ImportReport, gone: Sequence[str], arguments: argparse.Namespace, source: Source, view: CronsView
) -> None:  # fmt: skip
    who = {one.line.number: _who(one, source, report.steps.get(one.name), view) for one in report.lines}
    if arguments.output == "json":
        lines = [
            {"line": one.line.number, "text": one.line.text, **report.document(one), "runs": who[one.line.number]}
            for one in report.lines
        ]
        print_json({
            "dryRun": arguments.dry_run, "source": source.title, "owner": arguments.owner, "gone": list(gone),
            "ignored": view.ignored, "lines": lines,
        })  # fmt: skip
        return
    if view.ignored is not None:
        tell(view.ignored, "")
    replace(report, beside={
        one.line.number: f"{who[one.line.number]}; as {one.document.get('user') or 'the user of its worker'}"
        for one in report.lines if one.document is not None
    }).tell()  # fmt: skip
    if gone:
        tell(f"{'to be paused' if arguments.dry_run else 'paused'}, as their lines are gone: {', '.join(gone)}")
    if arguments.dry_run:
        tell("dry run: nothing was saved")
    elif report.has_new and source.is_live and not arguments.takeover:
        tell("new jobs are paused: try them (etcron job run NAME --wait), then etcron crontab sync --takeover")


def _who(one: LineOutcome, source: Source, step: Step | None, view: CronsView) -> str:
    """Who runs the line."""
    if one.document is None or not isinstance(one.line, Entry):
        return ""
    is_enabled = step is not None and step.state_after == "enabled" and step.action is not Action.CREATE
    if one.line.taken:
        return "etcron runs it" if is_enabled else "out of the crontab, and its job is paused: neither runs it"
    if source.is_live:
        return "cron runs it" if view.runs(one.line.number) else "neither runs it"
    return "etcron runs it" if is_enabled else "its job is paused"
