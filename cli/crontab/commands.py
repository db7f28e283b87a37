"""`etcron crontab import`: jobs out of a crontab, and a report on its every line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.client import Client, Document, error_lines
from cli.crontab.sources import read_given
from cli.errors import CommandError, ExitStatus
from cli.import_report import ImportReport, paused_if_new
from cli.job_saving import merged, setting, without_nulls
from cli.manifests.carrying import carry_out, check, make_plan
from cli.manifests.plan import OWNER_LABEL, Step, Wanted
from cli.printing import complain, print_json, say, tell
from cli.progress import tracked
from cli.times import machine_timezone
from common.crontab.jobs import LineOutcome, LineResult, translate
from common.crontab.lines import Line, read_lines
from common.errors import ScheduleError
from common.jobs.values import REBOOT
from common.schedules.schedule import parse_cron

_OF_THE_LINE: Final = frozenset({
    "name", "command", "cronExpr", "every", "offset", "after", "at", "timezone", "env", "shell", "workdir", "user",
    "jitterSeconds", "enabled",
})  # fmt: skip
"""What a line, and the variables above it, say of its job; of `enabled` only `--enable` says anything. `overlap` is as
cron has it for a new job, and later saves keep it as it is; so is `notify`, of a job that names no channel."""

_KEPT: Final = frozenset({"enabled", "user"})
"""Of these what a line may leave open: without a user column it does not say as whom its command runs."""


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron crontab", "From crontabs to jobs.")
    importing = add_command(
        verbs, "import", _import,
        does="save the entries of a crontab as jobs, paused until they are resumed, and account for every line",
        examples=(
            "crontab -l | etcron crontab import - --dry-run",
            "etcron crontab import /etc/crontab --system --owner web-1 --name-prefix web-1. --set workers.host=web-1",
        ),
    )  # fmt: skip
    importing.add_argument("file", metavar="FILE", help="the crontab (- for stdin)")
    importing.add_argument("--enable", action="store_true", help="the jobs fire at once (else new ones are paused)")
    importing.add_argument("--strict", action="store_true", help="import nothing where any line is refused")
    syncing = add_command(
        verbs, "sync", _sync, does="keep a crontab of this machine and its jobs alike; move lines to etcron, or back",
        examples=(
            "etcron crontab sync --dry-run",
            "etcron crontab sync --takeover",
            "etcron crontab sync /etc/cron.d/backup --set workers.host=web-1",
            "etcron crontab sync --give-back",
        ),
    )  # fmt: skip
    syncing.add_argument(
        "file", metavar="FILE", nargs="?", help="the crontab (this user's own, as `crontab -l` shows it)"
    )
    syncing.add_argument("--user", metavar="NAME", help="the crontab of this user")
    syncing.add_argument(
        "--live", action="store_true", help="cron runs FILE here, though it is not in /etc/crontab or /etc/cron.d"
    )
    hands = syncing.add_mutually_exclusive_group()
    hands.add_argument(
        "--takeover",
        action="store_true",
        help="take lines out of the crontab whose jobs ran well by hand, and enable these",
    )
    hands.add_argument("--give-back", action="store_true", help="pause the jobs, and put their lines back")
    syncing.add_argument("--untested", action="store_true", help="with --takeover: also jobs that have not run by hand")
    for command in (importing, syncing):
        command.add_argument("--system", action="store_true", help="it has a user column, as /etc/crontab has")
        command.add_argument("--name-prefix", default="", metavar="TEXT", help="what the jobs' names begin with")
        command.add_argument("--owner", metavar="NAME", help="label the jobs etcron/owner=NAME")
        command.add_argument(
            "--set", action="append", metavar="FIELD=VALUE",
            help="a field of all these jobs, JSON or a text, e.g. workers.host=web-1 (repeatable)",
        )  # fmt: skip
        command.add_argument("--tz", metavar="ZONE", help="the crontab's time zone (this machine's, as cron takes it)")
        command.add_argument("--dry-run", action="store_true", help="only the account; nothing is saved")
        add_server(command)
        add_output(command)
    return group


def _sync(arguments: argparse.Namespace) -> int:
    from cli.crontab.sync import sync

    return sync(arguments)


def _import(arguments: argparse.Namespace) -> int:
    lines = list(read_lines(read_given(arguments.file), system=arguments.system))
    outcomes = outcomes_of(lines, arguments)
    with Client.of(arguments) as client:
        outcomes = checked(client, outcomes)
        steps = _plan(client, outcomes, arguments)
        report = ImportReport.of(outcomes, steps, {})
        if not (arguments.dry_run or (report.is_refused and arguments.strict)):
            report = ImportReport.of(outcomes, steps, saved(client, steps))
    _print(report, arguments)
    return report.status


def outcomes_of(lines: Sequence[Line], arguments: argparse.Namespace, *, by_comment: bool = False) -> list[LineOutcome]:
    """What becomes of every line, as far as that is known without a manager."""
    timezone, origin = (arguments.tz, "--tz") if arguments.tz else machine_timezone()
    try:
        parse_cron("@yearly", timezone=timezone)
    except ScheduleError as error:
        found = "" if arguments.tz else f" ({origin})"
        message = f"--tz: {timezone!r}{found} {error.message}; {error.remedy}"
        raise CommandError(message, ExitStatus.USAGE) from error
    say(f"times are those of {timezone} ({origin})")
    labels = {OWNER_LABEL: arguments.owner} if arguments.owner else {}
    given = set_values(arguments)
    enabled = getattr(arguments, "enable", False)
    outcomes = translate(
        lines, timezone=timezone, prefix=arguments.name_prefix, enabled=enabled, labels=labels, by_comment=by_comment
    )
    return [
        one if one.document is None else replace(one, document=without_nulls(merged(one.document, given)))
        for one in outcomes
    ]


def set_values(arguments: argparse.Namespace) -> Document:
    """What ``--set`` gives all the jobs."""
    given: Document = {}
    for text in arguments.set or ():
        given = merged(given, setting(text))
    if "name" in given:
        raise CommandError("--set: name is that of one job; --name-prefix is for all of them", ExitStatus.USAGE)
    return given


def over_what_is_there(document: Document, spec: Document, given: Document) -> Document:
    """The job as it is, with what its line of the crontab has now, and what ``--set`` gives.

    What the line does not have (where it runs, for how long, ...) was set by hand, and stays. `broadcast` is the
    line's where it is `@reboot` now, or is no more.
    """
    of_the_line = {field: value for field, value in document.items() if field in _OF_THE_LINE}
    kept = {field: value for field, value in spec.items() if field not in _OF_THE_LINE or field in _KEPT}
    if (spec.get("cronExpr") == REBOOT) != (document.get("cronExpr") == REBOOT):
        of_the_line["broadcast"] = document.get("broadcast")
    if not spec.get("notify") and document.get("notify"):
        of_the_line["notify"] = document["notify"]
    labels = {"labels": document.get("labels") or {}}
    return without_nulls(merged(merged({**kept, **of_the_line}, labels), given))


def checked(client: Client, outcomes: Sequence[LineOutcome]) -> list[LineOutcome]:
    """The outcomes, with those lines refused that the manager would not save."""
    result = []
    for one in tracked(outcomes, "checking"):
        if one.document is not None:
            errors, warnings = check(client, wanted_of(one))
            if errors and "notify" in one.document and all(error["field"].startswith("notify") for error in errors):
                # A job whose channel is not there yet is imported all the same, without `notify`.
                document = {field: value for field, value in one.document.items() if field != "notify"}
                notes = (*one.notes, f"no notifications: {'; '.join(error_lines(errors))}")
                one = replace(one, document=document, notes=notes)
                errors, warnings = check(client, wanted_of(one))
            if errors:
                one = LineOutcome(line=one.line, result=LineResult.REFUSED, notes=("; ".join(error_lines(errors)),))
            else:
                one = replace(one, notes=(*one.notes, *warnings))
        result.append(one)
    return result


def wanted_of(one: LineOutcome) -> Wanted:
    """The job of a line, to be compared with what there is."""
    return Wanted(name=one.name, document=one.document or {}, place=f"line {one.line.number}")


def _plan(client: Client, outcomes: Sequence[LineOutcome], arguments: argparse.Namespace) -> list[Step]:
    """The steps of the jobs. New ones are paused, others stay as they are, unless they are to be enabled."""
    wanted = [wanted_of(one) for one in outcomes if one.document is not None]
    over = partial(over_what_is_there, given=set_values(arguments))
    steps = make_plan(client, wanted, owner=arguments.owner, over=over)
    return steps if arguments.enable else paused_if_new(steps)


def saved(client: Client, steps: Sequence[Step]) -> dict[str, str]:
    """What became of each job."""
    results: dict[str, str] = {}
    try:
        failed = carry_out(client, steps, done=lambda step, result: results.update({step.name: result}))
    except CommandError as error:
        message = f"{error}\n{len(results)} of {len(steps)} jobs were saved; the same command again saves the rest"
        raise CommandError(message, error.status) from error
    for one in failed:
        results[one.step.name] = "failed"
        complain(f"{one.step.place}: {one.step.name}: {one.error}")
    return results


def _print(report: ImportReport, arguments: argparse.Namespace) -> None:
    if arguments.output == "json":
        lines = [{"line": one.line.number, "text": one.line.text, **report.document(one)} for one in report.lines]
        print_json({"dryRun": arguments.dry_run, "lines": lines})
        return
    report.tell()
    if report.is_refused and arguments.strict:
        tell("nothing was imported, as lines were refused (--strict)")
    elif arguments.dry_run:
        tell("dry run: nothing was saved")
    elif report.has_new and not arguments.enable:
        tell("new jobs are paused: look at them (etcron job list), then etcron job resume NAME ...")
