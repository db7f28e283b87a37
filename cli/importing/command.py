"""`etcron import SYSTEM FILE`: jobs out of another scheduler's export, and a report on everything in it."""

from __future__ import annotations

import argparse
import itertools
from dataclasses import replace
from typing import Final, cast

from cli.arguments import EXIT_STATUSES, Parser, add_output, add_server
from cli.client import Client
from cli.crontab.commands import checked, over_what_is_there, saved, set_values, wanted_of
from cli.crontab.sources import read_given
from cli.errors import CommandError, ExitStatus
from cli.import_report import ImportReport, paused_if_new
from cli.importing.found import Found, UnreadableError
from cli.importing.systemd import systemd
from cli.importing.systems import SYSTEMS
from cli.job_saving import merged, without_nulls
from cli.manifests.carrying import make_plan
from cli.manifests.plan import OWNER_LABEL
from cli.printing import print_json, say, tell
from cli.times import machine_timezone
from common.crontab.jobs import LineOutcome, LineResult
from common.crontab.lines import Line
from common.errors import InvalidInputError
from common.jobs.reader import check_name

_READERS: Final = {**SYSTEMS, "systemd": systemd}
_EXAMPLES: Final = """\
examples:
  kubectl get cronjobs -A -o json | etcron import kubernetes - --dry-run
  systemctl cat backup.timer backup.service | etcron import systemd - --set user=backup
  curl -s http://dkron:8080/v1/jobs | etcron import dkron -
  etcdctl get --prefix /cron/jobs/ -w json | etcron import legacy - --owner legacy

"""


def parser() -> Parser:
    """The command line."""
    does = (
        "Save the jobs of another scheduler, paused until they are resumed, and account for each. It reads: the JSON "
        "of `kubectl get cronjobs` (kubernetes), `systemctl cat` of timers and services (systemd), /v1/jobs (dkron), "
        "get_schedule or an export (cronicle), the values below /cronsun/cmd/ (cronsun), and the legacy system's keys "
        "below /cron/jobs/ (legacy)."
    )
    top = Parser(prog="etcron import", description=does, epilog=_EXAMPLES + EXIT_STATUSES)
    top.add_argument("system", choices=sorted(_READERS), metavar="SYSTEM", help=", ".join(sorted(_READERS)))
    top.add_argument("file", metavar="FILE", help="its export (- for stdin)")
    top.add_argument("--name-prefix", default="", metavar="TEXT", help="what the jobs' names begin with")
    top.add_argument("--owner", metavar="NAME", help="label the jobs etcron/owner=NAME")
    top.add_argument("--set", action="append", metavar="FIELD=VALUE", help="a field of all these jobs (repeatable)")
    top.add_argument(
        "--tz", metavar="ZONE", help="the time zone of what names none (systemd: this machine's, else the managers')"
    )
    top.add_argument("--dry-run", action="store_true", help="only the account; nothing is saved")
    add_server(top)
    add_output(top)
    top.set_defaults(run=_import)
    return top


def _import(arguments: argparse.Namespace) -> int:
    outcomes = _outcomes(arguments, _zone(arguments))
    given = set_values(arguments)
    with Client.of(arguments) as client:
        outcomes = checked(client, outcomes)
        steps = paused_if_new(make_plan(
            client, [wanted_of(one) for one in outcomes if one.document is not None], owner=arguments.owner,
            over=lambda document, spec: over_what_is_there(document, spec, given),
        ))  # fmt: skip
        report = ImportReport.of(outcomes, steps, {} if arguments.dry_run else saved(client, steps))
    _print(replace(report, what=("entry", "entries")), arguments)
    return report.status


def _zone(arguments: argparse.Namespace) -> str | None:
    """Of what names none; None: the managers say."""
    if arguments.tz or arguments.system != "systemd":
        return cast("str | None", arguments.tz)
    zone, origin = machine_timezone()
    say(f"times are those of {zone} ({origin})")
    return zone


def _outcomes(arguments: argparse.Namespace, zone: str | None) -> list[LineOutcome]:
    try:
        found = list(_READERS[arguments.system](read_given(arguments.file)))
    except UnreadableError as error:
        raise CommandError(f"{arguments.file}: {error}", ExitStatus.REFUSED) from error
    given, numbers, names = set_values(arguments), itertools.count(1), set[str]()
    labels = {OWNER_LABEL: arguments.owner} if arguments.owner else {}
    outcomes = []
    for one in found:
        line = Line(number=next(numbers), text=one.title)
        why = _why_not(one, names, arguments.name_prefix)
        if one.job is None or why is not None:
            outcomes.append(
                LineOutcome(line=line, result=LineResult.REFUSED, notes=(why,) if why else tuple(one.notes[-1:]))
            )
            continue
        if zone and "cronExpr" in one.job:
            one.job.setdefault("timezone", zone)
        document = without_nulls(merged({**one.job, "labels": {**one.job.get("labels", {}), **labels}}, given))
        outcomes.append(LineOutcome(line=line, result=LineResult.JOB, notes=tuple(one.notes), document=document))
    return outcomes


def _why_not(one: Found, names: set[str], prefix: str) -> str | None:
    """Why its name cannot be a job's; else it is taken."""
    if one.job is None:
        return None
    one.job["name"] = name = prefix + one.job["name"]
    if name in names:
        return f"another one is called {name} already: rename it there"
    try:
        check_name(name)
    except InvalidInputError:
        return f"{name!a} is no name for a job: rename it there"
    names.add(name)
    return None


def _print(report: ImportReport, arguments: argparse.Namespace) -> None:
    if arguments.output == "json":
        jobs = [{"title": one.line.text, **report.document(one)} for one in report.lines]
        print_json({"dryRun": arguments.dry_run, "jobs": jobs})
        return
    report.tell()
    if arguments.dry_run:
        tell("dry run: nothing was saved")
    elif report.has_new:
        tell("new jobs are paused: run them by hand, stop the old ones, then etcron job resume NAME ...")
