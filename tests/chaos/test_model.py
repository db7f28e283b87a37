"""The protocol's model keeps the promises under drawn faults, and notices when a load-bearing rule is taken away."""

from __future__ import annotations

import os
from itertools import chain

import pytest

from tests.chaos.model.checker import Violation, check
from tests.chaos.model.rules import KEPT, MUTANTS, Rules
from tests.chaos.model.simulation import simulate

SEEDS = int(os.environ.get("ETCRON_MODEL_SEEDS", "60"))
"""Of the model as it is; ``python -m tests.chaos.model --seeds 1000`` runs more of them."""
BOUND = 150
"""A mutant is caught within so many seeds, or by the one that caught it last, which is tried first."""
LAST_CAUGHT_BY = {
    "no mark comparison": 0,
    "marks may go back": 1,
    "unconditional release of locks": 0,
    "no re-stamp after a pause": 14,
    "in-doubt claims forgotten": 10,
    "worker key reused between sessions": 0,
    "no guardian": 76,
    "run key deleted before the log is acknowledged": 15,
    "retry outside of the transaction that ends the run": 36,
    "a kill older than the fence applied": 7,
    "lost without comparing the run": 15,
    "no job comparison": 5,
    "a session gone by the watch alone": 5,
    "no deadline for an unlocked intent": 16,
    "a mark before P ends a doubt": 6716,
}


def violations(seed: int, rules: Rules = KEPT) -> list[Violation]:
    return check(simulate(seed, rules).history)


def test_keeps_every_promise_under_drawn_faults() -> None:
    broken = {seed: found[:3] for seed in range(SEEDS) if (found := violations(seed))}
    assert not broken, f"python -m tests.chaos.model --first {min(broken)} --seeds 1 shows: {broken}"


def test_a_seed_always_gives_the_same_history() -> None:
    once, again = simulate(7, KEPT), simulate(7, KEPT)
    assert once.history == again.history
    assert once.events == again.events


def test_the_faults_are_met_by_work() -> None:
    history = simulate(7, KEPT).history
    assert len(history.faults) > 5
    assert len(history.starts) > 50
    assert {record.status for record in history.log.values()} > {"success", "failed", "skipped"}


@pytest.mark.parametrize("name", MUTANTS)
def test_notices_a_rule_that_is_taken_away(name: str) -> None:
    seeds = chain([LAST_CAUGHT_BY[name]], range(BOUND))
    assert any(violations(seed, MUTANTS[name]) for seed in seeds), f"{name!r} was not caught by {BOUND} seeds"
