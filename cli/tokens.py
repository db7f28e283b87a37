"""`etcron token list`, `add`, `revoke`: what lets programs in."""

from __future__ import annotations

import argparse
from functools import partial

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.bindings import ROLES
from cli.client import Client, Document, delete_each
from cli.errors import ExitStatus
from cli.login import opened
from cli.printing import print_json, print_records, say, tell, warn
from cli.secret_text import from_stdin, typed
from cli.times import local

TOKENS = "/api/v1/tokens"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron token", "Tokens let programs in, as you or as a service account.")
    listing = add_command(
        verbs, "list", _list, does="list your tokens, or another owner's; never their secrets",
        examples=("etcron token list", "etcron token list --owner service:deploy"),
    )  # fmt: skip
    add = add_command(
        verbs, "add", _add, does="make a token, and print it this once",
        examples=(
            "etcron token add 'backup script' --role viewer --days 30",
            "etcron token add pipeline --owner service:deploy > token",
        ),
    )  # fmt: skip
    revoke = add_command(
        verbs, "revoke", partial(delete_each, "tokens", named=True),
        does="end tokens", examples=("etcron token revoke 5f0c21ab34de",),
    )  # fmt: skip
    add.add_argument("name", metavar="NAME", help="what it is for")
    add.add_argument(
        "--password-stdin", action="store_true", help="your password, where it is asked for, is the first line of stdin"
    )
    add.add_argument("--days", type=count(1, 10_000), metavar="N", help="how long it is good (90)")
    add.add_argument("--role", choices=ROLES, help="it may do no more than this (what its owner may)")
    for command in (listing, add):
        command.add_argument("--owner", metavar="OWNER", help="service:NAME, or user:NAME; for administrators (you)")
    revoke.add_argument("names", metavar="ID", nargs="+")
    for command in (listing, add):
        add_output(command)
    for command in (listing, add, revoke):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        page = client.get(TOKENS, {"owner": arguments.owner})
    warn(page.get("warnings") or ())
    heads = ("ID", "NAME", "OWNER", "ROLE", "EXPIRES", "MADE", "BY")
    return print_records(arguments.output, heads, page["items"], _row, none="no tokens", spare=("BY", "MADE", "OWNER"))


def _row(token: Document) -> tuple[str, ...]:
    expires = local(token.get("expiresMs"))
    return (
        str(token["id"]), str(token.get("name")), str(token.get("owner")), str(token.get("role") or "-"),
        f"{expires} (expired)" if token.get("expired") else expires, local(token.get("createdMs")),
        str(token.get("createdBy") or "-"),
    )  # fmt: skip


def _add(arguments: argparse.Namespace) -> int:
    wish = {"name": arguments.name, "days": arguments.days, "role": arguments.role, "owner": arguments.owner}
    body = {name: value for name, value in wish.items() if value is not None}
    with Client.of(arguments) as client:
        who = client.get("/api/v1/whoami") if arguments.owner is None else {}
        if who.get("via") == "token" and str(who.get("user")).startswith("user:"):
            made = _by_password(arguments, client, str(who["user"]).removeprefix("user:"), body)
        else:
            made = client.post(TOKENS, body)
    if arguments.output == "json":
        print_json(made)
    else:
        tell(str(made["token"]))
        say(f"token {made['id']} of {made['owner']}, good until {local(made['expiresMs'])}; it is shown this once")
    return ExitStatus.OK


def _by_password(arguments: argparse.Namespace, client: Client, user: str, body: Document) -> Document:
    """A token makes no further token of its owner, so that a thief of one cannot keep it: a password does."""
    client.refuse_open_way("your password")
    if arguments.password_stdin:
        password = from_stdin("--password-stdin")
    else:
        password = typed(f"password of {user}", option="--password-stdin")
    with Client(client.servers, ca=client.ca) as alone, opened(alone, user, password) as session:
        made: Document = alone.post(TOKENS, body, session)
    return made
