"""`etcron run`: runs and fires that did not run, their output, their end, and giving them up."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from cli.arguments import Parser, add_command, add_group, add_output, add_reason, add_server, count
from cli.client import Client, Document, go_through, run_path
from cli.errors import CommandError, ExitStatus
from cli.following import follow, tell_end, verdict, why
from cli.printing import print_json, print_output, print_pairs, print_table, say_where_cut, tell, value_text, warn
from cli.times import instant, local, took

_TIMES: Final = ("createTime", "planTime", "claimTime", "scheduleTime", "startTime", "endTime", "rangeEndTime")
_FIRST: Final = (
    "id", "jobName", "state", "status", "err", "reason", *_TIMES, "worker", "host", "attempt", "trigger", "by",
)  # fmt: skip
"""The order in which a run's fields are printed; others follow."""


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group(
        "etcron run", "Runs: one execution of a job each. Their ids look like backup@1774749600000#1."
    )
    show = add_command(
        verbs, "show", _show, does="show a run: its times, its worker, its verdict",
        examples=("etcron run show 'backup@1774749600000#1'",),
    )  # fmt: skip
    log = add_command(
        verbs, "log", _log, does="print a run's output; with -f while it goes on",
        examples=("etcron run log 'backup@1774749600000#1' | less", "etcron run log -f 'backup@1774749600000#1'"),
    )  # fmt: skip
    kill = add_command(
        verbs, "kill", _ask, does="end runs with all that they started; status 1 if one has not ended within 3 s",
        examples=("etcron run kill 'backup@1774749600000#1' --reason 'it hangs'",),
    )  # fmt: skip
    give_up = add_command(
        verbs, "give-up", _ask,
        does="free the locks of runs that their workers cannot end; status 1 if that takes longer than 4 s",
        examples=("etcron run give-up 'backup@1774749600000#1' --reason 'that machine will not come back'",),
    )  # fmt: skip
    listing = add_command(
        verbs, "list", _list, does="list runs of all jobs, and fires that did not run",
        examples=(
            "etcron run list --status running",
            "etcron run list --status failed,timeout,lost --from 24h",
            "etcron run list --job backup --from 2026-03-01T00:00:00Z --to 2026-04-01T00:00:00Z -o json",
            "etcron run list -q import --label team=billing --trigger api",
            "etcron run list --group error --from 24h",
        ),
    )  # fmt: skip
    for command in (show, log):
        command.add_argument("run_id", metavar="RUN")
    log.add_argument(
        "-f", "--follow", action="store_true", help="print it as it comes, up to the end; status 1 unless it succeeded"
    )
    for command in (kill, give_up):
        command.add_argument("runs", metavar="RUN", nargs="+")
    add_reason(kill)
    give_up.add_argument("--reason", metavar="TEXT", required=True, help="why; the record has it")
    listing.add_argument("--job", metavar="NAME", help="those of this job")
    listing.add_argument(
        "--status", action="append", metavar="STATUS", help="only these, e.g. failed,lost or running (repeatable)"
    )
    listing.add_argument("-q", metavar="TEXT", help="those of jobs that have this text in their name")
    listing.add_argument("--worker", metavar="NAME", help="those on this worker")
    listing.add_argument("--label", action="append", metavar="K[=V]", help="only with this label (repeatable)")
    listing.add_argument(
        "--trigger", action="append", metavar="WHAT", help="schedule, manual, api, retry or rerun (repeatable)"
    )
    listing.add_argument("--error", metavar="TEXT", help="only with this error, as --group error names it")
    listing.add_argument("--group", choices=("error",), help="count what did not go well by its error instead")
    for option, does in (("--from", "planned then or later"), ("--to", "planned before")):
        listing.add_argument(
            option, dest=option[2:] + "_", metavar="TIME", help=f"{does}: ISO 8601, or 30m, 24h, 7d ago"
        )
    listing.add_argument("--limit", type=count(1, 1_000_000), default=50, metavar="N", help="at most N (50)")
    for command in (show, log, kill, give_up, listing):
        add_server(command)
    for command in (show, listing):
        add_output(command)
    return group


