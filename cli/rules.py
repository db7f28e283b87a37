"""`etcron rule list`, `add`, `remove`: which events of which jobs go to which channels."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.bindings import selector, selector_words
from cli.channels import save_record
from cli.client import Client, Document, delete_each
from cli.errors import CommandError, ExitStatus
from cli.printing import print_records, tell, warn
from common.verdicts import EventKind

RULES: Final = "/api/v1/rules"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron rule", "A rule says which events of which jobs go to which channels.")
    listing = add_command(verbs, "list", _list, does="list the rules", examples=("etcron rule list",))
    add = add_command(
        verbs, "add", _add, does="add a rule, or replace one",
        examples=(
            "etcron rule add all --labels all --to ops",
            "etcron rule add billing --labels team=billing --on failed --on missed --after 3 --to billing --to ops",
            "etcron rule add system --system --to ops",
        ),
    )  # fmt: skip
    remove = add_command(
        verbs, "remove", partial(delete_each, "rules"), does="remove rules", examples=("etcron rule remove billing",)
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument(
        "--labels", action="append", metavar="LABEL=VALUE",
        help="of the jobs that it is for, or all (repeatable: another label, or another value of one)",
    )  # fmt: skip
    add.add_argument("--system", action="store_true", help="for events of the system, in place of --labels")
    add.add_argument("--to", action="append", metavar="CHANNEL", required=True, help="a channel (repeatable)")
    add.add_argument(
        "--on", action="append", choices=tuple(map(str, EventKind)), metavar="EVENT",
        help="an event (repeatable); by default problems, and that they are over",
    )  # fmt: skip
    add.add_argument("--after", type=count(1, 100), metavar="N", help="only after N problems in a row (1)")
    add.add_argument(
        "--repeat-hours",
        type=count(0, 720),
        metavar="N",
        help="repeat the message after so long while the problem continues (24); 0: never",
    )
    add.add_argument("--required", action="store_true", help="no silence covers it")
    add.add_argument("--description", metavar="TEXT", help="what it is for")
    add.add_argument("--replace", action="store_true", help="replace one of this name")
    remove.add_argument("names", metavar="NAME", nargs="+")
    add_output(listing)
    for command in (listing, add, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        rules = list(client.items(RULES, {}, warnings=[]))
    heads = ("NAME", "FOR", "ON", "AFTER", "TO", "REPEAT", "DESCRIPTION")
    return print_records(
        arguments.output, heads, rules, _row, none="no rules: only channels that jobs name get messages",
        spare=("DESCRIPTION", "REPEAT", "AFTER"),
    )  # fmt: skip


def _row(rule: Document) -> tuple[str, ...]:
    if rule.get("problem"):
        return str(rule["name"]), f"broken: {rule['problem']}", "-", "-", "-", "-", "-"
    of = "the system" if rule.get("system") else selector_words(rule.get("labels"))
    return (
        str(rule["name"]), of + (" (required)" if rule.get("required") else ""),
        ", ".join(rule.get("on") or ()) or "default", str(rule.get("after")), ", ".join(rule.get("to") or ()),
        f"{rule['repeatHours']} h" if rule.get("repeatHours") else "never", str(rule.get("description") or "-"),
    )  # fmt: skip


def _add(arguments: argparse.Namespace) -> int:
    if bool(arguments.labels) == arguments.system:
        raise CommandError("--labels and --system: give one of them; --labels all is all jobs", ExitStatus.USAGE)
    body: Document = {"to": arguments.to}
    body |= {"system": True} if arguments.system else {"labels": selector("--labels", arguments.labels)}
    given = {
        "on": arguments.on, "after": arguments.after, "repeatHours": arguments.repeat_hours,
        "required": arguments.required or None, "description": arguments.description,
    }  # fmt: skip
    body |= {field: value for field, value in given.items() if value is not None}
    with Client.of(arguments) as client:
        saved = save_record(client, "rules", arguments.name, body, replace=arguments.replace)
    warn(saved.get("warnings") or ())
    tell(f"rule {arguments.name} is saved")
    return ExitStatus.OK
