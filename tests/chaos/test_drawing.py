"""Each fault comes twice first; then, in a round, as often as its table says, in an order that the seed decides."""

from __future__ import annotations

import random
from collections import Counter

from tests.chaos.faults.drawing import Bag

WEIGHTS = {"worker killed": 3, "leader killed": 2, "garbage": 1}


def drawn(of: Bag, number: int = 6) -> list[str]:
    return [of.draw() for _ in range(number)]


def new_bag(seed: int = 1) -> Bag:
    return Bag(WEIGHTS, random.Random(seed))


def bag(seed: int = 1) -> Bag:
    """One whose first, short rounds are over."""
    one = new_bag(seed)
    drawn(one, 2 * len(WEIGHTS))
    return one


def test_each_comes_twice_before_any_comes_more_often() -> None:
    one = new_bag()
    for _ in range(2):
        assert Counter(drawn(one, len(WEIGHTS))) == Counter(WEIGHTS.keys())
    assert Counter(drawn(one)) == Counter(WEIGHTS)


def test_what_could_not_be_done_is_not_forgotten_in_the_first_rounds() -> None:
    one = new_bag()
    first = one.draw()
    one.put_back(first)
    assert Counter(drawn(one, len(WEIGHTS))) == Counter(WEIGHTS.keys())


def test_a_round_holds_each_as_often_as_it_weighs() -> None:
    one = bag()
    assert Counter(drawn(one)) == Counter(drawn(one)) == Counter(WEIGHTS)


def test_the_same_seed_draws_the_same() -> None:
    assert drawn(bag(), 18) == drawn(bag(), 18)
    assert any(drawn(bag(seed)) != drawn(bag()) for seed in range(2, 9))


def test_what_could_not_be_done_comes_again_in_the_same_round() -> None:
    one = bag()
    first = one.draw()
    one.put_back(first)
    assert Counter(drawn(one)) == Counter(WEIGHTS)
