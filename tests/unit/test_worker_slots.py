"""The arithmetic of slots: a run takes one or several, and who needs several gets them in the end."""

from __future__ import annotations

from typing import cast

from common.etcd import Session
from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunEntry
from tests.support.stored import planned, spec_of
from worker.runs import Run, RunTable


def run(number: int, slots: int = 1) -> Run:
    job = planned(spec_of(f"job{number}", slots=slots))
    return Run(
        run_id=RunId.planned(job.spec.name, 5), job=job, entry=RunEntry(state=EntryState.OPEN), fence=1, mod_revision=1,
        session=cast(Session, None), sent=0.0, start_by_ms=0,
    )  # fmt: skip


def test_a_run_takes_its_slots_from_the_claim_to_its_end() -> None:
    table = RunTable(6)
    big, small = run(1, slots=4), run(2)
    table.add(big)
    table.add(small)
    assert (table.free_slots, table.claimed, table.claimed_slots) == (1, 2, 5)
    table.started(big)
    assert (table.free_slots, table.running, table.running_slots, table.claimed_slots) == (1, 1, 4, 1)
    assert not table.may_start(run(3, slots=3))
    assert table.may_start(run(3, slots=2)), "what is claimed waits its turn as well"
    table.ended(big, now=10.0)
    assert (table.free_slots, table.running_slots) == (5, 0)
    table.forget(big)
    table.forget(small)
    assert (table.free_slots, table.claimed_slots) == (6, 0)


def test_beyond_the_free_slots_as_many_are_claimed_as_came_free_in_the_last_second() -> None:
    table = RunTable(4)
    big = run(1, slots=3)
    table.add(big)
    table.started(big)
    assert table.may_claim(10.0) == 1
    table.ended(big, now=10.0)
    assert table.may_claim(10.2) == 7
    assert table.may_claim(11.5) == 4


def test_no_more_is_claimed_ahead_while_more_than_half_of_it_is() -> None:
    table = RunTable(4)
    runs = [run(number) for number in range(12)]
    for one in runs[:4]:
        table.add(one)
        assert not table.has_enough(10.0), "free slots are never too many"
        table.started(one)
    assert not table.has_enough(10.0), "what came free decides, and nothing has"
    for one in runs[:4]:
        table.ended(one, now=10.0)
    for one in runs[4:8]:
        table.add(one)
        table.started(one)
    assert not table.has_enough(10.1)
    table.add(runs[8])
    table.add(runs[9])
    assert not table.has_enough(10.1), "half of the four that may be ahead"
    table.claiming(1)
    assert table.has_enough(10.1)
    table.claiming(-1)
    table.add(runs[10])
    assert table.has_enough(10.1)
    table.started(runs[8])
    table.ended(runs[4], now=10.1)
    assert not table.has_enough(10.2), "one has gone on, and five came free"
    assert not table.has_enough(10.7), (
        "nothing came free lately: nothing more may be claimed, and nobody is told to wait"
    )


def test_claims_ahead_are_asked_for_by_the_full_transaction() -> None:
    table = RunTable(2)
    ended, claimed = [run(number) for number in range(100)], [run(number) for number in range(100, 180)]
    for one in ended:
        table.add(one)
        table.started(one)
        table.ended(one, now=10.0)
    assert table.whole_transactions(102) == 102, "free slots wait for nothing"
    for one in claimed[:72]:
        table.add(one)
    assert table.may_claim(10.1) == 30
    assert not table.has_enough(10.1), "a transaction full, though more than half of the hundred are claimed"
    table.claiming(1)
    assert table.has_enough(10.1)
    table.claiming(-1)
    table.forget(claimed[0])
    assert table.whole_transactions(table.may_claim(10.1)) == 30, "the thirty-first waits for others"
    assert table.whole_transactions(29) == 29


def test_slots_are_kept_for_who_waited_first_and_told_when_they_are_free_again() -> None:
    table, told = RunTable(4), []
    table.on_room = lambda: told.append(1)
    table.wait_for("fires", 1)
    assert table.kept_from("requests") == 1, "else it is taken as it comes free"
    table.wait_for("fires", 3)
    table.wait_for("requests", 4)
    assert (table.kept_from("fires"), table.kept_from("requests"), table.kept_from("somebody")) == (0, 3, 7)
    table.wait_for("fires", 2)
    assert (table.kept_from("requests"), len(told)) == (2, 1)
    table.wait_for("fires", 0)
    assert (table.kept_from("fires"), table.kept_from("requests"), len(told)) == (4, 0, 2)
    table.wait_for("fires", 3)
    assert (table.kept_from("requests"), table.kept_from("fires")) == (0, 4), "who waits anew stands behind"


def test_who_has_had_some_slots_waits_behind_the_others_for_more() -> None:
    table, told = RunTable(4), []
    table.on_room = lambda: told.append(1)
    table.wait_for("fires", 1)
    table.wait_for("requests", 1)
    table.wait_for("fires", 1, had_some=True)
    assert (table.kept_from("fires"), table.kept_from("requests"), len(told)) == (1, 0, 1)
    table.wait_for("requests", 1)
    table.wait_for("fires", 1)
    assert (table.kept_from("fires"), table.kept_from("requests"), len(told)) == (1, 0, 1), "nothing has changed"
    table.wait_for("requests", 1, had_some=True)
    assert (table.kept_from("fires"), table.kept_from("requests"), len(told)) == (0, 1, 2)


def test_the_more_urgent_of_two_has_the_next_slots() -> None:
    table = RunTable(4)
    table.wait_for("fires", 1)
    table.wait_for("requests", 1, urgency=50)
    assert (table.kept_from("fires"), table.kept_from("requests")) == (1, 0)
    table.wait_for("requests", 1, urgency=50, had_some=True)
    assert (table.kept_from("fires"), table.kept_from("requests")) == (1, 0)
    table.wait_for("requests", 1, urgency=-50)
    assert (table.kept_from("fires"), table.kept_from("requests")) == (0, 1)


def test_while_slots_are_kept_nothing_is_claimed_beyond_the_free_ones() -> None:
    table = RunTable(4)
    small = run(1)
    table.add(small)
    table.started(small)
    table.ended(small, now=10.0)
    assert table.may_claim(10.0, "fires") == 5
    table.wait_for("requests", 4)
    assert table.may_claim(10.0, "fires") == 0
    assert table.may_claim(10.0, "requests") == 5


def test_a_claim_on_its_way_takes_slots_and_who_waits_is_told_when_it_is_not_any_more() -> None:
    table, told = RunTable(4), list[int]()
    table.on_room = lambda: told.append(table.free_slots)
    table.claiming(3)
    assert (table.free_slots, table.may_claim(10.0, "fires")) == (1, 1)
    table.claiming(-1)
    assert told == [], "nobody waits"
    table.wait_for("requests", 4)
    table.claiming(-2)
    assert told == [4]


def test_a_run_that_is_taken_back_before_its_handing_on_is_answered_costs_its_slots_once() -> None:
    table = RunTable(4)
    handed_on, taken_back = run(1, slots=2), run(1, slots=2)
    table.add(handed_on)
    table.add(taken_back)
    assert (table.claimed, table.free_slots) == (1, 2)
    table.forget(handed_on)
    assert table.get(taken_back.run_id) is taken_back
    table.started(taken_back)
    table.ended(taken_back, now=10.0)
    table.forget(taken_back)
    assert (table.claimed, table.free_slots, len(table)) == (0, 4, 0)
