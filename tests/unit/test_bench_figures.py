"""The benchmarks' own arithmetic: rounds to medians, quantiles, goals; evidence that tells what ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.evidence import Evidence
from bench.figures import Figure, WrongError, at_least, at_most, quantile, ratio, summaries
from bench.tables import table


def test_rounds_become_a_median_with_its_range_and_the_goal_is_judged_by_the_median() -> None:
    rounds = [[Figure(name="start", value=value, unit="ms", goal=at_most(3))] for value in (2, 9, 2.5)]
    (summary,) = summaries(rounds)
    assert summary.median == 2.5
    assert summary.to_document()["met"] is True
    assert "| start | 2.50 ms | 2 to 9 | at most 3 | met |" in table([summary])


def test_what_is_not_measured_has_no_figure_and_no_verdict() -> None:
    (peer, compared) = summaries(
        [[Figure(name="peer", value=None, note="no compiler"), ratio("to peer", 5, None, at_least(1))]]
    )
    assert peer.median is compared.median is compared.to_document()["met"] is None
    assert "not measured" in table([peer])
    assert "no compiler" in table([peer])


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 4), (0.25, 1), (0.0, 1), (1.0, 4)])
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(share: float, expected: float) -> None:
    assert quantile([4, 1, 3, 2], share) == expected


def test_evidence_tells_what_is_missing_and_what_ran_twice(tmp_path: Path) -> None:
    evidence = Evidence(tmp_path / "evidence")
    assert "00001 >>" in evidence.command(1)
    evidence.path.write_text("000000\n000001\n")
    evidence.check(2)
    assert evidence.count() == 2
    evidence.path.write_text("000001\n000001\n")
    with pytest.raises(WrongError, match="1 of 2 did not start, 1 started more than once"):
        evidence.check(2)
