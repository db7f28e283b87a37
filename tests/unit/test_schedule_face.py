"""What every schedule offers: strict bounds, extreme times, equality, one shared object, time zones by name."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import pytest

from common.errors import ScheduleError
from common.instants import to_ms
from common.schedules.schedule import Fire, Schedule, parse_cron, tzdata_version
from common.schedules.zones import load_zone, zone_names
from tests.support.schedules import fires_between, last_before, next_after

NOON = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def test_next_is_strictly_later_and_last_strictly_earlier() -> None:
    daily = parse_cron("0 0 12 * * * *")
    day = timedelta(days=1)
    assert next_after(daily, NOON) == NOON + day
    assert next_after(daily, NOON - MICROSECOND) == NOON
    assert last_before(daily, NOON) == NOON - day
    assert last_before(daily, NOON + MICROSECOND) == NOON


def test_milliseconds_are_strict_too() -> None:
    daily, noon = parse_cron("0 0 12 * * * *"), to_ms(NOON)
    assert daily.next_after_ms(noon - 1) == noon
    assert daily.next_after_ms(noon) == noon + 86_400_000
    assert daily.last_before_ms(noon + 1) == noon
    assert daily.last_before_ms(noon) == noon - 86_400_000


def test_between_leaves_out_the_lower_bound_and_takes_the_upper_one() -> None:
    hourly = parse_cron("@hourly")
    hours = [NOON + timedelta(hours=number) for number in range(5)]
    assert fires_between(hourly, hours[0], hours[4], 100) == hours[1:]
    assert fires_between(hourly, hours[0], hours[4], 2) == hours[1:3]
    assert fires_between(hourly, hours[0], hours[4], 0) == []
    assert fires_between(hourly, hours[4], hours[0], 100) == []


def test_answers_are_aware_utc_whatever_zone_asks() -> None:
    asked = NOON.astimezone(timezone(timedelta(hours=-11)))
    [fire] = parse_cron("@hourly", timezone="Asia/Kathmandu").upcoming(asked, 1)
    assert fire.at.tzinfo is UTC
    assert fire.at.isoformat() == "2026-05-04T12:15:00+00:00"


def test_naive_datetime_is_refused_in_words() -> None:
    naive = datetime(2026, 5, 4, 12)  # noqa: DTZ001
    schedule = parse_cron("@hourly")
    with pytest.raises(ValueError, match="naive datetime"):
        schedule.upcoming(naive, 1)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
@pytest.mark.parametrize("expr", ["* * * * * * *", "0 0 0 1 1 * *"])
def test_times_before_and_after_all_years_are_answered(expr: str, zone: str) -> None:
    schedule = parse_cron(expr, timezone=zone)
    earliest, latest = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    first, last = next_after(schedule, earliest), last_before(schedule, latest)
    assert first is not None
    assert last is not None
    info = load_zone(zone).info
    assert first.astimezone(info).replace(tzinfo=None) == datetime(1970, 1, 1)  # noqa: DTZ001
    assert last.astimezone(info).year == 2199
    assert last_before(schedule, first) is last_before(schedule, earliest) is None
    assert next_after(schedule, last) is next_after(schedule, latest) is None
    assert schedule.next_after_ms(-(10**30)) == to_ms(first)
    assert schedule.last_before_ms(10**30) == to_ms(last)
    assert schedule.next_after_ms(10**30) is schedule.last_before_ms(-(10**30)) is None


def test_there_is_nothing_after_the_last_year_of_a_list() -> None:
    schedule = parse_cron("0 0 0 1 1 * 2020,2024", timezone="Europe/Berlin")
    assert next_after(schedule, NOON) is None
    assert last_before(schedule, NOON) == datetime(2023, 12, 31, 23, tzinfo=UTC)
    assert schedule.upcoming(NOON, 5) == []


def test_upcoming_is_as_long_as_asked() -> None:
    schedule = parse_cron("@daily")
    assert schedule.upcoming(NOON, 0) == []
    assert len(schedule.upcoming(NOON, 7)) == 7


def test_equal_schedules_are_one_object() -> None:
    first = parse_cron("0 5 * * * * *", timezone="Europe/Berlin", job="a")
    assert first is parse_cron("0 5 * * * * *", timezone="Europe/Berlin", job="b")
    assert first != parse_cron("0 5 * * * * *", timezone="Europe/Paris", job="a")
    assert first != parse_cron("0 6 * * * * *", timezone="Europe/Berlin", job="a")


def test_hashed_schedules_differ_by_job() -> None:
    first = parse_cron("0 H * * * * *", job="a")
    assert first == parse_cron("0 H * * * * *", job="a")
    assert hash(first) == hash(parse_cron("0 H * * * * *", job="a"))
    assert first != parse_cron("0 H * * * * *", job="b")
    assert len({first, parse_cron("0 H * * * * *", job="b"), parse_cron("0 H * * * * *", job="a")}) == 2


def test_tells_what_it_was_made_of() -> None:
    schedule = parse_cron("0 30 2 13 * FRI *", timezone="Europe/Berlin")
    assert (schedule.expr, schedule.timezone) == ("0 30 2 13 * FRI *", "Europe/Berlin")
    assert schedule.both_days_restricted
    assert schedule.is_fixed_time


@dataclass(frozen=True)
class EveryMinute(Schedule):
    """A trigger of another kind, to see that the face does not depend on cron."""

    def next_after_ms(self, ms: int) -> int | None:
        return ms // 60_000 * 60_000 + 60_000

    def last_before_ms(self, ms: int) -> int | None:
        return (ms - 1) // 60_000 * 60_000


def test_other_triggers_get_the_whole_face_from_two_steps() -> None:
    every = EveryMinute()
    minute = timedelta(minutes=1)
    assert next_after(every, NOON) == NOON + minute
    assert last_before(every, NOON) == NOON - minute
    assert fires_between(every, NOON, NOON + 2 * minute, 9) == [NOON + minute, NOON + 2 * minute]
    assert every.upcoming(NOON, 1) == [Fire(at=NOON + minute, local=NOON + minute)]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("Berlin", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Amercia/New_York", "America/New_York"),
        ("utc", "UTC"),
        ("", "IANA name"),
        ("../../../etc/passwd", "IANA name"),
        ("/usr/share/zoneinfo/Europe/Berlin", ""),
        ("Europe/../Europe/Berlin", "Europe/Berlin"),
        ("Europe", ""),
        ("UTC\0", "UTC"),
        ("\ud800", "IANA name"),
        ("x" * 100_000, "IANA name"),
    ],
)
def test_unknown_zone_is_refused_with_the_nearest_names(name: str, remedy: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_cron("@daily", timezone=name)
    assert caught.value.field == "timezone"
    assert remedy in caught.value.remedy
    assert len(str(caught.value)) < 400


def test_version_of_the_zones_is_told() -> None:
    assert tzdata_version()[:2] == "20"


ZONES_WITH_A_PAST = (
    "Africa/Casablanca", "Africa/Monrovia", "America/Caracas", "America/Sao_Paulo", "Antarctica/Troll", "Asia/Gaza",
    "Asia/Pyongyang", "Australia/Lord_Howe", "Europe/Dublin", "Europe/Istanbul", "Pacific/Apia", "Pacific/Kwajalein",
)  # fmt: skip


@pytest.mark.parametrize("name", ZONES_WITH_A_PAST)
def test_segments_have_the_offsets_of_the_zone(name: str) -> None:
    zone = load_zone(name)
    chosen = random.Random(name)
    instants = [chosen.randrange(0, 7_258_118_400) for _ in range(500)]
    for at in (*instants, *zone.starts[1:-1], *(start - 1 for start in zone.starts[1:-1])):
        expected = datetime.fromtimestamp(at, zone.info).utcoffset()
        assert timedelta(seconds=zone.offsets[zone.segment(at)]) == expected


def test_usual_names_are_known() -> None:
    assert {"UTC", "Europe/Berlin", "America/New_York", "Asia/Calcutta"} <= zone_names()
