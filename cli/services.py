"""`etcron service list`, `add`, `set`, `remove`: service accounts, for programs that call with tokens."""

from __future__ import annotations

import argparse
from functools import partial

from cli.arguments import Parser, add_command, add_group, add_output, add_server, add_state
from cli.client import Client, Document, access_path, delete_each
from cli.errors import ExitStatus
from cli.printing import print_records, tell
from cli.times import local
from cli.users import state_of

SERVICES = "/api/v1/services"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron service", "Service accounts: programs that call with tokens.")
    listing = add_command(
        verbs, "list", _list, does="list the service accounts", examples=("etcron service list",)
    )  # fmt: skip
    add = add_command(
        verbs, "add", _add, does="add a service account, which may do nothing until a binding says so",
        examples=("etcron service add deploy --description 'the pipeline of team billing'",),
    )  # fmt: skip
    set_ = add_command(
        verbs, "set", _set, does="disable a service account, or enable it again; its tokens and bindings stay",
        examples=("etcron service set deploy --disable", "etcron service set deploy --enable"),
    )  # fmt: skip
    remove = add_command(
        verbs, "remove", partial(delete_each, "services"),
        does="remove service accounts with their tokens and bindings",
        examples=("etcron service remove deploy",),
    )  # fmt: skip
    add.add_argument("name", metavar="NAME")
    add.add_argument("--description", metavar="TEXT", help="what it is for, and who looks after it")
    set_.add_argument("name", metavar="NAME")
    add_state(set_, disable="no token of it is good", enable="its tokens are good again", required=True)
    remove.add_argument("names", metavar="NAME", nargs="+")
    add_output(listing)
    for command in (listing, add, set_, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        services = list(client.items(SERVICES, {}, warnings=[]))
    heads = ("NAME", "STATE", "DESCRIPTION", "ADDED", "BY")
    return print_records(arguments.output, heads, services, _row, none="no service accounts", spare=("BY", "ADDED"))


def _row(service: Document) -> tuple[str, ...]:
    return (
        str(service["name"]), state_of(service), str(service.get("description") or "-"),
        local(service.get("createdMs")), str(service.get("createdBy") or "-"),
    )  # fmt: skip


def _add(arguments: argparse.Namespace) -> int:
    body = {"name": arguments.name}
    if arguments.description is not None:
        body["description"] = arguments.description
    with Client.of(arguments) as client:
        client.post(SERVICES, body)
    tell(
        f"{arguments.name} is a service account now; `etcron binding add service:{arguments.name} ROLE ...` says what "
        f"it may do, `etcron token add NAME --owner service:{arguments.name}` makes its token"
    )
    return ExitStatus.OK


def _set(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        call = client.call("PATCH", access_path("services", arguments.name), {"disabled": arguments.disabled})
    tell(f"{arguments.name} is {state_of(call.document)}")
    return ExitStatus.OK
