"""`etcron channel list`, `show`, `add`, `test`, `remove`: the places that messages go to."""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_server, count
from cli.bindings import selector
from cli.client import Client, Document, access_path, delete_each
from cli.errors import ExitStatus
from cli.printing import print_json, print_pairs, print_records, tell, value_text, warn
from cli.times import local

CHANNELS: Final = "/api/v1/channels"
_KINDS: Final = ("email", "webhook", "slack", "command")
_TEST_S: Final = 60.0
_LOOK_S: Final = 0.5
_FIELDS: Final = {
    "to": "to", "from": "sender", "host": "host", "port": "port", "tls": "tls", "user": "user",
    "passwordSecret": "password_secret", "url": "url", "urlSecret": "url_secret", "signingSecret": "signing_secret",
    "job": "job", "description": "description",
}  # fmt: skip


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron channel", "A channel is a place that messages go to; rules and jobs name it.")
    listing = add_command(verbs, "list", _list, does="list the channels", examples=("etcron channel list",))
    show = add_command(verbs, "show", _show, does="show a channel", examples=("etcron channel show ops",))
    add = add_command(
        verbs, "add", _add, does="add a channel, or replace one",
        examples=(
            "etcron channel add ops email --to ops@example.org --from etcron@example.org --host mail.example.org",
            "etcron channel add pager webhook --url https://hooks.example.org/etcron --signing-secret hook-key",
            "etcron channel add dev slack --url-secret slack-url --labels team=dev",
            "etcron channel add phone command --job page-someone",
        ),
    )  # fmt: skip
    test = add_command(
        verbs, "test", _test, does="send a test message, and say what came of it", examples=("etcron channel test ops",)
    )
    remove = add_command(
        verbs, "remove", partial(delete_each, "channels"), does="remove channels that no rule and no job names",
        examples=("etcron channel remove ops",),
    )  # fmt: skip
    for command in (show, add, test):
        command.add_argument("name", metavar="NAME")
    remove.add_argument("names", metavar="NAME", nargs="+")
    _add_fields(add)
    for command in (listing, show):
        add_output(command)
    for command in (listing, show, add, test, remove):
        add_server(command)
    return group


def _add_fields(add: Parser) -> None:
    add.add_argument("kind", choices=_KINDS, metavar="KIND", help=", ".join(_KINDS))
    add.add_argument(
        "--labels",
        action="append",
        metavar="LABEL=VALUE",
        help="of the jobs that may use it; all by default (repeatable)",
    )
    add.add_argument("--to", action="append", metavar="ADDRESS", help="email: who gets the mails (repeatable)")
    add.add_argument("--from", dest="sender", metavar="ADDRESS", help="email: whom they come from")
    add.add_argument("--host", metavar="HOST", help="email: the mail server")
    add.add_argument("--port", type=count(1, 65_535), metavar="N", help="email: its port (587; tls: 465, none: 25)")
    add.add_argument("--tls", choices=("starttls", "tls", "none"), help="email: how the way is secured (starttls)")
    add.add_argument("--user", metavar="NAME", help="email: who logs in there")
    add.add_argument("--password-secret", metavar="NAME", help="email: the secret with the password")
    add.add_argument("--url", metavar="URL", help="webhook, slack: where to")
    add.add_argument("--url-secret", metavar="NAME", help="webhook, slack: the secret with the URL, in place of --url")
    add.add_argument("--signing-secret", metavar="NAME", help="webhook: the secret that messages are signed with")
    add.add_argument("--job", metavar="JOB", help="command: each message asks for a run of it")
    add.add_argument("--description", metavar="TEXT", help="what it is for")
    add.add_argument("--replace", action="store_true", help="replace one of this name")


def _list(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        channels = list(client.items(CHANNELS, {}, warnings=[]))
    heads = ("NAME", "KIND", "TO", "STATE", "LAST SENT", "DESCRIPTION")
    return print_records(
        arguments.output,
        heads,
        channels,
        _row,
        none="no channels: no messages are sent",
        spare=("DESCRIPTION", "LAST SENT"),
    )


def _row(channel: Document) -> tuple[str, ...]:
    return (
        str(channel["name"]), str(channel.get("kind") or "-"), _where(channel), _state(channel),
        local((channel.get("state") or {}).get("lastSentTime")), str(channel.get("description") or "-"),
    )  # fmt: skip


def _where(channel: Document) -> str:
    secret = f"secret {channel['urlSecret']}" if channel.get("urlSecret") else "-"
    return ", ".join(channel.get("to") or ()) or str(channel.get("url") or channel.get("job") or secret)


def _state(channel: Document) -> str:
    if channel.get("problem"):
        return f"broken: {channel['problem']}"
    state = channel.get("state")
    if state is None:
        return "unknown"
    counts = [f"{state[word]} {word}" for word in ("waiting", "failed") if state.get(word)]
    return ", ".join(counts) or "ok"


def _show(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        channel = client.get(access_path("channels", arguments.name))
    if arguments.output == "json":
        print_json(channel)
        return ExitStatus.OK
    others = ("name", "state", "createdTime", "createdBy", "changedTime")
    pairs = [("name", str(channel["name"])), ("state", _state(channel))]
    pairs += [(field, value_text(value)) for field, value in channel.items() if field not in others]
    if (error := (channel.get("state") or {}).get("lastError")) is not None:
        pairs.append(("last error", error))
    pairs.append(("added", f"{local(channel.get('createdTime'))} by {channel.get('createdBy') or '-'}"))
    print_pairs(pairs)
    return ExitStatus.OK


def _add(arguments: argparse.Namespace) -> int:
    given = {field: getattr(arguments, option) for field, option in _FIELDS.items()}
    body: Document = {"kind": arguments.kind, **{field: value for field, value in given.items() if value is not None}}
    if arguments.labels:
        body["labels"] = selector("--labels", arguments.labels)
    with Client.of(arguments) as client:
        saved = save_record(client, "channels", arguments.name, body, replace=arguments.replace)
    warn(saved.get("warnings") or ())
    tell(f"channel {arguments.name} is saved; `etcron channel test {arguments.name}` sends a test")
    return ExitStatus.OK


def save_record(client: Client, kind: str, name: str, body: Document, *, replace: bool) -> Document:
    """What the manager says of a channel or a rule that is added, or takes the place of another."""
    if replace:
        document: Document = client.call("PUT", access_path(kind, name), body).document
    else:
        document = client.post(f"/api/v1/{kind}", {"name": name, **body})
    return document


def _test(arguments: argparse.Namespace) -> int:
    name, until = arguments.name, time.monotonic() + _TEST_S
    with Client.of(arguments) as client:
        notice_id = client.post(f"{access_path('channels', name)}/test")["notice"]
        while True:
            notice = client.get(access_path("notices", notice_id))
            if notice["state"] in ("sent", "failed") or time.monotonic() > until:
                break
            time.sleep(_LOOK_S)
    reason = f": {notice['error']}" if notice.get("error") else ""
    tell(f"channel {name}: the test is {notice['state']}{reason}")
    if notice["state"] == "sent":
        return ExitStatus.OK
    return ExitStatus.NO if notice["state"] == "failed" else ExitStatus.UNAVAILABLE
