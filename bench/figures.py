"""What a benchmark measures: figures with their goals, gathered over rounds to medians and ranges."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol


class WrongError(RuntimeError):
    """What was measured did not do what it has to do (a fire missing, or run twice): its figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be; it is printed beside the figure and decides nothing."""

    bound: Literal["at most", "at least"]
    limit: float

    def is_met(self, value: float) -> bool:
        return value <= self.limit if self.bound == "at most" else value >= self.limit


def at_most(limit: float) -> Goal:
    return Goal("at most", limit)


def at_least(limit: float) -> Goal:
    return Goal("at least", limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that one round measured."""

    name: str
    value: float | None
    """None: not measured."""
    unit: str = ""
    goal: Goal | None = None
    note: str = ""
    """What to know of it; why it was not measured."""


class Bench(Protocol):
    """A benchmark's module: its docstring says what is measured."""

    def one_round(self, share: float) -> list[Figure]:
        """Measure once, ours and its peers in turn. ``share``: of the full size, for trying it.

        WrongError: something was missed or done twice.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One figure over all rounds."""

    name: str
    values: Sequence[float]
    unit: str
    goal: Goal | None
    note: str

    @property
    def median(self) -> float | None:
        """None where no round has measured it."""
        return statistics.median(self.values) if self.values else None

    def to_document(self) -> Mapping[str, Any]:
        """As it is written to bench/results/."""
        goal = None if self.goal is None else f"{self.goal.bound} {self.goal.limit:g}"
        met = None if self.goal is None or self.median is None else self.goal.is_met(self.median)
        return {
            "name": self.name, "unit": self.unit, "median": self.median, "values": list(self.values), "goal": goal,
            "met": met, "note": self.note,
        }  # fmt: skip


def summaries(rounds: Sequence[Sequence[Figure]]) -> list[Summary]:
    """The figures of all rounds by name, in the order in which they first came."""
    by_name: dict[str, list[Figure]] = {}
    for figure in (figure for one_round in rounds for figure in one_round):
        by_name.setdefault(figure.name, []).append(figure)
    return [
        Summary(
            name=name, values=[figure.value for figure in figures if figure.value is not None],
            unit=figures[0].unit, goal=figures[0].goal, note=figures[-1].note,
        )
        for name, figures in by_name.items()
    ]  # fmt: skip


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them do not exceed; there must be one."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


def ratio(name: str, ours: float | None, theirs: float | None, goal: Goal | None = None) -> Figure:
    """Ours in parts of theirs; not measured where one of them is not."""
    if ours is None or not theirs:
        return Figure(name=name, value=None, unit="x", goal=goal, note="needs both")
    return Figure(name=name, value=ours / theirs, unit="x", goal=goal)
