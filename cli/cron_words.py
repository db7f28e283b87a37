"""Each field of a cron expression in words, with the values that it stands for taken from the engine's own masks.

So the words are true by construction: a step is told with its values, not as "every n", which is only true where n
divides the cycle.
"""

from __future__ import annotations

from typing import Final

from common.schedules.cron import seven_fields
from common.schedules.cron_fields import (
    DAY,
    FIELDS,
    MONTH,
    WEEKDAY,
    CronField,
    DayOfMonthRule,
    DayOfWeekRule,
    parse_day_of_month,
    parse_day_of_week,
    parse_mask,
)

_MONTHS: Final = (
    "", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_NTH: Final = ("", "first", "second", "third", "fourth", "fifth")
_LISTED: Final = 8
"""So many values are told one by one; of more, the first three and the last."""


def field_words(expr: str, job: str) -> list[tuple[str, str, str]]:
    """(name of the field, its text, its words) for each of the seven; ScheduleError where it is not valid.

    `job`: the name from which `H` takes its value; empty: it is told that there is none yet.
    """
    texts = seven_fields(expr)
    return [(field.name, text, _words(field, text.upper(), job)) for field, text in zip(FIELDS, texts, strict=True)]


def _words(field: CronField, text: str, job: str) -> str:
    if text in ("*", "?"):
        return "any"
    hashed = any(item.startswith("H") for item in text.split(","))
    if hashed and not job:
        return "a fixed value that comes from the job's name (--job NAME shows which)"
    if field is DAY:
        words = _day_words(parse_day_of_month(text, job))
    elif field is WEEKDAY:
        words = _weekday_words(parse_day_of_week(text, job))
    else:
        words = _values(field, parse_mask(field, text, job))
    return f"{words}  (from the name {job})" if hashed else words


def _day_words(rule: DayOfMonthRule) -> str:
    words = [_values(DAY, rule.plain)] if rule.plain else []
    for before in _bits(rule.before_last):
        last = "the last day of the month"
        words.append(f"{before} day{'' if before == 1 else 's'} before {last}" if before else last)
    words += [f"the weekday (Monday to Friday) nearest to day {day}" for day in _bits(rule.nearest)]
    if rule.last_weekday:
        words.append("the last weekday (Monday to Friday) of the month")
    return ", ".join(words)


def _weekday_words(rule: DayOfWeekRule) -> str:
    words = [_values(WEEKDAY, rule.plain)] if rule.plain else []
    words += [f"the last {_WEEKDAYS[day]} of the month" for day in _bits(rule.last)]
    words += [f"the {_NTH[nth]} {_WEEKDAYS[day]} of the month" for day, nth in sorted(rule.nth)]
    return ", ".join(words)


def _values(field: CronField, mask: int) -> str:
    """The values of a mask: as a range where they follow one another, else listed."""
    values = [value + field.base for value in _bits(mask)]
    if len(values) == field.cycle:
        return "any"
    names = [_name(field, value) for value in values]
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{names[0]} to {names[-1]}"
    if len(values) <= _LISTED:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ... {names[-1]}  ({len(values)} values)"


def _name(field: CronField, value: int) -> str:
    if field is MONTH:
        return _MONTHS[value]
    return _WEEKDAYS[value] if field is WEEKDAY else str(value)


def _bits(mask: int) -> list[int]:
    return [value for value in range(mask.bit_length()) if mask >> value & 1]
