"""Any cron expression in words, composed of what its fields came to: longer than a phrase, and never wrong.

For what ``describe`` has no phrase for: steps that start again each hour, ranges, lists, several days. A field is said
by its values, as runs or steps: ``0 and 45``, ``9 to 17``, ``0 to 56 in steps of 7``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from common.schedules.cron import Cron
from common.schedules.cron_fields import (
    FIRST_YEAR,
    DayOfMonthRule,
    DayOfWeekRule,
    parse_day_of_month,
    parse_day_of_week,
    values_of,
)
from common.words.phrases import CHINESE, ENGLISH

_BETWEEN_CHARACTERS: Final = re.compile(r"(?<=[\u4e00-\u9fff]) +(?=[\u4e00-\u9fff])")
_AROUND_MARKS: Final = re.compile(r"(?<! ) *([（）、，]) *")
_MOST_TIMES: Final = 6
"""Times of a day that are said one by one."""
_RUN: Final = 3
_STEPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """``{}`` stands for the values of a field, ``{s}`` for the ending where they are several."""

    at: str
    seconds: str
    minutes: str
    hours: str
    every_second: str
    every_minute: str
    of_every_minute: str
    every_hour: str
    within: Callable[[Sequence[str]], str]
    """The parts of a time, the smallest first."""
    days: str
    last_day: str
    day_before_last: str
    before_last: str
    nearest: str
    last_weekday: str
    weekdays: str
    last: str
    nth: str
    ordinals: Sequence[str]
    either: str
    both: str
    in_months: str
    in_years: str
    weekday_names: Sequence[str]
    month_names: Sequence[str]
    run: str
    steps: str
    between: str
    end: str
    """Before the last of several values."""
    separator: str


_ENGLISH: Final = _Language(
    at="at {}", seconds="at second{s} {}", minutes="at minute{s} {}", hours="hour{s} {}", every_second="every second",
    every_minute="every minute", of_every_minute="every minute", every_hour="every hour", within=" of ".join,
    days="on day{s} {} of the month", last_day="on the last day of the month",
    day_before_last="on the day before the last of the month", before_last="{} days before the last day of the month",
    nearest="on the weekday nearest day {} of the month", last_weekday="on the last weekday of the month",
    weekdays="on {}", last="on the last {} of the month", nth="on the {1} {0} of the month",
    ordinals=("first", "second", "third", "fourth", "fifth"), either="{} or {}", both="{}, if that is also {}",
    in_months="in {}", in_years="in {}",
    weekday_names=("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
    month_names=ENGLISH.months, run="{} to {}", steps="{} to {} in steps of {}", between=", ", end=" and ",
    separator=", ",
)  # fmt: skip

_CHINESE: Final = _Language(
    at="在 {}", seconds="第 {} 秒", minutes="第 {} 分", hours="{} 点", every_second="每秒", every_minute="每分钟",
    of_every_minute="每分钟", every_hour="每小时", within=lambda parts: "在 " + "的".join(reversed(parts)),
    days="每月 {} 号", last_day="每月最后一天",
    day_before_last="每月倒数第二天", before_last="每月最后一天之前 {} 天", nearest="每月最接近 {} 号的平日",
    last_weekday="每月最后一个平日", weekdays="{}", last="每月最后一个{}", nth="每月第{1}个{0}",
    ordinals=("一", "二", "三", "四", "五"), either="{}或{}", both="{}且为{}", in_months="{}", in_years="{} 年",
    weekday_names=("星期日", "星期一", "星期二", "星期三", "星期四", "星期五", "星期六"), month_names=CHINESE.months,
    run="{} 到 {}", steps="{} 到 {}（间隔 {}）", between="、", end=" 和 ", separator="，",
)  # fmt: skip

_LANGUAGES: Final = {"zh-CN": _CHINESE}


def composed(cron: Cron, fields: Sequence[str], language: str, job: str = "") -> str:
    """``fields``: the seven of the expression, in capitals; the job's name decides what ``H`` stands for."""
    said = _LANGUAGES.get(language, _ENGLISH)
    days = _days(fields[3], fields[5], job, said, is_either=cron.both_days_restricted)
    parts = [_time(cron, said), *([days] if days else [])]
    if (months := values_of(cron.months)) != list(range(1, 13)):
        parts.append(said.in_months.format(_spans(months, said, lambda month: said.month_names[month - 1])))
    if fields[6] != "*":
        parts.append(said.in_years.format(_spans([FIRST_YEAR + one for one in values_of(cron.years)], said)))
    words = _AROUND_MARKS.sub(r"\1", _BETWEEN_CHARACTERS.sub("", said.separator.join(parts)))
    return words[0].upper() + words[1:]


