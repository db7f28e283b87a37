"""`etcron worker list`, `drain`, `undrain`, `forget`: the workers as a manager sees them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from cli.arguments import Parser, add_command, add_group, add_output, add_reason, add_server
from cli.client import PATIENCE_S, Client, Document, Patience, delete_each, go_through, worker_path
from cli.errors import CommandError, ExitStatus
from cli.printing import one_line, print_json, print_table, say, warn
from cli.times import local

_HEADS: Final = (
    "NAME", "STATE", "RUNNING", "SLOTS", "WAITING", "UNSENT", "CLOCK", "HOST", "ADDRESS", "SINCE", "VERSION", "WHY",
)  # fmt: skip
_SPARE: Final = ("ADDRESS", "VERSION", "SINCE", "HOST", "UNSENT", "CLOCK", "WAITING")
_LOOK_S: Final = 1.0
_STOPPED: Final = ("stopped", "drained")
"""How a worker leaves of which nothing goes on."""


def parser() -> Parser:
    """The command line of the group."""
    group, verbs = add_group("etcron worker", "The workers, as a manager sees them. `etcron start worker` starts one.")
    listing = add_command(
        verbs, "list", _list, does="list the workers, also those that have left, with state and slots",
        examples=("etcron worker list", "etcron worker list -o json | jq '.[].name'"),
    )  # fmt: skip
    add_output(listing)
    drain = add_command(
        verbs, "drain", _drain, does="let workers take no new fires; their runs go on",
        examples=("etcron worker drain worker-1 --reason 'kernel update' --wait",),
    )  # fmt: skip
    undrain = add_command(
        verbs, "undrain", _undrain, does="let drained workers take fires again",
        examples=("etcron worker undrain worker-1",),
    )  # fmt: skip
    forget = add_command(
        verbs, "forget", partial(delete_each, "workers"), does="forget workers that have left for good",
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
        none = "no workers: nothing fires until one starts"
        print_table(_HEADS, map(_row, page["items"]), none=none, spare=_SPARE)
        if page["items"] and not any(worker.get("session") for worker in page["items"]):
            warnings.append("no worker is live: nothing fires until one starts")
    warn(warnings)
    return ExitStatus.OK


def _row(worker: Document) -> tuple[str, ...]:
    beat, offset_ms, why = worker.get("beat") or {}, worker.get("clockOffsetMs"), worker.get("problem")
    clock = None  # how far it is from the others'; nothing where it is not compared
    if offset_ms is not None:
        clock = f"{offset_ms:+d}ms" if abs(offset_ms) < 1000 else f"{offset_ms / 1000:+.1f}s"
    if not why and (drained := worker.get("drained")):
        why = f"drained by {drained.get('by')}" + (f": {drained['reason']}" if drained.get("reason") else "")

    def cell(value: object) -> str:
        return "-" if value is None or value == "" else str(value)

    return (
        cell(worker.get("name") or worker.get("key")), cell(worker.get("state")), cell(beat.get("running")),
        cell(worker.get("slots")), cell(beat.get("waiting")), cell(beat.get("unsentRecords")),
        cell(clock), cell(worker.get("host")),
        cell(worker.get("address")), local(worker.get("sinceMs") or worker.get("seenMs")), cell(worker.get("version")),
        cell(why),
    )  # fmt: skip


def _drain(arguments: argparse.Namespace) -> int:
    body = {} if arguments.reason is None else {"reason": arguments.reason}
    with Client.of(arguments) as client:
        if stops_all(client.get("/api/v1/workers")["items"], arguments.names):
            warn(["no other worker takes fires: nothing fires until one is undrained, or another one starts"])
    status = _each(arguments, "drain", body, "takes no new fires; what runs there goes on")
    if arguments.wait and status == ExitStatus.OK:
        with Client.of(arguments) as client:
            wait_until_drained(client, arguments.names)
    return status


def stops_all(workers: Iterable[Document], names: Collection[str]) -> bool:
    """Whether nothing fires any more once these are drained."""
    taking = {one.get("name") for one in workers if one.get("state") == "accepting"}
    return bool(taking) and taking <= set(names)


def _undrain(arguments: argparse.Namespace) -> int:
    return _each(arguments, "undrain", {}, "takes fires again")


def _each(arguments: argparse.Namespace, verb: str, body: Document, done: str) -> int:
    with Client.of(arguments) as client:

        def act(name: str) -> str:
            answer = client.post(worker_path(name, verb), body) or {}
            return str(answer.get("message") or f"{name} {done}")

        return go_through(arguments.names, act)


# Waiting for a drain


def wait_until_drained(
    client: Client,
    names: Iterable[str],
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """No run goes on on these workers, or they have stopped. What it waits for is printed when it changes.

    CommandError: one takes fires again (conflict), or nothing was heard for a minute, of it or at all (unavailable).
    """
    left, patience, shown = set(names), Patience(monotonic), ""
    idle: dict[str, int] = {}
    silent: dict[str, float] = {}
    while True:
        try:
            page = client.get("/api/v1/workers")
            if page.get("warnings"):  # etcd is away: what is shown is old
                raise CommandError(str(page["warnings"][0]), ExitStatus.UNAVAILABLE)
            patience.heard()
        except CommandError as error:
            if not patience.bears(error):
                raise
        else:
            workers = {one.get("name"): one for one in page["items"] if one.get("name") in left}
            goes_on = {name: _goes_on(workers.get(name), idle) for name in sorted(left)}
            _refuse_silence([name for name, known in goes_on.items() if known is None], silent, monotonic())
            left = {name for name, known in goes_on.items() if known is not False}
            running = {name: ((workers.get(name) or {}).get("beat") or {}).get("running") for name in sorted(left)}
            words = ", ".join(
                f"{name} ({'not known yet' if count is None else f'{count} running'})"
                for name, count in running.items()
            )
            if not left:
                return
            if words != shown:
                shown = words
                say(one_line(f"waiting for what runs on {words}; Ctrl-C ends the waiting, not the drain"))
        sleep(_LOOK_S)


def _refuse_silence(names: Collection[str], silent: dict[str, float], now: float) -> None:
    """CommandError: one of these has said nothing for too long. ``silent``: since when each has said nothing."""
    for name in silent.keys() - names:
        del silent[name]
    for name in names:
        if now - silent.setdefault(name, now) > PATIENCE_S:
            message = f"{name} went without a word: what ran there may go on; look there, or wait for it again"
            raise CommandError(message, ExitStatus.UNAVAILABLE)


def _goes_on(worker: Document | None, idle: dict[str, int]) -> bool | None:
    """None: it is not live, and has not said that it stops. CommandError: it was undrained meanwhile.

    ``idle``: the beats by which workers had nothing to run any more. It takes two of them: the first may have been put
    before a run that was claimed just before the drain.
    """
    if worker is None:
        return None
    if not worker.get("drained"):
        raise CommandError(f"{worker['name']} is not drained any more: it was undrained meanwhile", ExitStatus.CONFLICT)
    beat, state = worker.get("beat"), worker.get("state")
    if state == "drained" and beat is not None:
        return bool(idle.setdefault(worker["name"], beat["wallMs"]) == beat["wallMs"])
    if state == "draining":
        idle.pop(worker["name"], None)
        return True
    return False if worker.get("left") in _STOPPED else None
