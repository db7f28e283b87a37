"""`etcron job fires`: every planned fire of a job in a span of time, and why one did not run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from cli.arguments import Verbs, add_command, add_output, add_server, count
from cli.client import Client, Document, job_path
from cli.errors import ExitStatus
from cli.printing import print_json, print_table, say, warn
from cli.times import instant, local, took

_DID_NOT_RUN: Final = frozenset({"skipped", "missed", "waiting", "unknown", "none"})
"""Verdicts of fires without a run; `lost` had been claimed, and may have run."""
_MAY_NOT_HAVE_STARTED: Final = frozenset({"failed", "killed"})
"""Verdicts of runs that may have ended before there was a process: it could not be started, say."""
_HEADS: Final = ("PLANNED", "VERDICT", "STARTED", "TOOK", "WORKER", "WHY", "RUN")


def add_to(verbs: Verbs) -> None:
    """The command."""
    fires = add_command(
        verbs, "fires", _fires,
        does="every planned fire of a job, newest first: what became of it, or why it did not run",
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
    fires.add_argument("--not-run", action="store_true", help="those alone of which no process is known")
    fires.add_argument("--limit", type=count(1, 100_000), default=50, metavar="N", help="so many (50)")
    add_server(fires)
    add_output(fires)


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
        none = "no fires" if ran == 0 else f"none: every fire of these times has a run ({ran})"
        print_table(_HEADS, map(_row, fires), none=none)
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
    return text or _takers(fire.get("takers") or ())


def _takers(workers: Sequence[str]) -> str:
    return f"for {', else '.join(workers)}" if workers else ""
