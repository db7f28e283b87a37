"""How late processes started, as recorded (`rules.starts` holds that against the evidence), and their first lines."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos.history import USERS_DOING
from tests.chaos.view import Run, View

_CALM_BEFORE_MS = 30_000
_CALM_AFTER_MS = 1_000


@dataclass(frozen=True, slots=True)
class Lateness:
    """Of so many starts, in ms."""

    starts: int
    median_ms: int
    percentile99_ms: int

    @classmethod
    def of(cls, late_ms: list[int]) -> Lateness:
        ordered = sorted(late_ms) or [0]
        return cls(len(late_ms), ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100])

    def __str__(self) -> str:
        return f"median {self.median_ms} ms, 99 % {self.percentile99_ms} ms, of {self.starts} starts"


def lateness(view: View) -> dict[str, Lateness]:
    """Of all planned first attempts of jobs that do not wait for each other; and of those far from any fault."""
    timely = [run for run in view.runs.values() if _is_timely(view, run)]
    calm = [run for run in timely if _is_calm(view, run)]
    return {
        "with faults": Lateness.of([_late_ms(run, _recorded_ms(run)) for run in timely]),
        "without": Lateness.of([_late_ms(run, _recorded_ms(run)) for run in calm]),
        "without, the command's own first line": Lateness.of([_late_ms(run, run.starts[0].wall_ms) for run in calm]),
    }


def _is_timely(view: View, run: Run) -> bool:
    spec = view.spec_of(run.id.job)
    waits = spec.get("overlap", "skip") in ("queue", "replace") or "jitterSeconds" in spec or "after" in spec
    return not waits and run.id.plan_ms is not None and run.id.attempt == 1 and bool(run.starts)


def _is_calm(view: View, run: Run) -> bool:
    assert run.id.plan_ms is not None
    near = view.faults_between(run.id.plan_ms - _CALM_BEFORE_MS, run.id.plan_ms + _CALM_AFTER_MS)
    return all(fault.name in USERS_DOING for fault in near)


def _recorded_ms(run: Run) -> int:
    """A run that was lost has no recorded start."""
    return int((run.record or {}).get("startTime") or run.starts[0].wall_ms)


def _late_ms(run: Run, started_ms: int) -> int:
    return started_ms - (run.id.plan_ms or 0)
