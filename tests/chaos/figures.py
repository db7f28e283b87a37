"""What a history amounts to: fires by what became of them, faults by kind, calls."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.chaos.planned import has_plan, planned
from tests.chaos.view import Run, View


def fires(view: View) -> dict[str, int]:
    """Planned for certain (not those at edits, of broadcast, of chains); and of all planned ones the last verdicts."""
    counts = Counter({"planned": _planned(view), "ran": 0, "skipped": 0, "missed": 0, "lost": 0})
    last: dict[tuple[str, str], Run] = {}
    for run, _ in view.records():
        key = (run.id.sequence, run.id.fire)
        if run.id.plan_ms is not None and (key not in last or last[key].id.attempt < run.id.attempt):
            last[key] = run
    for run in last.values():
        record = run.record or {}
        status = str(record.get("status"))
        counts[status if status in ("skipped", "missed", "lost") else "ran"] += int(record.get("count") or 1)
    return dict(counts)


def beyond_the_schedule(view: View) -> tuple[int, int]:
    """Runs that somebody asked for; attempts after the first."""
    asked = sum(1 for run, _ in view.records() if run.id.plan_ms is None and run.id.attempt == 1)
    return asked, sum(1 for run, _ in view.records() if run.id.attempt > 1)


def faults_by_kind(view: View) -> dict[str, int]:
    """How often each was carried out; 0 of one that might have been."""
    counts = dict.fromkeys(view.header.faults, 0) | Counter(fault.name or fault.what for fault in view.faults)
    return dict(sorted(counts.items()))


def jobs_by_policy(view: View) -> dict[tuple[str, str], int]:
    """How many jobs have which overlap and misfire policy."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for job in view.eras:
        spec = view.spec_of(job)
        counts[spec.get("overlap", "skip"), spec.get("misfire", {}).get("policy", "latest")] += 1
    return dict(counts)


def _planned(view: View) -> int:
    total = 0
    for eras in view.eras.values():
        end_ms = max(era.began_ms for era in eras)
        for era in eras:
            if era.spec and has_plan(era.spec) and not era.spec.get("broadcast"):
                total += len(planned(era.spec, era.begun_ms, int(min(era.ends_ms, end_ms))))
    return total
