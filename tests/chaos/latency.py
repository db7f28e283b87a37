"""How late processes started, as recorded (`rules.starts` holds that against the evidence), and their first lines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from common.jobs.reader import parse_job
from common.schedules.schedule import dispatch_ms
from tests.chaos.history import USERS_DOING
from tests.chaos.view import Run, View

_CALM_BEFORE_MS = 30_000
_CALM_AFTER_MS = 1_000
LATE_MS = 100
TO_LOOK_INTO = 0.01
"""Of the starts of a kind, so many may be later; more is a fault of something."""
_CLAIMED_MS = 200
"""So long before its time a fire is claimed. A run that goes by then may be in its way."""
_KINDS = {
    "after": "after",
    "broadcast": "broadcast",
    "jitterSeconds": "jitter",
    "slots": "slots",
    "retry": "retried",
    "at": "once",
}
"""The kind of a job that has this field, the first one counts; of others, their overlap policy."""


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


@dataclass(frozen=True, slots=True)
class Beyond:
    """How many of so many starts were later than `LATE_MS`, and the latest."""

    starts: int
    late: int
    latest_ms: int

    @classmethod
    def of(cls, late_ms: list[int]) -> Beyond:
        return cls(len(late_ms), sum(late > LATE_MS for late in late_ms), max(late_ms))

    def __str__(self) -> str:
        told = f"{100 * self.late / self.starts:.1f} % of {self.starts}, the latest {self.latest_ms} ms"
        return f"{told} (LOOK INTO IT)" if self.late > TO_LOOK_INTO * self.starts else told


def lateness(view: View) -> dict[str, Lateness]:
    """Of all planned first attempts of jobs that do not wait for each other; and of those far from any fault."""
    timely = [run for run in view.runs.values() if _is_timely(view, run)]
    calm = [run for run in timely if _is_calm(view, run)]
    return {
        "with faults": Lateness.of([_late_ms(run, _recorded_ms(run)) for run in timely]),
        "without": Lateness.of([_late_ms(run, _recorded_ms(run)) for run in calm]),
        "without, the command's own first line": Lateness.of([_late_ms(run, run.starts[0].wall_ms) for run in calm]),
    }


def beyond_by_kind(view: View) -> dict[str, Beyond]:
    """Of planned first attempts far from any fault, by kind of job; not of those that waited for a run before them, or
    may have waited for a slot: a worker was full, and its fires wait for it, or for the hedge and the next one."""
    found: dict[str, list[int]] = defaultdict(list)
    spans, full = _spans(view), _when_full(view)
    for run in view.runs.values():
        spec, plan_ms = view.spec_of(run.id.job), run.id.plan_ms
        if plan_ms is None or run.id.attempt > 1 or not run.starts or not spec or not _is_calm(view, run):
            continue
        due_ms = plan_ms
        if "jitterSeconds" in spec:
            job = parse_job(spec)
            due_ms = dispatch_ms(run.id.sequence, job.schedule, job.jitter_s, plan_ms)
        if any(from_ms < due_ms - _CLAIMED_MS <= to_ms for from_ms, to_ms in spans[run.id.sequence]):
            continue
        if not any(from_ms <= due_ms + LATE_MS and due_ms - _CLAIMED_MS <= to_ms for from_ms, to_ms in full):
            found[_kind(spec)].append(_recorded_ms(run) - due_ms)
    return {kind: Beyond.of(late_ms) for kind, late_ms in sorted(found.items())}


def _kind(spec: dict[str, Any]) -> str:
    for field, kind in _KINDS.items():
        if field in spec:
            return kind
    return str(spec.get("overlap", "skip"))


def _spans(view: View) -> dict[str, list[tuple[int, int]]]:
    """Of each sequence, from when to when its runs went."""
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run in view.runs.values():
        if run.starts:
            ended_ms = int((run.record or {}).get("endTime") or 0)
            spans[run.id.sequence].append((_recorded_ms(run), max([ended_ms, *(one.wall_ms for one in run.signs)])))
    return spans


def _when_full(view: View) -> list[tuple[int, int]]:
    """From when to when any worker had no slot left."""
    steps: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run in view.runs.values():
        record = run.record or {}
        if run.starts and record.get("worker") and record.get("endTime"):
            slots = int(view.spec_of(run.id.job).get("slots", 1))
            claimed_ms = int(record.get("claimTime") or _recorded_ms(run))
            steps[record["worker"]] += [(claimed_ms, slots), (int(record["endTime"]), -slots)]
    full = []
    for taken_or_freed in steps.values():
        taken, since_ms = 0, None
        for at_ms, slots in sorted(taken_or_freed):
            taken += slots
            if taken >= view.header.slots and since_ms is None:
                since_ms = at_ms
            elif taken < view.header.slots and since_ms is not None:
                full.append((since_ms, at_ms))
                since_ms = None
    return full


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
