"""G6: what was not started in time is started later only as far as the job's misfire policy says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.chaos.view import View, Violation

_STARTS_WITHIN_MS = 3000
"""A claim counts for 2 s, and a command's first line takes its time on a busy machine."""
_DEFAULTS = {"policy": "latest", "graceSeconds": 60, "windowSeconds": 3600}


def check(view: View) -> Iterator[Violation]:
    """The start of every planned fire's first attempt."""
    for run in view.runs.values():
        spec = view.spec_of(run.id.job)
        if run.id.plan_ms is None or run.id.attempt > 1 or not run.starts or "after" in spec:
            continue
        late_ms = run.starts[0].wall_ms - run.id.plan_ms
        if late_ms > latest_ms(spec) + _STARTS_WITHIN_MS:
            yield Violation("G6", str(run.id), f"started {late_ms} ms late; {latest_ms(spec)} are allowed")


def latest_ms(spec: dict[str, Any]) -> int:
    """How long after its plan time a fire may start: its grace, or its window where it may be made up for."""
    misfire = _DEFAULTS | spec.get("misfire", {})
    waits = spec.get("overlap", "skip") in ("queue", "replace")
    is_made_up = misfire["policy"] != "skip" or waits
    seconds = max(misfire["graceSeconds"], misfire["windowSeconds"]) if is_made_up else misfire["graceSeconds"]
    return int(seconds + spec.get("jitterSeconds", 0)) * 1000
