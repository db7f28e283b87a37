"""What one look at the worst jobs that are accepted costs, in lines of Python: no search walks over years of days."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from types import FrameType
from typing import Any

import pytest

from common.instants import to_ms
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.protocol.planner import Fires, decide
from common.schedules.schedule import Schedule
from manager.views.advice import preview

NOW_MS = to_ms(datetime(2026, 11, 23, 12, tzinfo=UTC))
FEW = 20_000
MANY_IN_THE_GAP = 400_000
"""20 expressions, each with a time in each year that there is not: some 70 lines a year for each."""


def days(*, of: int) -> list[str]:
    """Every day of the year whose number in its month leaves this rest when halved."""
    first = date(2000, 1, 1).toordinal()
    year = [date.fromordinal(first + number) for number in range(366)]
    return [f"{day:%m-%d}" for day in year if day.day % 2 == of]


MANY = [f"*/{step} * * 1-31/2 * * *" for step in range(2, 21)]
IN_THE_GAP = [f"*/{step} 30 2 ? MAR SUNL *" for step in range(2, 21)]
EVERY_DAY = [f"*/{step} * * * * * *" for step in range(2, 21)]

WORST: dict[str, dict[str, Any]] = {
    "one fire in 2199, the others on closed days": {
        "cronExpr": [*MANY, "0 0 0 2 1 * 2199"], "calendar": {"exclude": days(of=1)},
    },
    "days that never meet": {"cronExpr": MANY, "calendar": {"include": days(of=0)}},
    "days that meet in the past alone": {
        "cronExpr": [*MANY, "0 0 0 2 1 * 1970"], "calendar": {"exclude": days(of=1)}, "timezone": "Europe/Paris",
    },
    "every other day is open, and each has fires": {"cronExpr": EVERY_DAY, "calendar": {"exclude": days(of=1)}},
    "times that the clocks jump over": {
        "cronExpr": [*IN_THE_GAP, "0 0 0 2 1 * 2199"], "calendar": {"exclude": ["01-01"]}, "timezone": "Europe/Paris",
    },
    "times that the clocks jump over, on closed days": {
        "cronExpr": [*IN_THE_GAP, *MANY[:1]], "calendar": {"exclude": days(of=1)}, "timezone": "Europe/Paris",
    },
    "a gap at midnight": {
        "cronExpr": [*MANY, "0 0 0 2 1 * 2199"], "calendar": {"exclude": days(of=1)}, "timezone": "America/Nuuk",
    },
    "a rate that meets few days": {
        "every": "2d", "calendar": {"include": ["2199-12-30/2199-12-31"]}, "timezone": "America/New_York",
    },
    "a rate that meets no day": {"every": "7d", "calendar": {"include": ["1970-01-02"]}, "timezone": "Asia/Tokyo"},
    "a rate a little beyond a day": {
        "every": "86401s", "offset": "1h", "calendar": {"include": ["2199-12-30"]}, "timezone": "Africa/Casablanca",
    },
    "a rate that drifts by less than half a day": {
        "every": "129601s", "calendar": {"include": ["2199-12-30"]}, "timezone": "Europe/Paris",
    },
    "an end before the first open day": {
        "cronExpr": EVERY_DAY, "calendar": {"include": ["2199-12-31"]}, "endAt": "2198-01-01T00:00",
    },
    "rare dates": {
        "cronExpr": [f"{second} * * 29 2 ? *" for second in range(20)], "calendar": {"exclude": ["02-29"]},
        "timezone": "Europe/Paris",
    },
    "rare dates of few years": {"cronExpr": [f"{second} 0 0 29 2 * 2196" for second in range(20)]},
    "rare dates, with jitter": {
        "cronExpr": [f"*/{step} 0 0 ? 2 MON#5 *" for step in range(2, 22)], "jitterSeconds": 86_400,
        "timezone": "Europe/Paris",
    },
}  # fmt: skip


MOST = {
    "times that the clocks jump over": MANY_IN_THE_GAP,
    "times that the clocks jump over, on closed days": MANY_IN_THE_GAP,
}


def spec_of(fields: dict[str, Any]) -> JobSpec:
    return parse_job({"name": "j", "command": "true"} | fields)


@contextmanager
def counted_lines() -> Iterator[list[int]]:
    """How many lines of Python run within."""
    lines, before = [0], sys.gettrace()

    def local(frame: FrameType, event: str, arg: object) -> Any:
        lines[0] += event == "line"
        return local

    sys.settrace(lambda frame, event, arg: local)
    try:
        yield lines
    finally:
        sys.settrace(before)


LOOKS: dict[str, Callable[[JobSpec], object]] = {
    "next": lambda spec: spec.schedule.open_fires.next_after_ms(NOW_MS),
    "last": lambda spec: spec.schedule.open_fires.last_before_ms(NOW_MS),
    "next of all": lambda spec: spec.schedule.open_fires.next_after_ms(-1),
    "last of all": lambda spec: spec.schedule.open_fires.last_before_ms(10**14),
    "next planned": lambda spec: spec.schedule.next_after_ms(NOW_MS),
    "last planned": lambda spec: spec.schedule.last_before_ms(NOW_MS),
    "open instant": lambda spec: spec.schedule.opens_ms(NOW_MS),
}  # fmt: skip


def look_around(schedule: Schedule, now_ms: int) -> None:
    for fires in (schedule, schedule.open_fires):
        fires.next_after_ms(now_ms)
        fires.last_before_ms(now_ms + 1)


@pytest.mark.parametrize("worst", WORST)
@pytest.mark.parametrize("look", LOOKS)
def test_a_first_look_takes_few_steps(worst: str, look: str) -> None:
    spec = spec_of(WORST[worst] | {"name": f"{look} {list(WORST).index(worst)}".replace(" ", "-")})
    with counted_lines() as lines:
        LOOKS[look](spec)
    assert lines[0] <= MOST.get(worst, FEW)


@pytest.mark.parametrize("worst", WORST)
def test_a_second_look_takes_few_steps(worst: str) -> None:
    """As a worker has them: the newest fire that is due, and the next."""
    schedule = spec_of(WORST[worst]).schedule
    look_around(schedule, NOW_MS)
    with counted_lines() as lines:
        look_around(schedule, NOW_MS + 1000)
    assert lines[0] <= 2 * FEW


@pytest.mark.parametrize("worst", WORST)
def test_warnings_and_previews_take_few_steps(worst: str) -> None:
    spec = spec_of(WORST[worst])
    with counted_lines() as lines:
        preview(spec, 100, now_ms=NOW_MS)
    assert lines[0] <= 1_000_000


@pytest.mark.parametrize("worst", WORST)
@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_decision_about_a_year_takes_few_steps(worst: str, policy: str) -> None:
    spec = spec_of(WORST[worst] | {"misfire": {"policy": policy}})
    fires = Fires.of(spec.schedule)
    with counted_lines() as lines:
        decide(fires, spec.misfire, mark_ms=NOW_MS - 365 * 86_400_000, until_ms=NOW_MS, now_ms=NOW_MS)
    assert lines[0] <= 1_000_000
