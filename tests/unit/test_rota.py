"""Some of many in each turn: everybody has one in each round."""

from __future__ import annotations

import pytest

from worker.lead.leader import RoundRobin


@pytest.mark.parametrize(("count", "turns_taken"), [(0, 1), (1, 1), (10, 1), (11, 2), (60, 6), (61, 6), (1_000, 6)])
def test_all_have_their_turn_within_so_many_turns(count: int, turns_taken: int) -> None:
    names = [f"j{number}" for number in range(count)]
    rota = RoundRobin(lambda: names, at_least=10, turns=6)
    taken = [rota.turn() for _ in range(turns_taken)]
    assert sorted(name for turn in taken for name in turn) == sorted(names)
    assert all(len(turn) <= max(10, -(-count // 6)) for turn in taken)


def test_a_new_name_has_its_turn_in_the_next_round_and_a_former_one_no_more() -> None:
    names = {"a": None, "b": None}
    rota = RoundRobin(lambda: names, at_least=1, turns=60)
    first = rota.turn()
    names["c"] = names.pop(first[0])
    assert [rota.turn() for _ in range(3)] == [[*names][:1], ["c"], [*names][:1]]


def test_a_new_term_begins_a_round() -> None:
    rota = RoundRobin(lambda: ["a", "b"], at_least=1, turns=60)
    first = rota.turn()
    rota.begin()
    assert rota.turn() == first
