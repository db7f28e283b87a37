"""Which days the day fields choose, month by month, and stepping through them both ways."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from common.schedules.cron import DAY_SECONDS, FIRST_LOCAL, LAST_LOCAL, Cron, parse

EPOCH = date(1970, 1, 1)


def days(cron: Cron, since: str, count: int) -> list[str]:
    """The first so many matching days from an ISO date on, and the same ones found backwards."""
    local = (date.fromisoformat(since) - EPOCH).days * DAY_SECONDS - 1
    found: list[int] = []
    while len(found) < count and (step := cron.next_local(local)) is not None:
        found.append(step)
        local = step
    assert all(cron.previous_local(later) == earlier for earlier, later in pairwise(found))
    return [(EPOCH + timedelta(seconds=second)).isoformat() for second in found]


@dataclass(frozen=True, kw_only=True)
class Days:
    situation: str
    day: str = "*"
    month: str = "*"
    weekday: str = "*"
    year: str = "*"
    since: str = "2026-01-01"
    found: str


DAYS = [
    Days(situation="last day", day="L", found="2026-01-31 2026-02-28 2026-03-31 2026-04-30"),
    Days(situation="last day of February", day="L", month="2", found="2026-02-28 2027-02-28 2028-02-29"),
    Days(situation="three days before the last", day="L-3", found="2026-01-28 2026-02-25 2026-03-28"),
    Days(situation="30 days before the last", day="L-30", found="2026-01-01 2026-03-01 2026-05-01"),
    Days(situation="last weekday", day="LW", found="2026-01-30 2026-02-27 2026-03-31 2026-04-30 2026-05-29"),
    Days(situation="nearest weekday to a Sunday is Monday", day="15W", month="2,3", found="2026-02-16 2026-03-16"),
    Days(situation="nearest weekday to a Saturday is Friday", day="15W", month="8", found="2026-08-14 2027-08-16"),
    Days(situation="Saturday the 1st stays in the month", day="1W", month="8", found="2026-08-03 2027-08-02"),
    Days(situation="Sunday the 31st stays in the month", day="31W", month="5", found="2026-05-29 2027-05-31"),
    Days(situation="31W only where there is a 31st", day="31W", found="2026-01-30 2026-03-31 2026-05-29"),
    Days(situation="list with last day", day="1,L", found="2026-01-01 2026-01-31 2026-02-01 2026-02-28"),
    Days(situation="last Friday", weekday="5L", found="2026-01-30 2026-02-27 2026-03-27"),
    Days(situation="last Sunday by name", weekday="sunL", found="2026-01-25 2026-02-22 2026-03-29"),
    Days(situation="last Sunday as 7", weekday="7L", found="2026-01-25 2026-02-22 2026-03-29"),
    Days(situation="second Friday", weekday="5#2", found="2026-01-09 2026-02-13 2026-03-13"),
    Days(situation="first Sunday as 7", weekday="7#1", found="2026-01-04 2026-02-01 2026-03-01"),
    Days(situation="fifth Friday where there is one", weekday="FRI#5", found="2026-01-30 2026-05-29 2026-07-31"),
    Days(situation="list of weekday forms", weekday="1#1,5L", found="2026-01-05 2026-01-30 2026-02-02 2026-02-27"),
    Days(situation="both day fields", day="13", weekday="&5", found="2026-02-13 2026-03-13 2026-11-13"),
    Days(situation="both, with days by steps", day="*/2", weekday="&MON", found="2026-01-05 2026-01-19 2026-02-09"),
    Days(situation="both, where one is every day", day="*", weekday="&5", found="2026-01-02 2026-01-09"),
    Days(situation="either day field", day="13", weekday="5", found="2026-01-02 2026-01-09 2026-01-13 2026-01-16"),
    Days(situation="stepped star is restricted", day="*/20", weekday="1", found="2026-01-01 2026-01-05 2026-01-12"),
    Days(situation="question mark is not", day="?", weekday="1", found="2026-01-05 2026-01-12 2026-01-19"),
    Days(situation="leap days skip 2100", day="29", month="2", since="2093-01-01", found="2096-02-29 2104-02-29"),
    Days(situation="leap Mondays", weekday="1#5", month="2", since="2085-01-01", found="2112-02-29 2140-02-29"),
    Days(situation="single future year", day="1", month="1", year="2030", found="2030-01-01"),
    Days(situation="far", day="1", month="1", year="1970,2198", since="1970-01-01", found="1970-01-01 2198-01-01"),
    Days(situation="last day of all", day="31", month="12", since="2199-01-01", found="2199-12-31"),
    Days(situation="years past", year="2025", found=""),
]  # fmt: skip


@pytest.mark.parametrize("case", DAYS, ids=lambda case: case.situation)
def test_day_fields_choose(case: Days) -> None:
    cron = parse(f"0 0 0 {case.day} {case.month} {case.weekday} {case.year}")
    expected = [day for day in case.found.split(" ") if day]
    assert days(cron, case.since, max(len(expected), 1)) == expected


def test_times_of_a_day_are_found_forward_and_backward() -> None:
    cron = parse("10,50 5,58 3,22 * * * *")
    found, local = list[int](), -1
    for _ in range(9):
        local = cron.next_local(local) or 0
        found.append(local)
    assert [f"{datetime.fromtimestamp(one, UTC):%dT%H:%M:%S}" for one in found] == [
        "01T03:05:10", "01T03:05:50", "01T03:58:10", "01T03:58:50",
        "01T22:05:10", "01T22:05:50", "01T22:58:10", "01T22:58:50", "02T03:05:10",
    ]  # fmt: skip
    assert [cron.previous_local(one) for one in found[1:]] == found[:-1]


def test_nothing_is_found_outside_the_years() -> None:
    cron = parse("* * * * * * *")
    assert cron.next_local(-(10**15)) == FIRST_LOCAL
    assert cron.previous_local(10**15) == LAST_LOCAL
    assert cron.next_local(LAST_LOCAL) is None
    assert cron.previous_local(FIRST_LOCAL) is None
