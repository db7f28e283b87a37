"""What a worker and its guardian say to each other: one line each, a JSON array, the kind first. Pure.

A line is shorter than a pipe's atomic write (4096 bytes): it arrives whole or not at all, whichever process is killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Intent:
    """A process of this run is about to be started."""

    run: str
    session: str
    """The id of the session that its run key names."""
    confirmed: float
    """The boot clock, in seconds, when that session's newest confirmed keep-alive was sent."""
    allowance_s: float | None
    """How long after that the run may go on; None: for ever."""
    grace_s: float
    """Between TERM and KILL."""
    locked: bool
    """Whether it holds its job's lock."""
    pid: int | None = None
    """Of its process, where it has one already: a new guardian must at no moment take it for one that is to start."""
    began: float = 0.0
    reported: float = 0.0
    """As of a ``Group``."""


@dataclass(frozen=True, slots=True)
class Group:
    """The run has a process, leader of its group and of its session."""

    run: str
    pid: int
    began: float = 0.0
    """The boot clock, in seconds, before it was started."""
    reported: float = 0.0
    """And after that: a process of this number that began in between is this one."""


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing of the run is left, or nothing of it was started."""

    run: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The run's key names another session now."""

    run: str
    session: str
    confirmed: float


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A session was confirmed: its key was there when this keep-alive was sent (boot clock, seconds)."""

    session: str
    confirmed: float


@dataclass(frozen=True, slots=True)
class Ending:
    """The worker has sent a TERM to all of a run that is past its deadline, and sees to the rest."""

    run: str


@dataclass(frozen=True, slots=True)
class Ping:
    """Are you there?"""

    number: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The guardian holds its lock, and guards."""


@dataclass(frozen=True, slots=True)
class Past:
    """The run is past its deadline: the worker may end it in words; soon it is ended without."""

    run: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The guardian has begun to end the run by itself: however its process ends now, that is why."""

    run: str


@dataclass(frozen=True, slots=True)
class Leapt:
    """The wall clock leapt ahead: each session is to be confirmed by a keep-alive that is sent from now on."""


@dataclass(frozen=True, slots=True)
class Pong:
    """Here."""

    number: int


ToGuardian = Intent | Group | Over | Adopt | Confirmed | Ending | Ping
ToWorker = Ready | Past | Ended | Leapt | Pong
Message = ToGuardian | ToWorker

_BY_KIND: Final[dict[str, type[Message]]] = {
    kind.__name__.lower(): kind
    for kind in (Intent, Group, Over, Adopt, Confirmed, Ending, Ping, Ready, Past, Ended, Leapt, Pong)
}  # fmt: skip
_OUTLIVED: Final = frozenset({"intent", "group"})
"""They say nothing any more of a run that is over."""
_TO_JSON: Final = json.JSONEncoder().encode


def encode(message: Message) -> bytes:
    """The message as a line."""
    values = [getattr(message, name) for name in message.__match_args__]
    return json.dumps([type(message).__name__.lower(), *values]).encode() + b"\n"


# The three of each run by hand: they are a tenth of what a short run costs its worker otherwise.


def in_json(run: str) -> str:
    """A run's id as the lines below take it."""
    return _TO_JSON(run)


def intent_line(
    run: str, session: str, confirmed: float, allowance_s: float | None, grace_s: float, *, locked: bool,
    pid: int | None, began: float, reported: float,
) -> bytes:  # fmt: skip
    """An ``Intent``."""
    allowance = "null" if allowance_s is None else repr(allowance_s)
    is_locked = "true" if locked else "false"
    process = "" if pid is None else f",{pid},{began!r},{reported!r}"
    return f'["intent",{run},"{session}",{confirmed!r},{allowance},{grace_s!r},{is_locked}{process}]\n'.encode()


def group_line(run: str, pid: int, began: float, reported: float) -> bytes:
    """A ``Group``."""
    return f'["group",{run},{pid},{began!r},{reported!r}]\n'.encode()


def over_line(run: str) -> bytes:
    """An ``Over``."""
    return f'["over",{run}]\n'.encode()


def decode(line: bytes) -> Message:
    """The message in a line; ValueError where it is none."""
    try:
        return _message(json.loads(line))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not a message between worker and guardian: {line[:200]!r}") from error


def decode_all(lines: Sequence[bytes], on_error: Callable[[ValueError], None]) -> list[Message]:
    """The messages in lines that were heard together; of a run that is over in them, only that.

    It is called for each line that holds none.
    """
    try:
        found = json.loads(b"[%b]" % b",".join(lines))
        over = {one[1]: place for place, one in enumerate(found) if one[0] == "over"}
        return [
            _message(one) for place, one in enumerate(found) if one[0] not in _OUTLIVED or over.get(one[1], -1) < place
        ]
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        messages = []
        for line in lines:
            try:
                messages.append(decode(line))
            except ValueError as error:
                on_error(error)
        return messages


def _message(array: Sequence[Any]) -> Message:
    kind, *values = array
    return _BY_KIND[kind](*values)


class Lines:
    """Cuts what arrives into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines
