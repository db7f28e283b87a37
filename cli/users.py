"""`etcron user list`, `add`, `show`, `set`, `password`, `remove`: the people who log in at a manager."""

from __future__ import annotations

import argparse
from functools import partial

from cli.arguments import Parser, add_command, add_group, add_output, add_server, add_state
from cli.bindings import print_bindings
from cli.client import Client, Document, access_path, delete_each
from cli.errors import CommandError, ExitStatus
from cli.login import opened
from cli.printing import print_json, print_pairs, print_records, tell
from cli.secret_text import from_stdin, typed
from cli.times import local

USERS = "/api/v1/users"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron user", "The people who log in at a manager. What they may do: etcron binding.")
    listing = add_command(
        verbs, "list", _list, does="list the users", examples=("etcron user list", "etcron user list -o json"),
    )  # fmt: skip
    add = add_command(
        verbs, "add", _add, does="add a user, who may do nothing until a binding says so",
        examples=(
            "etcron user add alice --group dba --group ops",
            "etcron user add alice --password-stdin < password",
            "etcron user add alice --no-password",
        ),
    )  # fmt: skip
    show = add_command(
        verbs, "show", _show, does="show a user with their bindings", examples=("etcron user show alice",),
    )  # fmt: skip
    set_ = add_command(
        verbs, "set", _set, does="change a user's groups, disable or enable them",
        examples=("etcron user set alice --group dba", "etcron user set alice --no-groups --disable"),
    )  # fmt: skip
    password = add_command(
        verbs, "password", _password, does="give a user a new password, or yourself; their sessions end",
        examples=("etcron user password", "etcron user password alice --password-stdin < password"),
    )  # fmt: skip
    remove = add_command(
        verbs, "remove", partial(delete_each, "users"), does="remove users with their sessions, tokens and bindings",
        examples=("etcron user remove alice",),
    )  # fmt: skip
    for command in (add, show, set_):
        command.add_argument("name", metavar="NAME")
    password.add_argument("name", metavar="NAME", nargs="?", help="another user; for administrators")
    remove.add_argument("names", metavar="NAME", nargs="+")
    for command in (add, set_):
        command.add_argument("--group", action="append", metavar="NAME", help="a group they are in (repeatable)")
    set_.add_argument("--no-groups", action="store_true", help="they are in no group any more")
    add_state(set_, disable="no login is good any more", enable="they may log in again")
    for command in (add, password):
        command.add_argument("--password-stdin", action="store_true", help="the password is the first line of stdin")
    add.add_argument("--no-password", action="store_true", help="only a login provider lets them in")
    for command in (listing, show):
        add_output(command)
    for command in (listing, add, show, set_, password, remove):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        users = list(client.items(USERS, {}, warnings=[]))
    heads = ("NAME", "GROUPS", "STATE", "PASSWORD", "ADDED", "BY")
    return print_records(arguments.output, heads, users, _row, none="no users", spare=("BY", "ADDED", "PASSWORD"))


def _row(user: Document) -> tuple[str, ...]:
    return (
        str(user["name"]), ", ".join(user.get("groups") or ()) or "-", state_of(user),
        "yes" if user.get("hasPassword") else "no", local(user.get("createdMs")), str(user.get("createdBy") or "-"),
    )  # fmt: skip


def state_of(account: Document) -> str:
    """Of a user or a service account."""
    if account.get("problem"):
        return f"broken: {account['problem']}"
    return "disabled" if account.get("disabled") else "enabled"


def _add(arguments: argparse.Namespace) -> int:
    body: Document = {"name": arguments.name, "groups": arguments.group or []}
    if arguments.no_password and arguments.password_stdin:
        raise CommandError("--no-password and --password-stdin: give one of them", ExitStatus.USAGE)
    if not arguments.no_password:
        body["password"] = _new_password(arguments, arguments.name)
    with Client.of(arguments) as client:
        client.refuse_open_way("a password")
        client.post(USERS, body)
    tell(f"{arguments.name} is a user now; `etcron binding add user:{arguments.name} ROLE ...` says what they may do")
    return ExitStatus.OK


def _show(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        user = client.get(access_path("users", arguments.name))
    if arguments.output == "json":
        print_json(user)
        return ExitStatus.OK
    print_pairs(
        [
            ("name", str(user["name"])), ("state", state_of(user)),
            ("groups", ", ".join(user.get("groups") or ()) or "-"),
            ("password", "yes" if user.get("hasPassword") else "no"),
            ("added", f"{local(user.get('createdMs'))} by {user.get('createdBy') or '-'}"),
            ("changed", local(user.get("changedMs"))), ("sessions", str(user.get("sessions", "-"))),
            ("tokens", str(user.get("tokens", "-"))),
        ]
    )  # fmt: skip
    if user.get("bindings"):
        tell()
        print_bindings(user["bindings"])
    return ExitStatus.OK


def _set(arguments: argparse.Namespace) -> int:
    body: Document = {}
    if arguments.no_groups and arguments.group:
        raise CommandError("--group and --no-groups: give one of them", ExitStatus.USAGE)
    if arguments.group or arguments.no_groups:
        body["groups"] = arguments.group or []
    if arguments.disabled is not None:
        body["disabled"] = arguments.disabled
    if not body:
        raise CommandError(
            "nothing is to be changed; give --group, --no-groups, --disable or --enable", ExitStatus.USAGE
        )
    with Client.of(arguments) as client:
        user = client.call("PATCH", access_path("users", arguments.name), body).document
    ended = user.get("sessionsEnded") or 0
    tell(f"{arguments.name} is {state_of(user)}, in: {', '.join(user['groups']) or 'no group'}" + _ended(ended))
    return ExitStatus.OK


def _password(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        client.refuse_open_way("a password")
        if arguments.name is not None:
            body = {"password": _new_password(arguments, arguments.name)}
            user = client.call("PATCH", access_path("users", arguments.name), body).document
            tell(f"{arguments.name} has a new password{_ended(user.get('sessionsEnded') or 0)}")
            return ExitStatus.OK
        return _own_password(arguments, client)


def _own_password(arguments: argparse.Namespace, client: Client) -> int:
    """No token changes a password: it takes a login with the old one."""
    if arguments.password_stdin:
        raise CommandError("--password-stdin: your own password is typed; name a user to set theirs", ExitStatus.USAGE)
    who = str(client.get("/api/v1/whoami").get("user") or "")
    if not who.startswith("user:"):
        raise CommandError("you are no user who has a password here; log in first (`etcron login`)", ExitStatus.NO)
    name = who.removeprefix("user:")
    old = typed(f"password of {name} as it is", option="the console")
    new = typed("new password", option="the console", twice=True)
    with Client(client.servers, ca=client.ca) as alone, opened(alone, name, old) as session:
        alone.post("/api/v1/password", {"old": old, "new": new}, session)
    tell("you have a new password; your other sessions are over")
    return ExitStatus.OK


def _new_password(arguments: argparse.Namespace, name: str) -> str:
    if arguments.password_stdin:
        return from_stdin("--password-stdin")
    return typed(f"new password of {name}", option="--password-stdin", twice=True)


def _ended(sessions: int) -> str:
    if not sessions:
        return ""
    return f"; {sessions} session{'' if sessions == 1 else 's'} of theirs ended"
