"""Timings that fit each other, and those that do not: which field, and the bound that it breaks."""

from __future__ import annotations

import pytest

from common.timings import Timings


def test_the_defaults_fit() -> None:
    timings = Timings()

    assert timings.problems() == []
    assert timings.least_grace_s == 1


@pytest.mark.parametrize(
    ("timings", "field", "bound"),
    [
        pytest.param(Timings(lease_ttl_s=1), "leaseTtlSeconds", "at least 2", id="a TTL of 1 is granted as 2"),
        pytest.param(Timings(lost_after_s=19), "lostAfterSeconds", "more than 19", id="lost before it is ended"),
        pytest.param(Timings(hedge_ms=450), "hedgeMs", "more than 450", id="rank 1 overtakes rank 0"),
        pytest.param(Timings(claim_lead_ms=300), "hedgeMs", "more than 550", id="claims too early"),
    ],
)
def test_names_what_does_not_fit(timings: Timings, field: str, bound: str) -> None:
    (problem,) = timings.problems()

    assert problem.field == field
    assert bound in problem.remedy


@pytest.mark.parametrize(
    "timings", [Timings(lease_ttl_s=2), Timings(lost_after_s=20), Timings(hedge_ms=451)], ids=["ttl", "lost", "hedge"]
)
def test_accepts_what_just_fits(timings: Timings) -> None:
    assert timings.problems() == []


def test_tells_all_that_does_not_fit() -> None:
    fields = [problem.field for problem in Timings(lease_ttl_s=1, lost_after_s=5, hedge_ms=1).problems()]

    assert fields == ["leaseTtlSeconds", "hedgeMs", "lostAfterSeconds"]


@pytest.mark.parametrize(
    ("lost_after_s", "kill_grace_s", "misfire_grace_s", "fields"),
    [
        pytest.param(300, 5, 60, [], id="fits"),
        pytest.param(None, 100_000, 60, [], id="never lost"),
        pytest.param(300, 286, 60, ["lostAfterSeconds"], id="a long kill grace"),
        pytest.param(20, 5, 0, ["misfire.graceSeconds"], id="no grace"),
        pytest.param(19, 5, 0, ["lostAfterSeconds", "misfire.graceSeconds"], id="both"),
    ],
)
def test_checks_the_timings_of_a_job(
    lost_after_s: float | None, kill_grace_s: float, misfire_grace_s: float, fields: list[str]
) -> None:
    problems = Timings().job_problems(
        lost_after_s=lost_after_s, kill_grace_s=kill_grace_s, misfire_grace_s=misfire_grace_s
    )

    assert [problem.field for problem in problems] == fields


def test_the_least_grace_is_rounded_up() -> None:
    assert Timings(hedge_ms=501).least_grace_s == 2
