"""A schedule's fires as aware UTC datetimes, which tests read more easily than the product's milliseconds."""

from __future__ import annotations

from datetime import datetime

from common.instants import first_ms, from_ms, to_ms
from common.schedules.schedule import Schedule


def next_after(schedule: Schedule, t: datetime) -> datetime | None:
    """The first fire strictly later than ``t``; None when there is none."""
    at_ms = schedule.next_after_ms(to_ms(t))
    return None if at_ms is None else from_ms(at_ms)


def last_before(schedule: Schedule, t: datetime) -> datetime | None:
    """The last fire strictly earlier than ``t``; None when there is none."""
    at_ms = schedule.last_before_ms(first_ms(t))
    return None if at_ms is None else from_ms(at_ms)


def fires_between(schedule: Schedule, lo: datetime, hi: datetime, limit: int) -> list[datetime]:
    """The fires in (lo, hi], oldest first, at most ``limit``."""
    return [from_ms(at) for at in schedule.fires_between_ms(to_ms(lo), to_ms(hi), limit)]
