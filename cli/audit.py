"""`etcron audit`: who did what, and whether what is kept of it holds together."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.client import Client, Document
from cli.errors import ExitStatus
from cli.printing import complain, print_json, print_table, say_where_cut, tell, value_text, warn
from cli.times import instant, local

_OUTCOMES = ("done", "refused", "failed", "in doubt")


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group(
        "etcron audit", "The audit: each login, refusal, change, run and kill. For administrators."
    )
    listing = add_command(
        verbs, "list", _list, does="list who did what, newest first",
        examples=(
            "etcron audit list --from 24h",
            "etcron audit list --object 'job backup' --from 30d",
            "etcron audit list --who alice --outcome refused -o json",
        ),
    )  # fmt: skip
    verify = add_command(
        verbs, "verify", _verify,
        does="look for entries that were changed, removed or inserted; status 1 if there are any",
        examples=("etcron audit verify", "etcron audit verify -o json"),
    )  # fmt: skip
    listing.add_argument("--who", metavar="NAME", help="by them, e.g. alice")
    listing.add_argument("--action", metavar="WORD", help="only this, e.g. job.save, run.kill, login")
    listing.add_argument("--object", metavar="WHAT", help="on this, e.g. 'job backup' or 'user alice'")
    listing.add_argument("--outcome", choices=_OUTCOMES, help="that came to this")
    for option, does in (("--from", "that time or later"), ("--to", "before that time")):
        listing.add_argument(
            option, dest=option[2:] + "_", metavar="TIME", help=f"{does}: ISO 8601, or 30m, 24h, 7d ago"
        )
    listing.add_argument("--limit", type=count(1, 1_000_000), default=50, metavar="N", help="at most N (50)")
    for command in (listing, verify):
        add_server(command)
        add_output(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    now = datetime.now(UTC)
    query = {
        "who": arguments.who, "action": arguments.action, "object": arguments.object, "outcome": arguments.outcome,
        "from": instant("--from", arguments.from_, now=now), "to": instant("--to", arguments.to_, now=now),
    }  # fmt: skip
    warnings: list[str] = []
    with Client.of(arguments) as client:
        entries = list(client.items("/api/v1/audit", query, limit=arguments.limit, warnings=warnings))
    warn(warnings)
    if arguments.output == "json":
        print_json(entries)
        return ExitStatus.OK
    heads = ("TIME", "WHO", "VIA", "ADDRESS", "ACTION", "OBJECT", "OUTCOME", "DETAILS")
    print_table(heads, map(_row, entries), none="no entries", spare=("DETAILS", "VIA", "ADDRESS"))
    say_where_cut(len(entries), arguments.limit)
    return ExitStatus.OK


def _row(entry: Document) -> tuple[str, ...]:
    words = (str(entry[name]) or "-" for name in ("who", "via", "address", "action", "object", "outcome"))
    return (local(entry["ms"]), *words, _details(entry["details"]) or "-")


def _details(details: Document) -> str:
    """In one line: the fields that have changed, each as it was and is, and what else there is to say."""
    others = {name: value for name, value in details.items() if name != "changes"}
    changes = details.get("changes", {})
    changed = [f"{field}: {_change(change)}" for field, change in changes.items()]
    return "; ".join(changed + [f"{name}: {_brief(value)}" for name, value in others.items()])


def _change(change: Any) -> str:
    if not isinstance(change, dict):
        return _brief(change)
    if "from" in change or "to" in change:
        return f"{_brief(change.get('from'))} -> {_brief(change.get('to'))}"
    return ", ".join(
        f"{what} {' '.join(names)}" for what, names in change.items()
    )  # of variables there are names alone


def _brief(value: Any) -> str:
    if value in (None, "", [], {}):
        return "none"
    match value:
        case {"begins": str(begins), "characters": characters}:
            return f"{begins}... ({characters} characters)"
        case dict():
            return ", ".join(
                f"{name}={'|'.join(map(value_text, one if isinstance(one, list) else [one]))}"
                for name, one in value.items()
            )
        case list():
            return ", ".join(map(value_text, value))
        case _:
            return value_text(value)


def _verify(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        chains = list(_chains(client))
    broken = [chain for chain in chains if chain["problem"]]
    if arguments.output == "json":
        print_json({"whole": not broken, "items": chains})
        return ExitStatus.NO if broken else ExitStatus.OK
    for chain in broken:
        complain(f"{chain['chain']}: {chain['problem']}")
    entries, waiting = (sum(chain[name] for chain in chains) for name in ("entries", "waiting"))
    many = "1 chain is" if len(chains) == 1 else f"{len(chains)} chains are"
    state = f"{len(broken)} of {len(chains)} chains broken" if broken else f"{many} whole"
    later = f"; {_entries(waiting)} {'waits' if waiting == 1 else 'wait'} on managers' disks" if waiting else ""
    tell(f"{state}: {_entries(entries)}{later}")
    return ExitStatus.NO if broken else ExitStatus.OK


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _chains(client: Client) -> Iterable[Document]:
    cursor: str | None = None
    while True:
        page = client.get("/api/v1/audit/verify", {"cursor": cursor})
        yield from page["items"]
        if (cursor := page["nextCursor"]) is None:
            return
