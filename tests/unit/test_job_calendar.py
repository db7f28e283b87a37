"""The calendar: which local days are open, and the fires that it leaves; far jumps, changes of the clocks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.instants import from_ms, to_ms
from common.jobs.reader import parse_job
from common.schedules.job_calendar import Calendar, CalendarSchedule
from common.schedules.schedule import Schedule, parse_cron
from common.schedules.triggers import EverySchedule, NoFires, Window
from common.schedules.zones import load_zone

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def ms(text: str) -> int:
    return to_ms(datetime.fromisoformat(text).astimezone(UTC))


def excluding(*entries: str) -> Calendar:
    return Calendar(entries=entries)


def only(*entries: str) -> Calendar:
    return Calendar(entries=entries, include=True)


def daily(calendar: Calendar, timezone: str = "UTC", expr: str = "0 0 12 * * * *") -> CalendarSchedule:
    return CalendarSchedule(inner=parse_cron(expr, timezone=timezone), calendar=calendar, timezone=timezone)


def day(text: str) -> int:
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


DAYS = [
    # entries, include, open, closed
    (["2026-05-01"], False, ["2026-04-30", "2026-05-02", "2027-05-01"], ["2026-05-01"]),
    (["2026-05-01"], True, ["2026-05-01"], ["2026-04-30", "2026-05-02", "2027-05-01"]),
    (["2026-12-24/2027-01-06"], False, ["2026-12-23", "2027-01-07"], ["2026-12-24", "2026-12-31", "2027-01-06"]),
    (["12-25"], False, ["2026-12-24", "2026-12-26"], ["1970-12-25", "2026-12-25", "2199-12-25"]),
    (["05-01/05-31"], True, ["2026-05-01", "2026-05-31"], ["2026-04-30", "2026-06-01"]),
    (["12-24/01-06"], False, ["2026-12-23", "2027-01-07"], ["2026-12-24", "2027-01-01", "2027-01-06", "1970-01-01"]),
    (["02-29"], True, ["2028-02-29", "2000-02-29"], ["2026-02-28", "2026-03-01", "2100-03-01", "2100-02-28"]),
    (["02-29/03-01"], True, ["2028-02-29", "2027-03-01"], ["2027-02-28", "2028-02-28"]),
    (["2026-05-01", "2026-05-01/2026-05-03", "05-02"], False, ["2026-05-04"], ["2026-05-02", "2030-05-02"]),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "include", "opened", "closed"), DAYS)
def test_days_are_open_as_listed(
    entries: list[str], include: bool, opened: Sequence[str], closed: Sequence[str]
) -> None:
    calendar = Calendar(entries=tuple(entries), include=include)
    assert [one for one in opened if day(one) not in calendar.days] == []
    assert [one for one in closed if day(one) in calendar.days] == []


def test_next_and_last_open_day_jump_over_closed_ones() -> None:
    days, one = excluding("2026-02-01/2199-12-30").days, only("1999-01-01").days
    assert days.first_from(day("2026-02-01")) == day("2199-12-31")
    assert days.last_until(day("2199-12-30")) == day("2026-01-31")
    assert one.first_from(day("1999-01-02")) is None
    assert one.last_until(day("1998-12-31")) is None
    assert one.first_from(-5) == one.last_until(99_999) == day("1999-01-01")
    assert excluding("12-31").days.first_from(99_999) is None
    assert excluding("01-01").days.last_until(-1) is None


def test_all_planned_fires_stay_planned() -> None:
    schedule = daily(excluding("2026-05-01"))
    noon = ms("2026-05-01T12:00Z")
    assert schedule.fires_between_ms(noon - DAY_MS, noon + DAY_MS, 9) == [noon, noon + DAY_MS]
    assert schedule.last_before_ms(noon + 1) == noon
    assert not schedule.is_open(noon)
    assert schedule.is_open(noon + DAY_MS)


def test_open_fires_leave_out_those_on_closed_days() -> None:
    fires = daily(excluding("2026-05-01/2026-05-03")).open_fires
    assert fires.next_after_ms(ms("2026-04-30T12:00Z")) == ms("2026-05-04T12:00Z")
    assert fires.last_before_ms(ms("2026-05-04T12:00Z")) == ms("2026-04-30T12:00Z")


def test_schedule_without_a_calendar_is_open_and_its_own_open_fires() -> None:
    schedule = parse_cron("@daily")
    assert schedule.open_fires is schedule
    assert schedule.is_open(0)
    assert schedule.opens_ms(5) == 5


def test_days_are_those_of_the_zone() -> None:
    fires = daily(only("2026-05-01"), "Asia/Kolkata", "0 0 * * * * *").open_fires
    first, last = fires.next_after_ms(0), fires.last_before_ms(ms("2099-01-01T00:00Z"))
    assert first == ms("2026-05-01T00:00+05:30")
    assert last == ms("2026-05-01T23:00+05:30")


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(daily(only("2011-12-30"), "Pacific/Apia", "* * * * * * *"), id="a day that Apia left out"),
        pytest.param(daily(only("12-25"), "Europe/Paris", "0 0 12 1 * * *"), id="the days and the fires never meet"),
    ],
)
def test_no_open_fire_at_all_is_found_out(schedule: CalendarSchedule) -> None:
    assert schedule.open_fires.next_after_ms(0) is None
    assert schedule.open_fires.last_before_ms(ms("2199-12-31T00:00Z")) is None


def test_day_that_clocks_go_back_into_is_open_again() -> None:
    """At 00:01 on November 1, 2009, St. John's went back to 23:01 on October 31: a minute of November came first."""
    schedule = daily(only("2009-10-31"), "America/St_Johns", "0 * * * * * *")
    fires = schedule.open_fires.fires_between_ms(ms("2009-11-01T02:25Z"), ms("2009-11-02T00:00Z"), 200)
    at = [f"{from_ms(fire):%H:%M}" for fire in fires]
    assert at[:5] == ["02:26", "02:27", "02:28", "02:29", "02:31"]  # 02:30 UTC is 00:00 on November 1
    assert at[-1] == "03:29"
    backwards, after = [], ms("2009-11-02T00:00Z")
    for _ in range(len(fires)):
        last = schedule.open_fires.last_before_ms(after)
        assert last is not None
        backwards.append(after := last)
    assert backwards == fires[::-1]


