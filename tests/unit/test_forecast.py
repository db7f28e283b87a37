"""What is usual, what is left, and how many slots the fires to come want, whatever the schedules are."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from common.forecast import MINUTE_MS, Expected, Wanted, fires_in, slots_wanted, usual_ms
from common.instants import to_ms
from common.jobs.reader import parse_job

MIDNIGHT_MS = to_ms(datetime(2027, 3, 1, tzinfo=UTC))
HOUR_MS = 3_600_000
DAY_MS = 86_400_000


def wanted(*jobs: tuple[dict[str, Any], int | None], hours: int = 24, **limits: int) -> Wanted:
    """Each a job's fields, and what its runs usually take."""
    specs = [
        (parse_job({"name": f"job-{number}", "command": "true", **fields}), usual)
        for number, (fields, usual) in enumerate(jobs)
    ]
    of = [(spec, usual, spec.slots) for spec, usual in specs]
    return slots_wanted(of, MIDNIGHT_MS, MIDNIGHT_MS + hours * 3_600_000, **limits)


def one(usual_ms: int | None = None, **fields: Any) -> Expected:
    spec = parse_job({"name": "j", "command": "true", **fields})
    return spec, usual_ms, spec.slots


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


def on_each(workers: int, usual_ms: int, **fields: Any) -> Expected:
    """A broadcast job, whose fires take a slot of each worker."""
    return parse_job({"name": "j", "command": "true", "broadcast": True, **fields}), usual_ms, workers


def test_the_runs_of_a_broadcast_job_are_apart_by_its_jitter() -> None:
    job = on_each(60, 60_000, cronExpr="0 2 * * *", jitterSeconds=1_800)
    told = slots_wanted([job], MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS, there=60)
    assert sum(told.fires) == pytest.approx(1, abs=0.1)
    assert [minute for minute, slots in enumerate(told.slots) if slots] == [*range(120, 150)]
    assert set(told.slots) == {0, 2}
    begun = slots_wanted([job], MIDNIGHT_MS + 140 * MINUTE_MS, MIDNIGHT_MS + 160 * MINUTE_MS)
    assert begun.slots == [2] * 10 + [0] * 10


