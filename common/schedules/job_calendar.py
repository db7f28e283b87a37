"""The days on which a job fires, or does not: a list of dates, and the schedule that it leaves open.

A day is a local one, in the job's time zone. All planned fires stay planned: those on closed days are decided as
``skipped: calendar``. A search for the next open one jumps to the next day that is open *and* has a fire: those
days are worked out once, so that a search takes a handful of jumps, however many days there are between.

Pure: standard library and its neighbours. Source: ``docs/reference/fields.md``, field ``calendar``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any, Final

from common.schedules.cron import DAY_SECONDS
from common.schedules.days import EPOCH_ORDINAL, EVERY_DAY, YEARS, Days, days_written, is_leap
from common.schedules.schedule import Fire, Schedule
from common.schedules.zones import Zone, load_zone

MOST_DATES: Final = 500
ENTRY_FORM: Final = "a date (2026-12-24), a span (2026-12-24/2027-01-06), or either for every year (12-24, 12-24/01-06)"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DAY_OF_YEAR = re.compile(r"\d{2}-\d{2}", re.ASCII)
_LEAP_YEAR, _OTHER_YEAR = 2000, 2001
_CACHED_DAYS = 2_048
"""Sets of 10 KB each; jobs share their calendars."""

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
    def days(self) -> Days:
        """The open ones."""
        return _open_days(self)


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
        return load_zone(self.timezone).local_day(ms // 1000) in self.calendar.days

    def opens_ms(self, ms: int) -> int | None:
        """The first instant from this one on at which window and calendar are open."""
        at, zone = self.inner.opens_ms(ms), load_zone(self.timezone)
        while at is not None and (opens := _opens_ms(self.calendar.days, zone, at)) != at:
            at = None if opens is None else self.inner.opens_ms(opens)
        return at

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        return self.inner._shown(after_ms, at_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFires(Schedule):
    """The fires of a schedule on the open days of a calendar, found in as many jumps as clocks change at most."""

    inner: Schedule
    calendar: Calendar
    timezone: str = "UTC"

    def next_after_ms(self, ms: int) -> int | None:
        zone, open_days = load_zone(self.timezone), self.calendar.days
        at = self.inner.next_after_ms(ms)
        while at is not None and zone.local_day(at // 1000) not in open_days:
            opens = _opens_ms(_fire_days(self), zone, at)
            at = None if opens is None else self.inner.next_after_ms(opens - 1)
        return at

    def last_before_ms(self, ms: int) -> int | None:
        zone, open_days = load_zone(self.timezone), self.calendar.days
        at = self.inner.last_before_ms(ms)
        while at is not None and zone.local_day(at // 1000) not in open_days:
            closed = _closed_ms(_fire_days(self), zone, at)
            at = None if closed is None else self.inner.last_before_ms(closed + 1)
        return at

    def _shown(self, after_ms: int, at_ms: int) -> Fire:
        # Closed fires may lie between the two: what is shown follows from the planned fire just before.
        before_ms = self.inner.last_before_ms(at_ms)
        return self.inner._shown(after_ms if before_ms is None else max(after_ms, before_ms), at_ms)


def check_entry(text: str) -> None:
    """ValueError, whose text completes "needed: ...", unless this is an entry of a calendar."""
    _parse_entry(text)


def _opens_ms(days: Days, zone: Zone, ms: int) -> int | None:
    """The first instant from this one on, on one of the days; None where there is none. Looks at each segment once."""
    at, searched, found = ms // 1000, 0, None
    for index in range(zone.segment(at), len(zone.offsets)):
        offset = zone.offsets[index]
        at = max(at, zone.starts[index])
        day = (at + offset) // DAY_SECONDS
        if found is None or not searched <= day <= found:
            searched, found = day, days.first_from(day)
        if found is not None and (begins := max(at, found * DAY_SECONDS - offset)) < zone.starts[index + 1]:
            return max(ms, begins * 1000)
    return None


def _closed_ms(days: Days, zone: Zone, ms: int) -> int | None:
    """The last instant up to this one, on one of the days; None where there is none."""
    searched, found = 0, None
    for index in range(zone.segment(ms // 1000), -1, -1):
        offset = zone.offsets[index]
        ms = min(ms, zone.starts[index + 1] * 1000 - 1)
        day = (ms // 1000 + offset) // DAY_SECONDS
        if found is None or not found <= day <= searched:
            searched, found = day, days.last_until(day)
        if found is not None and (end := (found + 1) * DAY_SECONDS - offset) > zone.starts[index]:
            return min(ms, end * 1000 - 1)
    return None


@lru_cache(maxsize=_CACHED_DAYS)
def _fire_days(fires: OpenFires) -> Days:
    """The open days that have a fire; on a day on which clocks change there may be none all the same."""
    return fires.inner.days(load_zone(fires.timezone)) & fires.calendar.days


@lru_cache(maxsize=_CACHED_DAYS)
def _open_days(calendar: Calendar) -> Days:
    parsed = [_parse_entry(entry) for entry in calendar.entries]
    yearly = [span for span in parsed if isinstance(span, _YearlySpan)]
    leap, other = (_days_of_year(year, yearly) for year in (_LEAP_YEAR, _OTHER_YEAR))
    listed = days_written("".join(leap if is_leap(year) else other for year in YEARS)).bits
    for span in parsed:
        if not isinstance(span, _YearlySpan):
            first, last = (day.toordinal() - EPOCH_ORDINAL for day in span)
            listed |= ((1 << last + 1 - first) - 1) << first
    return Days(listed if calendar.include else EVERY_DAY.bits ^ listed)


def _days_of_year(year: int, spans: list[_YearlySpan]) -> str:
    """A "1" for each day that one of the spans covers, else a "0"."""
    first = date(year, 1, 1).toordinal()
    dates = [date.fromordinal(first + number) for number in range(366 if is_leap(year) else 365)]
    days = [(day.month, day.day) for day in dates]
    marks = bytearray(b"0" * len(days))
    for span in spans:
        for low, high in span.halves():
            begin, end = bisect_left(days, low), bisect_right(days, high)
            marks[begin:end] = b"1" * (end - begin)
    return marks.decode()


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
        raise ValueError(ENTRY_FORM)
    if _all_match(_DATE, ends):
        first, last = _date(ends[0]), _date(ends[-1])
        if last < first:
            raise ValueError("a span that does not end before it begins")
        return first, last
    if _all_match(_DAY_OF_YEAR, ends):
        return _YearlySpan(_day_of_year(ends[0]), _day_of_year(ends[-1]))
    raise ValueError(ENTRY_FORM)


def _all_match(form: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(form.fullmatch(text) for text in texts)


def _date(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError("a date that there is") from error
    if day.year not in YEARS:
        raise ValueError("a date in the years 1970 to 2199")
    return day


def _day_of_year(text: str) -> tuple[int, int]:
    try:
        day = date.fromisoformat(f"{_LEAP_YEAR}-{text}")
    except ValueError as error:
        raise ValueError("a date that there is") from error
    return day.month, day.day


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