def test_window_and_calendar_open_together() -> None:
    window = Window(inner=NoFires(), start_ms=ms("2026-05-01T10:00Z"), end_ms=ms("2026-05-03T10:00Z"))
    schedule = CalendarSchedule(inner=window, calendar=excluding("2026-05-01", "2026-05-03/2026-05-09"))
    assert schedule.opens_ms(0) == ms("2026-05-02T00:00Z")
    assert schedule.opens_ms(ms("2026-05-02T10:00Z")) == ms("2026-05-02T10:00Z")
    assert schedule.opens_ms(ms("2026-05-03T00:00Z")) is None
    assert window.opens_ms(0) == window.start_ms
    assert window.opens_ms(ms("2026-05-03T10:01Z")) is None


def test_fire_after_closed_ones_is_shown_with_its_own_note() -> None:
    fires = daily(excluding("2026-03-01/2026-03-28"), "Europe/Paris", "0 30 2 * * * *").open_fires
    shown = fires.upcoming(from_ms(ms("2026-02-28T12:00Z")), 1)
    assert [fire.local.isoformat() for fire in shown] == ["2026-03-29T03:00:00+02:00"]
    assert shown[0].note is not None


def test_job_with_a_calendar_has_it_around_window_and_trigger() -> None:
    spec = parse_job({
        "name": "j", "command": "a", "every": "6h", "startAt": "2026-05-01T00:00", "timezone": "Europe/Paris",
        "calendar": {"exclude": ["2026-05-01"]},
    })  # fmt: skip
    assert spec.schedule.open_fires.next_after_ms(0) == ms("2026-05-02T00:00Z")
    assert spec.schedule.next_after_ms(0) == ms("2026-05-01T00:00Z")


