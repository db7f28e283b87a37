"""The seven-field cron expression: parse once, then step forward and backward through local wall-clock time.

``second minute hour day-of-month month day-of-week year``; five fields and macros are rewritten to seven. Time here is
*local seconds*: what a wall clock shows, counted in seconds since 1970-01-01 00:00 on that clock. No time zones here;
see schedule.py for those.

A parsed expression is a handful of bit masks, and each step is a find-first-bit from the largest unit to the smallest:

    years, months  ->  the days of that month, out of a table of the 28 shapes that a month can have  ->  h, m, s

so that the next match takes microseconds and, since there are 230 years of 12 months, at worst 2,760 such looks.

Source of the rules: job-model.md, *Seven fields*. Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from common.errors import ScheduleError
from common.schedules.cron_fields import (
    FIRST_YEAR,
    HOUR,
    LAST_YEAR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    DayOfMonthRule,
    DayOfWeekRule,
    parse_day_of_month,
    parse_day_of_week,
    parse_mask,
    shortened,
    values_of,
)
from common.schedules.days import EPOCH_ORDINAL, LAST_DAY, YEARS, Days, days_written, is_leap

MAX_EXPRESSION_CHARACTERS = 1000
_CACHED_DAYS = 1024
"""Sets of 10 KB each: what is distinct in the day, month and year fields of jobs with a calendar."""

DAY_SECONDS = 86_400
FIRST_LOCAL, LAST_LOCAL = 0, (LAST_DAY + 1) * DAY_SECONDS - 1

_ALLOWED_TEXT = re.compile(r"[\x21-\x7e \t]*")
# H begins an item; the H of THU or of @hourly does not.
_HASHED = re.compile(r"(?<![A-Za-z@])[Hh]")
BOTH = "&"
"""Before the day-of-week field: both day fields have to match."""
_MONTH_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS = {
    "@YEARLY": ("0", "0", "0", "1", "1", "*", "*"),
    "@ANNUALLY": ("0", "0", "0", "1", "1", "*", "*"),
    "@MONTHLY": ("0", "0", "0", "1", "*", "*", "*"),
    "@WEEKLY": ("0", "0", "0", "*", "*", "0", "*"),
    "@DAILY": ("0", "0", "0", "*", "*", "*", "*"),
    "@MIDNIGHT": ("0", "0", "0", "*", "*", "*", "*"),
    "@HOURLY": ("0", "0", "*", "*", "*", "*", "*"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A parsed expression. Immutable, and shared by every job that has the same one; masks as in cron_fields.py."""

    seconds: int
    minutes: int
    hours: int
    months: int
    years: int
    month_days: tuple[int, ...]
    """The mask of matching days for each shape of month, at ``4 * weekday of the first + length - 28``."""
    first_minute_and_second: int
    """Seconds from the full hour to the first match within an hour."""
    last_minute_and_second: int
    is_fixed_time: bool
    """None of the second, minute and hour fields begins with ``*``: see *Time zones and daylight saving*."""
    both_days_restricted: bool
    """Neither day field is ``*`` or ``?``, and no ``&`` asks for both: either may match, which is worth a warning."""

    @property
    def days(self) -> Days:
        """The matching ones, from 1970 to 2199."""
        return _matching_days(self.years, self.months, self.month_days)

    def times(self, most: int) -> list[int] | None:
        """The matching seconds of each day that matches; None where there are more than so many."""
        if self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count() > most:
            return None
        hours, minutes, seconds = map(values_of, (self.hours, self.minutes, self.seconds))
        return [
            hour * 3600 + minute * 60 + second for hour in hours for minute in minutes for second in seconds
        ]  # fmt: skip

    def next_local(self, after: int) -> int | None:
        """The first match strictly later than these local seconds, or None when there is none up to the last year."""
        day, second = divmod(max(after + 1, FIRST_LOCAL), DAY_SECONDS)
        matching_day = self._next_day(day)
        if matching_day == day:
            time = self._next_time(second)
            if time >= 0:
                return day * DAY_SECONDS + time
            matching_day = self._next_day(day + 1)
        if matching_day is None:
            return None
        return matching_day * DAY_SECONDS + self._next_time(0)

    def previous_local(self, before: int) -> int | None:
        """The last match strictly earlier than these local seconds, or None when there is none from the first year."""
        day, second = divmod(min(before - 1, LAST_LOCAL), DAY_SECONDS)
        matching_day = self._previous_day(day)
        if matching_day == day:
            time = self._previous_time(second)
            if time >= 0:
                return day * DAY_SECONDS + time
            matching_day = self._previous_day(day - 1)
        if matching_day is None:
            return None
        return matching_day * DAY_SECONDS + self._previous_time(DAY_SECONDS - 1)

    def _next_time(self, second_of_day: int) -> int:
        """The first matching second of a day that is not earlier than this one, or -1."""
        hour, rest = divmod(second_of_day, 3600)
        if self.hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self.minutes >> minute & 1:
                found = _first_bit(self.seconds, second)
                if found >= 0:
                    return hour * 3600 + minute * 60 + found
            found = _first_bit(self.minutes, minute + 1)
            if found >= 0:
                return hour * 3600 + found * 60 + self.first_minute_and_second % 60
        hour = _first_bit(self.hours, hour + 1)
        return -1 if hour < 0 else hour * 3600 + self.first_minute_and_second

    def _previous_time(self, second_of_day: int) -> int:
        """The last matching second of a day that is not later than this one, or -1."""
        hour, rest = divmod(second_of_day, 3600)
        if self.hours >> hour & 1:
            minute, second = divmod(rest, 60)
            if self.minutes >> minute & 1:
                found = _last_bit(self.seconds, second)
                if found >= 0:
                    return hour * 3600 + minute * 60 + found
            found = _last_bit(self.minutes, minute - 1)
            if found >= 0:
                return hour * 3600 + found * 60 + self.last_minute_and_second % 60
        hour = _last_bit(self.hours, hour - 1)
        return -1 if hour < 0 else hour * 3600 + self.last_minute_and_second

    def _next_day(self, day: int) -> int | None:
        """The first matching day that is not earlier than this one, in days since 1970-01-01."""
        if day > LAST_DAY:
            return None
        start = date.fromordinal(day + EPOCH_ORDINAL)
        first, days = self._days_of(start.year, start.month)
        found = _first_bit(days, start.day)
        if found >= 0:
            return first + found
        for year, month in self._months_after(start.year, start.month):
            first, days = self._days_of(year, month)
            if days:
                return first + _first_bit(days, 1)
        return None

    def _previous_day(self, day: int) -> int | None:
        """The last matching day that is not later than this one, in days since 1970-01-01."""
        if day < 0:
            return None
        start = date.fromordinal(day + EPOCH_ORDINAL)
        first, days = self._days_of(start.year, start.month)
        found = _last_bit(days, start.day)
        if found >= 0:
            return first + found
        for year, month in self._months_before(start.year, start.month):
            first, days = self._days_of(year, month)
            if days:
                return first + _last_bit(days, 31)
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, int]:
        """The day number before the month's first, and the mask of the month's matching days."""
        ordinal = date(year, month, 1).toordinal()
        before_first = ordinal - EPOCH_ORDINAL - 1
        if not (self.months >> month & 1 and self.years >> (year - FIRST_YEAR) & 1):
            return before_first, 0
        return before_first, self.month_days[_shape(ordinal, _month_length(year, month))]

    def _months_after(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        while 0 <= year - FIRST_YEAR < YEAR.cycle:
            while (month := _first_bit(self.months, month + 1)) >= 0:
                yield year, month
            year = FIRST_YEAR + _first_bit(self.years, year - FIRST_YEAR + 1)
            month = 0

    def _months_before(self, year: int, month: int) -> Iterator[tuple[int, int]]:
        while 0 <= year - FIRST_YEAR < YEAR.cycle:
            while (month := _last_bit(self.months, month - 1)) >= 0:
                yield year, month
            year = FIRST_YEAR + _last_bit(self.years, year - FIRST_YEAR - 1)
            month = 13


def parse(expr: str, job: str = "") -> Cron:
    """The parsed expression; the job's name decides what ``H`` stands for.

    Raises ScheduleError with the field, the offending text and a remedy, and nothing else, for any text. An expression
    that matches no date from 1970 to 2199 (``0 0 0 30 2 * *``) is refused.
    """
    fields = seven_fields(expr)
    second, minute, hour, day, month, weekday, year = (text.upper() for text in fields)
    seconds = parse_mask(SECOND, second, job)
    minutes = parse_mask(MINUTE, minute, job)
    wants_both_days, weekday = weekday.startswith(BOTH), weekday.removeprefix(BOTH)
    both_days_restricted = not wants_both_days and day not in ("*", "?") and weekday not in ("*", "?")
    day_rule, weekday_rule = parse_day_of_month(day, job), parse_day_of_week(weekday, job)
    cron = Cron(
        seconds=seconds,
        minutes=minutes,
        hours=parse_mask(HOUR, hour, job),
        months=parse_mask(MONTH, month, job),
        years=parse_mask(YEAR, year, job),
        month_days=_month_days(day_rule, weekday_rule, both_days_restricted),
        first_minute_and_second=_first_bit(minutes, 0) * 60 + _first_bit(seconds, 0),
        last_minute_and_second=_last_bit(minutes, 59) * 60 + _last_bit(seconds, 59),
        is_fixed_time=not any(text.startswith("*") for text in (second, minute, hour)),
        both_days_restricted=both_days_restricted,
    )
    if cron.next_local(FIRST_LOCAL - 1) is None:
        message = f"is no date from {FIRST_YEAR} to {LAST_YEAR} (day-of-month month day-of-week year)"
        raise _error(" ".join(fields[3:]), message, "choose a date that exists", field="day-of-month")
    return cron


def seven_fields(expr: str) -> tuple[str, str, str, str, str, str, str]:
    """The seven fields of an expression as written, after macros and classic five-field lines are rewritten.

    Looks at the number of fields and the characters only. Raises ScheduleError for anything else.
    """
    if len(expr) > MAX_EXPRESSION_CHARACTERS:
        message = f"has {len(expr)} characters, more than {MAX_EXPRESSION_CHARACTERS}"
        raise _error(expr, message, "use ranges and steps, or several expressions")
    if not _ALLOWED_TEXT.fullmatch(expr):
        raise _error(
            expr, "holds a character that no cron field has", "write plain ASCII with blanks between the fields"
        )
    match expr.split():
        case [second, minute, hour, day, month, weekday, year]:
            return second, minute, hour, day, month, weekday, year
        case [minute, hour, day, month, weekday]:
            return "0", minute, hour, day, month, weekday, "*"
        case [macro] if macro.startswith("@"):
            if macro.upper() not in _MACROS:
                known = " ".join(name.lower() for name in _MACROS)
                remedy = f"write one of {known}, or seven fields; for an interval use `every`"
                raise _error(macro, "is not a macro", remedy)
            return _MACROS[macro.upper()]
        case [_, _, _, _, _, _] as six:
            line = " ".join(six)
            readings = f"with seconds first it is `{line} *`, with a year last `0 {line}`"
            message = f"has six fields, which can be read in two ways: {readings}"
            raise _error(expr, message, "write the one that you mean")
        case fields:
            message = f"has {len(fields)} field{'' if len(fields) == 1 else 's'}"
            remedy = "write seven: second minute hour day-of-month month day-of-week year, or a crontab's five"
            raise _error(expr, message, remedy)


@lru_cache(maxsize=4096)
def uses_hash(expr: str) -> bool:
    """Whether the expression has an ``H``, and so differs from job to job."""
    return _HASHED.search(expr) is not None


def _error(text: str, message: str, remedy: str, *, field: str = "expression") -> ScheduleError:
    return ScheduleError(field=field, text=shortened(text), message=message, remedy=remedy)


@lru_cache(maxsize=1024)
def _month_days(day: DayOfMonthRule, weekday: DayOfWeekRule, either: bool) -> tuple[int, ...]:
    """The matching days of the 28 shapes of month: both rules where one is ``*``, either where both are restricted."""
    shapes = [(length, first) for first in range(7) for length in range(28, 32)]
    pairs = [(day.days(*shape), weekday.days(*shape)) for shape in shapes]
    return tuple(left | right if either else left & right for left, right in pairs)


@lru_cache(maxsize=_CACHED_DAYS)
def _matching_days(years: int, months: int, month_days: tuple[int, ...]) -> Days:
    marks: dict[tuple[bool, int], str] = {}
    written: list[str] = []
    for year in YEARS:
        kind = is_leap(year), date(year, 1, 1).toordinal() % 7
        if kind not in marks:
            marks[kind] = "".join(_month_marks(year, month, months, month_days) for month in range(1, 13))
        written.append(marks[kind] if years >> (year - FIRST_YEAR) & 1 else "0" * len(marks[kind]))
    return days_written("".join(written))


def _month_marks(year: int, month: int, months: int, month_days: tuple[int, ...]) -> str:
    """A "1" for each day that matches, else a "0"."""
    length = _month_length(year, month)
    days = month_days[_shape(date(year, month, 1).toordinal(), length)] if months >> month & 1 else 0
    return f"{days >> 1:0{length}b}"[::-1]


def _shape(first_ordinal: int, length: int) -> int:
    """Where `month_days` has a month that begins on this day."""
    # Proleptic ordinals count from a Monday, so that the remainder is 0 on Sundays, as in cron.
    return 4 * (first_ordinal % 7) + length - 28


def _month_length(year: int, month: int) -> int:
    return _MONTH_LENGTHS[month] + (month == 2 and is_leap(year))


def _first_bit(mask: int, start: int) -> int:
    """The lowest set bit that is not below the start, or -1."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1


def _last_bit(mask: int, stop: int) -> int:
    """The highest set bit that is not above the stop, or -1."""
    return (mask & ((2 << stop) - 1)).bit_length() - 1 if stop >= 0 else -1
