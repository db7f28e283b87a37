"""Of `etcron job apply --prune`: how many jobs it deletes without being told their number, and what stops it."""

from __future__ import annotations

from typing import Any

import pytest

from cli.client import Answer, ProblemError
from cli.errors import ExitStatus
from cli.manifests.carrying import carry_out
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


class _Refusing:
    """A client whose manager refuses calls for these jobs."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def call(self, method: str, path: str, body: Any = None, *, headers: Any) -> Answer:
        if path.rpartition("/")[2] in self._names:
            raise ProblemError("somebody changed it meanwhile", ExitStatus.CONFLICT, {})
        return Answer(status=200, document={"changed": True})


@pytest.mark.parametrize(
    ("refused", "done"),
    [
        ("prune-0", {"create-0": "created", "create-1": "created", "prune-1": "pruned", "prune-2": "pruned"}),
        ("create-0", {"create-1": "created"}),
    ],
)
def test_a_refused_prune_stops_no_other_and_a_refused_save_stops_them_all(refused: str, done: dict[str, str]) -> None:
    became: dict[str, str] = {}
    failed = carry_out(
        _Refusing(refused), [*steps(Action.PRUNE, 3), *steps(Action.CREATE, 2, revision=0)],  # type: ignore[arg-type]
        done=lambda step, result: became.update({step.name: result}),
    )  # fmt: skip
    assert ([one.step.name for one in failed], became) == ([refused], done)
