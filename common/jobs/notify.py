"""Which events of a job are reported, and to which channels.

Pure: pydantic's core, standard library and its neighbours. Source: ``docs/reference/fields.md``, field ``notify``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from common.jobs.kinds import AnyText, Choice, Number, Object, Pattern, Several, about
from common.jobs.values import JobName
from common.verdicts import FAILURES, OF_JOBS, EventKind

_PROBLEMS: Final = (*FAILURES, EventKind.RECOVERED)
_BY_A_FIELD: Final = (EventKind.LATE, EventKind.SLOW, EventKind.SILENT, EventKind.FAST)
"""Only of jobs that ask for them by a field of their own."""
DEFAULT_ON: Final = (*_PROBLEMS, *_BY_A_FIELD)
"""Of a rule that does not say."""
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

    title: Annotated[str, AnyText(longest=100), about("title", "what it is called", "Runbook", label="Title", hint="")]
    url: Annotated[str, _URL, about("url", "where it leads", "https://wiki.example.com/backup", label="URL", hint="")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """A channel that gets messages about the job's events."""

    to: Annotated[str, JobName(), about("to", "a channel", "ops", label="Channel", hint="")]
    on: Annotated[tuple[EventKind, ...], _KINDS, about(
        "on", "which events", ["failed", "output"], label="Events", hint="",
        unset=f"{', '.join(_PROBLEMS)}; {', '.join(_BY_A_FIELD)}")] = ()  # fmt: skip
    """Empty: `DEFAULT_ON`."""
    after: Annotated[int, Number(low=1, high=100, whole=True, unit=""), about(
        "after", "only after so many problems in a row", 3, label="In a row", hint="")] = 1  # fmt: skip

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """What it asks for."""
        return self.on or DEFAULT_ON


LINKS: Final = Several(
    of=Object(of=Link, name="a link", example='{"title": "Runbook", "url": "https://wiki.example.com/backup"}'),
    what="links", least=0, most=MOST_LINKS, alone=False,
)  # fmt: skip
NOTIFY: Final = Several(
    of=Object(of=Notify, name="notify", example='{"to": "ops", "on": ["failed", "output"]}'),
    what="entries", least=0, most=MOST_NOTIFY, alone=False,
)  # fmt: skip
