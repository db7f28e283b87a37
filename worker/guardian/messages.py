"""What a worker and its guardian say to each other: one line each, a JSON array, the kind first. Pure.

A line is shorter than a pipe's atomic write (4096 bytes): it arrives whole or not at all, whoever is killed meanwhile.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final


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


@dataclass(frozen=True, slots=True)
class Group:
    """The run has a process, leader of its group and of its session."""

    run: str
    pid: int


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
class Pong:
    """Here."""

    number: int


ToGuardian = Intent | Group | Over | Adopt | Confirmed | Ending | Ping
ToWorker = Ready | Past | Ended | Pong
Message = ToGuardian | ToWorker

_BY_KIND: Final[dict[str, type[Message]]] = {
    kind.__name__.lower(): kind
    for kind in (Intent, Group, Over, Adopt, Confirmed, Ending, Ping, Ready, Past, Ended, Pong)
}  # fmt: skip


def encode(message: Message) -> bytes:
    """The message as a line."""
    # Not `astuple`: it copies deeply, and this happens three times in each run.
    values = [getattr(message, name) for name in message.__match_args__]
    return json.dumps([type(message).__name__.lower(), *values]).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message in a line; ValueError where it is none."""
    try:
        kind, *values = json.loads(line)
        return _BY_KIND[kind](*values)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"not a message between worker and guardian: {line[:200]!r}") from error


class Lines:
    """Cuts what arrives into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, data: bytes) -> list[bytes]:
        """The lines that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines
