"""One field of a cron expression: its text becomes a bit mask, or a ScheduleError that names the field and the remedy.

A mask has bit ``value - base`` set for every value that the field allows; the base is 1970 for years and 0 elsewhere.
Source of the grammar: job-model.md, *Seven fields*. Pure: standard library only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from common.errors import ScheduleError

FIRST_YEAR, LAST_YEAR = 1970, 2199

_SHOWN_CHARACTERS = 80
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

# Longer numbers are out of every range anyway, and int() of a huge text is slow.
_VALUE = r"[0-9]{1,20}|[A-Z]{3}"
_PLAIN_ITEM = re.compile(rf"(?:\*|(?P<start>{_VALUE})(?:-(?P<stop>{_VALUE}))?)(?:/(?P<step>[0-9]{{1,20}}))?")
_HASHED_ITEM = re.compile(rf"H(?:\((?P<start>{_VALUE})-(?P<stop>{_VALUE})\))?(?:/(?P<step>[0-9]{{1,20}}))?")
_LAST_DAY_ITEM = re.compile(r"L(?:-(?P<before>[0-9]{1,20}))?")
_NEAREST_ITEM = re.compile(r"(?P<day>[0-9]{1,20})W")
_LAST_WEEKDAY_ITEM = re.compile(rf"(?P<weekday>{_VALUE})L")
_NTH_WEEKDAY_ITEM = re.compile(rf"(?P<weekday>{_VALUE})#(?P<nth>[0-9]{{1,20}})")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CronField:
    """What one of the seven fields may hold. There are seven of them, each equal to itself alone."""

    name: str
    low: int
    high: int
    """The highest value of a cycle, where ``*`` and ``a/n`` end: Saturday (6) for weekdays."""
    forms: str
    """What may be written in it, for the remedy of an error."""
    names: Mapping[str, int] = field(default_factory=dict)
    base: int = 0
    hash_high: int
    """The highest value that a bare ``H`` takes: 28 for days, so that the day exists in every month."""

    @property
    def cycle(self) -> int:
        """How many values the field has before it starts again."""
        return self.high - self.low + 1


SECOND = CronField(name="second", low=0, high=59, hash_high=59, forms="write 0-59, *, a-b, */n, a/n, a list or H")
MINUTE = CronField(name="minute", low=0, high=59, hash_high=59, forms="write 0-59, *, a-b, */n, a/n, a list or H")
HOUR = CronField(name="hour", low=0, high=23, hash_high=23, forms="write 0-23, *, a-b, */n, a/n, a list or H")
DAY = CronField(
    name="day-of-month", low=1, high=31, hash_high=28,
    forms="write 1-31, *, ?, a-b, */n, a/n, L, L-3, LW, 15W, a list or H",
)  # fmt: skip
MONTH = CronField(
    name="month", low=1, high=12, hash_high=12, forms="write 1-12, JAN-DEC, *, a-b, */n, a/n, a list or H",
    names={name: number for number, name in enumerate(_MONTHS, start=1)},
)  # fmt: skip
WEEKDAY = CronField(
    name="day-of-week", low=0, high=6, hash_high=6,
    forms="write 0-7, SUN-SAT, *, ?, a-b, */n, a/n, 5L, 5#2, a list or H",
    names={name: number for number, name in enumerate(_WEEKDAYS)},
)  # fmt: skip
YEAR = CronField(
    name="year", low=FIRST_YEAR, high=LAST_YEAR, hash_high=LAST_YEAR, base=FIRST_YEAR,
    forms=f"write {FIRST_YEAR}-{LAST_YEAR}, *, a-b, */n, a/n or a list",
)  # fmt: skip
FIELDS = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY, YEAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfMonthRule:
    """Which days of a month the day-of-month field allows."""

    plain: int = 0
    """Bit d: day d, where the month has one."""
    before_last: int = 0
    """Bit n: n days before the last one (``L`` is bit 0)."""
    nearest: int = 0
    """Bit d: the weekday nearest to day d within the month, where the month has a day d."""
    last_weekday: bool = False

    def days(self, length: int, first_weekday: int) -> int:
        """The mask of matching days in a month of so many days that begins on that weekday (0 is Sunday)."""
        mask = self.plain & _all_days(length)
        for before in values_of(self.before_last & ((1 << length) - 1)):
            mask |= 1 << (length - before)
        for day in values_of(self.nearest & _all_days(length)):
            mask |= 1 << _nearest_weekday(day, length, first_weekday)
        if self.last_weekday:
            mask |= 1 << _nearest_weekday(length, length, first_weekday)
        return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfWeekRule:
    """Which days of a month the day-of-week field allows."""

    plain: int = 0
    """Bit w: every weekday w (0 is Sunday)."""
    last: int = 0
    """Bit w: the last weekday w of the month."""
    nth: frozenset[tuple[int, int]] = frozenset()
    """Pairs (weekday, n): the n-th of that weekday, 1 to 5, where the month has one."""

    def days(self, length: int, first_weekday: int) -> int:
        """The mask of matching days in a month of so many days that begins on that weekday (0 is Sunday)."""
        mask = 0
        for day in range(1, length + 1):
            weekday = (first_weekday + day - 1) % 7
            weekdays = self.plain | self.last if day + 7 > length else self.plain
            if weekdays >> weekday & 1 or (weekday, (day + 6) // 7) in self.nth:
                mask |= 1 << day
        return mask


EVERY_DAY_OF_MONTH = DayOfMonthRule(plain=(1 << 32) - 2)
EVERY_DAY_OF_WEEK = DayOfWeekRule(plain=(1 << 7) - 1)


def parse_mask(cron_field: CronField, text: str, job: str) -> int:
    """The mask of a field without day forms. The text is in capitals; ScheduleError when it is not understood."""
    # What has no H is the same for every job, and few such texts are in use: they are read once.
    return _mask(cron_field, text, job) if "H" in text else _shared_mask(cron_field, text)


@lru_cache(maxsize=1024)
def _shared_mask(cron_field: CronField, text: str) -> int:
    return _mask(cron_field, text, "")


def _mask(cron_field: CronField, text: str, job: str) -> int:
    mask = 0
    for item in text.split(","):
        mask |= _item_mask(cron_field, item, job)
    return mask


def parse_day_of_month(text: str, job: str) -> DayOfMonthRule:
    """The rule of the day-of-month field. The text is in capitals; ScheduleError when it is not understood."""
    if text in ("*", "?"):
        return EVERY_DAY_OF_MONTH
    plain = before_last = nearest = 0
    last_weekday = False
    for item in text.split(","):
        if item == "LW":
            last_weekday = True
        elif match := _LAST_DAY_ITEM.fullmatch(item):
            before = int(match["before"] or 0)
            if before > 30 or (match["before"] is not None and before == 0):
                raise _error(DAY, item, "is a day that no month has", "write L, or L-1 to L-30")
            before_last |= 1 << before
        elif match := _NEAREST_ITEM.fullmatch(item):
            nearest |= 1 << _number(DAY, match["day"])
        else:
            plain |= _item_mask(DAY, item, job)
    return DayOfMonthRule(plain=plain, before_last=before_last, nearest=nearest, last_weekday=last_weekday)


def parse_day_of_week(text: str, job: str) -> DayOfWeekRule:
    """The rule of the day-of-week field. The text is in capitals; ScheduleError when it is not understood."""
    if text in ("*", "?"):
        return EVERY_DAY_OF_WEEK
    plain = last = 0
    nth: set[tuple[int, int]] = set()
    for item in text.split(","):
        if match := _LAST_WEEKDAY_ITEM.fullmatch(item):
            last |= 1 << _number(WEEKDAY, match["weekday"]) % 7
        elif match := _NTH_WEEKDAY_ITEM.fullmatch(item):
            weekday, number = _number(WEEKDAY, match["weekday"]) % 7, int(match["nth"])
            if not 1 <= number <= 5:
                remedy = "write #1 to #5, or 5L for the last Friday"
                raise _error(WEEKDAY, item, "is a weekday that no month has", remedy)
            nth.add((weekday, number))
        else:
            plain |= _item_mask(WEEKDAY, item, job)
    return DayOfWeekRule(plain=plain, last=last, nth=frozenset(nth))


def shortened(text: str) -> str:
    """The text itself, or its beginning with an ellipsis, so that an error or a log line stays readable."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _item_mask(cron_field: CronField, item: str, job: str) -> int:
    if match := _PLAIN_ITEM.fullmatch(item):
        return _plain_mask(cron_field, item, match)
    if match := _HASHED_ITEM.fullmatch(item):
        return _hashed_mask(cron_field, item, match, job)
    raise _not_understood(cron_field, item)


def _plain_mask(cron_field: CronField, item: str, match: re.Match[str]) -> int:
    step = _step(cron_field, match["step"])
    if match["start"] is None:
        return _range_mask(cron_field, cron_field.low, cron_field.high, step)
    start = _number(cron_field, match["start"])
    if match["stop"] is not None:
        start, stop = _range(cron_field, item, start, _number(cron_field, match["stop"]))
        return _range_mask(cron_field, start, stop, step)
    if match["step"] is None:
        return _range_mask(cron_field, start, start, 1)
    # Sunday written as 7 begins the week, so that 7/2 means what 0/2 does.
    start = cron_field.low if start > cron_field.high else start
    return _range_mask(cron_field, start, cron_field.high, step)


def _hashed_mask(cron_field: CronField, item: str, match: re.Match[str], job: str) -> int:
    if cron_field is YEAR:
        raise _error(cron_field, item, "would choose one year for ever", cron_field.forms)
    step = _step(cron_field, match["step"])
    start, stop = cron_field.low, cron_field.hash_high
    if match["start"] is not None:
        low, high = _number(cron_field, match["start"]), _number(cron_field, match["stop"])
        start, stop = _range(cron_field, item, low, high)
    choices = stop - start + 1
    if match["step"] is None:
        value = start + _stable_hash(job, cron_field.name) % choices
        return _range_mask(cron_field, value, value, 1)
    return _range_mask(cron_field, start + _stable_hash(job, cron_field.name) % min(step, choices), stop, step)


