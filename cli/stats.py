"""`etcron stats`: how many runs of each verdict each day had, of one job or of all, and how long they took."""

from __future__ import annotations

import argparse
from typing import Final

from cli.arguments import EXIT_STATUSES, Parser, add_output, add_server, count
from cli.client import Client, Document
from cli.errors import ExitStatus
from cli.printing import print_json, print_table
from cli.times import took
from common.verdicts import Verdict

_EXAMPLES: Final = """\
examples:
  etcron stats                       all jobs, the last 30 days
  etcron stats backup --days 7
  etcron stats backup --days 400 -o json

"""


def parser() -> Parser:
    """The command line."""
    does = (
        "How many runs of each verdict each day had, newest day first, and how long they took. Days are of UTC and go "
        "by the planned time; what happened within the last minute may not be in it yet."
    )
    top = Parser(prog="etcron stats", description=does, epilog=_EXAMPLES + EXIT_STATUSES)
    top.add_argument("job", metavar="JOB", nargs="?", help="of this job (of all)")
    top.add_argument("--days", type=count(1, 400), default=30, metavar="N", help="the last N, with today (30)")
    add_server(top)
    add_output(top)
    top.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    top.set_defaults(run=_stats)
    return top


def _stats(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        document = client.get("/api/v1/statistics", {"job": arguments.job, "days": arguments.days})
    if arguments.output == "json":
        print_json(document)
        return ExitStatus.OK
    days = [day for day in document["items"] if any(day.get(one) for one in Verdict)]
    rows = [_row(str(day["day"]), day) for day in days]
    if len(rows) > 1:
        rows.append(_row("total", document["total"]))
    heads = ("DAY", "RUNS", *map(str.upper, Verdict), "AVERAGE", "LONGEST")
    print_table(
        heads,
        rows,
        none="no runs; those of the last minute are not counted yet",
        spare=("LONGEST", "AVERAGE", "KILLED", "SKIPPED"),
    )
    return ExitStatus.OK


def _row(name: str, counts: Document) -> tuple[str, ...]:
    numbers = (str(counts.get(one, 0)) for one in ("runs", *Verdict))  # an older manager counts fewer
    return (name, *numbers, *(took(0, counts[one]) for one in ("averageDurationMs", "maxDurationMs")))
