"""Calls without effect, or for further pages, counted by the minute: a flood makes the audit no longer than one does.

The first of its kind in a minute is an entry of its own, at once; the others are one entry at the minute's end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from common.access.audit_chain import Note, Outcome

WINDOW_MS: Final = 60_000
MOST_KINDS: Final = 100
"""Of one minute, of callers by one way; what else comes is counted together. So a flood of unknown callers cannot hide
what a known one was refused.
"""


@dataclass(frozen=True, slots=True)
class _Kind:
    who: str
    via: str
    address: str
    action: str
    outcome: Outcome


def _others(via: str) -> _Kind:
    return _Kind("others", via, "", "others", Outcome.REFUSED)


@dataclass(slots=True)
class _Counted:
    more: int
    last: Note


class FailedCalls:
    """Counts them; a pure value but for what it has counted."""

    def __init__(self) -> None:
        self.ends_ms: int | None = None
        """When the minute is over; None: nothing is counted."""
        self._counted: dict[_Kind, _Counted] = {}

    def take(self, note: Note, *, now_ms: int) -> Note | None:
        """One more; the entry that it is to be, if it is the first of its kind."""
        if self.ends_ms is None:
            self.ends_ms = now_ms + WINDOW_MS
        kind = _Kind(note.who, note.via, note.address, note.action, note.outcome)
        if kind not in self._counted and sum(one.via == note.via for one in self._counted) >= MOST_KINDS:
            kind = _others(note.via)
        if (counted := self._counted.get(kind)) is not None:
            counted.more += 1
            counted.last = note
            return None
        is_other = kind == _others(note.via)
        self._counted[kind] = _Counted(1 if is_other else 0, note)
        return None if is_other else note

    def over(self, *, now_ms: int, early: bool = False) -> list[Note]:
        """What was counted in the minute, once that is over; ``early``: whether it is or not."""
        if self.ends_ms is None or not (early or now_ms >= self.ends_ms or now_ms < self.ends_ms - WINDOW_MS):
            return []
        counted, self._counted, self.ends_ms = self._counted, {}, None
        return [_summary(kind, one) for kind, one in counted.items() if one.more]


def _summary(kind: _Kind, counted: _Counted) -> Note:
    details = {"more": counted.more, "lastMs": counted.last.ms}
    if kind == _others(kind.via):
        return replace(
            counted.last, who=kind.who, address="", action=kind.action, object="", outcome=kind.outcome,
            details=details,
        )  # fmt: skip
    return replace(counted.last, details={**details, **counted.last.details})
