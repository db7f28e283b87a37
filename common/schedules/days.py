"""A set of local days as one number: which of them match, are open or may have a fire. Pure: standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from common.schedules.cron_fields import FIRST_YEAR, LAST_YEAR

EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
LAST_DAY: Final = date(LAST_YEAR, 12, 31).toordinal() - EPOCH_ORDINAL
YEARS: Final = range(FIRST_YEAR, LAST_YEAR + 1)


@dataclass(frozen=True, slots=True)
class Days:
    """Days from 1970 to 2199, counted since 1970-01-01; a day beyond is in it where the nearest one is."""

    bits: int
    """Day 0 is the lowest. Some 10 KB, so that a search takes a microsecond or two."""

    def __bool__(self) -> bool:
        return self.bits != 0

    def __contains__(self, day: int) -> bool:
        return bool(self.bits >> _within(day) & 1)

    def __and__(self, other: Days) -> Days:
        return Days(self.bits & other.bits)

    def __or__(self, other: Days) -> Days:
        return Days(self.bits | other.bits)

    @property
    def next(self) -> Days:
        """The day after each of them."""
        return Days(self.bits << 1 & EVERY_DAY.bits)

    def first_from(self, day: int) -> int | None:
        """The first of them from this day on."""
        if day in self:
            return day
        later = self.bits >> max(day, 0)
        return max(day, 0) + (later & -later).bit_length() - 1 if later else None

    def last_until(self, day: int) -> int | None:
        """The last of them up to this day."""
        if day in self:
            return day
        earlier = self.bits & ((1 << max(min(day, LAST_DAY) + 1, 0)) - 1)
        return earlier.bit_length() - 1 if earlier else None


EVERY_DAY: Final = Days((2 << LAST_DAY) - 1)
NO_DAY: Final = Days(0)


def days_of(numbers: Iterable[int]) -> Days:
    """These days."""
    marks = bytearray(b"0") * (LAST_DAY + 1)
    for day in numbers:
        marks[_within(day)] = b"1"[0]
    return days_written(marks.decode())


def days_written(marks: str) -> Days:
    """From a "1" for each day that is in it and a "0" for each that is not, the first day first."""
    return Days(int(marks[::-1], 2))


def is_leap(year: int) -> bool:
    """Whether the year has a February 29."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _within(day: int) -> int:
    return min(max(day, 0), LAST_DAY)