@pytest.mark.parametrize(
    ("usual_s", "fields", "most"),
    [
        pytest.param(3_600, {"every": "5m", "jitterSeconds": 30}, 10, id="a fire during a longer run is skipped"),
        pytest.param(90, {"every": "1m", "jitterSeconds": 30}, 10, id="also where each second one is"),
        pytest.param(
            3_600, {"every": "5m", "jitterSeconds": 30, "overlap": "allow"}, 120, id="runs that may meet each other do",
        ),
        pytest.param(300, {"cronExpr": "0 2 * * *", "jitterSeconds": 300}, 10, id="the last starts as the first ends"),
    ],
)  # fmt: skip
def test_a_broadcast_job_with_jitter_wants_no_more_slots_than_its_runs_take_at_once(
    usual_s: int, fields: dict[str, Any], most: int
) -> None:
    told = slots_wanted([on_each(10, usual_s * 1000, **fields)], MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
    assert max(told.slots) == most


@pytest.mark.parametrize(
    ("cron", "usual_s"),
    [
        pytest.param("*/5 * * * *", 3_600, id="each run outlasts many fires"),
        pytest.param("30 */5 * * * * *", 300, id="one ends and the next begins within a minute"),
    ],
)
def test_the_runs_of_a_broadcast_job_with_jitter_keep_others_from_their_slots_once(cron: str, usual_s: int) -> None:
    everywhere = on_each(10, usual_s * 1000, cronExpr=cron, jitterSeconds=30)
    hourly = parse_job({"name": "hourly", "command": "true", "cronExpr": "0 * * * *", "slots": 5}), 600_000, 5
    told = slots_wanted([everywhere, hourly], MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS, there=14)
    assert set(told.waits_ms) == {0, 600_000}, "four of five slots are free"


def test_a_fire_of_a_broadcast_job_counts_in_its_jitter_however_long_its_runs_take() -> None:
    job = on_each(10, 3_600_000, cronExpr="0 2 * * *", jitterSeconds=60)
    told = slots_wanted([job], MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
    assert {minute: fires for minute, fires in enumerate(told.fires) if fires} == {120: 1}


def test_a_job_that_follows_its_own_end_wants_its_share() -> None:
    told = wanted(({"after": "45s", "slots": 2}, 15_000), hours=1)
    assert sum(told.fires) == pytest.approx(60)
    assert set(told.slots) == {0.5}


@pytest.mark.parametrize(
    ("fields", "hours"),
    [
        ({"endAt": "2020-01-01T00:00"}, []),
        ({"startAt": "2027-03-01T02:00", "endAt": "2027-03-01T04:00"}, [2, 3]),
        ({"calendar": {"exclude": ["03-01/03-04"]}}, []),
        ({"calendar": {"include": ["2027-03-01"]}, "timezone": "Asia/Shanghai"}, [*range(16)]),
        ({"calendar": {"exclude": ["2027-03-01"]}, "timezone": "America/New_York"}, [*range(5)]),
    ],
)
def test_a_job_that_follows_its_own_end_wants_it_while_it_is_open(fields: dict[str, Any], hours: list[int]) -> None:
    told = wanted(({"after": "45s", **fields}, 15_000))
    found = list(told.in_buckets(60))
    assert [hour for hour, (_, fires, slots, _) in enumerate(found) if fires or slots] == hours
    assert [found[hour][1] for hour in hours] == [pytest.approx(60)] * len(hours)


@pytest.mark.parametrize(
    ("fields", "usual", "a_minute", "most"),
    [
        ({"cronExpr": "* * * * * * *"}, None, 60, 1),
        ({"every": "1s", "overlap": "allow"}, 10_000, 60, 10),
        ({"every": "5s", "slots": 2}, 2_000, 12, 2),
        ({"every": "20s", "jitterSeconds": 5}, None, 3, 1),
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
    told = slots_wanted(((spec, None, 1) for _ in range(100_000)), MIDNIGHT_MS, MIDNIGHT_MS + DAY_MS)
    assert sum(told.fires) == pytest.approx(86_400 * 100_000, rel=0.01)
    assert max(told.slots) == 100_000


def test_fires_that_start_at_seconds_of_their_own_are_kept_in_few_bytes() -> None:
    spec = parse_job({"name": "one", "command": "true", "cronExpr": "* * * * *", "jitterSeconds": 30})
    jobs = [(replace(spec, name=f"job-{number}"), 1000 + 700 * number, 1) for number in range(100)]
    tracemalloc.start()
    try:
        told = slots_wanted(jobs, MIDNIGHT_MS, MIDNIGHT_MS + 3_600_000, there=20)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max(told.waits_ms) > 0
    assert most < 120 * sum(told.fires)


def test_of_many_schedules_fewer_fires_each_are_looked_at_and_their_sum_stays_right() -> None:
    jobs = [({"cronExpr": "H/5 * * * * * *"}, None)] * 40
    all_found, some_found = wanted(*jobs, hours=2), wanted(*jobs, hours=2, most_fires=10_000)
    assert (all_found.estimated, some_found.estimated) == (0, 40)
    assert sum(some_found.fires) == pytest.approx(sum(all_found.fires), rel=0.05)


def test_buckets_add_fires_and_keep_the_most_slots() -> None:
    told = wanted(({"cronExpr": "1,3 0 * * *"}, 30_000), ({"cronExpr": "3 0 * * *"}, None), hours=1)
    (start_ms, fires, slots, wait_ms), *others = told.in_buckets(5)
    assert (start_ms, fires, slots, wait_ms) == (MIDNIGHT_MS, 3, 2, 0)
    assert [one[0] for one in others][:1] == [MIDNIGHT_MS + 5 * MINUTE_MS]
    assert {one[1:] for one in others} == {(0, 0, 0)}


NIGHT = {"cronExpr": "0 2 * * *"}
EACH_MINUTE = {"cronExpr": "* * * * *"}


@pytest.mark.parametrize(
    ("jobs", "there", "waits_s"),
    [
        pytest.param([(NIGHT, 5_000)] * 32, 32, {}, id="as many as there are slots: none waits"),
        pytest.param([(NIGHT, 5_000)] * 33, 32, {120: 5}, id="one more waits for the first end"),
        pytest.param([(NIGHT, None)] * 187, 32, {120: 5}, id="of an unknown job a run takes a second"),
        pytest.param([(NIGHT, 40)] * 187, 32, {120: 0.5}, id="short ones queue for less than a second"),
        pytest.param([(NIGHT, 3_600_000)] * 40, 32, {120: 3_600}, id="an hour behind runs of an hour"),
        pytest.param([({**NIGHT, "slots": 4}, 30_000)] * 4, 8, {120: 30}, id="by slots, not by runs"),
        pytest.param(
            [(NIGHT, 3_600_000)] * 2 + [({"cronExpr": "30 2 * * *"}, 60_000)], 2, {150: 1_800},
            id="what comes later waits for what began before",
        ),
        pytest.param(
            [({"cronExpr": "30 23 * * *"}, 3_600_000), ({"cronExpr": "10 0 * * *"}, None)], 1, {10: 1_200},
            id="also for what began before the span",
        ),
        pytest.param(
            [(NIGHT, 90_000)] * 2 + [({"cronExpr": "1 2 * * *"}, None)], 1, {120: 90, 121: 120},
            id="who comes later is served later",
        ),
        pytest.param(
            [({"after": "10s"}, 10_000)] * 2 + [(NIGHT, 2_000)] * 4, 2, {120: 6}, id="beside jobs that never rest",
        ),
        pytest.param(
            [(NIGHT, None)] * 3 + [(NIGHT, 600_000)] * 2, 2, {120: 601}, id="at worst the short ones come last",
        ),
        pytest.param([(NIGHT, 60_000)] * 3, 0, {}, id="without slots nothing is told"),
    ],
)  # fmt: skip
def test_a_fire_waits_for_a_slot_where_there_are_too_few(
    jobs: list[tuple[dict[str, Any], int | None]], there: int, waits_s: dict[int, float]
) -> None:
    told = wanted(*jobs, there=there)
    assert {minute: ms / 1000 for minute, ms in enumerate(told.waits_ms) if ms} == waits_s


def test_a_fire_waits_no_longer_than_until_the_next_one_takes_its_place() -> None:
    told = wanted(*[(EACH_MINUTE, None)] * 1_000, there=10)
    assert set(told.waits_ms[1:]) == {MINUTE_MS}
    beside = wanted(*[({**EACH_MINUTE, "overlap": "allow"}, None)] * 1_000, hours=1, there=10)
    assert list(beside.waits_ms) == sorted(beside.waits_ms)
    assert beside.waits_ms[-1] > 30 * MINUTE_MS


def test_what_fires_all_the_time_keeps_its_slots_from_others() -> None:
    always = ({"cronExpr": "* * * * * * *"}, 500)
    told = wanted(*[always] * 4, *[({"cronExpr": "0 20 * * *"}, 2_000)] * 6, there=4)
    assert told.estimated == 4
    assert told.waits_ms[20 * 60] == 4_000


def test_the_fullest_minute_is_that_with_the_longest_wait_and_has_a_fire() -> None:
    many = [({"cronExpr": "0 2 * * *", "slots": 3}, 600_000)] * 2
    told = wanted(*many, ({"cronExpr": "5 2 * * *"}, None), there=6)
    assert (told.fullest, told.slots[told.fullest]) == (125, 7)
    assert wanted(*many).fullest == 120
    assert wanted().fullest == 0


def test_fires_of_a_span_are_counted_where_they_are_dispatched() -> None:
    jobs = [one(name=f"job-{number}", cronExpr="0 2 * * *", jitterSeconds=3_000) for number in range(50)]
    two = MIDNIGHT_MS + 2 * 3_600_000
    assert fires_in([one(every="10s"), *jobs], two, two + 10 * MINUTE_MS)[0] == 60
    by_minute = [fires_in(jobs, two + minute * MINUTE_MS, two + (minute + 1) * MINUTE_MS) for minute in range(51)]
    assert [sum(of_job) for of_job in zip(*by_minute, strict=True)] == [1] * 50
    assert max(map(sum, by_minute)) < 8


def test_jitter_for_longer_than_it_is_to_the_next_fire_hides_no_fire() -> None:
    often = one(every="5s", jitterSeconds=86_400)
    minutes = range(MIDNIGHT_MS, MIDNIGHT_MS + 10 * MINUTE_MS, MINUTE_MS)
    assert sum(fires_in([often], at_ms, at_ms + MINUTE_MS)[0] for at_ms in minutes) == 120


@pytest.mark.parametrize(
    ("usual_ms", "fields", "fires"),
    [
        pytest.param(15_000, {}, 60, id="one a round"),
        pytest.param(75_000, {}, 30, id="of longer runs fewer"),
        pytest.param(None, {"after": "59s"}, 60, id="of an unknown job a run takes a second"),
        pytest.param(15_000, {"calendar": {"exclude": ["2027-03-01"]}}, 0, id="none while it is closed"),
        pytest.param(15_000, {"endAt": "2027-03-01T00:30:00Z"}, 30, id="none after its end"),
        pytest.param(15_000, {"after": "3h"}, 0, id="none where there is hardly one"),
    ],
)
def test_fires_after_the_last_run_are_counted_by_how_long_runs_take(
    usual_ms: int | None, fields: dict[str, Any], fires: int
) -> None:
    beside = one(1_000, name="beside", after="59s")
    counts = fires_in([one(usual_ms, **{"after": "45s", **fields}), beside], MIDNIGHT_MS, MIDNIGHT_MS + HOUR_MS)
    assert counts == [fires, 60]