def _stable_hash(job: str, field_name: str) -> int:
    """The same number on every worker, of every version: the first 8 bytes of SHA-256 of ``job NUL field``."""
    text = f"{job}\0{field_name}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def _range(cron_field: CronField, item: str, start: int, stop: int) -> tuple[int, int]:
    """The ends of a range, with the second one moved on by a cycle where the range wraps (``22-2`` is 22 to 26)."""
    if start > cron_field.high:
        # Sunday written as 7 at the start of a range begins the week: 7-2 is Sunday to Tuesday.
        start, stop = cron_field.low, stop % cron_field.cycle
    if start <= stop:
        return start, stop
    if cron_field is YEAR:
        raise _error(cron_field, item, "is a range that runs backwards", "write the earlier year first")
    return start, stop + cron_field.cycle


def _range_mask(cron_field: CronField, start: int, stop: int, step: int) -> int:
    low, cycle = cron_field.low, cron_field.cycle
    mask = 0
    for value in range(start, stop + 1, step):
        mask |= 1 << (value - low) % cycle + low - cron_field.base
    return mask


def _number(cron_field: CronField, text: str) -> int:
    if text in cron_field.names:
        return cron_field.names[text]
    if not text.isdigit():
        raise _not_understood(cron_field, text)
    number = int(text)
    high = 7 if cron_field is WEEKDAY else cron_field.high
    if not cron_field.low <= number <= high:
        raise _error(cron_field, text, f"is not between {cron_field.low} and {high}", cron_field.forms)
    return number


def _step(cron_field: CronField, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if step == 0:
        raise _error(cron_field, f"/{text}", "is a step that never moves on", "write a step of 1 or more")
    if step > cron_field.cycle:
        # As in the legacy system: */90 minutes would silently run once an hour.
        message = f"is a step beyond the {cron_field.cycle} values of the field"
        raise _error(cron_field, f"/{text}", message, f"write a step of at most {cron_field.cycle}, or use `every`")
    return step


def _not_understood(cron_field: CronField, item: str) -> ScheduleError:
    if item == "":
        return _error(cron_field, item, "has an empty item", "take out the extra comma")
    if item == "?":
        return _error(cron_field, item, "stands only for a whole day field", "write * or take it out of the list")
    return _error(cron_field, item, "is not understood", cron_field.forms)


def _error(cron_field: CronField, text: str, message: str, remedy: str) -> ScheduleError:
    return ScheduleError(field=cron_field.name, text=shortened(text), message=message, remedy=remedy)


def _all_days(length: int) -> int:
    return (2 << length) - 2


def values_of(mask: int) -> list[int]:
    """The places of the bits that are set."""
    return [value for value in range(mask.bit_length()) if mask >> value & 1]


def _nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    """The day from Monday to Friday that is nearest to the given one and in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day
