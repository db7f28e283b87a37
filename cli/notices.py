"""`etcron notice list`, `resend`: the messages of each channel, and whether they were sent."""

from __future__ import annotations

import argparse
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.client import Client, Document, access_path, go_through
from cli.printing import print_records
from cli.times import local

NOTICES: Final = "/api/v1/notices"
_STATES: Final = ("waiting", "sending", "sent", "failed")


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron notice", "A notice is a message to one channel; notices are kept for 30 days.")
    listing = add_command(
        verbs, "list", _list, does="list notices, the newest first",
        examples=("etcron notice list --state failed", "etcron notice list --channel ops --limit 20"),
    )  # fmt: skip
    resend = add_command(
        verbs, "resend", _resend, does="send notices again",
        examples=("etcron notice resend 0f2b6f3a5d0c4e7f9a1b2c3d4e5f6071",),
    )  # fmt: skip
    listing.add_argument("--state", choices=_STATES, help="of this state alone")
    listing.add_argument("--channel", metavar="CHANNEL", help="to this channel alone")
    listing.add_argument("--limit", type=count(1, 10_000), default=100, metavar="N", help="at most N (100)")
    resend.add_argument("ids", metavar="ID", nargs="+")
    add_output(listing)
    for command in (listing, resend):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    query = {"state": arguments.state, "channel": arguments.channel}
    with Client.of(arguments) as client:
        notices = list(client.items(NOTICES, query, limit=arguments.limit, warnings=[]))
    heads = ("ID", "CHANNEL", "STATE", "WHAT", "CREATED", "SENT", "ERROR")
    return print_records(arguments.output, heads, notices, _row, none="no notices", spare=("CREATED", "SENT"))


def _row(notice: Document) -> tuple[str, ...]:
    return (
        str(notice["id"]), str(notice.get("channel")), str(notice.get("state")), _what(notice),
        local(notice.get("createdTime")), local(notice.get("sentTime")), str(notice.get("error") or "-"),
    )  # fmt: skip


def _what(notice: Document) -> str:
    events = notice.get("events") or ()
    if notice.get("total") == 1 and events:
        return f"{events[0].get('job') or events[0].get('subject') or 'the system'} {events[0].get('kind')}"
    return "a test" if notice.get("kind") == "test" else f"{notice.get('total')} events"


def _resend(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:

        def resend(notice: str) -> str:
            client.post(f"{access_path('notices', notice)}/resend")
            return f"{notice}: it waits to be sent again"

        return go_through(arguments.ids, resend)
