"""`etcron forecast`: what the fires of the next day want, how late some start, the fullest minutes and their jobs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cli.arguments import EXIT_STATUSES, Parser, add_output, add_server, count
from cli.client import Client, Document
from cli.errors import ExitStatus
from cli.printing import print_json, print_table, say, tell, warn
from cli.times import local, took

_EXAMPLES: Final = """\
examples:
  etcron forecast
  etcron forecast --hours 6 --label team=billing --minutes 10
  etcron forecast --json | jq '.crowded[0].jobs[].name'

"""
_PATH: Final = "/api/v1/forecast"
_MINUTE_MS: Final = 60_000
_JOBS: Final = 100
"""Of one minute; those whose runs take most."""
_SOON_MS: Final = 1_000
"""A fire that waits for less is on time."""
_NAMED: Final = 3
"""In a line of the table."""


def parser() -> Parser:
    """The command line."""
    does = (
        "How many fires each hour of the next day has, the most slots that runs want at once in it, and how late the "
        "last one starts for want of a slot (beyond a second); then the fullest minutes, with the jobs that fire in "
        "them, those whose runs take most first. A run is taken to last as long as usual."
    )
    top = Parser(prog="etcron forecast", description=does, epilog=_EXAMPLES + EXIT_STATUSES)
    top.add_argument("-q", metavar="TEXT", help="of jobs that have this text in their name or command")
    top.add_argument("--label", action="append", metavar="K[=V]", help="only of jobs with this label (repeatable)")
    top.add_argument("--hours", type=count(1, 24), default=24, metavar="N", help="so many hours (24)")
    top.add_argument("--minutes", type=count(0, 20), default=5, metavar="N", help="the N fullest minutes (5)")
    add_server(top)
    add_output(top)
    top.add_argument("--json", action="store_const", const="json", dest="output", help="the same as -o json")
    top.set_defaults(run=_forecast)
    return top


def _forecast(arguments: argparse.Namespace) -> int:
    which = {"q": arguments.q, "label": arguments.label}
    with Client.of(arguments) as client:
        # The hour that goes on is whole in it, so there is one bucket more than hours.
        hours = client.get(_PATH, {**which, "hours": arguments.hours, "buckets": arguments.hours + 1})
        crowded = _crowded(client, which, hours, arguments.minutes)
    warn(hours["warnings"])
    if arguments.output == "json":
        print_json({**hours, "crowded": crowded})
    else:
        _print(hours, crowded)
    return ExitStatus.OK


def _crowded(client: Client, which: dict[str, Any], hours: Document, most: int) -> list[Document]:
    """The minutes in which fires wait longest, then those that want most slots, the fullest first, each with its jobs.

    The n fullest minutes lie in the n fullest hours, as an hour counts as much as its fullest minute does.
    """
    minutes = list[Document]()
    for hour in _fullest(hours["items"], most):
        start, length = hour["time"], hours["bucketMs"]
        span = {"from": start, "to": start + length, "buckets": length // _MINUTE_MS}
        minutes += client.get(_PATH, {**which, **span})["items"]
    crowded = list[Document]()
    for minute in _fullest(minutes, most):
        span = {"from": minute["time"], "to": minute["time"] + _MINUTE_MS, "limit": _JOBS}
        there = client.get(f"{_PATH}/jobs", {**which, **span})
        crowded.append({**minute, "jobCount": there["total"], "jobs": there["items"]})
    return crowded


def _fullest(items: Iterable[Document], most: int) -> Sequence[Document]:
    full = (one for one in items if one["slots"] > 0)
    return sorted(full, key=lambda one: (-_wait_ms(one), -one["slots"], -one["fires"], one["time"]))[:most]


def _print(hours: Document, crowded: Sequence[Document]) -> None:
    slots = f"SLOTS OF {hours['slots']:,}"
    print_table(("HOUR", "FIRES", slots, "WAIT"), map(_counts, hours["items"]), none="no hours")
    if crowded:
        tell()
        rows = [(*_counts(one), _jobs(one)) for one in crowded]
        print_table(("MINUTE", "FIRES", slots, "WAIT", "JOBS"), rows, none="nothing fires")
    else:
        say("nothing fires")
    if crowded and not hours["slots"]:
        say("no worker takes fires now, so how long one would wait is not known")
    if hours["estimated"]:
        say(f"{hours['estimated']:,} schedules fire so often that their fires are estimated")
    if hours["unknown"]:
        say(f"how long runs take is not looked up yet for {hours['unknown']:,} of {hours['jobs']:,} jobs; ask again")


def _wait_ms(one: Document) -> int:
    """0 where it is not known: no worker takes fires."""
    return one.get("waitMs") or 0


def _counts(one: Document) -> tuple[str, str, str, str]:
    wait_ms = _wait_ms(one)
    wait = f"up to {took(0, wait_ms)}" if wait_ms > _SOON_MS else ""
    return local(one["time"]), _number(one["fires"]), _number(one["slots"]), wait


def _jobs(minute: Document) -> str:
    """Those that want most; none where what runs began before."""
    named = [one["name"] + (f" ({one['fires']})" if one["fires"] > 1 else "") for one in minute["jobs"][:_NAMED]]
    more = minute["jobCount"] - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "") if named else "runs that began before"


def _number(count: float) -> str:
    return f"{count:,.1f}".removesuffix(".0")
