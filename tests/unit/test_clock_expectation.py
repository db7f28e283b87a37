"""Where a clock must stand: what a comparison says of it, and what its jumps leave of that."""

from __future__ import annotations

import pytest

from common.clocks.expectation import Expectation

SKEW_MS = 250


def known(offset_ms: float, within_ms: int) -> Expectation:
    return Expectation((offset_ms, within_ms), max_skew_ms=SKEW_MS)


@pytest.mark.parametrize(
    ("offset_ms", "within_ms", "right", "wrong"),
    [
        pytest.param(0, 10, True, False, id="right"),
        pytest.param(-200, 50, True, False, id="right as far as the bound"),
        pytest.param(240, 30, False, False, id="perhaps beyond it"),
        pytest.param(-300, 60, False, False, id="perhaps within it"),
        pytest.param(300, 49, False, True, id="beyond it for certain"),
    ],
)
def test_certainty_is_judged_with_what_may_be_wrong(
    offset_ms: float, within_ms: int, *, right: bool, wrong: bool
) -> None:
    expected = known(offset_ms, within_ms)
    assert (expected.must_be_right, expected.must_be_wrong) == (right, wrong)


def test_of_what_nobody_knows_nothing_is_certain() -> None:
    expected = Expectation(None, max_skew_ms=SKEW_MS)
    expected.jumped(30_000)
    assert (expected.offset_ms, expected.must_be_right, expected.must_be_wrong) == (None, False, False)


def test_a_jump_moves_it_and_the_way_back_moves_it_back() -> None:
    expected = known(5, 20)
    expected.jumped(30_000)
    assert (expected.offset_ms, expected.must_be_wrong) == (30_005, True)
    expected.jumped(-30_000)
    assert (expected.offset_ms, expected.must_be_right) == (5, True)


def test_after_a_jump_a_vaguer_comparison_replaces_nothing() -> None:
    expected = known(5, 20)
    expected.compared(90, 400, has_jumped=True)
    assert expected.offset_ms == 5
    expected.compared(7, 20, has_jumped=True)
    assert expected.offset_ms == 7
    expected.compared(90, 400, has_jumped=False)
    assert expected.offset_ms == 90


def test_forgotten_it_is_known_by_the_next_comparison() -> None:
    expected = known(30_000, 20)
    expected.forget()
    assert not expected.must_be_wrong
    expected.compared(30_000, 20, has_jumped=True)
    assert expected.must_be_wrong
