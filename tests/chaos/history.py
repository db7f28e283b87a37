"""The history: one append-only file of JSON lines, one for each thing that happened.

Times named ``_ms`` are the machine's wall clock, ``boot_ns`` is CLOCK_BOOTTIME; all processes share one machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TextIO


def wall_ms() -> int:
    """Now, by the clock that fires are planned by."""
    return time.time_ns() // 1_000_000


def boot_ns() -> int:
    """Now, by the clock that nobody sets."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What was run."""

    seed: int
    minutes: float
    commit: str
    claim_lead_ms: int = 200
    slots: int = 16
    """Of each worker."""
    load: int = 0
    """Fires a second beside those of the usual jobs."""
    faults: list[str] = field(default_factory=list)
    """The names of those that may be drawn: each is told in the report, also where it was never met."""


class Op(StrEnum):
    """What a user asked for."""

    SAVE = "save"
    PAUSE = "pause"
    RESUME = "resume"
    DELETE = "delete"
    RUN = "run"
    KILL = "kill"
    GIVE_UP = "give up"
    UNBLOCK = "unblock"

    @property
    def is_edit(self) -> bool:
        return self in (Op.SAVE, Op.PAUSE, Op.RESUME, Op.DELETE, Op.UNBLOCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of the API that was answered, perhaps after having been sent several times.

    Edits of one job never overlap. It took effect somewhere between ``sent_ms`` and ``ack_ms``.
    """

    op: Op
    job: str
    sent_ms: int
    ack_ms: int
    ack_boot_ns: int = 0
    spec: dict[str, Any] | None = None
    """The job from then on; None: paused or gone."""
    job_revision: int | None = None
    """Read from etcd after the answer: of the job's key, 0 where there is none; of edits alone."""
    etcd_revision: int | None = None
    """etcd's own revision at that read: what is claimed later has a greater one."""
    runs: list[str] = field(default_factory=list)
    """The runs that the answer names."""
    outcome: str = ""
    """Of a kill, and of a wish to give a run up: what became of it; of an unblocking: its warnings."""
    in_doubt: bool = False
    """An earlier sending had no definite answer: it may have been what took effect."""
    again_until_ms: int | None = None
    again_attempt: int | None = None
    """Of an unblocking: up to which plan time fires begin with which attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something was broken, and mended."""

    what: str
    target: str
    from_ms: int
    until_ms: int
    name: str = ""
    """What the table of faults calls it."""


SAVED_BETWEEN, MADE_AGAIN, DRAINED = "saved between a claim and its time", "deleted and made again", "drained"
USERS_DOING: Final = (SAVED_BETWEEN, MADE_AGAIN, DRAINED)
"""Faults that break nothing: users ask for them, at bad moments, and nothing may be late for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A worker or manager ended though nobody had ended it."""

    process: str
    status: int
    at_ms: int


class Mark(StrEnum):
    """What a command writes."""

    START = "start"
    LAST = "last"
    """The last sign of life of a run that wrote no end."""
    END = "end"
    BACKGROUND = "background"
    """The last sign of life of what a run has left running in its process group: it ends with the run."""
    DEPARTED = "departed"
    """The same of what has left its session as a daemon does: it may go on, unless the run is killed."""
    LINGERS = "lingers"
    """The same of a process of its group that nobody can end: it holds the job's lock, beyond its run's record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a command wrote of itself; etcron cannot."""

    mark: Mark
    run: str
    fence: int
    worker: str
    pid: int
    boot_ns: int
    wall_ms: int
    exit_code: int | None = None
    printed: int | None = None
    """At the end: how many bytes it has printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One document of the log store at the end."""

    document: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A key that was still in etcd when all should have been settled."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How far the harness has come; of a stage that was not reached, why."""

    name: str
    at_ms: int
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Something that whoever reads the report should know, e.g. a fault that cannot be done on this machine."""

    text: str


Event = Header | Call | Fault | Exit | Evidence | Stored | Leftover | Stage | Note
_KINDS: Final[dict[str, type[Event]]] = {
    kind.__name__: kind for kind in (Header, Call, Fault, Exit, Evidence, Stored, Leftover, Stage, Note)
}
_ENUMS: Final = {"op": Op, "mark": Mark}


class HistoryFile:
    """Appends events; each is on its way to the disk when `add` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: TextIO = path.open("a", encoding="utf-8")

    def add(self, event: Event) -> None:
        line = {"kind": type(event).__name__, **asdict(event)}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_history(path: Path) -> Iterator[Event]:
    """Every event, in the order in which they were written; ValueError where a line is none."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield _event(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def _event(line: dict[str, Any]) -> Event:
    kind: Callable[..., Event] = _KINDS[line.pop("kind")]
    return kind(**{name: _ENUMS[name](value) if name in _ENUMS else value for name, value in line.items()})
