"""`etcron service list`, `add`, `set`, `remove`: service accounts, for programs that call with tokens."""

from __future__ import annotations

import argparse

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.client import Client, Document, access_path, go_through
from cli.errors import ExitStatus
from cli.printing import print_json, print_table, tell
from cli.times import local

SERVICES = "/api/v1/services"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron service", "Service accounts: programs that call with tokens.")
    listing = add_command(
        verbs, "list", _list, does="every service account", examples=("etcron service list",)
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
        verbs, "remove", _remove, does="remove service accounts with their tokens and bindings",
        examples=("etcron service remove deploy",),
    )  # fmt: skip
    add.add_argument("name", metavar="NAME")
    add.add_argument("--description", metavar="TEXT", help="what it is for, and who looks after it")
    set_.add_argument("name", metavar="NAME")
    state = set_.add_mutually_exclusive_group(required=True)
    state.add_argument("--disable", action="store_const", const=True, dest="disabled", help="no token of it is good")
    state.add_argument("--enable", action="store_const", const=False, dest="disabled", help="its tokens are good again")
    remove.add_argument("names", metavar="NAME", nargs="+")
    add_output(listing)
    for command in (listing, add, set_, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        services = list(client.items(SERVICES, {}, warnings=[]))
    if arguments.output == "json":
        print_json(services)
        return ExitStatus.OK
    rows = (
        (
            str(one["name"]), _state(one), str(one.get("description") or "-"), local(one.get("createdMs")),
            str(one.get("createdBy") or "-"),
        )
        for one in services
    )  # fmt: skip
    print_table(
        ("NAME", "STATE", "DESCRIPTION", "ADDED", "BY"), rows, none="no service accounts", spare=("BY", "ADDED")
    )
    return ExitStatus.OK


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
    tell(f"{arguments.name} is {_state(call.document)}")
    return ExitStatus.OK


def _state(service: Document) -> str:
    if service.get("problem"):
        return f"broken: {service['problem']}"
    return "disabled" if service.get("disabled") else "enabled"


def _remove(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        return go_through(
            arguments.names, lambda name: str(client.call("DELETE", access_path("services", name)).document["message"])
        )