def _show(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        run = client.get(run_path(arguments.run_id))
    if arguments.output == "json":
        print_json(run)
        return ExitStatus.OK
    print_run(run)
    if run.get("output"):
        tell()
        print_output(str(run["output"]))
    return ExitStatus.OK


def _log(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        if arguments.follow:
            return tell_end(arguments.run_id, follow(client, arguments.run_id))
        print_output(client.text(run_path(arguments.run_id, "output")))
    return ExitStatus.OK


def _ask(arguments: argparse.Namespace) -> int:
    """To kill runs, or to give them up."""
    body = {} if arguments.reason is None else {"reason": arguments.reason}
    with Client.of(arguments) as client:

        def ask(run: str) -> str:
            answer = client.post(run_path(run, arguments.command), body)
            if answer["outcome"] == "pending":
                raise CommandError(str(answer["message"]), ExitStatus.NO)
            return str(answer["message"])

        return go_through(arguments.runs, ask)


def _list(arguments: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    first, end = instant("--from", arguments.from_, now=now), instant("--to", arguments.to_, now=now)
    if first and end and datetime.fromisoformat(first) >= datetime.fromisoformat(end):
        raise CommandError("--to: is not later than --from, so there is nothing between; swap them", ExitStatus.USAGE)
    query = {
        "job": arguments.job, "q": arguments.q, "status": arguments.status, "worker": arguments.worker,
        "label": arguments.label, "trigger": arguments.trigger, "error": arguments.error, "from": first, "to": end,
    }  # fmt: skip
    if arguments.group:
        return _groups(arguments, query)
    warnings: list[str] = []
    with Client.of(arguments) as client:
        runs = list(client.items("/api/v1/runs", query, limit=arguments.limit, warnings=warnings))
    warn(warnings)
    if arguments.output == "json":
        print_json(runs)
        return ExitStatus.OK
    print_runs(runs)
    say_where_cut(len(runs), arguments.limit)
    return ExitStatus.OK


def _groups(arguments: argparse.Namespace, query: Mapping[str, Any]) -> int:
    with Client.of(arguments) as client:
        answer = client.get("/api/v1/runs", {**query, "group": arguments.group})
    if arguments.output == "json":
        print_json(answer["groups"])
        return ExitStatus.OK
    heads = ("RUNS", "ERROR", "JOBS", "FIRST", "LAST", "LAST LINE")
    rows = [
        (
            f"{group['count']:,}", str(group["error"]), _some(group["jobs"], group["jobCount"]),
            local(group["firstTime"]), local(group["lastTime"]), group.get("lastLine") or "-",
        )
        for group in answer["groups"]
    ]  # fmt: skip
    print_table(heads, rows, none="nothing failed", spare=("LAST LINE", "FIRST"))
    if not answer["isComplete"]:
        tell(f"Only the newest {answer['records']:,} were counted: narrow it down, by --from or --job.")
    return ExitStatus.OK


def _some(names: Sequence[str], count: int) -> str:
    return ", ".join(names) + (f" and {count - len(names):,} more" if count > len(names) else "")


# Views


def print_runs(runs: Iterable[Document]) -> None:
    """One line for each run, or fire that did not run."""
    heads = ("PLANNED", "JOB", "STATUS", "STARTED", "TOOK", "WORKER", "WHY", "RUN")
    rows = [
        (
            local(run.get("planTime")), str(run.get("jobName", "-")), verdict(run), local(run.get("startTime")),
            took(run.get("startTime"), run.get("endTime")), run.get("worker") or "-", why(run) or "-",
            str(run.get("id")),
        )
        for run in runs
    ]  # fmt: skip
    print_table(heads, rows, none="no runs", spare=("STARTED", "WORKER", "TOOK", "JOB"))


def print_run(run: Document) -> None:
    """Everything about one run but for its output."""
    fields = [field for field in _FIRST if field in run] + [field for field in run if field not in _FIRST]
    print_pairs(
        (field, local(run[field]) if field in _TIMES else value_text(run[field]))
        for field in fields
        if field != "output" and run[field] not in (None, "")
    )
