"""`etcron session list`, `revoke`: who is logged in, and how to end that."""

from __future__ import annotations

import argparse
from functools import partial

from cli.arguments import Parser, add_command, add_group, add_output, add_server
from cli.client import Client, Document, delete_each
from cli.printing import print_records, warn
from cli.times import local

SESSIONS = "/api/v1/sessions"


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron session", "Logins of browsers. Those of this command line are tokens.")
    listing = add_command(
        verbs, "list", _list, does="list your sessions, or another user's",
        examples=("etcron session list", "etcron session list --user alice"),
    )  # fmt: skip
    revoke = add_command(
        verbs, "revoke", partial(delete_each, "sessions", named=True),
        does="end sessions", examples=("etcron session revoke 5f0c21ab34de",),
    )  # fmt: skip
    listing.add_argument("--user", metavar="NAME", help="another user; for administrators")
    revoke.add_argument("names", metavar="ID", nargs="+")
    add_output(listing)
    for command in (listing, revoke):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        page = client.get(SESSIONS, {"user": arguments.user})
    warn(page.get("warnings") or ())
    heads, spare = ("ID", "USER", "WAY", "ADDRESS", "SINCE", "UNTIL", "BROWSER"), ("UNTIL", "BROWSER", "USER")
    return print_records(arguments.output, heads, page["items"], _row, none="no sessions", spare=spare)


def _row(session: Document) -> tuple[str, ...]:
    return (
        str(session["id"]), str(session.get("user")), str(session.get("way")), str(session.get("address")),
        local(session.get("createdMs")), local(session.get("expiresMs")), str(session.get("agent") or "-"),
    )  # fmt: skip
