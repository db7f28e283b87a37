"""`etcron alert list`, `ack`: the problems that are open."""

from __future__ import annotations

import argparse
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_reason, add_server, count
from cli.client import Client, Document, go_through
from cli.printing import print_records
from cli.times import local

ALERTS: Final = "/api/v1/alerts"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron alert", "An alert is a problem of a job, or of the system, until it is over.")
    listing = add_command(
        verbs, "list", _list, does="list open alerts, or with --ended the last that ended",
        examples=("etcron alert list", "etcron alert list --ended --job nightly-report"),
    )  # fmt: skip
    ack = add_command(
        verbs, "ack", _ack, does="acknowledge alerts: no messages until they are over",
        examples=("etcron alert ack nightly-report --reason 'alice is on it'",),
    )  # fmt: skip
    listing.add_argument("--ended", action="store_true", help="those that ended last")
    listing.add_argument("--job", metavar="JOB", help="of this job alone")
    listing.add_argument("--limit", type=count(1, 10_000), default=100, metavar="N", help="at most N (100)")
    ack.add_argument("names", metavar="JOB", nargs="+")
    add_reason(ack)
    add_output(listing)
    for command in (listing, ack):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    query = {"state": "ended" if arguments.ended else "open", "job": arguments.job}
    with Client.of(arguments) as client:
        alerts = list(client.items(ALERTS, query, limit=arguments.limit, warnings=[]))
    heads = ("OF", "ALERT", "SINCE", "ENDED" if arguments.ended else "QUIET", "COUNT", "TOLD", "REASON")
    none = "no alert has ended" if arguments.ended else "no open alerts"
    return print_records(arguments.output, heads, alerts, _row, none=none, spare=("TOLD", "COUNT"))


def _row(alert: Document) -> tuple[str, ...]:
    flaps = " (flapping, well now)" if alert.get("well") else " (flapping)"
    kind = str(alert.get("kind")) + (flaps if alert.get("flapping") else "")
    return (
        str(alert.get("job") or alert.get("subject") or "the system"), kind, local(alert.get("sinceTime")),
        local(alert.get("endTime")) if alert.get("state") == "ended" else _quiet(alert), str(alert.get("count")),
        ", ".join(alert.get("channels") or ()) or "-", str(alert.get("reason") or "-"),
    )  # fmt: skip


def _quiet(alert: Document) -> str:
    if alert.get("acknowledged"):
        return f"by {alert['acknowledged'].get('by')}"
    return f"until {local(alert['silencedUntil'])}" if alert.get("silencedUntil") else "-"


def _ack(arguments: argparse.Namespace) -> int:
    body: Document = {"reason": arguments.reason} if arguments.reason else {}
    with Client.of(arguments) as client:

        def acknowledge(job: str) -> str:
            client.post(f"{ALERTS}/ack", {"job": job, **body})
            return f"{job}: quiet until its alert is over"

        return go_through(arguments.names, acknowledge)
