"""A schedule without the fires of some spans, which were started before their time."""

from __future__ import annotations

from dataclasses import dataclass

from common.schedules.days import Days
from common.schedules.schedule import Fire, Schedule
from common.schedules.zones import Zone

Span = tuple[int, int]
"""The first and the last of consecutive fires, ms since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingOut(Schedule):
    """The fires of the schedule outside of the spans."""

    inner: Schedule
    spans: tuple[Span, ...]
    """Sorted by time; no two of them overlap or touch."""

    def next_after_ms(self, ms: int) -> int | None:
        at = self.inner.next_after_ms(ms)
        while at is not None and (span := self._span_of(at)) is not None:
            at = self.inner.next_after_ms(span[1])
        return at

    def last_before_ms(self, ms: int) -> int | None:
        at = self.inner.last_before_ms(ms)
        while at is not None and (span := self._span_of(at)) is not None:
            at = self.inner.last_before_ms(span[0])
        return at

    @property
    def open_fires(self) -> Schedule:
        fires = self.inner.open_fires
        return self if fires is self.inner else LeavingOut(inner=fires, spans=self.spans)

    def is_open(self, ms: int) -> bool:
        return self.inner.is_open(ms)

    def opens_ms(self, ms: int) -> int | None:
        return self.inner.opens_ms(ms)

    def days(self, zone: Zone) -> Days:
        return self.inner.days(zone)

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        return self.inner._shown(after_ms, at_ms)

    def _span_of(self, ms: int) -> Span | None:
        return next((span for span in self.spans if span[0] <= ms <= span[1]), None)


def spans_of(schedule: Schedule, plans_ms: list[int]) -> tuple[Span, ...]:
    """These fires of the schedule, those that follow each other together."""
    spans: list[Span] = []
    for at in sorted(set(plans_ms)):
        if spans and schedule.next_after_ms(spans[-1][1]) == at:
            spans[-1] = spans[-1][0], at
        else:
            spans.append((at, at))
    return tuple(spans)
