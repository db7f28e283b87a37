"""Which records a page asks for, and which index serves it.

A page is read newest plan time first, from where the cursor left off. One index drives it; what that index does not
decide (a worker beside a job; labels that a caller may see) is filtered here, at most ``WALK`` records a page, so a
page's cost has a bound whatever the store holds. A page may therefore hold fewer items than asked for and still have a
next one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.access.rights import Rights
from common.errors import InvalidInputError, Problem
from common.protocol.run import Verdict, plan_key
from common.runlog.documents import PAGE_KEY

WALK = 1000
"""How many records a page looks at where no index decides all of its conditions."""
_WALK_STEP = 250
_BEFORE_ALL = ""
_AFTER_ALL = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which records: all conditions must hold; the default is every record."""

    job: str | None = None
    statuses: frozenset[Verdict] = frozenset()
    """Any of these; empty: all."""
    worker: str | None = None
    from_ms: int | None = None
    """Plan time, inclusive."""
    to_ms: int | None = None
    """Plan time, exclusive."""
    seen_by: Rights | None = None
    """Only those whose own labels these rights let a caller see; None: whatever their labels."""

    def sees(self, labels: object) -> bool:
        """Whether a run with these labels may be among them; what cannot be read as labels counts as none."""
        return self.seen_by is None or self.seen_by.sees(labels if isinstance(labels, Mapping) else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of records, newest plan time first, then by descending run id; without their output."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str | None
    """Where the next page starts; None: there is none. Opaque; but it names a run, of those that were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PagePlan:
    """How a page is read: the equalities of each index range to merge, and what is left to filter."""

    streams: tuple[Mapping[str, str], ...]
    residual: Mapping[str, frozenset[str]]
    wanted: RunFilter
    lowest: str
    """Page keys from here on."""
    below: str
    """Page keys before this."""

    def selector(self, equal: Mapping[str, str], below: str) -> dict[str, Any]:
        """The query for one range. Equality is spelled ``$eq``: nx-27017 uses no index for the short form."""
        selector: dict[str, Any] = {field: {"$eq": value} for field, value in equal.items()}
        selector[PAGE_KEY] = {"$gte": self.lowest, "$lt": below}
        return selector

    def step(self, limit: int) -> int:
        """How many records to fetch at once: one more than asked for tells whether there is a next page."""
        return max(limit + 1, _WALK_STEP) if self._filters else limit + 1

    @property
    def _filters(self) -> bool:
        return bool(self.residual) or self.wanted.seen_by is not None

    def matches(self, document: Mapping[str, Any]) -> bool:
        return self.wanted.sees(document.get("labels")) and all(
            document.get(field) in values for field, values in self.residual.items()
        )


def plan_page(wanted: RunFilter, cursor: str | None) -> PagePlan:
    """The ranges for a page; InvalidInputError where the cursor is not one of ours."""
    statuses = frozenset(str(status) for status in wanted.statuses)
    below = _AFTER_ALL if wanted.to_ms is None else plan_key(wanted.to_ms)
    residual: dict[str, frozenset[str]] = {}
    if wanted.job is not None and wanted.worker is not None:
        residual["worker"] = frozenset((wanted.worker,))
    if wanted.job is None and wanted.worker is not None and statuses:
        residual["status"] = statuses
    return PagePlan(
        streams=_streams(wanted, statuses),
        residual=residual,
        wanted=wanted,
        lowest=_BEFORE_ALL if wanted.from_ms is None else plan_key(wanted.from_ms),
        below=below if cursor is None else min(below, decode_cursor(cursor)),
    )


def _streams(wanted: RunFilter, statuses: frozenset[str]) -> tuple[Mapping[str, str], ...]:
    match wanted:
        case RunFilter(job=str(job)) if statuses:
            return tuple({"jobName": job, "status": status} for status in sorted(statuses))
        case RunFilter(job=str(job)):
            return ({"jobName": job},)
        case RunFilter(worker=str(worker)):
            return ({"worker": worker},)
        case _ if statuses:
            return tuple({"status": status} for status in sorted(statuses))
        case _:
            return ({},)


def encode_cursor(last_page_key: str) -> str:
    return base64.urlsafe_b64encode(last_page_key.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """The page key to go on below; InvalidInputError where the text is no cursor."""
    try:
        key = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, UnicodeError):
        key = ""
    if not key[:16].isdecimal() or key[16:17] != "/":
        remedy = "give the nextCursor of the page before, unchanged, or leave it out"
        raise InvalidInputError([Problem(field="cursor", message="is not a cursor of this list", remedy=remedy)])
    return key
