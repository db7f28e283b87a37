"""Which runs are past their deadlines, by what the guardian was told. Time is a number here."""

from __future__ import annotations

import pytest

from worker.guardian.messages import Adopt, Confirmed, Intent
from worker.guardian.wards import Wards

LOST_AFTER = 20.0
CONFIRMED = 1000.0


def intent(run: str = "job@1#1", *, locked: bool = True, lost_after: float | None = LOST_AFTER) -> Intent:
    return Intent(run=run, session="s1", confirmed=CONFIRMED, allowance_s=lost_after, grace_s=5, locked=locked)


def past(wards: Wards, now: float) -> list[str]:
    return [ward.run for ward in wards.newly_past(now)]


def with_process(wards: Wards, run: str = "job@1#1") -> None:
    ward = wards.get(run)
    assert ward is not None
    ward.pid = 4711


def test_a_run_with_a_lock_is_past_once_its_allowance_is_over_and_it_is_said_once() -> None:
    wards = Wards()
    wards.intend(intent())
    with_process(wards)
    assert past(wards, CONFIRMED + LOST_AFTER) == []
    assert past(wards, CONFIRMED + LOST_AFTER + 0.01) == ["job@1#1"]
    assert past(wards, CONFIRMED + LOST_AFTER + 9) == []


@pytest.mark.parametrize("locked", [True, False])
def test_an_intent_without_a_process_has_a_deadline_whether_it_holds_a_lock_or_not(locked: bool) -> None:
    wards = Wards()
    wards.intend(intent(locked=locked))
    assert past(wards, CONFIRMED + LOST_AFTER + 0.01) == ["job@1#1"]


def test_a_process_without_a_lock_and_what_is_never_lost_have_none() -> None:
    wards = Wards()
    wards.intend(intent("allow@1#1", locked=False))
    wards.intend(intent("never@1#1", lost_after=None))
    with_process(wards, "allow@1#1")
    assert past(wards, CONFIRMED + 1e6) == []
    assert wards.has_intents
    assert not wards.has_deadlines


@pytest.mark.parametrize(
    ("leap_s", "confirmed", "ended"), [(15.0, False, True), (15.0, True, False), (5.0, False, False)]
)
def test_a_leap_of_the_wall_clock_counts_unless_the_session_is_confirmed_in_time(
    leap_s: float, confirmed: bool, ended: bool
) -> None:
    """Ten seconds after it was confirmed; the machine may have stood still for as long as the leap."""
    wards, leapt_at = Wards(), CONFIRMED + 10
    wards.intend(intent())
    with_process(wards)
    wards.leapt(leap_s, leapt_at)
    assert past(wards, leapt_at + 1.9) == [], "it may still be confirmed"
    if confirmed:
        wards.confirm(Confirmed("s1", leapt_at + 0.1))
    assert past(wards, leapt_at + 2.1) == (["job@1#1"] if ended else [])


def test_what_was_confirmed_before_a_leap_does_not_take_it_back() -> None:
    wards = Wards()
    wards.intend(intent())
    wards.leapt(60, CONFIRMED + 1)
    wards.confirm(Confirmed("s1", CONFIRMED + 0.9))
    assert past(wards, CONFIRMED + 3.1) == ["job@1#1"]


def test_a_confirmed_session_moves_the_deadline_and_never_back() -> None:
    wards = Wards()
    wards.intend(intent())
    wards.confirm(Confirmed("s1", CONFIRMED + 10))
    wards.confirm(Confirmed("s1", CONFIRMED + 5))
    assert past(wards, CONFIRMED + 10 + LOST_AFTER) == []
    assert past(wards, CONFIRMED + 10 + LOST_AFTER + 0.01) == ["job@1#1"]


def test_only_the_session_that_the_run_key_names_counts() -> None:
    wards = Wards()
    wards.intend(intent("old@1#1"))
    wards.intend(intent("adopted@1#1"))
    wards.adopt(Adopt("adopted@1#1", "s2", CONFIRMED + 10))
    assert past(wards, CONFIRMED + LOST_AFTER + 0.01) == ["old@1#1"]
    assert past(wards, CONFIRMED + 10 + LOST_AFTER + 0.01) == ["adopted@1#1"]


def test_what_is_past_stays_past_though_the_start_is_tried_again() -> None:
    wards = Wards()
    wards.intend(intent())
    assert past(wards, CONFIRMED + LOST_AFTER + 1) == ["job@1#1"]
    wards.intend(intent())
    ward = wards.get("job@1#1")
    assert ward is not None
    assert ward.past_since == CONFIRMED + LOST_AFTER + 1


def test_what_is_over_is_forgotten_and_old_sessions_too() -> None:
    wards = Wards()
    for number in range(1000):
        run = f"job@{number}#1"
        wards.intend(Intent(run=run, session=f"s{number}", confirmed=number, allowance_s=1, grace_s=5, locked=True))
        assert wards.over(run) is not None
    assert wards.over("job@1#1") is None
    assert len(wards) == 0
    assert len(wards._confirmed) <= 16
