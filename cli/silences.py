"""`etcron silence list`, `add`, `end`: times in which some messages are kept back."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_reason, add_server
from cli.bindings import selector, selector_words
from cli.client import Client, Document, delete_each
from cli.errors import CommandError, ExitStatus
from cli.printing import print_records, tell
from cli.times import local, parse_iso

SILENCES: Final = "/api/v1/silences"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron silence", "A silence keeps messages about some jobs back for a while.")
    listing = add_command(verbs, "list", _list, does="list the silences", examples=("etcron silence list",))
    add = add_command(
        verbs, "add", _add, does="keep messages about some jobs back",
        examples=(
            "etcron silence add --job nightly-report --for 4h --reason 'the disk is being replaced'",
            "etcron silence add --labels team=billing --until 2026-03-30T08:00",
        ),
    )  # fmt: skip
    end = add_command(
        verbs,
        "end",
        partial(delete_each, "silences"),
        does="end silences",
        examples=("etcron silence end 5f0c21ab34de",),
    )
    add.add_argument("--job", action="append", metavar="JOB", dest="job", help="a job, by name (repeatable)")
    add.add_argument(
        "--labels", action="append", metavar="LABEL=VALUE",
        help="in place of --job: of the jobs that it is for, or all (repeatable)",
    )  # fmt: skip
    add.add_argument("--for", dest="span", metavar="SPAN", help="how long: 30m, 4h, 2d; at most 30d")
    add.add_argument("--until", metavar="TIME", help="in place of --for its end, e.g. 2026-03-30T08:00")
    add_reason(add)
    end.add_argument("names", metavar="ID", nargs="+")
    add_output(listing)
    for command in (listing, add, end):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        silences = list(client.items(SILENCES, {}, warnings=[]))
    heads = ("ID", "OF", "FROM", "UNTIL", "BY", "REASON")
    return print_records(arguments.output, heads, silences, _row, none="no silences", spare=("FROM", "BY"))


def _row(silence: Document) -> tuple[str, ...]:
    return (
        str(silence["id"]), _of(silence), local(silence.get("fromTime")), local(silence.get("untilTime")),
        str(silence.get("by") or "-"), str(silence.get("reason") or "-"),
    )  # fmt: skip


def _of(silence: Document) -> str:
    if silence.get("problem"):
        return f"broken: {silence['problem']}"
    if silence.get("alert"):
        return f"the alert of {silence['alert'].get('job')}"
    return ", ".join(silence.get("jobs") or ()) or selector_words(silence.get("labels"))


def _add(arguments: argparse.Namespace) -> int:
    body: Document = {}
    if bool(arguments.job) == bool(arguments.labels):
        raise CommandError("--job and --labels: give one of them; --labels all is all jobs", ExitStatus.USAGE)
    if (arguments.span is None) == (arguments.until is None):
        raise CommandError("--for and --until: give one of them", ExitStatus.USAGE)
    if arguments.job:
        body["jobs"] = arguments.job
    else:
        body["labels"] = selector("--labels", arguments.labels)
    if arguments.span is not None:
        body["hours"] = _hours(arguments.span)
    else:
        body["untilTime"] = int(parse_iso("--until", arguments.until).timestamp() * 1000)
    if arguments.reason:
        body["reason"] = arguments.reason
    with Client.of(arguments) as client:
        made = client.post(SILENCES, body)["silence"]
    tell(f"silence {made['id']}: {_of(made)}, until {local(made.get('untilTime'))}")
    return ExitStatus.OK


def _hours(text: str) -> float:
    from common.instants import parse_duration

    try:
        return parse_duration(text).ms / 3_600_000
    except ValueError as error:
        raise CommandError(f"--for: is {text!r}; needed: {error}", ExitStatus.USAGE) from None
