"""What is accepted, and what is refused with which field, text and remedy."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from common.errors import ScheduleError
from common.schedules.cron import Cron, parse, seven_fields

SUNDAY, MONDAY, TUESDAY, WEDNESDAY, THURSDAY, FRIDAY, SATURDAY = range(7)


def values(mask: int, base: int = 0) -> list[int]:
    return [bit + base for bit in range(mask.bit_length()) if mask >> bit & 1]


def weekdays_of(cron: Cron) -> list[int]:
    """The weekdays matched in a 28-day month that begins on a Sunday."""
    return sorted({(day - 1) % 7 for day in values(cron.month_days[0])})


@dataclass(frozen=True, kw_only=True)
class Accepted:
    situation: str
    text: str
    means: list[int]


MINUTES = [
    Accepted(situation="one value", text="5", means=[5]),
    Accepted(situation="leading zero", text="05", means=[5]),
    Accepted(situation="list in any order, twice the same", text="9,5,9", means=[5, 9]),
    Accepted(situation="range", text="5-8", means=[5, 6, 7, 8]),
    Accepted(situation="range of one", text="5-5", means=[5]),
    Accepted(situation="range that wraps", text="58-1", means=[0, 1, 58, 59]),
    Accepted(situation="range that wraps, with a step", text="50-10/10", means=[0, 10, 50]),
    Accepted(situation="step that does not divide the hour", text="*/25", means=[0, 25, 50]),
    Accepted(situation="step of the whole cycle", text="*/60", means=[0]),
    Accepted(situation="from a to the end", text="40/7", means=[40, 47, 54]),
    Accepted(situation="59/15 is 59 alone", text="59/15", means=[59]),
    Accepted(situation="list of forms", text="1,10-12,50/5", means=[1, 10, 11, 12, 50, 55]),
]


@pytest.mark.parametrize("case", MINUTES, ids=lambda case: case.situation)
def test_minute_field_means(case: Accepted) -> None:
    assert values(parse(f"0 {case.text} * * * * *").minutes) == case.means


WEEKDAYS = [
    Accepted(situation="0 is Sunday", text="0", means=[SUNDAY]),
    Accepted(situation="7 is Sunday", text="7", means=[SUNDAY]),
    Accepted(situation="name in small letters", text="fri", means=[FRIDAY]),
    Accepted(situation="names in mixed case wrap", text="Fri-mON", means=[SUNDAY, MONDAY, FRIDAY, SATURDAY]),
    Accepted(situation="5-7 ends on Sunday", text="5-7", means=[SUNDAY, FRIDAY, SATURDAY]),
    Accepted(situation="0-7 is the whole week", text="0-7", means=[0, 1, 2, 3, 4, 5, 6]),
    Accepted(situation="7-2 begins on Sunday", text="7-2", means=[SUNDAY, MONDAY, TUESDAY]),
    Accepted(situation="7-7 is Sunday", text="7-7", means=[SUNDAY]),
    Accepted(situation="6-0 wraps", text="6-0", means=[SUNDAY, SATURDAY]),
    Accepted(situation="SAT-SUN wraps", text="SAT-SUN", means=[SUNDAY, SATURDAY]),
    Accepted(situation="a/n ends on Saturday", text="5/2", means=[FRIDAY]),
    Accepted(situation="7/2 is 0/2", text="7/2", means=[SUNDAY, TUESDAY, THURSDAY, SATURDAY]),
    Accepted(situation="*/2 begins on Sunday", text="*/2", means=[SUNDAY, TUESDAY, THURSDAY, SATURDAY]),
]


@pytest.mark.parametrize("case", WEEKDAYS, ids=lambda case: case.situation)
def test_weekday_field_means(case: Accepted) -> None:
    assert weekdays_of(parse(f"0 0 0 * * {case.text} *")) == case.means


def test_months_take_names_and_wrap() -> None:
    assert values(parse("0 0 0 1 nov-Feb,JUN * *").months) == [1, 2, 6, 11, 12]


def test_days_wrap_around_the_31st() -> None:
    assert values(parse("0 0 0 30-2 1 * *").month_days[3]) == [1, 2, 30, 31]


def test_years_are_listed_and_stepped() -> None:
    assert values(parse("0 0 0 1 1 * 1970,2030-2032,2190/4").years, 1970) == [1970, 2030, 2031, 2032, 2190, 2194, 2198]


def test_stars_mean_every_value() -> None:
    cron = parse("* * * * * * *")
    assert (values(cron.seconds), values(cron.minutes)) == (list(range(60)), list(range(60)))
    assert (values(cron.hours), values(cron.months)) == (list(range(24)), list(range(1, 13)))
    assert values(cron.years, 1970) == list(range(1970, 2200))


@pytest.mark.parametrize(
    ("macro", "expr"),
    [
        ("@yearly", "0 0 0 1 1 * *"),
        ("@annually", "0 0 0 1 1 * *"),
        ("@monthly", "0 0 0 1 * * *"),
        ("@weekly", "0 0 0 * * 0 *"),
        ("@daily", "0 0 0 * * * *"),
        ("@midnight", "0 0 0 * * * *"),
        ("@hourly", "0 0 * * * * *"),
        ("  @Hourly ", "0 0 * * * * *"),
    ],
)
def test_macro_stands_for_its_seven_fields(macro: str, expr: str) -> None:
    assert parse(macro) == parse(expr)


def test_five_fields_are_a_crontab_line() -> None:
    assert seven_fields(" 5\t4 * *  MON ") == ("0", "5", "4", "*", "*", "MON", "*")


def test_question_mark_stands_for_star_in_a_day_field() -> None:
    assert parse("0 0 0 ? * ? *") == parse("0 0 0 * * * *")


@pytest.mark.parametrize(
    ("expr", "restricted"),
    [
        ("0 0 0 * * * *", False),
        ("0 0 0 1 * * *", False),
        ("0 0 0 ? * 1 *", False),
        ("0 0 0 1 * 1 *", True),
        ("0 0 0 */2 * 1 *", True),
        ("0 0 0 1-31 * */1 *", True),
        ("0 0 0 L * 5L *", True),
    ],
)
def test_day_field_is_restricted_unless_exactly_star_or_question_mark(expr: str, restricted: bool) -> None:
    assert parse(expr).both_days_restricted is restricted


@pytest.mark.parametrize(
    ("expr", "fixed"),
    [
        ("0 30 2 * * * *", True),
        ("30 2 * * *", True),
        ("@daily", True),
        ("0 0-59 0-23 * * * *", True),
        ("0 H H * * * *", True),
        ("@hourly", False),
        ("0 */5 2 * * * *", False),
        ("* 30 2 * * * *", False),
        ("*/5 30 2 * * * *", False),
        ("0 0 */2 * * * *", False),
    ],
)
def test_schedule_is_fixed_time_when_no_time_field_begins_with_star(expr: str, fixed: bool) -> None:
    assert parse(expr).is_fixed_time is fixed


@dataclass(frozen=True, kw_only=True)
class Refused:
    situation: str
    expr: str
    field: str
    text: str


REFUSED = [
    Refused(situation="nothing at all", expr="", field="expression", text=""),
    Refused(situation="blanks alone", expr=" \t ", field="expression", text=" \t "),
    Refused(situation="four fields", expr="0 0 0 *", field="expression", text="0 0 0 *"),
    Refused(situation="eight fields", expr="0 0 0 * * * * *", field="expression", text="0 0 0 * * * * *"),
    Refused(situation="unknown macro", expr="@reboot", field="expression", text="@reboot"),
    Refused(situation="every as a macro", expr="@every 5m", field="expression", text="@every 5m"),
    Refused(situation="newline between fields", expr="0 0 0\n* * * *", field="expression", text="0 0 0\n* * * *"),
    Refused(situation="newline at the end", expr="@daily\n", field="expression", text="@daily\n"),
    Refused(situation="no-break space", expr="0 0 0\xa0* * * *", field="expression", text="0 0 0\xa0* * * *"),
    Refused(situation="NUL", expr="0 0 \0 * * * *", field="expression", text="0 0 \0 * * * *"),
    Refused(situation="Arabic digit", expr="0 0 ٣ * * * *", field="expression", text="0 0 ٣ * * * *"),
    Refused(situation="superscript digit", expr="0 0 ² * * * *", field="expression", text="0 0 ² * * * *"),
    Refused(situation="lone surrogate", expr="0 0 \ud800 * * * *", field="expression", text="0 0 \ud800 * * * *"),
    Refused(situation="second too high", expr="60 0 0 * * * *", field="second", text="60"),
    Refused(situation="minute too high", expr="0 60 0 * * * *", field="minute", text="60"),
    Refused(situation="hour too high", expr="0 0 24 * * * *", field="hour", text="24"),
    Refused(situation="day 0", expr="0 0 0 0 * * *", field="day-of-month", text="0"),
    Refused(situation="day too high", expr="0 0 0 32 * * *", field="day-of-month", text="32"),
    Refused(situation="month 0", expr="0 0 0 * 0 * *", field="month", text="0"),
    Refused(situation="weekday too high", expr="0 0 0 * * 8 *", field="day-of-week", text="8"),
    Refused(situation="year too early", expr="0 0 0 * * * 1969", field="year", text="1969"),
    Refused(situation="year too late", expr="0 0 0 * * * 2200", field="year", text="2200"),
    Refused(situation="huge number", expr=f"0 {'9' * 19} 0 * * * *", field="minute", text="9" * 19),
    Refused(situation="endless number", expr=f"0 {'9' * 70} 0 * * * *", field="minute", text="9" * 70),
    Refused(situation="plus sign", expr="0 +5 0 * * * *", field="minute", text="+5"),
    Refused(situation="minus sign", expr="0 -5 0 * * * *", field="minute", text="-5"),
    Refused(situation="fraction", expr="0 1.5 0 * * * *", field="minute", text="1.5"),
    Refused(situation="underscore", expr="0 1_0 0 * * * *", field="minute", text="1_0"),
    Refused(situation="step of 0", expr="0 */0 * * * * *", field="minute", text="/0"),
    Refused(situation="step of 0 under a hash", expr="0 H/0 * * * * *", field="minute", text="/0"),
    Refused(situation="step over the cycle", expr="0 */90 * * * * *", field="minute", text="/90"),
    Refused(situation="no step after the slash", expr="0 */ * * * * *", field="minute", text="*/"),
    Refused(situation="two steps", expr="0 */2/3 * * * * *", field="minute", text="*/2/3"),
    Refused(situation="no end of a range", expr="0 5- * * * * *", field="minute", text="5-"),
    Refused(situation="two ends of a range", expr="0 5-6-7 * * * * *", field="minute", text="5-6-7"),
    Refused(situation="star in a range", expr="0 *-5 * * * * *", field="minute", text="*-5"),
    Refused(situation="leading comma", expr="0 ,5 * * * * *", field="minute", text=""),
    Refused(situation="trailing comma", expr="0 5, * * * * *", field="minute", text=""),
    Refused(situation="comma alone", expr="0 , * * * * *", field="minute", text=""),
    Refused(situation="? in a time field", expr="0 ? * * * * *", field="minute", text="?"),
    Refused(situation="? in a list", expr="0 0 0 ?,1 * * *", field="day-of-month", text="?"),
    Refused(situation="? with a step", expr="0 0 0 ?/2 * * *", field="day-of-month", text="?/2"),
    Refused(situation="month name as a weekday", expr="0 0 0 * * JAN *", field="day-of-week", text="JAN"),
    Refused(situation="unknown name", expr="0 0 0 * XYZ * *", field="month", text="XYZ"),
    Refused(situation="full name", expr="0 0 0 * JANUARY * *", field="month", text="JANUARY"),
    Refused(situation="L in a time field", expr="0 L * * * * *", field="minute", text="L"),
    Refused(situation="L as a weekday", expr="0 0 0 * * L *", field="day-of-week", text="L"),
    Refused(situation="L-0", expr="0 0 0 L-0 * * *", field="day-of-month", text="L-0"),
    Refused(situation="L-31", expr="0 0 0 L-31 * * *", field="day-of-month", text="L-31"),
    Refused(situation="0W", expr="0 0 0 0W * * *", field="day-of-month", text="0"),
    Refused(situation="range of W", expr="0 0 0 1-5W * * *", field="day-of-month", text="1-5W"),
    Refused(situation="sixth Friday", expr="0 0 0 * * 5#6 *", field="day-of-week", text="5#6"),
    Refused(situation="no number after #", expr="0 0 0 * * 5# *", field="day-of-week", text="5#"),
    Refused(situation="year range backwards", expr="0 0 0 * * * 2031-2030", field="year", text="2031-2030"),
    Refused(situation="hash of the year", expr="0 0 0 * * * H", field="year", text="H"),
    Refused(situation="hash range out of bounds", expr="0 H(0-60) * * * * *", field="minute", text="60"),
    Refused(situation="30th of February", expr="0 0 0 30 2 * *", field="day-of-month", text="30 2 * *"),
    Refused(situation="31st of short months", expr="0 0 0 31 4,6,9 ? *", field="day-of-month", text="31 4,6,9 ? *"),
    Refused(situation="leap day of common years", expr="0 0 0 29 2 * 2100", field="day-of-month", text="29 2 * 2100"),
    Refused(situation="31W in a short month", expr="0 0 0 31W 2 * *", field="day-of-month", text="31W 2 * *"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.situation)
def test_refuses_with_field_text_and_remedy(case: Refused) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse(case.expr)
    error = caught.value
    assert (error.field, error.text) == (case.field, case.text)
    assert error.message
    assert error.remedy


def test_six_fields_are_refused_with_both_readings() -> None:
    with pytest.raises(ScheduleError) as caught:
        parse("0 0  12 * * ?")
    assert "`0 0 12 * * ? *`" in caught.value.message
    assert "`0 0 0 12 * * ?`" in caught.value.message


def test_an_expression_of_a_thousand_characters_is_accepted_and_one_more_refused() -> None:
    items = "1,23," * 197 + "5"
    assert parse(f"0 0 0 {items} * * *  ".ljust(1000)).month_days
    with pytest.raises(ScheduleError):
        parse(f"0 0 0 {items} * * *  ".ljust(1001))


def test_a_huge_text_is_refused_without_being_read() -> None:
    with pytest.raises(ScheduleError) as caught:
        parse("9" * 10_000_000)
    assert len(str(caught.value)) < 300


def test_the_31st_is_possible_when_one_of_the_months_has_it() -> None:
    assert parse("0 0 0 31 2,3 * *").next_local(0) == (31 + 28 + 30) * 86_400
