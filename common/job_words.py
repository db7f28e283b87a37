"""When a job fires, in words: its trigger, the window, the calendar and the jitter.

An adapter, as ``common.describe`` is: of a cron expression it says only what is certain to be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final

from common.describe import describe
from common.duration import Duration
from common.instants import from_ms
from common.job import JobSpec
from common.job_calendar import Calendar
from common.zones import load_zone

_UNITS: Final = (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_DATES_SHOWN: Final = 3


def job_words(spec: JobSpec) -> str:
    """Such as ``Every 15 minutes, 5 minutes past, until 2026-12-31 18:00, not on December 25``."""
    return ", ".join(_parts(spec))


def span_words(span: Duration) -> str:
    """A span in the units that a person would count it in: ``1 hour 30 minutes``."""
    seconds, said = span.ms // 1000, []
    for unit, length in _UNITS:
        # Whole weeks alone are counted in weeks: 90 days are not 12 weeks 6 days.
        if unit != "week" or seconds % length == 0:
            number, seconds = divmod(seconds, length)
            if number:
                said.append(_counted(number, unit))
    return " ".join(said) or "0 seconds"


def local_words(ms: int, timezone: str) -> str:
    """An instant as the clocks of a zone show it, without a zero second."""
    local = from_ms(ms).astimezone(load_zone(timezone).info)
    return f"{local:%Y-%m-%d %H:%M:%S}" if local.second else f"{local:%Y-%m-%d %H:%M}"


def calendar_words(calendar: Calendar) -> str:
    """The dates that a calendar names, the first few of them."""
    dates = [_entry_words(entry) for entry in calendar.entries]
    shown = ", ".join(dates[:_DATES_SHOWN])
    if len(dates) > _DATES_SHOWN:
        shown += f" and {_counted(len(dates) - _DATES_SHOWN, 'more entry')}"
    return f"only on {shown}" if calendar.include else f"not on {shown}"


def _parts(spec: JobSpec) -> Iterator[str]:
    yield _trigger_words(spec)
    if spec.offset is not None and spec.offset.ms:
        yield f"{span_words(spec.offset)} past"
    if spec.start_at is not None:
        yield f"from {local_words(spec.start_at.ms, spec.timezone)}"
    if spec.end_at is not None:
        yield f"until {local_words(spec.end_at.ms, spec.timezone)}"
    if spec.calendar is not None:
        yield calendar_words(spec.calendar)
    if spec.jitter_s:
        yield f"up to {span_words(Duration('', spec.jitter_s * 1000))} later (jitter)"


def _trigger_words(spec: JobSpec) -> str:
    if spec.every is not None:
        span = span_words(spec.every)
        return f"Every {span.removeprefix('1 ') if _is_one_unit(spec.every) else span}"
    if spec.after is not None:
        return f"{span_words(spec.after)} after the last run ended"
    if spec.at is not None:
        return f"Once at {local_words(spec.at.ms, spec.timezone)}"
    return "; ".join(_cron_words(expr, goes_on=index > 0) for index, expr in enumerate(spec.cron_exprs))


def _is_one_unit(span: Duration) -> bool:
    return span.ms // 1000 in {length for _, length in _UNITS}


def _cron_words(expr: str, *, goes_on: bool) -> str:
    words = expression_words(expr)
    return words if words == expr or not goes_on else words[0].lower() + words[1:]


@lru_cache(maxsize=4_096)
def expression_words(expr: str) -> str:
    """An expression in words, or the expression itself; a page has many, and most jobs share a few."""
    return describe(expr)


def _entry_words(entry: str) -> str:
    return " to ".join(_day_words(end) for end in entry.split("/"))


def _day_words(text: str) -> str:
    if len(text) > len("12-24"):
        return text
    day = date.fromisoformat(f"2000-{text}")
    return f"{day:%B} {day.day}"


def _counted(number: int, unit: str) -> str:
    plural = f"{unit[:-1]}ies" if unit.endswith("y") and unit != "day" else f"{unit}s"
    return f"{number:,} {unit if number == 1 else plural}"
