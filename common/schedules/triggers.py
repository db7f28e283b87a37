"""What makes a job fire beside one cron expression: several of them, a fixed rate, one instant, and the window of all.

Each is a ``Schedule``: a pure function from an instant to the fires around it. A job that runs ``after`` its last run
has no planned fires at all. Source: ``docs/reference/job-model.md``; ``docs/internals/protocol.md``, *Other ways
to start*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_

from common.instants import from_ms
from common.schedules.cron import DAY_SECONDS, LAST_LOCAL
from common.schedules.days import EVERY_DAY, LAST_DAY, NO_DAY, Days, days_of, days_written
from common.schedules.schedule import Fire, Schedule
from common.schedules.zones import Zone, load_zone

_LAST_MS = LAST_LOCAL * 1000
_DAY_MS = DAY_SECONDS * 1000
_STRIDES = 256
"""About the root of how many days there are: with that many to choose from, any rate has one that drifts little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EverySchedule(Schedule):
    """A fixed rate: whole multiples of the period since the epoch, plus an offset; the same on every worker."""

    period_ms: int
    offset_ms: int = 0
    timezone: str = "UTC"
    """Only to show fires in."""

    def next_after_ms(self, ms: int) -> int | None:
        at = max((ms - self.offset_ms) // self.period_ms + 1, 0) * self.period_ms + self.offset_ms
        return at if at <= _LAST_MS else None

    def last_before_ms(self, ms: int) -> int | None:
        number = (min(ms, _LAST_MS + 1) - self.offset_ms - 1) // self.period_ms
        return number * self.period_ms + self.offset_ms if number >= 0 else None

    def days(self, zone: Zone) -> Days:
        if self.period_ms <= _DAY_MS:
            return EVERY_DAY
        by_offset = {offset_s: self._marks(offset_s) for offset_s in set(zone.offsets)}
        parts = list[tuple[bytes, int, int]]()
        for offset_s, start_s, end_s in zip(zone.offsets, zone.starts, zone.starts[1:], strict=False):
            first, last = (min(max((at + offset_s) // DAY_SECONDS, 0), LAST_DAY) for at in (start_s, end_s - 1))
            parts.append((by_offset[offset_s], first, last))
        marks = bytearray(b"0") * (LAST_DAY + 1)
        for part, first, last in parts:
            marks[first + 1 : last] = part[first + 1 : last]
        for part, first, last in parts:  # segments have their first and last days in common
            marks[first] |= part[first]
            marks[last] |= part[last]
        return days_written(marks.decode())

    def _marks(self, offset_s: int) -> bytes:
        """A "1" for each day of a fire, and for the first and the last day, on clocks that are always so far ahead.

        After ``many`` fires it is nearly the same time of day again, ``step`` days later. So every ``many``-th fire is
        on every ``step``-th day, for as long as its time does not drift into another day.
        """
        many = min(range(1, _STRIDES), key=lambda number: abs(_days_apart(number * self.period_ms)[1]))
        step, drift_ms = _days_apart(many * self.period_ms)
        first_ms = (self.next_after_ms(-1) or 0) + (offset_s + DAY_SECONDS) * 1000
        marks = bytearray(b"0") * (LAST_DAY + 2)
        """A day more in front: the first fire may be on the day before 1970."""
        for number in range(many):
            day, time_ms = divmod(first_ms + number * self.period_ms, _DAY_MS)
            while day < len(marks):
                room_ms = _DAY_MS - 1 - time_ms if drift_ms > 0 else time_ms
                fires = room_ms // abs(drift_ms) + 1 if drift_ms else len(marks)
                days = range(day, min(day + fires * step, len(marks)), step)
                marks[day : days.stop : step] = b"1" * len(days)
                day, time_ms = divmod((day + fires * step) * _DAY_MS + time_ms + fires * drift_ms, _DAY_MS)
        marks[1] = marks[-1] = b"1"[0]
        return bytes(marks[1:])

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        return _in_zone(at_ms, self.timezone)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtSchedule(Schedule):
    """One instant."""

    at_ms: int
    timezone: str = "UTC"

    def next_after_ms(self, ms: int) -> int | None:
        return self.at_ms if self.at_ms > ms else None

    def last_before_ms(self, ms: int) -> int | None:
        return self.at_ms if self.at_ms < ms else None

    def days(self, zone: Zone) -> Days:
        return days_of([zone.local_day(self.at_ms // 1000)])

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        return _in_zone(at_ms, self.timezone)


@dataclass(frozen=True, slots=True)
class NoFires(Schedule):
    """Nothing is planned: what starts such a job is a request."""

    def next_after_ms(self, ms: int) -> int | None:
        return None

    def last_before_ms(self, ms: int) -> int | None:
        return None

    def days(self, zone: Zone) -> Days:
        return NO_DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(Schedule):
    """Every fire of several schedules; those at one instant are one fire."""

    parts: tuple[Schedule, ...]

    def next_after_ms(self, ms: int) -> int | None:
        return min((at for part in self.parts if (at := part.next_after_ms(ms)) is not None), default=None)

    def last_before_ms(self, ms: int) -> int | None:
        return max((at for part in self.parts if (at := part.last_before_ms(ms)) is not None), default=None)

    def days(self, zone: Zone) -> Days:
        return reduce(or_, (part.days(zone) for part in self.parts))

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        part = next(part for part in self.parts if part.next_after_ms(after_ms) == at_ms)
        return part._shown(after_ms, at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Schedule):
    """The fires of a schedule from one instant to another, both included."""

    inner: Schedule
    start_ms: int | None = None
    end_ms: int | None = None

    def next_after_ms(self, ms: int) -> int | None:
        at = self.inner.next_after_ms(ms if self.start_ms is None else max(ms, self.start_ms - 1))
        return at if at is None or self.end_ms is None or at <= self.end_ms else None

    def last_before_ms(self, ms: int) -> int | None:
        at = self.inner.last_before_ms(ms if self.end_ms is None else min(ms, self.end_ms + 1))
        return at if at is None or self.start_ms is None or at >= self.start_ms else None

    def days(self, zone: Zone) -> Days:
        return self.inner.days(zone)

    def opens_ms(self, ms: int) -> int | None:
        at = ms if self.start_ms is None else max(ms, self.start_ms)
        return at if self.end_ms is None or at <= self.end_ms else None

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        after_ms = after_ms if self.start_ms is None else max(after_ms, self.start_ms - 1)
        return self.inner._shown(after_ms, at_ms)


def _days_apart(ms: int) -> tuple[int, int]:
    """The nearest whole number of days, and by how much it is more."""
    days = (ms + _DAY_MS // 2) // _DAY_MS
    return days, ms - days * _DAY_MS


def _in_zone(at_ms: int, timezone: str) -> Fire:
    at = from_ms(at_ms)
    return Fire(at=at, local=at.astimezone(load_zone(timezone).info))
