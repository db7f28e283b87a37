"""When a job fires, in words: its trigger, the window, the calendar and the jitter.

An adapter, as ``common.words.describe`` is: of a cron expression it says only what is certain to be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from typing import Final

from common.instants import Duration, from_ms
from common.jobs.job import JobSpec
from common.schedules.cron import uses_hash
from common.schedules.job_calendar import Calendar
from common.schedules.zones import load_zone
from common.words.describe import describe
from common.words.phrases import DEFAULT, ENGLISH, PHRASES, Phrases

_SECONDS: Final = {"week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_DATES_SHOWN: Final = 3


def job_words(spec: JobSpec, language: str = DEFAULT) -> str:
    """Such as ``Every 15 minutes, 5 minutes past, until 2026-12-31 18:00, not on December 25``.

    An unknown language is English.
    """
    phrases = PHRASES.get(language, ENGLISH)
    return phrases.separator.join(_parts(spec, phrases, language))


def span_words(span: Duration, phrases: Phrases = ENGLISH) -> str:
    """A span in the units that a person would count it in: ``1 hour 30 minutes``."""
    seconds, said = span.ms // 1000, []
    for unit, length in _SECONDS.items():
        # Whole weeks alone are counted in weeks: 90 days are not 12 weeks 6 days.
        if unit != "week" or seconds % length == 0:
            number, seconds = divmod(seconds, length)
            if number:
                said.append(_counted(number, phrases.units[unit]))
    return " ".join(said) or phrases.zero


def local_words(ms: int, timezone: str) -> str:
    """An instant as the clocks of a zone show it, without a zero second."""
    local = from_ms(ms).astimezone(load_zone(timezone).info)
    return f"{local:%Y-%m-%d %H:%M:%S}" if local.second else f"{local:%Y-%m-%d %H:%M}"


def calendar_words(calendar: Calendar, phrases: Phrases = ENGLISH) -> str:
    """The dates that a calendar names, the first few of them."""
    dates = []
    for entry in calendar.entries:
        first, *last = [_day_words(end, phrases) for end in entry.split("/")]
        dates.append(phrases.between.format(first, *last) if last else first)
    shown = phrases.date_separator.join(dates[:_DATES_SHOWN])
    if len(dates) > _DATES_SHOWN:
        shown += _counted(len(dates) - _DATES_SHOWN, phrases.more)
    return (phrases.only_on if calendar.include else phrases.not_on).format(shown)


def _parts(spec: JobSpec, phrases: Phrases, language: str) -> Iterator[str]:
    yield _trigger_words(spec, phrases, language)
    if spec.offset is not None and spec.offset.ms:
        yield phrases.offset.format(span_words(spec.offset, phrases))
    if spec.start_at is not None:
        yield phrases.since.format(local_words(spec.start_at.ms, spec.timezone))
    if spec.end_at is not None:
        yield phrases.until.format(local_words(spec.end_at.ms, spec.timezone))
    if spec.calendar is not None:
        yield calendar_words(spec.calendar, phrases)
    if spec.jitter_s:
        yield phrases.jitter.format(span_words(Duration("", spec.jitter_s * 1000), phrases))


def _trigger_words(spec: JobSpec, phrases: Phrases, language: str) -> str:
    if spec.every is not None:
        unit = next((unit for unit, length in _SECONDS.items() if spec.every.ms // 1000 == length), None)
        return phrases.every.format(span_words(spec.every, phrases)) if unit is None else phrases.one[unit]
    if spec.after is not None:
        return phrases.after.format(span_words(spec.after, phrases))
    if spec.at is not None:
        return phrases.once.format(local_words(spec.at.ms, spec.timezone))
    if spec.at_boot:
        return phrases.boot
    words: list[str] = []
    for expr in spec.cron_exprs:
        told = expression_words(expr, language, spec.name if uses_hash(expr) else "")
        words.append(told if told == expr or not words else told[0].lower() + told[1:])
    return phrases.expressions.join(words)


@lru_cache(maxsize=4_096)
def expression_words(expr: str, language: str = DEFAULT, job: str = "") -> str:
    """An expression in words, or the expression itself; a page has many, and most jobs share a few."""
    return describe(expr, language, job)


def _day_words(text: str, phrases: Phrases) -> str:
    if len(text) > len("12-24"):
        return text
    day = date.fromisoformat(f"2000-{text}")
    return phrases.date.format(month=phrases.months[day.month - 1], number=day.month, day=day.day)


def _counted(number: int, forms: tuple[str, str]) -> str:
    one, many = forms
    return (one if number == 1 else many).format(number)
