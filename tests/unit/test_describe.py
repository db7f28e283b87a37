"""Words where they are true, the expression where they would not be."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from common.schedules.cron import seven_fields
from common.schedules.schedule import parse_cron
from common.words.describe import describe, is_phrase

START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


@dataclass(frozen=True, kw_only=True)
class Told:
    """An expression, its words, and its first fires from 2026-01-01 00:00:00 on, so that a reader can compare them."""

    expr: str
    words: str
    fires: str


CHINESE = {
    "* * * * * * *": "每秒",
    "*/5 * * * * * *": "每 5 秒",
    "30 * * * * * *": "在每分钟的 30 秒",
    "0 * * * * * *": "每分钟",
    "*/15 * * * *": "每 15 分钟",
    "0 20 * * * * *": "在每小时的 20 分",
    "0 0,30 * * * * *": "在每小时的 0 和 30 分",
    "@hourly": "每小时",
    "0 0 */6 * * * *": "每 6 小时",
    "@daily": "在 00:00",
    "15 30 14 * * * *": "在 14:30:15",
    "0 30 6,14 * * * *": "在 06:30 和 14:30",
    "0 0 9-17 * * * *": "在每小时的 0 分，在 09:00 和 17:59 之间",
    "0 */20 22-0 * * * *": "每 20 分钟，在 22:00 和 00:59 之间",
    "0 30 2 * * 1-5 *": "在 02:30，星期一到星期五",
    "0 0 0 * * fri-mon *": "在 00:00，星期五到星期一",
    "0 0 0 ? * 7 *": "在 00:00，仅在星期日",
    "0 0 0 * * 6,0 *": "在 00:00，仅在星期六和星期日",
    "0 0 0 * * 5L *": "在 00:00，每月的最后一个星期五",
    "0 0 0 * * FRI#2 *": "在 00:00，每月的第二个星期五",
    "0 0 0 1,15 * * *": "在 00:00，每月的 1 和 15 号",
    "0 0 0 1-7 * * *": "在 00:00，在每月的 1 和 7 号之间",
    "0 0 0 L * * *": "在 00:00，每月的最后一天",
    "0 0 0 L-3 * * *": "在 00:00，每月最后一天之前 3 天",
    "0 0 0 LW * * *": "在 00:00，每月的最后一个平日",
    "0 0 0 15W * * *": "在 00:00，每月的最接近 15 号的平日",
    "0 0 0 13 * FRI *": "在 00:00，每月的 13 号，或星期五",
    "0 0 0 1 11-2 * *": "在 00:00，每月的 1 号，十一月到二月",
    "0 0 0 1 jan,JUN * *": "在 00:00，每月的 1 号，仅在一月和六月",
    "0 0 0 1 12 * 2026": "在 00:00，每月的 1 号，仅在十二月，仅在 2026",
}  # fmt: skip
"""The same expressions; for one of them the library has no words in Chinese."""


TOLD = [
    Told(expr="* * * * * * *", words="Every second", fires="01-01T00:00:00 01-01T00:00:01"),
    Told(expr="*/5 * * * * * *", words="Every 5 seconds", fires="01-01T00:00:00 01-01T00:00:05"),
    Told(expr="30 * * * * * *", words="At 30 seconds past the minute", fires="01-01T00:00:30 01-01T00:01:30"),
    Told(expr="0 * * * * * *", words="Every minute", fires="01-01T00:00:00 01-01T00:01:00"),
    Told(expr="*/15 * * * *", words="Every 15 minutes", fires="01-01T00:00:00 01-01T00:15:00"),
    Told(expr="0 20 * * * * *", words="At 20 minutes past the hour", fires="01-01T00:20:00 01-01T01:20:00"),
    Told(expr="0 0,30 * * * * *", words="At 0 and 30 minutes past the hour", fires="01-01T00:00:00 01-01T00:30:00"),
    Told(expr="@hourly", words="Every hour", fires="01-01T00:00:00 01-01T01:00:00"),
    Told(expr="0 0 */6 * * * *", words="Every 6 hours", fires="01-01T00:00:00 01-01T06:00:00"),
    Told(expr="@daily", words="At 00:00", fires="01-01T00:00:00 01-02T00:00:00"),
    Told(expr="15 30 14 * * * *", words="At 14:30:15", fires="01-01T14:30:15 01-02T14:30:15"),
    Told(expr="0 30 6,14 * * * *", words="At 06:30 and 14:30", fires="01-01T06:30:00 01-01T14:30:00 01-02T06:30:00"),
    Told(expr="0 0 9-17 * * * *", words="At 0 minutes past the hour, between 09:00 and 17:59",
         fires="01-01T09:00:00 01-01T10:00:00"),
    Told(expr="0 */20 22-0 * * * *", words="Every 20 minutes, between 22:00 and 00:59",
         fires="01-01T00:00:00 01-01T00:20:00 01-01T00:40:00 01-01T22:00:00"),
    Told(expr="0 30 2 * * 1-5 *", words="At 02:30, Monday through Friday",
         fires="01-01T02:30:00 01-02T02:30:00 01-05T02:30:00"),
    Told(expr="0 0 0 * * fri-mon *", words="At 00:00, Friday through Monday",
         fires="01-02T00:00:00 01-03T00:00:00 01-04T00:00:00 01-05T00:00:00 01-09T00:00:00"),
    Told(expr="0 0 0 ? * 7 *", words="At 00:00, only on Sunday", fires="01-04T00:00:00 01-11T00:00:00"),
    Told(expr="0 0 0 * * 6,0 *", words="At 00:00, only on Saturday and Sunday", fires="01-03T00:00:00 01-04T00:00:00"),
    Told(expr="0 0 0 * * 5L *", words="At 00:00, on the last Friday of the month",
         fires="01-30T00:00:00 02-27T00:00:00"),
    Told(expr="0 0 0 * * FRI#2 *", words="At 00:00, on the second Friday of the month",
         fires="01-09T00:00:00 02-13T00:00:00"),
    Told(expr="0 0 0 1,15 * * *", words="At 00:00, on day 1 and 15 of the month",
         fires="01-01T00:00:00 01-15T00:00:00 02-01T00:00:00"),
    Told(expr="0 0 0 1-7 * * *", words="At 00:00, between day 1 and 7 of the month",
         fires="01-01T00:00:00 01-02T00:00:00"),
    Told(expr="0 0 0 L * * *", words="At 00:00, on the last day of the month", fires="01-31T00:00:00 02-28T00:00:00"),
    Told(expr="0 0 0 L-3 * * *", words="At 00:00, 3 days before the last day of the month",
         fires="01-28T00:00:00 02-25T00:00:00"),
    Told(expr="0 0 0 LW * * *", words="At 00:00, on the last weekday of the month",
         fires="01-30T00:00:00 02-27T00:00:00"),
    Told(expr="0 0 0 15W * * *", words="At 00:00, on the weekday nearest day 15 of the month",
         fires="01-15T00:00:00 02-16T00:00:00"),
    Told(expr="0 0 0 13 * FRI *", words="At 00:00, on day 13 of the month, or on Friday",
         fires="01-02T00:00:00 01-09T00:00:00 01-13T00:00:00 01-16T00:00:00"),
    Told(expr="0 0 0 1 11-2 * *", words="At 00:00, on day 1 of the month, November through February",
         fires="01-01T00:00:00 02-01T00:00:00 11-01T00:00:00 12-01T00:00:00"),
    Told(expr="0 0 0 1 jan,JUN * *", words="At 00:00, on day 1 of the month, only in January and June",
         fires="01-01T00:00:00 06-01T00:00:00"),
    Told(expr="0 0 0 1 12 * 2026", words="At 00:00, on day 1 of the month, only in December, only in 2026",
         fires="12-01T00:00:00"),
]  # fmt: skip


@pytest.mark.parametrize("case", TOLD, ids=lambda case: case.expr)
def test_says_what_the_engine_does(case: Told) -> None:
    assert describe(case.expr) == case.words
    fires = [f"2026-{fire}+00:00" for fire in case.fires.split()]
    found = parse_cron(case.expr).upcoming(START - timedelta(seconds=1), len(fires))
    assert [fire.at.isoformat() for fire in found] == fires


@pytest.mark.parametrize("expr", [case.expr for case in TOLD])
def test_says_the_same_in_chinese(expr: str) -> None:
    assert describe(expr, "zh-CN") == CHINESE[expr]


TIMES = (
    "* * *", "*/5 * *", "7 * *", "0 */15 *", "0 20 *", "0 0,20,40 *", "0 0 */6", "15 30 14", "0 30 6,14",
    "0 30 6,7,14", "0 * 9-17", "0 5 9-17", "0 */20 22-0",
)  # fmt: skip
DAYS = (
    "*", "?", "13", "1,15", "1,2,3", "2-7", "L", "LW", "1W", "15W", "L-3",
)  # fmt: skip
MONTHS = ("*", "2", "FEB,NOV", "JAN,FEB,MAR", "OCT-MAR", "4-5")
WEEKDAYS = ("*", "?", "3", "MON", "SAT,SUN", "MON,WED,FRI", "TUE-THU", "5L", "0#1", "2#2", "4#3", "6#4", "1#5")
YEARS = ("*", "2027", "2026,2028", "2026-2029")
NUMBERS = {"the first": "一", "the second": "二", "the third": "三", "the fourth": "四", "the fifth": "五"}
MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
MONTH_NAMES_ZH = [f"{number}月" for number in (*"一二三四五六七八九十", "十一", "十二")]
WEEKDAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


def told_facts(english: str) -> list[str]:
    """The numbers, names and ordinals that the English words hold, as the Chinese ones have to say them."""
    names = dict(zip(MONTH_NAMES, MONTH_NAMES_ZH, strict=True))
    names |= {name: f"星期{number}" for name, number in zip(WEEKDAY_NAMES, "日一二三四五六", strict=True)}
    names |= {name: f"第{number}个" for name, number in NUMBERS.items()}
    return sorted(names.get(fact, fact) for fact in re.findall(rf"[0-9:]+|{'|'.join(names)}", english))


def chinese_facts(chinese: str) -> list[str]:
    return sorted(re.findall(r"[0-9:]+|第.个|星期.|十?.月(?!的)", chinese.replace("每月", "")))


@pytest.mark.parametrize("time", TIMES)
def test_tells_the_same_facts_in_both_languages(time: str) -> None:
    """English is compared with the engine above; whatever it names, Chinese names too, and nothing else."""
    told = 0
    seasons = itertools.cycle(itertools.product(MONTHS, YEARS))
    for (day, weekday), (month, year) in zip(itertools.product(DAYS, WEEKDAYS), seasons, strict=False):
        expr = f"{time} {day} {month} {weekday} {year}"
        fields = tuple(seven_fields(expr))
        if not is_phrase(fields, "zh-CN"):
            continue
        english, chinese = describe(expr), describe(expr, "zh-CN")
        told += 1
        assert chinese_facts(chinese) == told_facts(english), (expr, english, chinese)
        assert not re.search(r"[A-Za-z]|  |, ", chinese), (expr, chinese)
        for one, other in (("last", "最后"), ("nearest", "最接近"), ("between", "之间"), ("or on", "或")):
            assert english.count(one) == chinese.count(other), (expr, english, chinese)
    assert told > 50


def test_an_unknown_language_is_english() -> None:
    assert describe("@daily", "tlh") == "At 00:00"


COMPOSED = [
    ("*/45 * * * *", "At minutes 0 and 45 of every hour", "在每小时的第 0 和 45 分"),
    ("*/7 * * * * * *", "At seconds 0 to 56 in steps of 7 of every minute", "在每分钟的第 0 到 56（间隔 7）秒"),
    ("1-59/2 * * * *", "At minutes 1 to 59 in steps of 2 of every hour", "在每小时的第 1 到 59（间隔 2）分"),
    ("* 9,12 * * *", "Every minute of hours 9 and 12", "在 9 和 12 点的每分钟"),
    ("* 5 * * * * *", "Every second of minute 5 of every hour", "在每小时的第 5 分的每秒"),
    ("10-20 0-30/5 9-17 * * * *", "At seconds 10 to 20 of minutes 0 to 30 in steps of 5 of hours 9 to 17",
     "在 9 到 17 点的第 0 到 30（间隔 5）分的第 10 到 20 秒"),
    ("5 * 9-17 * * * *", "At second 5 of every minute of hours 9 to 17", "在 9 到 17 点的每分钟的第 5 秒"),
    ("0 0 */5 * * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00", "在 00:00、05:00、10:00、15:00 和 20:00"),
    ("30 */2 * * *", "At minute 30 of hours 0 to 22 in steps of 2", "在 0 到 22（间隔 2）点的第 30 分"),
    ("0 30 10-12,15 * * * *", "At 10:30, 11:30, 12:30 and 15:30", "在 10:30、11:30、12:30 和 15:30"),
    ("0 0 0 */2 * * *", "At 00:00, on days 1 to 31 in steps of 2 of the month", "在 00:00，每月 1 到 31（间隔 2）号"),
    ("0 0 0 25-5 * * *", "At 00:00, on days 1 to 5 and 25 to 31 of the month", "在 00:00，每月 1 到 5 和 25 到 31 号"),
    ("0 0 0 L,L-1 * * *", "At 00:00, on the last day of the month and on the day before the last of the month",
     "在 00:00，每月最后一天和每月倒数第二天"),
    ("0 0 0 15W,LW * * *", "At 00:00, on the weekday nearest day 15 of the month and on the last weekday of the month",
     "在 00:00，每月最接近 15 号的平日和每月最后一个平日"),
    ("0 0 0 * * 1-3,SAT *", "At 00:00, on Monday to Wednesday and Saturday", "在 00:00，星期一到星期三和星期六"),
    ("0 0 0 * * 5L,1#2 *", "At 00:00, on the last Friday of the month and on the second Monday of the month",
     "在 00:00，每月最后一个星期五和每月第二个星期一"),
    ("0 0 0 * */5 * *", "At 00:00, in January, June and November", "在 00:00，一月、六月和十一月"),
    ("0 0 0 * * * 2026/100", "At 00:00, in 2026 and 2126", "在 00:00，2026 和 2126 年"),
    ("0 0 0 13 * 1-5 *", "At 00:00, on day 13 of the month or on Monday to Friday",
     "在 00:00，每月 13 号或星期一到星期五"),
    ("0 0 1-7 * &FRI", "At 00:00, on days 1 to 7 of the month, if that is also Friday",
     "在 00:00，每月 1 到 7 号且为星期五"),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "english", "chinese"), COMPOSED)
def test_where_a_phrase_would_not_be_true_words_are_composed(expr: str, english: str, chinese: str) -> None:
    assert (describe(expr), describe(expr, "zh-CN")) == (english, chinese)


def test_every_class_of_expression_has_words() -> None:
    numbers = ("*", "7", "*/7", "3,9", "2-5", "4/9", "1-20/6", "2-5,9")
    days = (*numbers[1:], "L", "L-2", "15W", "LW", "?")
    weekdays = ("3", "*/2", "1-4", "MON,SAT", "5L", "2#3", "1/3", "&TUE", "*")
    fields = (numbers, numbers, numbers, days, ("*", "*/5", "JAN,JUN", "2-4"), weekdays, ("*", "2030", "2026-2031/2"))
    for place, own in enumerate(fields):
        for text in own:
            expr = " ".join(text if at == place else "1" if at < 3 else "*" for at in range(7))
            for language in ("en", "zh-CN"):
                words = describe(expr, language)
                assert words != expr
                assert (re.search("[\u4e00-\u9fff]", words) is None) == (language == "en"), (expr, words)


def test_hash_is_said_by_the_name_of_its_job() -> None:
    assert describe("H H * * *") == "H H * * *"
    assert describe("H H * * *", job="x") == "At 21:43"


@pytest.mark.parametrize("text", ["", "nonsense", "* * * * * *", "0 0 0 30 2 * *", "\0", "x" * 5000])
def test_a_text_that_is_no_expression_comes_back_as_it_is(text: str) -> None:
    assert describe(text) == text
