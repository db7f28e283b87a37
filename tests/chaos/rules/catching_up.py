"""G6: what was not started in time is started later only as far as the job's misfire policy says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.chaos.view import Run, View, Violation

_STARTS_WITHIN_MS = 3000
"""A claim counts for 2 s, and a command's first line takes its time on a busy machine."""
_LAST_PLACE = "before_spawn"
"""The failpoint behind the last look at the time. At any other a worker looks again after it was frozen."""
_DEFAULTS = {"policy": "latest", "graceSeconds": 60, "windowSeconds": 3600}


def check(view: View) -> Iterator[Violation]:
    """The start of every planned fire's first attempt."""
    for run in view.runs.values():
        spec = view.spec_of(run.id.job)
        if (
            run.id.plan_ms is None
            or run.id.attempt not in view.first_attempts(run.id)
            or not run.starts
            or "after" in spec
        ):
            continue
        late_ms = run.starts[0].wall_ms - run.id.plan_ms
        if late_ms > latest_ms(spec) + _STARTS_WITHIN_MS and not _was_frozen(
            view, run, run.id.plan_ms + latest_ms(spec)
        ):
            yield Violation("G6", str(run.id), f"started {late_ms} ms late; {latest_ms(spec)} are allowed")


def _was_frozen(view: View, run: Run, until_ms: int) -> bool:
    """Whether its worker was stopped between its last look at the time and the exec, and it was in time before."""
    start = run.starts[0]
    return any(
        fault.target == start.worker
        and fault.what.startswith("SIGSTOP")
        and f" at {_LAST_PLACE}:stop" in fault.what
        and fault.from_ms <= until_ms + _STARTS_WITHIN_MS
        and fault.from_ms <= start.wall_ms <= fault.until_ms + _STARTS_WITHIN_MS
        for fault in view.faults
    )


def latest_ms(spec: dict[str, Any]) -> int:
    """How long after its plan time a fire may start: its grace, or its window where it may be made up for."""
    misfire = _DEFAULTS | spec.get("misfire", {})
    waits = spec.get("overlap", "skip") in ("queue", "replace")
    is_made_up = misfire["policy"] != "skip" or waits
    seconds = max(misfire["graceSeconds"], misfire["windowSeconds"]) if is_made_up else misfire["graceSeconds"]
    return int(seconds + spec.get("jitterSeconds", 0)) * 1000
