"""`etcron worker list`, `drain`, `undrain`, `forget`: the workers as a manager sees them.

`etcron worker` alone starts one.
"""

from __future__ import annotations

import argparse

from cli.arguments import Parser, add_command, add_group, add_output, add_reason, add_server
from cli.client import Client, Document, worker_path
from cli.errors import ExitStatus
from cli.printing import print_json, print_table, warn
from cli.times import local
from cli.usual import go_through
from cli.worker_draining import wait_until_drained


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron worker", "The workers. Without one of these commands, etcron worker starts one.")
    listing = add_command(
        verbs, "list", _list, does="every worker, also those that have left: its state, its slots, what runs on it",
        examples=("etcron worker list", "etcron worker list -o json | jq '.[].name'"),
    )  # fmt: skip
    add_output(listing)
    drain = add_command(
        verbs, "drain", _drain, does="workers take no new fires; what runs there goes on to its end",
        examples=("etcron worker drain worker-1 --reason 'kernel update' --wait",),
    )  # fmt: skip
    undrain = add_command(
        verbs,
        "undrain",
        _undrain,
        does="drained workers take fires again",
        examples=("etcron worker undrain worker-1",),
    )
    forget = add_command(
        verbs, "forget", _forget, does="workers that have left for good are remembered no more",
        examples=("etcron worker forget worker-3",),
    )  # fmt: skip
    add_reason(drain)
    drain.add_argument("--wait", action="store_true", help="wait until nothing runs there any more")
    for command in (drain, undrain, forget):
        command.add_argument("names", metavar="NAME", nargs="+")
    for command in (listing, drain, undrain, forget):
        add_server(command)
    return group


def _list(arguments: argparse.Namespace) -> int:
    warnings: list[str] = []
    with Client.of(arguments) as client:
        page = client.get("/api/v1/workers")
    warnings += page.get("warnings") or ()
    if arguments.output == "json":
        print_json(page["items"])
    else:
        heads = (
            "NAME",
            "STATE",
            "RUNNING",
            "SLOTS",
            "WAITING",
            "UNSENT",
            "CLOCK",
            "HOST",
            "ADDRESS",
            "SINCE",
            "VERSION",
            "WHY",
        )
        print_table(
            heads, [_row(worker) for worker in page["items"]], none="no workers: nothing fires until one starts"
        )
        if page["items"] and not any(worker.get("session") for worker in page["items"]):
            warnings.append("no worker is live: nothing fires until one starts")
    warn(warnings)
    return ExitStatus.OK


def _row(worker: Document) -> tuple[str, ...]:
    beat = worker.get("beat") or {}

    def told(value: object) -> str:
        return "-" if value is None or value == "" else str(value)

    return (
        told(worker.get("name") or worker.get("key")), told(worker.get("state")), told(beat.get("running")),
        told(worker.get("slots")), told(beat.get("waiting")), told(beat.get("unsentRecords")),
        told(_clock(worker)), told(worker.get("host")),
        told(worker.get("address")), local(worker.get("sinceMs") or worker.get("seenMs")), told(worker.get("version")),
        told(worker.get("problem") or _drained(worker)),
    )  # fmt: skip


def _clock(worker: Document) -> str:
    """How far its clock is from the others'; nothing where it is not compared."""
    offset_ms = worker.get("clockOffsetMs")
    if offset_ms is None:
        return ""
    return f"{offset_ms:+d}ms" if abs(offset_ms) < 1000 else f"{offset_ms / 1000:+.1f}s"


def _drained(worker: Document) -> str:
    drained = worker.get("drained")
    if not drained:
        return ""
    return f"drained by {drained.get('by')}" + (f": {drained['reason']}" if drained.get("reason") else "")


def _drain(arguments: argparse.Namespace) -> int:
    body = {} if arguments.reason is None else {"reason": arguments.reason}
    status = _each(arguments, "drain", body, "takes no new fires; what runs there goes on")
    if arguments.wait and status == ExitStatus.OK:
        with Client.of(arguments) as client:
            wait_until_drained(client, arguments.names)
    return status


def _undrain(arguments: argparse.Namespace) -> int:
    return _each(arguments, "undrain", {}, "takes fires again")


def _forget(arguments: argparse.Namespace) -> int:
    with Client.of(arguments) as client:
        return go_through(arguments.names, lambda name: _forgotten(client, name))


def _forgotten(client: Client, name: str) -> str:
    return str(client.call("DELETE", worker_path(name)).document["message"])


def _each(arguments: argparse.Namespace, verb: str, body: Document, done: str) -> int:
    with Client.of(arguments) as client:

        def act(name: str) -> str:
            answer = client.post(worker_path(name, verb), body) or {}
            return str(answer.get("message") or f"{name} {done}")

        return go_through(arguments.names, act)
