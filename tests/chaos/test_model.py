"""The protocol's model keeps the promises under drawn faults, and notices when a load-bearing rule is taken away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.model.checker import Violation, check
from tests.chaos.model.simulation import simulate
from tests.chaos.mutants.patches import MUTANTS, Mutant
from tests.chaos.mutants.tree import make_model_tree, run_model

SEEDS = int(os.environ.get("ETCRON_MODEL_SEEDS", "60"))
"""Of the model as it is; ``python -m tests.chaos.model --seeds 1000`` runs more of them."""
BOUND = 150
"""A mutant is caught within so many seeds, or by the one that caught it last, which is tried first."""
LAST_CAUGHT_BY = {
    "no mark comparison": 0,
    "marks may go back": 2,
    "unconditional release of locks": 1,
    "no re-stamp after a pause": 233,
    "in-doubt claims forgotten": 3,
    "worker key reused between sessions": 5,
    "no guardian": 47,
    "run key deleted before the log is acknowledged": 14,
    "retry outside of the transaction that ends the run": 4,
    "a kill older than the fence applied": 9,
    "lost without comparing the run": 48,
    "no job comparison": 7,
    "a session gone by the watch alone": 95,
    "no deadline for an unlocked intent": 2,
    "a mark before P ends a doubt": 31,
}


BUSY_SEEDS = 16


def catching(*, busy: bool) -> set[int]:
    """The seeds by which mutants were caught last: without the mutant they have to show nothing."""
    return {LAST_CAUGHT_BY[mutant.name] for mutant in MUTANTS if mutant.in_a_busy_world is busy}


def violations(seed: int, *, busy: bool = False) -> list[Violation]:
    return check(simulate(seed, busy=busy).history)


@pytest.mark.slow
def test_keeps_every_promise_under_drawn_faults() -> None:
    seeds = sorted({*range(SEEDS), *catching(busy=False)})
    broken = {seed: found[:3] for seed in seeds if (found := violations(seed))}
    assert not broken, f"python -m tests.chaos.model --first {min(broken)} --seeds 1 shows: {broken}"


@pytest.mark.slow
def test_keeps_every_promise_in_a_busy_world() -> None:
    seeds = sorted({*range(BUSY_SEEDS), *catching(busy=True)})
    broken = {seed: found[:3] for seed in seeds if (found := violations(seed, busy=True))}
    assert not broken, f"python -m tests.chaos.model --busy --first {min(broken)} --seeds 1 shows: {broken}"


def test_a_seed_always_gives_the_same_history() -> None:
    once, again = simulate(7), simulate(7)
    assert once.history == again.history
    assert once.events == again.events


def test_the_faults_are_met_by_work() -> None:
    history = simulate(7).history
    assert len(history.faults) > 5
    assert len(history.starts) > 50
    assert {record.status for record in history.log.values()} > {"success", "failed", "skipped"}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_notices_a_rule_that_is_taken_away(mutant: Mutant, tmp_path: Path) -> None:
    there = tmp_path / "tree"
    make_model_tree(mutant, there)
    last = LAST_CAUGHT_BY[mutant.name]
    shown = run_model(there, mutant, first=last, seeds=1) or run_model(there, mutant, first=0, seeds=BOUND)
    assert shown, f"{mutant.name!r} was not caught by {BOUND} seeds"
