"""`etcron binding list`, `add`, `remove`: who has which role on what."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.client import Client, Document, delete_each
from cli.errors import CommandError, ExitStatus
from cli.printing import print_records, tell, warn

BINDINGS: Final = "/api/v1/bindings"
_ALL: Final = "all"
ROLES: Final = ("viewer", "operator", "editor", "admin")


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron binding", "A binding gives a user or a group a role on the jobs with some labels.")
    listing = add_command(
        verbs, "list", _list, does="list bindings", examples=("etcron binding list", "etcron binding list group:dba"),
    )  # fmt: skip
    add = add_command(
        verbs, "add", _add, does="give a user, a group or a service account a role",
        examples=(
            "etcron binding add group:billing viewer --labels team=billing",
            "etcron binding add user:alice editor --labels team=billing --labels team=sales --run-as app --workers all",
            "etcron binding add user:bob admin --labels all",
        ),
    )  # fmt: skip
    remove = add_command(
        verbs, "remove", partial(delete_each, "bindings"),
        does="remove bindings", examples=("etcron binding remove 5f0c21ab34de",),
    )  # fmt: skip
    listing.add_argument("subject", metavar="WHO", nargs="?", help="of them alone, as in add")
    add.add_argument("subject", metavar="WHO", help="user:NAME, group:NAME, service:NAME, uid:NUMBER or gid:NUMBER")
    add.add_argument("role", choices=ROLES, metavar="ROLE", help=", ".join(ROLES))
    add.add_argument(
        "--labels", action="append", metavar="LABEL=VALUE", required=True,
        help="of the jobs that it reaches, or all (repeatable: another label, or another value of one)",
    )  # fmt: skip
    add.add_argument(
        "--run-as", action="append", metavar="USER",
        help="a system user that jobs saved by it may run as, @worker (which the worker chooses), or all (repeatable)",
    )  # fmt: skip
    add.add_argument(
        "--workers", action="append", metavar="LABEL=VALUE",
        help="of the workers that such jobs may choose, or all (repeatable); an editor's binding needs it",
    )  # fmt: skip
    remove.add_argument("names", metavar="ID", nargs="+")
    add_output(listing)
    for command in (listing, add, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        found = client.get(BINDINGS, {"subject": arguments.subject})["items"]
    return print_bindings(found, arguments.output)


def print_bindings(bindings: Sequence[Document], output: str = "table") -> int:
    """One line for each, in words."""
    heads = ("ID", "WHO", "ROLE", "MAY")
    return print_records(output, heads, bindings, _row, none="no bindings: nothing is allowed")


def _row(binding: Document) -> tuple[str, ...]:
    return (
        str(binding["id"]), str(binding.get("subject") or "-"), str(binding.get("role") or "-"),
        str(binding.get("words") or binding.get("problem")),
    )  # fmt: skip


def _add(arguments: argparse.Namespace) -> int:
    body: Document = {
        "subject": arguments.subject, "role": arguments.role, "labels": selector("--labels", arguments.labels),
    }  # fmt: skip
    if arguments.run_as:
        body["runAs"] = _users(arguments.run_as)
    if arguments.workers:
        body["workers"] = selector("--workers", arguments.workers)
    if body["role"] == "admin" and body["labels"] == _ALL:  # nothing is beyond them, so nothing is left to say
        body = {"runAs": _ALL, "workers": _ALL} | body
    with Client.of(arguments) as client:
        made = client.post(BINDINGS, body)
    warn(made.get("warnings") or ())
    tell(f"binding {made['id']}: {made['subject']} {made['words']}")
    return ExitStatus.OK


def selector(option: str, texts: Sequence[str]) -> Any:
    """Labels with lists of values, or ``all``, as the API takes them."""
    if list(texts) == [_ALL]:
        return _ALL
    labels: dict[str, list[str]] = {}
    for text in texts:
        label, equals, value = text.partition("=")
        if not equals or not label:
            message = f"{option}: {text!r} is neither all, by itself, nor LABEL=VALUE such as team=billing"
            raise CommandError(message, ExitStatus.USAGE)
        labels.setdefault(label, []).append(value)
    return labels


def selector_words(labels: Any) -> str:
    """A selector as it is typed."""
    if not isinstance(labels, dict):
        return str(labels)
    return ", ".join(f"{label}={'|'.join(values)}" for label, values in labels.items())


def _users(texts: Sequence[str]) -> Any:
    if _ALL not in texts:
        return list(texts)
    if len(texts) > 1:
        raise CommandError("--run-as: all stands by itself, for any system user", ExitStatus.USAGE)
    return _ALL