def _time(cron: Cron, said: _Language) -> str:
    seconds, minutes, hours = (values_of(mask) for mask in (cron.seconds, cron.minutes, cron.hours))
    if len(seconds) * len(minutes) * len(hours) <= _MOST_TIMES:
        shape = "{:02}:{:02}" if seconds == [0] else "{:02}:{:02}:{:02}"
        times = [shape.format(hour, minute, second) for hour in hours for minute in minutes for second in seconds]
        return said.at.format(_listed(times, said))
    hour = said.every_hour if len(hours) == 24 else _of(said.hours, hours, said)
    if seconds == [0]:
        minute = said.every_minute if len(minutes) == 60 else _of(said.minutes, minutes, said)
        return said.within([minute, hour])
    second = said.every_second if len(seconds) == 60 else _of(said.seconds, seconds, said)
    if len(minutes) == 60:
        return said.within([second, said.of_every_minute, *([hour] if len(hours) < 24 else [])])
    return said.within([second, _of(said.minutes, minutes, said).removeprefix("at "), hour])


def _days(day: str, weekday: str, job: str, said: _Language, *, is_either: bool) -> str:
    sides = []
    if day not in ("*", "?"):
        sides.append(_listed(list(_month_days(parse_day_of_month(day, job), said)), said))
    if (weekday := weekday.removeprefix("&")) not in ("*", "?"):
        sides.append(_listed(list(_weekdays(parse_day_of_week(weekday, job), said)), said))
    if len(sides) < 2:
        return "".join(sides)
    return said.either.format(*sides) if is_either else said.both.format(sides[0], sides[1].removeprefix("on "))


def _month_days(rule: DayOfMonthRule, said: _Language) -> Iterator[str]:
    if rule.plain:
        yield _of(said.days, values_of(rule.plain), said)
    for before in values_of(rule.before_last):
        yield (said.last_day, said.day_before_last, said.before_last.format(before))[min(before, 2)]
    for day in values_of(rule.nearest):
        yield said.nearest.format(day)
    if rule.last_weekday:
        yield said.last_weekday


def _weekdays(rule: DayOfWeekRule, said: _Language) -> Iterator[str]:
    names = said.weekday_names
    if rule.plain:
        yield said.weekdays.format(_spans(values_of(rule.plain), said, lambda day: names[day]))
    for day in values_of(rule.last):
        yield said.last.format(names[day])
    for day, number in sorted(rule.nth, key=lambda one: one[::-1]):
        yield said.nth.format(names[day], said.ordinals[number - 1])


def _of(template: str, values: list[int], said: _Language) -> str:
    return template.format(_spans(values, said), s="s" if len(values) > 1 else "")


def _spans(values: list[int], said: _Language, name: Callable[[int], str] = str) -> str:
    """The values as runs, as steps, or one by one."""
    steps = {later - earlier for earlier, later in pairwise(values)}
    if name is str and len(values) >= _STEPS and len(steps) == 1 and steps != {1}:
        return said.steps.format(values[0], values[-1], steps.pop())
    return _listed([one for run in _runs(values) for one in _run(run, said, name)], said)


def _runs(values: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return runs


def _run(run: list[int], said: _Language, name: Callable[[int], str]) -> list[str]:
    return [said.run.format(name(run[0]), name(run[-1]))] if len(run) >= _RUN else [name(one) for one in run]


def _listed(words: Sequence[str], said: _Language) -> str:
    return said.between.join(words[:-1]) + said.end + words[-1] if len(words) > 1 else words[0]
