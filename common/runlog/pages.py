"""Which records a page asks for, and which index serves it.

A page is read newest plan time first, from where the cursor left off: ranges of an index, merged as they are read. What
the index does not decide (a worker beside a job, a label, labels that a caller may see) is looked at here, in about
``WALK`` records a page, so a page's cost has a bound whatever the store holds. A page may therefore hold fewer items
than asked for and still have a next one; then it says how far it has looked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from common.access.rights import Rights
from common.cursors import decode_cursor, no_cursor
from common.protocol.run import Trigger, plan_key
from common.runlog.causes import cause_of
from common.runlog.documents import PAGE_KEY
from common.verdicts import Verdict

WALK = 1000
"""How many records a page looks at where no index decides all of its conditions."""
_WALK_STEP = 250
MOST_RANGES = 16
"""So many ranges of an index are merged; more conditions than that are looked at record by record."""
_BEFORE_ALL = ""
_AFTER_ALL = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which records: all conditions must hold; the default is every record."""

    job: str | None = None
    jobs: tuple[str, ...] = ()
    """Any of these; empty: any job."""
    part: str = ""
    """Of the job's name, in any case."""
    statuses: frozenset[Verdict] = frozenset()
    """Any of these; empty: all."""
    worker: str | None = None
    triggers: frozenset[Trigger] = frozenset()
    """Any of these; empty: all."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """All of these, each with its value; None: any value."""
    cause: str | None = None
    """As `cause_of` says it."""
    from_ms: int | None = None
    """Plan time, inclusive."""
    to_ms: int | None = None
    """Plan time, exclusive."""
    seen_by: Rights | None = None
    """Only those whose own labels these rights let a caller see; None: whatever their labels."""

    @property
    def named(self) -> tuple[str, ...]:
        """The jobs that it is about; empty: any."""
        return self.jobs if self.job is None else (self.job,)

    def sees(self, labels: object) -> bool:
        """Whether a run with these labels may be among them; what cannot be read as labels counts as none."""
        return self.seen_by is None or self.seen_by.sees(labels if isinstance(labels, Mapping) else {})

    def takes_run(self, *, job: str, worker: str | None, trigger: str, labels: object) -> bool:
        """Whether it may be one of them, as far as that is known of a run without a verdict; not by its plan time."""
        carried = labels if isinstance(labels, Mapping) else {}
        return (
            self.sees(carried)
            and (not self.named or job in self.named)
            and (not self.part or self.part.casefold() in job.casefold())
            and self.worker in (None, worker)
            and (not self.triggers or trigger in self.triggers)
            and all(name in carried and value in (None, carried[name]) for name, value in self.labels)
        )

    def takes(self, document: Mapping[str, Any]) -> bool:
        """Whether a record is one of them; not by its plan time."""
        return (
            self.takes_run(
                job=str(document.get("jobName", "")), worker=document.get("worker"), labels=document.get("labels"),
                trigger=str(document.get("trigger", Trigger.SCHEDULE)),
            )
            and (not self.statuses or document.get("status") in self.statuses)
            and self.cause in (None, cause_of(document))
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of records, newest plan time first, then by descending run id; without their output."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str | None
    """Where the next page starts; None: there is none. Opaque; but it names a run, of those that were looked at."""
    looked_ms: int | None = None
    """The plan time down to which it has looked, where that ended the page before it was full."""


@dataclass(slots=True)
class Range:
    """A range of an index, as far as it has been read: newest first."""

    equal: Mapping[str, str]
    below: str
    """What is read next lies below this page key."""
    ahead: deque[dict[str, Any]] = field(default_factory=deque)
    """Read, and not looked at yet."""
    is_begun: bool = False
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """How a page is read: the equalities of each index range to merge, and what they do not decide."""

    streams: tuple[Mapping[str, str], ...]
    wanted: RunFilter
    lowest: str
    """Page keys from here on."""
    below: str
    """Page keys before this."""

    def ranges(self) -> list[Range]:
        """All of them, unread."""
        return [Range(equal, self.below) for equal in self.streams]

    def selector(self, one: Range) -> dict[str, Any]:
        """The query for what comes next of a range. Equality is spelled ``$eq``: nx-27017 uses no index for the short
        form."""
        selector: dict[str, Any] = {field: {"$eq": value} for field, value in one.equal.items()}
        selector[PAGE_KEY] = {"$gte": self.lowest, "$lt": one.below}
        return selector

    def step(self, limit: int) -> int:
        """How many records of a range to fetch at once: one more than asked for tells whether there is a next page."""
        return max(limit + 1, _WALK_STEP // len(self.streams)) if self._filters else limit + 1

    @property
    def _filters(self) -> bool:
        wanted, decided = self.wanted, self.streams[0]
        return bool(
            (wanted.statuses and "status" not in decided)
            or (wanted.worker is not None and "worker" not in decided)
            or (wanted.part and "jobName" not in decided)
            or wanted.triggers
            or wanted.labels
            or wanted.cause is not None
            or wanted.seen_by is not None
        )


def plan_page(wanted: RunFilter, cursor: str | None) -> PagePlan:
    """The ranges for a page; InvalidInputError where the cursor is not one of ours."""
    below = _AFTER_ALL if wanted.to_ms is None else plan_key(wanted.to_ms)
    return PagePlan(
        streams=_streams(wanted),
        wanted=wanted,
        lowest=_BEFORE_ALL if wanted.from_ms is None else plan_key(wanted.from_ms),
        below=below if cursor is None else min(below, page_key_in(cursor)),
    )


def _streams(wanted: RunFilter) -> tuple[Mapping[str, str], ...]:
    jobs, statuses = wanted.named, sorted(map(str, wanted.statuses))
    if jobs and statuses and len(jobs) * len(statuses) <= MOST_RANGES:
        return tuple({"jobName": job, "status": status} for job in jobs for status in statuses)
    if jobs:
        return tuple({"jobName": job} for job in jobs)
    if wanted.worker is not None:
        return ({"worker": wanted.worker},)
    return tuple({"status": status} for status in statuses) or ({},)


def page_key_in(cursor: str) -> str:
    """The page key to go on below; InvalidInputError where the text is no cursor."""
    key = decode_cursor(cursor)
    if not key[:16].isdecimal() or key[16:17] != "/":
        raise no_cursor()
    return key
