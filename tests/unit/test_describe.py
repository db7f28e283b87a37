"""Words where they are true, the expression where they would not be."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from common.describe import describe
from common.schedule import parse_cron

START = datetime.fromisoformat("2026-01-01T00:00:00+00:00")


@dataclass(frozen=True, kw_only=True)
class Told:
    """An expression, its words, and its first fires from 2026-01-01 00:00:00 on, so that a reader can compare them."""

    expr: str
    words: str
    fires: str


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


@pytest.mark.parametrize(
    "expr",
    [
        "*/7 * * * * * *",  # said as every 7 seconds, but starts again each minute
        "0 */45 * * * * *",
        "0 0 */5 * * * *",
        "0 0 0 */2 * * *",  # said as every 2 days, but the 31st is followed by the 1st
        "0 0 0 * * */2 *",
        "0 0 0 * */5 * *",
        "0 0 0 25-5 * * *",
        "0 0 0 L-1 * * *",
        "0 0 0 13 * 1-5 *",  # said as if both had to match
        "0 0 0 13 * 5#2 *",
        "0 H * * * * *",
        "0 0 0 * * * */2",
        "0 30 10-12,15 * * * *",
    ],
)
def test_an_expression_that_words_would_not_fit_stays_as_it_is(expr: str) -> None:
    assert describe(expr) == expr


@pytest.mark.parametrize("text", ["", "nonsense", "* * * * * *", "0 0 0 30 2 * *", "\0", "x" * 5000])
def test_a_text_that_is_no_expression_comes_back_as_it_is(text: str) -> None:
    assert describe(text) == text