ZONES = ["UTC", "Europe/Paris", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"]
ENTRIES = st.sampled_from(
    ["12-25", "12-24/01-06", "03-29", "2011-12-30", "2009-10-31/2009-11-01", "2011-12-01/2012-01-05", "11-01", "04-05"]
)


@given(
    entries=st.lists(ENTRIES, min_size=1, max_size=4), include=st.booleans(), zone=st.sampled_from(ZONES),
    hours=st.integers(1, 40), start=st.sampled_from(["2009-10-25", "2011-12-20", "2025-12-20", "2026-03-25"]),
)  # fmt: skip
def test_open_fires_are_the_planned_ones_on_open_local_days(
    entries: list[str], include: bool, zone: str, hours: int, start: str
) -> None:
    """Against the plain rule: each planned fire, judged by the date that a local clock shows."""
    calendar = Calendar(entries=tuple(entries), include=include)
    inner: Schedule = EverySchedule(period_ms=hours * HOUR_MS + 60_000, timezone=zone)
    schedule = CalendarSchedule(inner=inner, calendar=calendar, timezone=zone)
    lo = ms(f"{start}T00:00Z")
    hi = lo + 20 * DAY_MS
    planned = inner.fires_between_ms(lo, hi, 10_000)
    epoch = date(1970, 1, 1)
    shown = {at: (from_ms(at).astimezone(load_zone(zone).info).date() - epoch).days for at in planned}
    expected = [at for at in planned if shown[at] in calendar.days]
    assert [at for at in planned if schedule.is_open(at)] == expected
    assert schedule.open_fires.fires_between_ms(lo, hi, 10_000) == expected
    last = schedule.open_fires.last_before_ms(hi + 1)
    assert (last if last is not None and last > lo else None) == (expected[-1] if expected else None)


TRIGGERS: list[dict[str, object]] = [
    {"cronExpr": "0 0 12 * * * *"},
    {"cronExpr": "0 30 2,23 * * * *"},
    {"cronExpr": "0 */20 * L * * *"},
    {"cronExpr": ["0 * 0 */2 * * *", "0 15 23 1-31/2 * ? *", "0 0 0 ? * MON#2 *"]},
    {"cronExpr": ["0 */30 2 ? 3,10 SUNL *", "0 59 23 ? 3,10 SATL *"]},
    {"cronExpr": "0 5 0 30 12 * 2011,2012"},
    {"every": "25h", "offset": "7h"},
    {"every": "2d"},
    {"every": "36h"},
    {"at": "2012-01-01T00:00"},
]


@given(
    entries=st.lists(ENTRIES, min_size=1, max_size=4), include=st.booleans(),
    zone=st.sampled_from([*ZONES, "America/Nuuk"]), trigger=st.sampled_from(TRIGGERS),
    start=st.sampled_from(["2009-10-01", "2011-12-01", "2025-12-01", "2026-03-01"]), window=st.booleans(),
)  # fmt: skip
def test_open_fires_are_found_as_by_looking_at_each_planned_one(
    entries: list[str], include: bool, zone: str, trigger: dict[str, object], start: str, window: bool
) -> None:
    calendar = {"include" if include else "exclude": entries}
    until = {"endAt": f"{start[:8]}25T00:00"} if window and "at" not in trigger else {}
    job = {"name": "j", "command": "a", "timezone": zone, "calendar": calendar}
    schedule = parse_job(job | trigger | until).schedule
    lo = ms(f"{start}T00:00Z")
    hi = lo + 45 * DAY_MS
    expected = [at for at in schedule.fires_between_ms(lo, hi, 10_000) if schedule.is_open(at)]
    assert schedule.open_fires.fires_between_ms(lo, hi, 10_000) == expected
    backwards, at = [], schedule.open_fires.last_before_ms(hi + 1)
    while at is not None and at > lo:
        backwards.append(at)
        at = schedule.open_fires.last_before_ms(at)
    assert backwards[::-1] == expected


@pytest.mark.parametrize("zone", [*ZONES, "America/Nuuk", "Pacific/Kwajalein"])
@pytest.mark.parametrize("trigger", TRIGGERS, ids=str)
def test_days_of_a_schedule_are_those_of_its_fires(zone: str, trigger: dict[str, object]) -> None:
    clocks = load_zone(zone)
    schedule = parse_job({"name": "j", "command": "a", "timezone": zone} | trigger).schedule
    days = schedule.days(clocks)
    changes = [at for at in clocks.starts[1:-1] if at > 2 * DAY_MS // 1000]
    uncertain = {clocks.local_day(at) + more for at in changes for more in (-1, 0, 1)}
    for moment in [*(1000 * at - DAY_MS // 2 for at in changes), *range(2 * DAY_MS, ms("2199-12-31T00:00Z"), 10**11)]:
        fire, tomorrow = schedule.next_after_ms(moment), clocks.local_day(moment // 1000) + 1
        if fire is None:
            assert days.first_from(tomorrow) is None
            continue
        fires_on, first = clocks.local_day(fire // 1000), days.first_from(tomorrow)
        assert fires_on in days
        assert first is None or first >= fires_on or first in uncertain


def test_listed_days_are_those_of_the_plain_rule() -> None:
    """The whole of 230 years, bit by bit, against dates compared one by one."""
    calendar = excluding("02-28/03-01", "2026-02-28/2026-03-05", "12-31/01-01")
    first = date(1970, 1, 1)
    for number in range(84_006):
        one = first + timedelta(number)
        closed = (
            (2, 28) <= (one.month, one.day) <= (3, 1) or (one.month, one.day) in {(12, 31), (1, 1)}
            or date(2026, 2, 28) <= one <= date(2026, 3, 5)
        )  # fmt: skip
        assert (number not in calendar.days) is closed, one
