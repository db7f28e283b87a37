"""Of `etcron job apply --prune`: how many jobs it deletes without being told their number."""

from __future__ import annotations

import pytest

from cli.manifests.plan import Action, Step, pruned_with_care


def steps(action: Action, count: int, *, revision: int = 1) -> list[Step]:
    return [Step(action=action, name=f"{action}-{number}", document={}, revision=revision) for number in range(count)]


@pytest.mark.parametrize(
    ("there", "gone", "is_asked"),
    [(34, 5, False), (34, 6, True), (24, 4, False), (10, 2, False), (9, 2, True), (1, 1, True), (9, 0, False)],
)
def test_more_than_five_or_than_a_fifth_of_those_that_there_are_need_their_number(
    there: int, gone: int, is_asked: bool
) -> None:
    pruned, new = steps(Action.PRUNE, gone), steps(Action.CREATE, 50, revision=0)
    names = pruned_with_care([*steps(Action.KEEP, there - gone), *new, *pruned])
    assert names == ([step.name for step in pruned] if is_asked else [])
