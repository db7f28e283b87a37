"""A cron expression in words that are certain to be true.

An adapter on cron-descriptor, behind a list of forms that it gets right. Outside the list it misleads: it says "every 7
seconds" for ``*/7``, which starts again each minute, and "every 2 days of the week" for ``*/2``; there the words are
composed of the values of each field. The test compares what it says with what the engine does. In Chinese the list is
shorter, and the words are mended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cron_descriptor import ExpressionDescriptor, Options

from common.errors import ScheduleError
from common.schedules.cron import parse, seven_fields, uses_hash
from common.words.composed import composed
from common.words.phrases import CHINESE, DEFAULT, ENGLISH

_WEEKDAYS_ZH: Final = {
    "Sunday": "星期日", "Monday": "星期一", "Tuesday": "星期二", "Wednesday": "星期三", "Thursday": "星期四",
    "Friday": "星期五", "Saturday": "星期六",
}  # fmt: skip
_NAMES: Final = dict(zip(ENGLISH.months, CHINESE.months, strict=True)) | _WEEKDAYS_ZH
_NAME = re.compile("|".join(_NAMES))
_NTH = re.compile(r"在 (第.个[^ ,]+) 每月")
_LIST = re.compile(r"(?<!, )(?<![^\s,])(?:[^\s,]+, )*[^\s,]+,? 和 ")
_BETWEEN_CHARACTERS = re.compile(r"(?<=[\u4e00-\u9fff]) +(?=[\u4e00-\u9fff])")
_UNTOLD = re.compile(r"L-[0-9]+")


def is_told(day: str) -> bool:
    """Whether there are Chinese words for this day of the month: the library has none for days before the last."""
    return _UNTOLD.fullmatch(day) is None


def mended(words: str) -> str:
    """The library's words with every name in Chinese, and its lists and clauses set apart as Chinese does."""
    words = _NAME.sub(lambda name: _NAMES[name.group()], words)
    words = _NTH.sub(r"每月的\1", words)
    words = _LIST.sub(lambda found: found.group().replace(", 和 ", " 和 ").replace(", ", "、"), words)
    words = _BETWEEN_CHARACTERS.sub("", words)
    return re.sub(r"(?<! ) *, *", "，", words).strip()


_CHINESE = "zh-CN"
_DAY_FIELD = 3
_NUMBER = r"[0-9]{1,2}"
_NUMBERS = rf"{_NUMBER}(?:,{_NUMBER})*"
_MONTH = rf"(?:{_NUMBER}|[A-Z]{{3}})"
_WEEKDAY = r"(?:[0-7]|[A-Z]{3})"
_YEAR = "[0-9]{4}"

# A step is said as "every n": true only where n divides the cycle, so that it goes on evenly into the next one.
_EVEN_SIXTIETHS = r"\*/(?:2|3|4|5|6|10|12|15|20|30)"
_EVEN_HOURS = r"\*/(?:2|3|4|6|8|12)"

_TIME_OF_DAY = tuple(
    re.compile(form)
    for form in (
        r"\* \* \*",
        rf"{_EVEN_SIXTIETHS} \* \*",
        rf"{_NUMBER} \* \*",
        rf"0 {_EVEN_SIXTIETHS} \*",
        rf"0 {_NUMBERS} \*",
        rf"0 0 {_EVEN_HOURS}",
        rf"{_NUMBER} {_NUMBER} {_NUMBER}",
        rf"0 {_NUMBER} {_NUMBERS}",
        rf"0 (?:\*|{_NUMBER}|{_EVEN_SIXTIETHS}) {_NUMBER}-{_NUMBER}",
    )
)
_DAY = re.compile(rf"\*|\?|L|LW|{_NUMBER}W|L-(?:[2-9]|[12][0-9])|{_NUMBERS}|{_NUMBER}-{_NUMBER}")
_MONTHS = re.compile(rf"\*|{_MONTH}(?:,{_MONTH})*|{_MONTH}-{_MONTH}")
_WEEKDAYS = re.compile(rf"\*|\?|{_WEEKDAY}(?:,{_WEEKDAY})*|{_WEEKDAY}-{_WEEKDAY}|{_WEEKDAY}L|{_WEEKDAY}#[1-5]")
_ONE_WEEKDAY = re.compile(rf"\*|\?|{_WEEKDAY}")
_YEARS = re.compile(rf"\*|{_YEAR}(?:,{_YEAR})*|{_YEAR}-{_YEAR}")


def describe(expr: str, language: str = DEFAULT, job: str = "") -> str:
    """Words such as ``At 02:30, Monday through Friday``; ``job``: whose name decides what ``H`` stands for.

    Never raises: a text that is not a cron expression comes back as it is, and so does one with ``H`` of no job; an
    unknown language is English.
    """
    try:
        cron = parse(expr, job)
        fields = tuple(field.upper() for field in seven_fields(expr))
    except ScheduleError:
        return expr
    if uses_hash(expr) and not job:
        return expr
    if not is_phrase(fields, language):
        return composed(cron, fields, language, job)
    return mended(_words(fields, "zh_CN")) if language == _CHINESE else _words(fields, "en_US")


def is_phrase(fields: Sequence[str], language: str) -> bool:
    """Whether the library says it truly."""
    return _is_told_truly(fields) and (language != _CHINESE or is_told(fields[_DAY_FIELD]))


def _is_told_truly(fields: Sequence[str]) -> bool:
    second, minute, hour, day, month, weekday, year = fields
    time_of_day = f"{second} {minute} {hour}"
    if not any(form.fullmatch(time_of_day) for form in _TIME_OF_DAY):
        return False
    ends = day.split("-")  # a range such as 25-5 would be said as "between day 25 and 5 of the month"
    if len(ends) == 2 and all(end.isdigit() for end in ends) and int(ends[0]) > int(ends[1]):
        return False
    # Where either day field may match, only a single weekday is said with an "or".
    is_either = day not in ("*", "?") and weekday not in ("*", "?")
    forms = (_DAY, day), (_MONTHS, month), (_ONE_WEEKDAY if is_either else _WEEKDAYS, weekday), (_YEARS, year)
    return all(form.fullmatch(text) for form, text in forms)


def _words(fields: tuple[str, ...], locale: str) -> str:
    # The locale and the 24 hours are given, so that the machine's locale is not asked.
    options = Options(locale_code=locale, use_24hour_time_format=True)
    return str(ExpressionDescriptor(" ".join(fields), options))
