"""The engine against a brute-force matcher, croniter and cronsim, on expressions and times that Hypothesis chooses.

The matcher below is written straight from job-model.md, *Seven fields* and *Time zones and daylight saving*, with sets
and a walk through every minute or second; it shares nothing with the engine.
"""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from common.errors import ScheduleError
from common.schedules.schedule import CronSchedule, parse_cron
from tests.support.schedules import fires_between, last_before, next_after

BOUNDED = settings(
    derandomize=True, deadline=None, max_examples=100, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

# --- the matcher -----------------------------------------------------------------------------------------------------


def number(text: str) -> int:
    if text.upper() in MONTHS:
        return MONTHS.index(text.upper()) + 1
    return WEEKDAYS.index(text.upper()) if text.upper() in WEEKDAYS else int(text)


def allowed(text: str, low: int, high: int) -> set[int]:
    """The values of a field of plain items: ``*``, a, a-b, a-b/n, */n, a/n, lists; a range that wraps."""
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        if span == "*":
            values = list(range(low, high + 1))
        elif "-" in span:
            start, stop = map(number, span.split("-"))
            values = [start]
            while values[-1] != stop:
                values.append(low if values[-1] == max(high, stop) else values[-1] + 1)
        else:
            values = list(range(number(span), high + 1)) if step else [number(span)]
        found.update(values[:: int(step or 1)])
    return found


def day_of_month_matches(text: str, moment: date) -> bool:
    last = calendar.monthrange(moment.year, moment.month)[1]
    for item in text.upper().split(","):
        if item in ("*", "?"):
            return True
        if item == "LW":
            wanted = max(day for day in range(1, last + 1) if moment.replace(day=day).isoweekday() < 6)
        elif item.startswith("L"):
            wanted = last - int(item[2:] or 0)
        elif item.endswith("W"):
            target = int(item[:-1])
            workdays = [day for day in range(1, last + 1) if moment.replace(day=day).isoweekday() < 6]
            wanted = min(workdays, key=lambda day: abs(day - target)) if target <= last else 0
        else:
            if moment.day in allowed(item, 1, 31):
                return True
            continue
        if moment.day == wanted:
            return True
    return False


def day_of_week_matches(text: str, moment: date) -> bool:
    today = moment.isoweekday() % 7
    last = calendar.monthrange(moment.year, moment.month)[1]
    for item in text.upper().split(","):
        if item in ("*", "?"):
            return True
        if item.endswith("L"):
            matches = number(item[:-1]) % 7 == today and moment.day > last - 7
        elif "#" in item:
            weekday, nth = item.split("#")
            matches = number(weekday) % 7 == today and 7 * int(nth) - 7 < moment.day <= 7 * int(nth)
        else:
            matches = today in {value % 7 for value in allowed(item, 0, 6)}
        if matches:
            return True
    return False


def matches(expr: str, moment: datetime) -> bool:
    """Whether a clock that shows this moment matches all seven fields."""
    second, minute, hour, day, month, weekday, year = expr.split()
    return (
        moment.second in allowed_in(second, 0, 59)
        and moment.minute in allowed_in(minute, 0, 59)
        and moment.hour in allowed_in(hour, 0, 23)
        and moment.month in allowed_in(month, 1, 12)
        and moment.year in allowed_in(year, 1970, 2199)
        and date_matches(day, weekday, moment.date())
    )


allowed_in = cache(allowed)


@cache
def date_matches(day: str, weekday: str, of: date) -> bool:
    by_month, by_week = day_of_month_matches(day, of), day_of_week_matches(weekday, of)
    is_either = day not in ("*", "?") and weekday not in ("*", "?")
    return by_month or by_week if is_either else by_month and by_week


@cache
def zone_info(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", name).open("rb") as stream:
        return ZoneInfo.from_file(stream, key=name)


def brute_force(expr: str, zone: str, lo: datetime, hi: datetime, step: timedelta) -> list[datetime]:
    """The fires in (lo, hi], by looking at every step."""
    if any(field.startswith("*") for field in expr.split()[:3]):
        return list(real_time_fires(expr, zone, lo, hi, step))
    return sorted(set(fixed_time_fires(expr, zone, lo, hi, step)))


def real_time_fires(expr: str, zone: str, lo: datetime, hi: datetime, step: timedelta) -> Iterator[datetime]:
    at = lo + step
    while at <= hi:
        if matches(expr, at.astimezone(zone_info(zone)).replace(tzinfo=None)):
            yield at
        at += step


def fixed_time_fires(expr: str, zone: str, lo: datetime, hi: datetime, step: timedelta) -> Iterator[datetime]:
    """Every local time on the wall, placed: its first pass, or the first instant after the gap that it lies in."""
    margin = timedelta(days=2)
    wall = (lo - margin).astimezone(zone_info(zone)).replace(tzinfo=None)
    end = (hi + margin).astimezone(zone_info(zone)).replace(tzinfo=None)
    while wall <= end:
        if matches(expr, wall):
            at = first_instant_showing(wall, zone)
            if lo < at <= hi:
                yield at
        wall += step


def first_instant_showing(wall: datetime, zone: str) -> datetime:
    at = wall.replace(tzinfo=zone_info(zone), fold=0).astimezone(UTC)
    if at.astimezone(zone_info(zone)).replace(tzinfo=None) == wall:
        return at
    # PEP 495: in a gap fold=0 lands after it and fold=1 before it; the jump is between the two.
    after, before = at, wall.replace(tzinfo=zone_info(zone), fold=1).astimezone(UTC)
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        jumped = middle.astimezone(zone_info(zone)).replace(tzinfo=None) > wall
        before, after = (before, middle) if jumped else (middle, after)
    return after


# --- what Hypothesis chooses -----------------------------------------------------------------------------------------


def plain_items(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high).map(str)
    step = st.integers(1, high - low + 1).map(str)
    return st.one_of(
        value,
        st.builds("{}-{}".format, value, value),
        st.builds("{}-{}/{}".format, value, value, step),
        st.builds("*/{}".format, step),
        st.builds("{}/{}".format, value, step),
    )


def fields(items: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.just("*") | st.lists(items, min_size=1, max_size=3).map(",".join)


NAMED_MONTHS = st.builds("{}-{}".format, st.sampled_from(MONTHS), st.sampled_from(["jan", "Jun", "DEC"]))
NAMED_WEEKDAYS = st.builds("{}-{}".format, st.sampled_from(WEEKDAYS), st.sampled_from(["sun", "Wed", "SAT"]))
DAY_ITEMS = st.one_of(
    plain_items(1, 31), st.sampled_from(["L", "LW", "l-1", "L-3", "L-30"]), st.integers(1, 31).map("{}W".format)
)
WEEKDAY_ITEMS = st.one_of(
    plain_items(0, 6),
    NAMED_WEEKDAYS,
    st.sampled_from(["7", "5-7", "0-7", "1-7/2"]),
    st.integers(0, 7).map("{}L".format),
    st.builds("{}#{}".format, st.integers(0, 7), st.integers(1, 5)),
)
YEARS = st.sampled_from(["*", "*", "*", "2024-2030", "*/2", "2020/3", "2026", "2025,2027"])
DATES = st.tuples(
    fields(DAY_ITEMS) | st.just("?"),
    fields(plain_items(1, 12) | NAMED_MONTHS) | st.just("*"),
    fields(WEEKDAY_ITEMS) | st.just("*"),
    YEARS,
).map(" ".join)
TIMES = st.tuples(fields(plain_items(0, 59)), fields(plain_items(0, 59)), fields(plain_items(0, 23))).map(" ".join)
EXPRESSIONS = st.builds("{} {}".format, TIMES, DATES)

# A change of the clocks, so that windows around it come up often; and an ordinary day of each.
PLACES = st.sampled_from([
    ("UTC", "2028-02-29T00:00+00:00"),
    ("Europe/Berlin", "2026-03-29T01:00+00:00"),
    ("Europe/Berlin", "2026-10-25T01:00+00:00"),
    ("Europe/Berlin", "2027-01-01T00:00+00:00"),
    ("America/New_York", "2026-03-08T07:00+00:00"),
    ("America/New_York", "2026-11-01T06:00+00:00"),
    ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
    ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
    ("America/Sao_Paulo", "2018-02-18T02:00+00:00"),
    ("America/Sao_Paulo", "2018-11-04T03:00+00:00"),
    ("Pacific/Apia", "2011-12-30T10:00+00:00"),
    ("Africa/Casablanca", "2026-03-22T02:00+00:00"),
    ("Antarctica/Troll", "2026-03-29T01:00+00:00"),
    ("Asia/Kathmandu", "1985-12-31T18:30+00:00"),
])  # fmt: skip
MINUTES_OFF = st.integers(-1500, 300).map(lambda minutes: timedelta(minutes=minutes))


def parsed(expr: str, zone: str = "UTC") -> CronSchedule:
    """The schedule; expressions that match no date at all are passed over."""
    try:
        return parse_cron(expr, timezone=zone)
    except ScheduleError as error:
        assume("is no date" not in error.message)
        raise


def backwards(schedule: CronSchedule, lo: datetime, hi: datetime) -> list[datetime]:
    found: list[datetime] = []
    before: datetime | None = hi + timedelta(microseconds=1)
    while before is not None and (before := last_before(schedule, before)) is not None and before > lo:
        found.append(before)
    return found[::-1]


# --- the properties --------------------------------------------------------------------------------------------------


@BOUNDED
@given(times=TIMES, dates=st.just("* * * *") | DATES, place=PLACES, off=MINUTES_OFF)
def test_agrees_with_the_matcher_minute_by_minute(
    times: str, dates: str, place: tuple[str, str], off: timedelta
) -> None:
    zone, around = place
    expr = f"0 {' '.join(times.split()[1:])} {dates}"
    lo = datetime.fromisoformat(around) + off
    hi = lo + timedelta(hours=27)
    schedule = parsed(expr, zone)
    expected = brute_force(expr, zone, lo, hi, timedelta(minutes=1))
    assert fires_between(schedule, lo, hi, 10_000) == expected
    assert backwards(schedule, lo, hi) == expected


@BOUNDED
@given(times=TIMES, place=PLACES, off=st.integers(-3000, 300))
def test_agrees_with_the_matcher_second_by_second(times: str, place: tuple[str, str], off: int) -> None:
    zone, around = place
    expr = f"{' '.join(times.split()[:2])} * * * * *"
    lo = datetime.fromisoformat(around) + timedelta(seconds=off)
    hi = lo + timedelta(seconds=4000)
    schedule = parsed(expr, zone)
    expected = brute_force(expr, zone, lo, hi, timedelta(seconds=1))
    assert fires_between(schedule, lo, hi, 10_000) == expected
    assert backwards(schedule, lo, hi) == expected


@BOUNDED
@given(dates=DATES, year=st.sampled_from([1970, 2023, 2024, 2027, 2096, 2099, 2198]))
def test_agrees_with_the_matcher_day_by_day(dates: str, year: int) -> None:
    expr = f"0 0 0 {dates}"
    lo = datetime(year, 1, 1, tzinfo=UTC)
    hi = datetime(year + 2, 1, 1, tzinfo=UTC)
    expected = list(real_time_fires(expr, "UTC", lo, hi, timedelta(days=1)))
    schedule = parsed(expr)
    assert fires_between(schedule, lo, hi, 10_000) == expected
    assert backwards(schedule, lo, hi) == expected


def ascending(low: int, high: int) -> st.SearchStrategy[str]:
    """Fields that every library reads alike: no range that wraps, no a/n, no 1-1 (``*`` to croniter)."""
    pair = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True).map(sorted)
    item = st.one_of(
        st.integers(low, high).map(str),
        pair.map(lambda ends: f"{ends[0]}-{ends[1]}"),
        st.integers(2, (high - low) // 2).map(lambda step: f"*/{step}"),
    )
    return fields(item)


UNSTEPPED_WEEKDAYS = st.one_of(st.just("*"), st.sampled_from(["0", "7", "1-5", "MON,WED", "5L", "5#2", "1#1,3#3"]))
SHARED = st.tuples(
    ascending(0, 59),
    ascending(0, 23),
    st.sampled_from(["*", "*", "1", "15,30", "1-7", "L", "28-31"]),
    ascending(1, 12),
    UNSTEPPED_WEEKDAYS,
).map(" ".join)
INSTANTS = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(lambda t: t.replace(tzinfo=UTC))  # noqa: DTZ001


@BOUNDED
@given(expr=SHARED, start=INSTANTS)
def test_agrees_with_cronsim_in_both_directions(expr: str, start: datetime) -> None:
    schedule = parsed(expr)
    forward, backward = CronSim(expr, start), CronSim(expr, start, reverse=True)
    assert [fire.at for fire in schedule.upcoming(start, 4)] == [next(forward) for _ in range(4)]
    assert last_before(schedule, start) == next(backward)


@BOUNDED
@given(expr=SHARED, start=INSTANTS)
def test_agrees_with_croniter_in_both_directions(expr: str, start: datetime) -> None:
    # croniter writes the last Friday L5, and lets 5#2 narrow a restricted day-of-month down instead of adding to it.
    assume("5L" not in expr and ("#" not in expr or expr.split()[2] == "*"))
    schedule = parsed(expr)
    forward, backward = croniter(expr, start), croniter(expr, start)
    assert [fire.at for fire in schedule.upcoming(start, 4)] == [forward.get_next(datetime) for _ in range(4)]
    assert last_before(schedule, start) == backward.get_prev(datetime)


# Where clocks move by less than an hour cronsim misses the first part of an hour after it: `* 0 * * *` in Lord Howe.
WHOLE_HOURS = PLACES.filter(lambda place: place[0] not in ("Australia/Lord_Howe", "Asia/Kathmandu"))


@BOUNDED
@given(
    expr=st.tuples(ascending(0, 59), ascending(0, 23)).map(lambda times: f"{' '.join(times)} * * *"),
    place=WHOLE_HOURS,
    off=MINUTES_OFF,
)
@example(expr="0 1 * * *", place=("Pacific/Apia", "2011-12-30T10:00+00:00"), off=timedelta(minutes=-1))
def test_agrees_with_cronsim_on_daylight_saving(expr: str, place: tuple[str, str], off: timedelta) -> None:
    zone, around = place
    start = (datetime.fromisoformat(around) + off).astimezone(zone_info(zone))
    # In the second pass of a repeated hour cronsim forgets that a fixed time has had its turn.
    assume(start.fold == 0)
    simulated = CronSim(expr, start)
    # cronsim repeats the instant after a gap for each time that lay in it.
    expected = sorted({next(simulated).astimezone(UTC) for _ in range(12)})
    assert fires_between(parsed(expr, zone), start, expected[-1], 100) == expected


@BOUNDED
@given(expr=EXPRESSIONS, place=PLACES, start=INSTANTS)
def test_forward_and_backward_agree_anywhere(expr: str, place: tuple[str, str], start: datetime) -> None:
    schedule = parsed(expr, place[0])
    fires = [fire.at for fire in schedule.upcoming(start, 6)]
    assert fires == sorted(set(fires))
    assert all(fire > start for fire in fires)
    for earlier, later in pairwise(fires):
        assert last_before(schedule, later) == earlier
        assert next_after(schedule, later - timedelta(milliseconds=1)) == later
    before = last_before(schedule, start)
    assert before is None or before < start
    if fires and before is not None:
        assert next_after(schedule, before) in (fires[0], start)


@BOUNDED
@given(expr=EXPRESSIONS, place=PLACES, start=INSTANTS, cuts=st.lists(st.integers(0, 10**9), max_size=4))
def test_between_is_the_sum_of_its_parts(expr: str, place: tuple[str, str], start: datetime, cuts: list[int]) -> None:
    schedule = parsed(expr, place[0])
    upcoming = [fire.at for fire in schedule.upcoming(start, 20)]
    assume(upcoming)
    end = upcoming[-1]
    bounds = sorted({start, end, *(min(start + timedelta(milliseconds=cut), end) for cut in cuts)})
    parts = [at for lo, hi in pairwise(bounds) for at in fires_between(schedule, lo, hi, 100)]
    assert parts == fires_between(schedule, start, end, 100) == upcoming
    assert fires_between(schedule, start, end, 3) == upcoming[:3]


CRONLIKE = st.text(alphabet="0123456789*?/-,#LWH()@ \tJANSUN", max_size=60)


def fault(text: str, job: str = "job") -> ScheduleError | None:
    """What is wrong with an expression; any other exception fails the test."""
    try:
        parse_cron(text, job=job)
    except ScheduleError as error:
        return error
    return None


@settings(BOUNDED, max_examples=300)
@given(text=st.one_of(CRONLIKE, CRONLIKE.map(lambda text: f"{text} * * * *"), st.text(max_size=80)))
def test_any_text_parses_or_raises_a_schedule_error(text: str) -> None:
    error = fault(text)
    if error is None:
        assert parse_cron(text, job="job").last_before_ms(10**15) is not None
    else:
        assert error.field
        assert error.message
        assert error.remedy


@settings(BOUNDED, max_examples=300)
@given(
    at=st.integers(0, 6),
    item=st.text(alphabet="0123456789*?/-,#LWHJANSU+ab()", min_size=1, max_size=12) | st.text(min_size=1, max_size=5),
)
def test_any_text_in_a_field_parses_or_blames_that_field(at: int, item: str) -> None:
    texts = ["0", "0", "0", "*", "*", "*", "*"]
    texts[at] = item
    names = ("second", "minute", "hour", "day-of-month", "month", "day-of-week", "year")
    error = fault(" ".join(texts))
    assert error is None or error.field in (names[at], "expression", "day-of-month")


@BOUNDED
@given(times=TIMES, place=PLACES, offs_ms=st.lists(st.integers(-100_000_000, 100_000_000), min_size=2, max_size=12))
def test_what_was_found_last_is_what_would_be_found_anew(
    times: str, place: tuple[str, str], offs_ms: list[int]
) -> None:
    zone, around = place
    schedule = parsed(f"{times} * * * *", zone)
    around_ms = round(datetime.fromisoformat(around).timestamp() * 1000)
    asked = [around_ms + off_ms for off_ms in offs_ms]
    # Also on the fires themselves, where one answer ends and the next begins.
    for ms in [*asked, *(at + off for ms in asked if (at := schedule.search_next_ms(ms)) for off in (-1, 0, 1))]:
        assert schedule.next_after_ms(ms) == schedule.search_next_ms(ms)
        assert schedule.last_before_ms(ms) == schedule.search_last_ms(ms)
