"""`etcron job log`, `fires`, `next`: the runs and the fires of a job, those to come, and why one did not run."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from cli.arguments import Verbs, add_command, add_output, add_server, count
from cli.client import Client, Document, job_path, run_path
from cli.errors import CommandError, ExitStatus
from cli.following import verdict, why
from cli.job_views import print_fires, why_no_fire
from cli.printing import one_line, print_json, print_output, print_table, say, say_where_cut, tell, warn
from cli.progress import tracked
from cli.runs import print_runs
from cli.times import instant, local, took
from common.verdicts import Verdict

_DID_NOT_RUN: Final = frozenset({"waiting", "unknown", "none", *(str(one) for one in Verdict if not one.is_of_a_run)})
"""Verdicts of fires without a run; `lost` had been claimed, and may have run."""
_MAY_NOT_HAVE_STARTED: Final = frozenset({"failed", "killed"})
"""Verdicts of runs that may have ended before there was a process: it could not be started, say."""
_HEADS: Final = ("PLANNED", "VERDICT", "STARTED", "TOOK", "WORKER", "WHY", "RUN")


def add_to(verbs: Verbs) -> None:
    """The commands' own command lines."""
    fires = add_command(
        verbs, "fires", _fires,
        does="list every planned fire of a job, newest first: its verdict, or why it did not run",
        examples=(
            "etcron job fires backup",
            "etcron job fires backup --from 7d --not-run",
            "etcron job fires backup --from 2026-03-29T00:00:00Z --to 2026-03-30T00:00:00Z -o json",
        ),
    )  # fmt: skip
    fires.add_argument("name", metavar="NAME")
    for option, default, does in (
        ("--from", "24h", "planned then or later (24h)"), ("--to", None, "planned then or before (now)"),
    ):  # fmt: skip
        fires.add_argument(
            option, dest=option[2:] + "_", metavar="TIME", default=default,
            help=f"{does}: ISO 8601, or 30m, 24h, 7d ago",
        )  # fmt: skip
    fires.add_argument("--not-run", action="store_true", help="only fires that did not run")
    fires.add_argument("--limit", type=count(1, 100_000), default=50, metavar="N", help="at most N (50)")
    log = add_command(
        verbs, "log", _log, does="list a job's runs, newest first, and fires that did not run, with the reason",
        examples=("etcron job log backup --status failed,timeout --limit 5 --output",),
    )  # fmt: skip
    log.add_argument("--limit", type=count(1, 100_000), default=20, metavar="N", help="at most N (20)")
    log.add_argument(
        "--status", action="append", metavar="STATUS", help="only these, e.g. failed,lost or running (repeatable)"
    )
    log.add_argument("--output", action="store_true", dest="with_output", help="what each of them has printed, too")
    following = add_command(
        verbs, "next", _next, does="list the next fires of a job",
        examples=("etcron job next backup -n 20",),
    )  # fmt: skip
    following.add_argument("-n", type=count(1, 1000), default=10, metavar="N", help="how many (10)")
    for command in (log, following):
        command.add_argument("name", metavar="NAME")
    for command in (fires, log, following):
        add_server(command)
        add_output(command)


def _fires(arguments: argparse.Namespace) -> int:
    now, warnings = datetime.now(UTC), list[str]()
    query = {"from": instant("--from", arguments.from_, now=now), "to": instant("--to", arguments.to_, now=now)}
    with Client.of(arguments) as client:
        items = client.items(job_path(arguments.name, "fires"), query, warnings=warnings)
        found, ran = list[Document](), 0
        for one in items:
            if arguments.not_run and not _did_not_run(one):
                ran += one["verdict"] != "planned"
            else:
                found.append(one)
            if len(found) > arguments.limit:
                break
        if not found:
            client.get(job_path(arguments.name))  # a deleted job has its past still, so its absence matters only here
    fires = found[: arguments.limit]
    if arguments.output == "json":
        print_json(fires)
    else:
        none = "no fires" if ran == 0 else f"none among the fires known of these times: each has a run ({ran})"
        print_table(_HEADS, map(_row, fires), none=none, spare=("STARTED", "WORKER", "TOOK"))
    warn(warnings)
    if len(found) > len(fires):
        say(f"there are more before {local(fires[-1]['planTime'])}: ask with --to, or a greater --limit")
    return ExitStatus.OK


