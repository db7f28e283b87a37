"""The days on which a job fires, or does not: a list of dates, and the schedule that it leaves open.

A day is a local one, in the job's time zone. All planned fires stay planned: those on closed days are decided as
``skipped: calendar``. Whoever looks for the next open one jumps over closed days, however many there are.

Pure: standard library and its neighbours. Source: ``docs/job-model.md``, field ``calendar``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Final

from common.schedules.cron import DAY_SECONDS, LAST_LOCAL
from common.schedules.schedule import Fire, Schedule
from common.schedules.zones import Zone, load_zone

MAX_ENTRIES: Final = 500
NEEDED: Final = "a date (2026-12-24), a span (2026-12-24/2027-01-06), or either for every year (12-24, 12-24/01-06)"

_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = LAST_LOCAL // DAY_SECONDS
_YEARS: Final = range(1970, 2200)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DAY_OF_YEAR = re.compile(r"\d{2}-\d{2}", re.ASCII)
_LEAP_YEAR, _OTHER_YEAR = 2000, 2001
_CACHED_CALENDARS = 2_048
"""Of 10 KB each; jobs share their calendars."""

_Span = tuple[date, date]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Dates that are left out, or that alone are open; valid by construction through :func:`check_entry`."""

    entries: tuple[str, ...]
    """As given: dates, spans, and either for every year."""
    include: bool = False
    """These days alone are open; else all but these."""

    def to_document(self) -> dict[str, Any]:
        """As it was given."""
        return {"include" if self.include else "exclude": list(self.entries)}

    @property
    def ever_opens(self) -> bool:
        """Whether there is an open day at all, from 1970 to 2199."""
        return _open_days(self) != 0

    def is_open_day(self, day: int) -> bool:
        """Whether it is open on this day, counted since 1970-01-01; days beyond our years are as the nearest."""
        return bool(_open_days(self) >> min(max(day, 0), _LAST_DAY) & 1)

    def open_day_from(self, day: int) -> int | None:
        """The first open day from this one on, or None."""
        later = _open_days(self) >> max(day, 0)
        return max(day, 0) + (later & -later).bit_length() - 1 if later else None

    def open_day_until(self, day: int) -> int | None:
        """The last open day up to this one, or None."""
        earlier = _open_days(self) & ((1 << max(min(day, _LAST_DAY) + 1, 0)) - 1)
        return earlier.bit_length() - 1 if earlier else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarSchedule(Schedule):
    """Every planned fire of a schedule, and which of them its calendar lets run."""

    inner: Schedule
    calendar: Calendar
    timezone: str = "UTC"

    def next_after_ms(self, ms: int) -> int | None:
        return self.inner.next_after_ms(ms)

    def last_before_ms(self, ms: int) -> int | None:
        return self.inner.last_before_ms(ms)

    @property
    def open_fires(self) -> Schedule:
        return OpenFires(inner=self.inner, calendar=self.calendar, timezone=self.timezone)

    def is_open(self, ms: int) -> bool:
        return self.calendar.is_open_day(_local_day(load_zone(self.timezone), ms))

    def opens_ms(self, ms: int) -> int | None:
        """The first instant from this one on at which window and calendar are open."""
        at = self.inner.opens_ms(ms)
        while at is not None and (opens := _opens_ms(self.calendar, load_zone(self.timezone), at)) != at:
            at = None if opens is None else self.inner.opens_ms(opens)
        return at

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        return self.inner._shown(after_ms, at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFires(Schedule):
    """The fires of a schedule on the open days of a calendar. Each step jumps over closed days as one."""

    inner: Schedule
    calendar: Calendar
    timezone: str = "UTC"

    def next_after_ms(self, ms: int) -> int | None:
        zone = load_zone(self.timezone)
        at = self.inner.next_after_ms(ms)
        while at is not None and (opens := _opens_ms(self.calendar, zone, at)) != at:
            at = None if opens is None else self.inner.next_after_ms(opens - 1)
        return at

    def last_before_ms(self, ms: int) -> int | None:
        zone = load_zone(self.timezone)
        at = self.inner.last_before_ms(ms)
        while at is not None and (closed := _closed_ms(self.calendar, zone, at)) != at:
            at = None if closed is None else self.inner.last_before_ms(closed + 1)
        return at

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        # Closed fires may lie between the two: what is shown is told from the planned fire just before.
        before_ms = self.inner.last_before_ms(at_ms)
        return self.inner._shown(after_ms if before_ms is None else max(after_ms, before_ms), at_ms)


def check_entry(text: str) -> None:
    """ValueError, whose text completes "needed: ...", unless this is an entry of a calendar."""
    _parse_entry(text)


def _local_day(zone: Zone, ms: int) -> int:
    at = ms // 1000
    return (at + zone.offsets[zone.segment(at)]) // DAY_SECONDS


def _opens_ms(calendar: Calendar, zone: Zone, ms: int) -> int | None:
    """The first instant from this one on, on an open day; None where there is none. Looks at each segment once."""
    at = ms // 1000
    for index in range(zone.segment(at), len(zone.offsets)):
        offset = zone.offsets[index]
        at = max(at, zone.starts[index])
        day = (at + offset) // DAY_SECONDS
        if calendar.is_open_day(day):
            return max(ms, at * 1000)
        opening = calendar.open_day_from(day)
        if opening is not None and opening * DAY_SECONDS - offset < zone.starts[index + 1]:
            return (opening * DAY_SECONDS - offset) * 1000
    return None


def _closed_ms(calendar: Calendar, zone: Zone, ms: int) -> int | None:
    """The last instant up to this one, on an open day; None where there is none."""
    for index in range(zone.segment(ms // 1000), -1, -1):
        offset = zone.offsets[index]
        ms = min(ms, zone.starts[index + 1] * 1000 - 1)
        day = (ms // 1000 + offset) // DAY_SECONDS
        if calendar.is_open_day(day):
            return ms
        closing = calendar.open_day_until(day)
        if closing is not None and (last := (closing + 1) * DAY_SECONDS - offset) > zone.starts[index]:
            return last * 1000 - 1
    return None


@lru_cache(maxsize=_CACHED_CALENDARS)
def _open_days(calendar: Calendar) -> int:
    """One bit for each day from 1970 to 2199, the first day lowest: set where it is open."""
    parsed = [_parse_entry(entry) for entry in calendar.entries]
    listed = _bits(_days_of_years([span for span in parsed if isinstance(span, _YearlySpan)]))
    for span in parsed:
        if not isinstance(span, _YearlySpan):
            first, last = (day.toordinal() - _EPOCH_DAY for day in span)
            listed |= ((1 << last + 1 - first) - 1) << first
    return listed if calendar.include else listed ^ ((1 << _LAST_DAY + 1) - 1)


def _bits(days: bytes) -> int:
    return int(days[::-1], 2)


def _days_of_years(spans: list[_YearlySpan]) -> bytes:
    leap, other = (_days_of_year(year, spans) for year in (_LEAP_YEAR, _OTHER_YEAR))
    return b"".join(leap if _is_leap(year) else other for year in _YEARS)


def _days_of_year(year: int, spans: list[_YearlySpan]) -> bytes:
    """A "1" for each day that one of the spans covers, else a "0"."""
    first = date(year, 1, 1).toordinal()
    dates = [date.fromordinal(first + number) for number in range(366 if _is_leap(year) else 365)]
    days = [(day.month, day.day) for day in dates]
    marks = bytearray(b"0" * len(days))
    for span in spans:
        for low, high in span.halves():
            begin, end = bisect_left(days, low), bisect_right(days, high)
            marks[begin:end] = b"1" * (end - begin)
    return bytes(marks)


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@dataclass(frozen=True, slots=True)
class _YearlySpan:
    """Days of every year, as (month, day); one that ends before it begins goes on into the next year."""

    first: tuple[int, int]
    last: tuple[int, int]

    def halves(self) -> tuple[tuple[tuple[int, int], tuple[int, int]], ...]:
        """The same within one year: two where it goes on into the next one."""
        if self.first <= self.last:
            return ((self.first, self.last),)
        return (self.first, (12, 31)), ((1, 1), self.last)


def _parse_entry(text: str) -> _Span | _YearlySpan:
    ends = text.split("/")
    if len(ends) > 2:
        raise ValueError(NEEDED)
    if _all_match(_DATE, ends):
        first, last = _date(ends[0]), _date(ends[-1])
        if last < first:
            raise ValueError("a span that does not end before it begins")
        return first, last
    if _all_match(_DAY_OF_YEAR, ends):
        return _YearlySpan(_day_of_year(ends[0]), _day_of_year(ends[-1]))
    raise ValueError(NEEDED)


def _all_match(form: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(form.fullmatch(text) for text in texts)


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("a date that there is") from error
    if day.year not in _YEARS:
        raise ValueError("a date in the years 1970 to 2199")
    return day


def _day_of_year(text: str) -> tuple[int, int]:
    try:
        day = date.fromisoformat(f"{_LEAP_YEAR}-{text}")
    except ValueError as error:
        raise ValueError("a date that there is") from error
    return day.month, day.day
