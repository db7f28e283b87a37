"""H: a value of its own for each job, the same on every worker and in every version."""

from __future__ import annotations

from collections import Counter

import pytest

from common.schedules.cron import parse, uses_hash


def minutes(text: str, job: str) -> list[int]:
    mask = parse(f"0 {text} * * * * *", job).minutes
    return [minute for minute in range(60) if mask >> minute & 1]


def test_value_is_the_same_for_ever() -> None:
    """Frozen: a change here moves the jobs of everybody who upgrades."""
    assert [minutes("H", job) for job in ("backup", "report", "")] == [[34], [31], [38]]


def test_fields_have_values_of_their_own() -> None:
    cron = parse("H H H H H * *", "backup")
    values = [mask.bit_length() - 1 for mask in (cron.seconds, cron.minutes, cron.hours, cron.months)]
    assert values == [33, 34, 8, 10]


def test_jobs_spread_over_the_hour() -> None:
    counts = Counter(minutes("H", f"job-{number}")[0] for number in range(6000))
    assert len(counts) == 60
    assert max(counts.values()) < 150
    assert min(counts.values()) > 60


@pytest.mark.parametrize("job", [f"job-{number}" for number in range(40)])
def test_step_begins_within_the_first_step_and_goes_on_to_the_end(job: str) -> None:
    values = minutes("H/15", job)
    assert values[0] in range(15)
    assert values == list(range(values[0], 60, 15))


@pytest.mark.parametrize("job", [f"job-{number}" for number in range(40)])
def test_range_bounds_the_value(job: str) -> None:
    assert minutes("H(10-19)", job)[0] in range(10, 20)
    assert minutes("H(58-1)", job)[0] in (58, 59, 0, 1)
    values = minutes("H(10-39)/10", job)
    assert values == list(range(values[0], 40, 10))
    assert values[0] in range(10, 20)


def test_day_exists_in_every_month() -> None:
    for number in range(200):
        mask = parse("0 0 0 H * * *", f"job-{number}").month_days[0]
        assert mask.bit_length() - 1 in range(1, 29)


def test_step_longer_than_its_range_takes_one_value_of_the_range() -> None:
    assert all(minutes("H(10-14)/30", f"job-{number}")[0] in range(10, 15) for number in range(50))


@pytest.mark.parametrize(
    ("expr", "uses"),
    [("H * * * *", True), ("0 0 0 * * h *", True), ("0 0 1,H(2-20) * *", True), ("0 0 * * THU", False)],
)
def test_hash_is_told_from_thursday(expr: str, uses: bool) -> None:
    assert uses_hash(expr) is uses
    assert (len({parse(expr, f"job-{number}") for number in range(9)}) > 1) is uses


def test_any_job_name_hashes() -> None:
    assert minutes("H", "\ud800 ünïcode \0")[0] in range(60)