def _did_not_run(fire: Document) -> bool:
    verdict = fire["verdict"]
    return verdict in _DID_NOT_RUN or (verdict in _MAY_NOT_HAVE_STARTED and not fire.get("startTime"))


def _row(fire: Document) -> tuple[str, ...]:
    return (
        local(fire["planTime"]), fire["verdict"], local(fire.get("startTime")),
        took(fire.get("startTime"), fire.get("endTime")), fire.get("worker") or "-", _why(fire) or "-",
        fire.get("runId") or "-",
    )  # fmt: skip


def _why(fire: Document) -> str:
    """Why it did not run or succeed; of one to come, who would take it."""
    is_of_a_run = fire.get("startTime") or fire["verdict"] == "killed"
    text = str((fire.get("err") if is_of_a_run else None) or fire.get("reason") or "")
    if fire["verdict"] == "skipped" and fire.get("by"):
        text = f"{text} (by {fire['by']})"
    if fire.get("count"):
        least = "at least " if fire.get("countIsMinimum") else ""
        return f"{text} ({least}{fire['count']} fires, the last {local(fire.get('rangeEndTime'))})"
    takers = fire.get("takers") or ()
    return text or (f"for {', else '.join(takers)}" if takers else "")


def _log(arguments: argparse.Namespace) -> int:
    warnings: list[str] = []
    query = {"job": arguments.name, "status": arguments.status}
    with Client.of(arguments) as client:
        runs = list(client.items("/api/v1/runs", query, limit=arguments.limit, warnings=warnings))
        if not runs:
            # A deleted job has its log still, so its absence matters only where there is none.
            client.get(job_path(arguments.name))
        waits = [] if arguments.output == "json" or arguments.status else waits_of(client, arguments.name)
        if arguments.with_output:
            for run in tracked(runs, "reading"):
                has_some = run.get("startTime") and run.get("state") in ("finished", "ending")
                run["output"] = client.text(run_path(run["id"], "output")) if has_some else ""
    warn(warnings)
    if arguments.output == "json":
        print_json(runs)
        return ExitStatus.OK
    if arguments.with_output:
        for run in runs:
            shown = f"{local(run.get('planTime'))}  {verdict(run)}  {why(run)}".rstrip()
            tell(f"--- {run['id']}  {shown}")
            print_output(run["output"])
    else:
        print_runs(runs)
    say_where_cut(len(runs), arguments.limit)
    for wait in waits:
        say(f"waiting: {one_line(wait)}")
    return ExitStatus.OK


def _next(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        row = client.get(job_path(arguments.name))
        fires: list[Document] = []
        page = client.get(job_path(arguments.name, "fires"))["upcoming"]
        while page and len(fires) < arguments.n:
            fires += page
            page = client.get(job_path(arguments.name, "fires"), {"after": fires[-1]["ms"]})["upcoming"]
    fires = fires[: arguments.n]
    if arguments.output == "json":
        print_json(fires)
    else:
        print_fires(fires)
    if not fires:
        say(f"{arguments.name} has no next fire: {why_no_fire(row)}")
    return ExitStatus.OK


# What waits


def waits_of(client: Client, name: str) -> list[str]:
    """A line each; none where there is no such job. While the log store is away, those of fires alone."""
    fires = _known(client, job_path(name, "fires"), {}).get("recent", ())
    runs = _known(client, "/api/v1/runs", {"job": name, "limit": 1}).get("waiting") or ()
    waiting = []
    for fire in (one for one in fires if one["verdict"] == "waiting"):
        due = f"{fire['count']} fires since" if fire.get("count") else "the fire of"
        waiting.append(f"{due} {local(fire['planTime'])}: {fire['reason']}")
    for run in runs:
        is_early = run["waitsForKind"] == "time"
        what = f"its time, {local(run.get('notBefore'))}" if is_early else run["waitsFor"]
        waiting.append(f"{run['id']}, planned {local(run.get('planTime'))}, for {what}")
    return waiting


def _known(client: Client, path: str, query: Mapping[str, str | int]) -> Document:
    """What is there; nothing where it is not, or cannot be reached."""
    try:
        found: Document = client.get(path, query)
    except CommandError as error:
        if error.status in (ExitStatus.NOT_FOUND, ExitStatus.UNAVAILABLE):
            return {}
        raise
    return found
