"""An instant as a user writes it: ISO 8601 with an offset, or a local time in the job's zone.

A local time in a gap is the first instant after it, one in a repeated hour its first pass, as for a fixed-time fire.
What is finer than a millisecond counts as a whole one, but for an end as none: nothing starts before its time, nor
after the end.
Pure: standard library and its neighbours. Source:
``docs/reference/fields.md``, fields ``at``, ``startAt``, ``endAt``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from common.instants import first_ms, to_ms
from common.schedules.cron import LAST_LOCAL
from common.schedules.zones import load_zone

_NEEDED: Final = "a time such as 2026-12-24T18:00:00+01:00, or without an offset in the job's timezone"


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant in ms since the epoch, and the text that it was given as."""

    text: str
    ms: int

    def __str__(self) -> str:
        return self.text


def parse_moment(text: str, timezone: str = "UTC", *, is_end: bool = False) -> Moment:
    """The instant in ``text``; ValueError whose text completes "needed: ...". ScheduleError: no such zone."""
    zone, rounded_ms = load_zone(timezone), to_ms if is_end else first_ms
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(_NEEDED) from error
    if len(text) < len("2026-12-24T18:00") or "\0" in text:  # a bare date says no time of day; a NUL passed for an end
        raise ValueError(_NEEDED)
    if moment.tzinfo is None:
        local = moment.replace(tzinfo=UTC)
        local_s = to_ms(local) // 1000  # not of what was rounded: the next second may be the next hour's
        second = zone.first_instant(local_s)
        is_in_gap = zone.latest_local(second) > local_s
        ms = second * 1000 + (0 if is_in_gap else rounded_ms(local) - local_s * 1000)
    else:
        ms = rounded_ms(moment)
    if not 0 <= ms <= LAST_LOCAL * 1000:
        raise ValueError("a time in the years 1970 to 2199")
    return Moment(text, ms)
