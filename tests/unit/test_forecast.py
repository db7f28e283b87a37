"""What is usual, what is left, and how many slots the fires to come want, whatever the schedules are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from common.forecast import MINUTE_MS, Rhythm, Wanted, slots_wanted, usual_ms
from common.instants import to_ms
from common.jobs.reader import parse_job

MIDNIGHT_MS = to_ms(datetime(2027, 3, 1, tzinfo=UTC))
DAY_MS = 86_400_000


def wanted(*jobs: tuple[dict[str, Any], int | None], hours: int = 24, **limits: int) -> Wanted:
    """Each a job's fields, and what its runs usually take."""
    specs = [
        (parse_job({"name": f"job-{number}", "command": "true", **fields}), usual)
        for number, (fields, usual) in enumerate(jobs)
    ]
    of = [(Rhythm.of(spec, usual), spec.slots) for spec, usual in specs]
    return slots_wanted(of, MIDNIGHT_MS, MIDNIGHT_MS + hours * 3_600_000, **limits)


def test_usual_is_the_median_of_at_least_three_successes() -> None:
    assert usual_ms([]) is None
    assert usual_ms([5, 7]) is None
    assert usual_ms([5, 900, 7]) == 7
    assert usual_ms([4, 5, 6, 900]) == 6


def test_jobs_that_start_together_want_slots_together() -> None:
    told = wanted(({"cronExpr": "0 2 * * *", "slots": 3}, 150_000), ({"cronExpr": "0 2 * * *"}, 30_000))
    assert told.fires[120] == 2
    assert sum(told.fires) == 2
    assert list(told.slots[119:124]) == [0, 4, 3, 3, 0]
    assert told.estimated == 0


def test_jobs_of_one_minute_that_never_meet_want_one_slot() -> None:
    told = wanted(*(({"cronExpr": f"{second} 0 * * * * *"}, 2_000) for second in range(0, 60, 3)))
    assert told.fires[0] == 20
    assert told.slots[0] == 1


def test_a_run_that_is_longer_than_its_interval_skips_queues_or_meets_itself() -> None:
    alone = wanted(({"every": "1m"}, 150_000), hours=1)
    assert set(alone.slots) == {1}
    assert set(alone.fires) == {1}
    beside = wanted(({"every": "1m", "overlap": "allow"}, 150_000), hours=1)
    assert set(beside.slots) == {3}


def test_a_run_that_began_before_the_span_is_still_going_in_it() -> None:
    told = wanted(({"cronExpr": "30 23 * * *"}, 3_600_000))
    assert list(told.slots[29:31]) == [1, 0]
    assert sum(told.fires) == 1


def test_paused_window_calendar_and_zone_are_those_of_the_schedule() -> None:
    closed = {"cronExpr": "0 2 * * *", "calendar": {"exclude": ["2027-03-01"]}}
    later = {"every": "1h", "startAt": "2027-03-01T22:30:00Z"}
    there = {"cronExpr": "0 2 * * *", "timezone": "Asia/Shanghai"}
    told = wanted((closed, None), (later, None), (there, None))
    assert [minute for minute, fires in enumerate(told.fires) if fires] == [18 * 60, 23 * 60]


def test_a_fire_counts_where_its_jitter_puts_it() -> None:
    told = wanted(*(({"cronExpr": "0 2 * * *", "jitterSeconds": 3_000}, None) for _ in range(100)))
    assert sum(told.fires) == 100
    assert sum(told.fires[120:170]) == 100
    assert max(told.fires) < 12


def test_a_job_that_follows_its_own_end_wants_its_share() -> None:
    told = wanted(({"after": "45s", "slots": 2}, 15_000), hours=1)
    assert sum(told.fires) == pytest.approx(60)
    assert set(told.slots) == {0.5}


@pytest.mark.parametrize(
    ("fields", "usual", "a_minute", "most"),
    [
        ({"cronExpr": "* * * * * * *"}, None, 60, 1),
        ({"every": "1s", "overlap": "allow"}, 10_000, 60, 10),
        ({"every": "5s", "slots": 2}, 2_000, 12, 2),
    ],
)
def test_of_a_job_that_fires_all_the_time_the_rest_is_told_by_its_density(
    fields: dict[str, Any], usual: int | None, a_minute: float, most: float
) -> None:
    told = wanted((fields, usual))
    assert told.estimated == 1
    assert sum(told.fires) == pytest.approx(a_minute * 1440, rel=0.01)
    assert (told.slots[10], told.slots[-1]) == (most, most), "what is wanted at once in a minute, found or not"


def test_density_keeps_to_the_hours_in_which_there_are_fires() -> None:
    told = wanted(({"cronExpr": "*/2 * 9-16 * * * *"}, None))
    assert told.estimated == 1
    by_hour = [sum(told.fires[hour * 60 : hour * 60 + 60]) for hour in range(24)]
    assert by_hour[9:17] == pytest.approx([1800] * 8, rel=0.01)
    assert sum(by_hour[:9]) + sum(by_hour[17:]) == 0


def test_a_hundred_thousand_jobs_that_fire_alike_are_one_look() -> None:
    spec = parse_job({"name": "one", "command": "true", "cronExpr": "* * * * * * *"})
    told = slots_wanted(((Rhythm.of(spec, None), 1) for _ in range(100_000)), MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
    assert sum(told.fires) == pytest.approx(86_400 * 100_000, rel=0.01)
    assert max(told.slots) == 100_000


def test_of_many_schedules_fewer_fires_each_are_looked_at_and_their_sum_stays_right() -> None:
    jobs = [({"cronExpr": "H/5 * * * * * *"}, None)] * 40
    all_found, some_found = wanted(*jobs, hours=2), wanted(*jobs, hours=2, most_fires=10_000)
    assert (all_found.estimated, some_found.estimated) == (0, 40)
    assert sum(some_found.fires) == pytest.approx(sum(all_found.fires), rel=0.05)


def test_buckets_add_fires_and_keep_the_most_slots() -> None:
    told = wanted(({"cronExpr": "1,3 0 * * *"}, 30_000), ({"cronExpr": "3 0 * * *"}, None), hours=1)
    (start_ms, fires, slots), *others = told.in_buckets(5)
    assert (start_ms, fires, slots) == (MIDNIGHT_MS, 3, 2)
    assert [one[0] for one in others][:1] == [MIDNIGHT_MS + 5 * MINUTE_MS]
    assert {one[1:] for one in others} == {(0, 0)}
