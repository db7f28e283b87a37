"""`etcron binding list`, `add`, `remove`: who has which role on what."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.client import Client, Document, access_path, go_through
from cli.errors import CommandError, ExitStatus
from cli.printing import print_json, print_table, tell, warn

BINDINGS: Final = "/api/v1/bindings"
_ALL: Final = "all"
_ROLES: Final = ("viewer", "operator", "editor", "admin")


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron binding", "A binding gives somebody a role on the jobs with some labels.")
    listing = add_command(
        verbs, "list", _list, does="every binding", examples=("etcron binding list", "etcron binding list group:dba"),
    )  # fmt: skip
    add = add_command(
        verbs, "add", _add, does="give somebody a role",
        examples=(
            "etcron binding add group:billing viewer --labels team=billing",
            "etcron binding add user:alice editor --labels team=billing --labels team=sales --run-as app --workers all",
            "etcron binding add user:bob admin --labels all",
        ),
    )  # fmt: skip
    remove = add_command(
        verbs, "remove", _remove, does="take bindings back", examples=("etcron binding remove 5f0c21ab34de",),
    )  # fmt: skip
    listing.add_argument("subject", metavar="WHO", nargs="?", help="of them alone, as in add")
    add.add_argument("subject", metavar="WHO", help="user:NAME, group:NAME, service:NAME, uid:NUMBER or gid:NUMBER")
    add.add_argument("role", choices=_ROLES, metavar="ROLE", help=", ".join(_ROLES))
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
    remove.add_argument("ids", metavar="ID", nargs="+")
    add_output(listing)
    for command in (listing, add, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        found = client.get(BINDINGS, {"subject": arguments.subject})["items"]
    if arguments.output == "json":
        print_json(found)
    else:
        print_bindings(found)
    return ExitStatus.OK


def print_bindings(bindings: Iterable[Document]) -> None:
    """One line for each, in words."""
    rows = (
        (
            str(one["id"]), str(one.get("subject") or "-"), str(one.get("role") or "-"),
            str(one.get("words") or one.get("problem")),
        )
        for one in bindings
    )  # fmt: skip
    print_table(("ID", "WHO", "ROLE", "MAY"), rows, none="no bindings: nothing is allowed")


def _add(arguments: argparse.Namespace) -> int:
    body: Document = {
        "subject": arguments.subject, "role": arguments.role, "labels": _selector("--labels", arguments.labels),
    }  # fmt: skip
    if arguments.run_as:
        body["runAs"] = _users(arguments.run_as)
    if arguments.workers:
        body["workers"] = _selector("--workers", arguments.workers)
    if body["role"] == "admin" and body["labels"] == _ALL:  # nothing is beyond them, so nothing is left to say
        body = {"runAs": _ALL, "workers": _ALL} | body
    with Client.of(arguments) as client:
        made = client.post(BINDINGS, body)
    warn(made.get("warnings") or ())
    tell(f"binding {made['id']}: {made['subject']} {made['words']}")
    return ExitStatus.OK


def _selector(option: str, texts: Sequence[str]) -> Any:
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


def _users(texts: Sequence[str]) -> Any:
    if _ALL not in texts:
        return list(texts)
    if len(texts) > 1:
        raise CommandError("--run-as: all stands by itself, for any system user", ExitStatus.USAGE)
    return _ALL


def _remove(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        return go_through(
            arguments.ids, lambda one: str(client.call("DELETE", access_path("bindings", one)).document["message"])
        )
