"""Which runs are past their deadlines, by what the guardian was told. Time is a number here."""

from __future__ import annotations

import pytest

from worker.guardian.guarded_runs import GuardedRuns
from worker.guardian.messages import Adopt, Confirmed, Intent

LOST_AFTER = 20.0
CONFIRMED = 1000.0


def intent(run: str = "job@1#1", *, locked: bool = True, lost_after: float | None = LOST_AFTER) -> Intent:
    return Intent(run=run, session="s1", confirmed=CONFIRMED, allowance_s=lost_after, grace_s=5, locked=locked)


def past(guarded: GuardedRuns, now: float) -> list[str]:
    return [one.run for one in guarded.newly_past(now)]


def with_process(guarded: GuardedRuns, run: str = "job@1#1") -> None:
    there = guarded.get(run)
    assert there is not None
    there.pid = 4711


def test_a_run_with_a_lock_is_past_once_its_allowance_is_over_and_it_is_said_once() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent())
    with_process(guarded)
    assert past(guarded, CONFIRMED + LOST_AFTER) == []
    assert past(guarded, CONFIRMED + LOST_AFTER + 0.01) == ["job@1#1"]
    assert past(guarded, CONFIRMED + LOST_AFTER + 9) == []


@pytest.mark.parametrize("locked", [True, False])
def test_an_intent_without_a_process_has_a_deadline_whether_it_holds_a_lock_or_not(locked: bool) -> None:
    guarded = GuardedRuns()
    guarded.intend(intent(locked=locked))
    assert past(guarded, CONFIRMED + LOST_AFTER + 0.01) == ["job@1#1"]


def test_a_process_without_a_lock_and_what_is_never_lost_have_none() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent("allow@1#1", locked=False))
    guarded.intend(intent("never@1#1", lost_after=None))
    with_process(guarded, "allow@1#1")
    assert past(guarded, CONFIRMED + 1e6) == []
    assert guarded.has_intents
    assert not guarded.has_deadlines


@pytest.mark.parametrize(
    ("leap_s", "confirmed", "ended"), [(15.0, False, True), (15.0, True, False), (5.0, False, False)]
)
def test_a_leap_of_the_wall_clock_counts_unless_the_session_is_confirmed_in_time(
    leap_s: float, confirmed: bool, ended: bool
) -> None:
    """Ten seconds after it was confirmed; the machine may have stood still for as long as the leap."""
    guarded, leapt_at = GuardedRuns(), CONFIRMED + 10
    guarded.intend(intent())
    with_process(guarded)
    guarded.leapt(leap_s, leapt_at)
    assert past(guarded, leapt_at + 1.9) == [], "it may still be confirmed"
    if confirmed:
        guarded.confirm(Confirmed("s1", leapt_at + 0.1))
    assert past(guarded, leapt_at + 2.1) == (["job@1#1"] if ended else [])


def test_what_was_confirmed_before_a_leap_does_not_take_it_back() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent())
    guarded.leapt(60, CONFIRMED + 1)
    guarded.confirm(Confirmed("s1", CONFIRMED + 0.9))
    assert past(guarded, CONFIRMED + 3.1) == ["job@1#1"]


@pytest.mark.parametrize("confirmed", [False, True])
def test_a_leap_counts_for_a_session_that_is_heard_of_only_afterwards(confirmed: bool) -> None:
    guarded, leapt_at = GuardedRuns(), CONFIRMED + 1
    guarded.leapt(10, leapt_at - 0.5)
    guarded.leapt(15, leapt_at)
    guarded.intend(intent())
    with_process(guarded)
    assert past(guarded, leapt_at + 1.9) == [], "it may still be confirmed"
    if confirmed:
        guarded.confirm(Confirmed("s1", leapt_at + 0.1))
    assert past(guarded, leapt_at + 2.1) == ([] if confirmed else ["job@1#1"])


def test_a_session_that_was_opened_after_a_leap_owes_nothing_of_it() -> None:
    guarded = GuardedRuns()
    guarded.leapt(60, CONFIRMED - 1)
    guarded.intend(intent())
    with_process(guarded)
    assert past(guarded, CONFIRMED + LOST_AFTER) == []


def test_a_confirmed_session_moves_the_deadline_and_never_back() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent())
    guarded.confirm(Confirmed("s1", CONFIRMED + 10))
    guarded.confirm(Confirmed("s1", CONFIRMED + 5))
    assert past(guarded, CONFIRMED + 10 + LOST_AFTER) == []
    assert past(guarded, CONFIRMED + 10 + LOST_AFTER + 0.01) == ["job@1#1"]


def test_only_the_session_that_the_run_key_names_counts() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent("old@1#1"))
    guarded.intend(intent("adopted@1#1"))
    guarded.adopt(Adopt("adopted@1#1", "s2", CONFIRMED + 10))
    assert past(guarded, CONFIRMED + LOST_AFTER + 0.01) == ["old@1#1"]
    assert past(guarded, CONFIRMED + 10 + LOST_AFTER + 0.01) == ["adopted@1#1"]


def test_what_is_past_stays_past_though_the_start_is_tried_again() -> None:
    guarded = GuardedRuns()
    guarded.intend(intent())
    assert past(guarded, CONFIRMED + LOST_AFTER + 1) == ["job@1#1"]
    guarded.intend(intent())
    there = guarded.get("job@1#1")
    assert there is not None
    assert there.past_since == CONFIRMED + LOST_AFTER + 1


def test_what_is_over_is_forgotten_and_old_sessions_too() -> None:
    guarded = GuardedRuns()
    for number in range(1000):
        run = f"job@{number}#1"
        guarded.intend(Intent(run=run, session=f"s{number}", confirmed=number, allowance_s=1, grace_s=5, locked=True))
        assert guarded.over(run) is not None
    assert guarded.over("job@1#1") is None
    assert len(guarded) == 0
    assert len(guarded._confirmed) <= 16
