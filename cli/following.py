"""A run is followed to its end: what it prints, as it is printed, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from cli.client import PATIENCE_S, Client, Document, Event, Patience, run_path
from cli.errors import CommandError, ExitStatus
from cli.printing import one_line, print_part, say
from cli.times import took

_FIRST_LOOK_S: Final = 0.1
_LONGEST_LOOK_S: Final = 2.0
_SOON_S: Final = 5.0
"""The record of a run that has ended may take this long before a note says that it is awaited."""
_AGAIN_S: Final = 1.0


def verdict(run: Document) -> str:
    """Its status, or where it is on the way to one."""
    return str(run.get("status") or run.get("state") or "-")


def why(run: Document) -> str:
    """Why it did not succeed, or did not run."""
    text = str(run.get("err") or run.get("reason") or "")
    return f"{text} ({run['count']} fires)" if run.get("count") else text


def follow(client: Client, run_id: str, *, sleep: Callable[[float], None] = time.sleep) -> Document:
    """Prints what the run prints until it has its verdict; the run then. Ctrl-C ends the looking, not the run.

    A connection that ends is made anew, and goes on where it was. CommandError (unavailable) after a minute without an
    answer.
    """
    shown, patience = _Shown(run_id), Patience(time.monotonic)
    while True:
        try:
            for event in client.events(run_path(run_id, "output"), {"follow": "true"}, place=shown.place):
                patience.heard()
                shown.show(event)
                if event.kind == "end":
                    return wait_for_end(client, run_id)
        except CommandError as error:
            if not patience.bears(error):
                raise
        sleep(_AGAIN_S)


class _Shown:
    """What of a run's output is on stdout, and what is printed beside it."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._warned: str | None = None
        self._is_within_line = False
        self.place = 0

    def show(self, event: Event) -> None:
        match event.kind:
            case "chunk":
                text = str(event.data["text"])
                print_part(text)
                self._is_within_line = not text.endswith("\n")
            case "gap":
                self._end_line()
                say(f"... {event.data['to'] - event.data['from']:,} bytes are not shown ...")
            case "state":
                self._say_why(event.data.get("why"))
            case "end":
                self._end_line()
            case _:
                pass  # progress: the output has it, too
        self.place = self.place if event.place is None else event.place

    def _say_why(self, why: str | None) -> None:
        if why is not None and why != self._warned:
            say(f"{self._run_id}: {why}")
        self._warned = why

    def _end_line(self) -> None:
        if self._is_within_line:
            print_part("\n")
            self._is_within_line = False


def tell_end(run_id: str, run: Document) -> int:
    """What became of it, on stderr; the exit status."""
    reason = f": {why(run)}" if why(run) else ""
    on = f" on {run['worker']}" if run.get("worker") else ""
    length = f" (took {took(run['startTime'], run.get('endTime'))}{on})" if run.get("startTime") else ""
    say(one_line(f"{run_id}: {verdict(run)}{reason}{length}"))
    return ExitStatus.OK if run.get("status") == "success" else ExitStatus.NO


def wait_for_end(
    client: Client,
    run_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Document:
    """The run once it has its verdict. CommandError (unavailable) after a minute without an answer, or the record."""
    pause_s, patience, state = _FIRST_LOOK_S, Patience(monotonic), ""
    without_record = _WithoutRecord(run_id)
    while True:
        try:
            run: Document = client.get(run_path(run_id))
            patience.heard()
        except CommandError as error:
            if not patience.bears(error):
                raise CommandError(
                    f"{error}\nthe run is {run_id}: it goes on, look at it later", error.status
                ) from error
        else:
            if run.get("state") == "finished" or run.get("status"):
                return run
            without_record.seen(str(run.get("state")), patience.heard_at)
            if run.get("state") != state:
                # Each step of its life is looked at closely, a long one with patience.
                state, pause_s = str(run.get("state")), _FIRST_LOOK_S
        sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)


class _WithoutRecord:
    """When the run ended, while its record still waits on a worker for the log store."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._since: float | None = None
        self._is_reported = False

    def seen(self, state: str, now: float) -> None:
        """Say so once. CommandError (unavailable) after a minute of it."""
        if state != "ended":
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since > PATIENCE_S:
            raise CommandError(
                f"{self._run_id} has ended, and what became of it cannot be read: its record waits on its worker for "
                f"the log store\nlook at it later: etcron run show '{self._run_id}'",
                ExitStatus.UNAVAILABLE,
            )
        if now - self._since > _SOON_S and not self._is_reported:
            self._is_reported = True
            say(f"{self._run_id} has ended; its record, which has the verdict, waits for the log store")
