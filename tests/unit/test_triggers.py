"""The triggers beside one cron expression: rates, one instant, unions, windows. Forwards and backwards they agree."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from common.instants import from_ms, to_ms
from common.schedules.cron import LAST_LOCAL
from common.schedules.job_calendar import Calendar, CalendarSchedule
from common.schedules.schedule import Schedule, parse_cron
from common.schedules.triggers import AtSchedule, EverySchedule, NoFires, Union, Window

MINUTE_MS, DAY_MS = 60_000, 86_400_000
FAR_MS = LAST_LOCAL * 1000


def ms(text: str) -> int:
    return to_ms(datetime.fromisoformat(text).astimezone(UTC))


def test_rate_fires_at_whole_multiples_and_the_offset() -> None:
    every = EverySchedule(period_ms=45 * MINUTE_MS, offset_ms=5 * MINUTE_MS)
    assert every.fires_between_ms(-1, 100 * MINUTE_MS, 9) == [5 * MINUTE_MS, 50 * MINUTE_MS, 95 * MINUTE_MS]
    assert every.next_after_ms(-(10**15)) == 5 * MINUTE_MS
    assert every.next_after_ms(5 * MINUTE_MS) == 50 * MINUTE_MS
    assert every.last_before_ms(5 * MINUTE_MS) is None
    assert every.last_before_ms(5 * MINUTE_MS + 1) == 5 * MINUTE_MS


def test_rate_ends_with_the_year_2199() -> None:
    every = EverySchedule(period_ms=1000)
    last = every.last_before_ms(10**18)
    assert last is not None
    assert last <= FAR_MS
    assert every.next_after_ms(last) is None


def test_rate_goes_on_evenly_through_changes_of_the_clocks() -> None:
    every = EverySchedule(period_ms=60 * MINUTE_MS, timezone="Europe/Paris")
    fires = every.upcoming(from_ms(ms("2026-03-29T00:00Z")), 2)
    assert [fire.local.isoformat() for fire in fires] == ["2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"]


def test_one_instant_fires_once() -> None:
    at = AtSchedule(at_ms=5000)
    assert (at.next_after_ms(4999), at.next_after_ms(5000)) == (5000, None)
    assert (at.last_before_ms(5001), at.last_before_ms(5000)) == (5000, None)
    assert [
        fire.local.isoformat() for fire in AtSchedule(at_ms=5000, timezone="Asia/Kolkata").upcoming(from_ms(0), 3)
    ] == ["1970-01-01T05:30:05+05:30"]


def test_delay_has_no_planned_fires() -> None:
    assert NoFires().next_after_ms(0) is None
    assert NoFires().last_before_ms(FAR_MS) is None
    assert NoFires().upcoming(from_ms(0), 5) == []


def test_union_fires_once_where_two_meet_and_shows_the_note_of_the_one_that_fires() -> None:
    zone = "America/New_York"
    union = Union(parts=tuple(parse_cron(expr, timezone=zone) for expr in ("0 30 2 * * * *", "0 0 3 * * * *")))
    [gap, *others] = union.upcoming(from_ms(ms("2026-03-08T05:00Z")), 3)
    assert gap.local.isoformat() == "2026-03-08T03:00:00-04:00"
    assert gap.note is not None
    assert [fire.local.isoformat() for fire in others] == ["2026-03-09T02:30:00-04:00", "2026-03-09T03:00:00-04:00"]
    assert [fire.note for fire in others] == [None, None]


@pytest.mark.parametrize(
    ("start", "end", "fires"),
    [(None, None, [1, 2, 3, 4]), (2, None, [2, 3, 4]), (None, 3, [1, 2, 3]), (2, 3, [2, 3]), (5, None, []),
     (None, 0, [])],
)  # fmt: skip
def test_window_includes_both_its_ends(start: int | None, end: int | None, fires: list[int]) -> None:
    minutes = EverySchedule(period_ms=MINUTE_MS)
    window = Window(
        inner=minutes,
        start_ms=None if start is None else start * MINUTE_MS,
        end_ms=None if end is None else end * MINUTE_MS,
    )
    assert window.fires_between_ms(0, 4 * MINUTE_MS, 9) == [one * MINUTE_MS for one in fires]
    assert [to_ms(fire.at) for fire in window.upcoming(from_ms(0), len(fires))] == [one * MINUTE_MS for one in fires]
    last = window.last_before_ms(4 * MINUTE_MS + 1)
    assert last == (fires[-1] * MINUTE_MS if fires else None if start else 0)


RATES = st.builds(
    EverySchedule, period_ms=st.integers(1, 10**8).map(lambda s: s * 1000), offset_ms=st.integers(0, 10**6)
)
PLAIN: st.SearchStrategy[Schedule] = (
    RATES
    | st.builds(AtSchedule, at_ms=st.integers(0, FAR_MS))
    | st.sampled_from(["@daily", "*/7 * * * * * *", "0 30 2 * * * *", "0 0 0 29 2 * *"]).map(
        lambda expr: parse_cron(expr, timezone="America/New_York")
    )
    | st.just(NoFires())
)
SCHEDULES: st.SearchStrategy[Schedule] = st.recursive(
    PLAIN,
    lambda inner: (
        st.builds(Union, parts=st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Window, inner=inner, start_ms=st.none() | st.integers(0, FAR_MS), end_ms=st.integers(0, FAR_MS))
        | st.builds(
            CalendarSchedule, inner=inner, timezone=st.just("America/New_York"),
            calendar=st.sampled_from([Calendar(entries=("12-24/01-06",)), Calendar(entries=("07-04",), include=True)]),
        ).flatmap(lambda one: st.sampled_from([one, one.open_fires]))
    ),
    max_leaves=4,
)  # fmt: skip


@given(schedule=SCHEDULES, after_ms=st.integers(-(10**12), FAR_MS + 10**12))
def test_next_and_last_agree_with_each_other(schedule: Schedule, after_ms: int) -> None:
    following = schedule.next_after_ms(after_ms)
    assume(following is not None)
    assert following is not None
    assert following > after_ms
    assert schedule.next_after_ms(following - 1) == following
    assert schedule.last_before_ms(following + 1) == following
    before = schedule.last_before_ms(following)
    assert before is None or before <= after_ms
    assert before is None or schedule.next_after_ms(before) == following
    [fire] = schedule.upcoming(from_ms(after_ms), 1)
    assert to_ms(fire.at) == following
    assert to_ms(fire.local.astimezone(UTC)) == following


@given(schedule=SCHEDULES)
def test_equal_schedules_are_equal_and_can_be_keys(schedule: Schedule) -> None:
    assert {schedule: 1}[schedule] == 1


@given(
    period_s=st.integers(86_401, 4 * 86_400) | st.integers(1, 366).map(lambda days: days * 86_400 + 1),
    offset_s=st.integers(0, 86_400),
    timezone=st.sampled_from(["UTC", "Europe/Paris", "Pacific/Apia", "America/Nuuk", "Africa/Casablanca"]),
    opens=st.dates(date(1970, 1, 1), date(2199, 12, 31)),
    days=st.integers(0, 40),
)
def test_open_fires_of_a_rate_are_those_on_open_days(
    period_s: int, offset_s: int, timezone: str, opens: date, days: int
) -> None:
    every = EverySchedule(period_ms=period_s * 1000, offset_ms=offset_s * 1000, timezone=timezone)
    closes = min(opens + timedelta(days), date(2199, 12, 31))
    calendar = Calendar(entries=(f"{opens}/{closes}",), include=True)
    schedule = CalendarSchedule(inner=every, calendar=calendar, timezone=timezone)
    first_ms, last_ms = ms(f"{opens}T00:00Z"), ms(f"{closes}T00:00Z")
    around = every.fires_between_ms(first_ms - 2 * DAY_MS, last_ms + 3 * DAY_MS, 100)
    found = [at_ms for at_ms in around if schedule.is_open(at_ms)]
    assert schedule.open_fires.fires_between_ms(-1, FAR_MS, 100) == found
    assert schedule.open_fires.last_before_ms(FAR_MS + 1) == (found[-1] if found else None)
