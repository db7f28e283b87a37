"""Which events of a job are reported, and to which channels; and the kinds of events.

Pure: pydantic, standard library and its neighbours. Source: ``docs/reference/fields.md``, field ``notify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from common.jobs.kinds import AnyText, Choice, Members, Number, Pattern, Several, says
from common.jobs.values import JobName


class EventKind(StrEnum):
    """What a rule can ask for."""

    FAILED = "failed"
    TIMEOUT = "timeout"
    LOST = "lost"
    KILLED = "killed"
    MISSED = "missed"
    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    OUTPUT = "output"
    LATE = "late"
    RECOVERED = "recovered"
    SLOW = "slow"
    SILENT = "silent"
    FAST = "fast"
    WORKER_DOWN = "worker-down"
    WORKER_REFUSING = "worker-refusing"
    LOG_STORE_AWAY = "log-store-away"
    ETCD_FULL = "etcd-full"
    CLOCK_OFF = "clock-off"
    NO_LEADER = "no-leader"
    SPOOL_FILLING = "spool-filling"
    NOTICES_FAILING = "notices-failing"

    @property
    def is_of_the_system(self) -> bool:
        """Whether it belongs to no job."""
        return self not in OF_JOBS


OF_JOBS: Final = tuple(EventKind)[: list(EventKind).index(EventKind.WORKER_DOWN)]
"""In their order."""
DEFAULT_ON: Final = (
    EventKind.FAILED, EventKind.TIMEOUT, EventKind.LOST, EventKind.MISSED, EventKind.RECOVERED,
    EventKind.LATE, EventKind.SLOW, EventKind.SILENT, EventKind.FAST,
)  # fmt: skip
"""Of a rule that does not say. The last four are only of jobs that ask for them by a field of their own."""
MOST_LINKS: Final = 5
MOST_NOTIFY: Final = 10
LONGEST_DESCRIPTION: Final = 500

_KINDS: Final = Several(
    of=Choice(EventKind, of=OF_JOBS), what="events", least=0, most=len(OF_JOBS), alone=False, unique=True
)
_URL: Final = Pattern(
    pattern=r"https?://[^\s/?#\x00-\x20\x7f]+[^\s\x00-\x20\x7f]*", longest=2_000,
    form="a URL such as `https://wiki.example.com/backup`",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Where a person reads on."""

    title: Annotated[str, AnyText(longest=100), says("title", "what it is called", "Runbook", label="Title", hint="")]
    url: Annotated[str, _URL, says("url", "where it leads", "https://wiki.example.com/backup", label="URL", hint="")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """A channel that gets messages about the job's events."""

    to: Annotated[str, JobName(), says("to", "a channel", "ops", label="Channel", hint="")]
    on: Annotated[tuple[EventKind, ...], _KINDS, says(
        "on", "which events", ["failed", "output"], label="Events", hint="",
        unset="failed, timeout, lost, missed, recovered; late, slow, silent, fast")] = ()  # fmt: skip
    """Empty: `DEFAULT_ON`."""
    after: Annotated[int, Number(low=1, high=100, whole=True, unit=""), says(
        "after", "only after so many problems in a row", 3, label="In a row", hint="")] = 1  # fmt: skip

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """What it asks for."""
        return self.on or DEFAULT_ON


LINKS: Final = Several(
    of=Members(of=Link, name="a link", example='{"title": "Runbook", "url": "https://wiki.example.com/backup"}'),
    what="links", least=0, most=MOST_LINKS, alone=False,
)  # fmt: skip
NOTIFY: Final = Several(
    of=Members(of=Notify, name="notify", example='{"to": "ops", "on": ["failed", "output"]}'),
    what="entries", least=0, most=MOST_NOTIFY, alone=False,
)  # fmt: skip
