"""G2: every planned fire while its job was enabled is covered by exactly one verdict, and nothing else is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from tests.chaos.history import Op
from tests.chaos.planned import has_plan, planned
from tests.chaos.view import Era, Record, Run, View, Violation


def check(view: View) -> Iterator[Violation]:
    """Planned fires, ranges, attempts without gaps, and the runs that somebody asked for."""
    covered: dict[str, Counter[int]] = defaultdict(Counter)
    for run, record in view.records():
        plan_ms = run.id.plan_ms
        if plan_ms is None or run.id.attempt not in view.first_attempts(run.id):
            continue
        if "calendar" in view.spec_of(run.id.job):
            continue  # nobody here knows its fires
        if record.get("rangeEndTime"):
            points, faults = _range(view, run, record)
            covered[run.id.sequence].update(points)
            yield from faults
        else:
            covered[run.id.sequence][plan_ms] += 1
    for job in view.eras:
        yield from _of_job(view, job, covered)
    yield from _gaps(view)
    yield from _asked_for(view)


def _of_job(view: View, job: str, covered: dict[str, Counter[int]]) -> Iterator[Violation]:
    spec = view.spec_of(job)
    if not spec or not has_plan(spec):
        return
    own = [sequence for sequence in covered if sequence.startswith(f"{job}~")]
    for sequence in own if spec.get("broadcast") else [job]:
        # A worker that was away owes nothing: of a broadcast job only what is there is looked at.
        yield from _of_sequence(view.eras[job], sequence, covered[sequence], is_owed=not spec.get("broadcast"))


def _of_sequence(eras: list[Era], sequence: str, counts: Counter[int], *, is_owed: bool) -> Iterator[Violation]:
    end_ms = int(max(era.began_ms for era in eras))
    points = set(counts)
    for era in eras:
        points.update(_plan(era.spec, era.began_ms, int(min(era.ended_ms, end_ms))))
    for ms in sorted(points):
        possible = [era for era in eras if era.may_hold(ms)]
        plans = [bool(_plan(era.spec, ms, ms)) for era in possible]
        if all(plans) and is_owed and not counts[ms]:
            yield Violation("G2", f"{sequence}@{ms}", "a planned fire, and no record covers it")
        elif counts[ms] > 1:
            yield Violation("G2", f"{sequence}@{ms}", f"{counts[ms]} records cover it")
        elif counts[ms] and not any(plans):
            yield Violation("G2", f"{sequence}@{ms}", "a record of a fire that was not planned, or not any more")


def _range(view: View, run: Run, record: Record) -> tuple[list[int], list[Violation]]:
    """The fires that a record of a range covers, by the spec that it names, and what is wrong with its count."""
    lo_ms, hi_ms = record["planTime"], record["rangeEndTime"]
    eras = view.eras.get(run.id.job, [])
    named = [era for era in eras if era.spec and era.revision == record.get("revision")]
    named = named or [era for era in eras if era.spec and era.may_hold(lo_ms)]
    points = max((_plan(era.spec, lo_ms, hi_ms) for era in named), key=len, default=[])
    fits = len(points) == record.get("count") or (record.get("countIsMinimum") and len(points) > record["count"])
    if fits and points and points[0] == lo_ms and points[-1] == hi_ms:
        return points, []
    text = f"says {record.get('count')} fires up to {hi_ms}; there are {len(points)}"
    return points, [Violation("G2", str(run.id), text)]


def _gaps(view: View) -> Iterator[Violation]:
    recorded = {run.id for run, _ in view.records()}
    for one in sorted(recorded):
        before = type(one)(one.sequence, one.fire, one.attempt - 1)
        if one.attempt not in view.first_attempts(one) and before not in recorded:
            yield Violation("G2", str(one), f"a record, and none of attempt {before.attempt}")


def _asked_for(view: View) -> Iterator[Violation]:
    recorded = {str(run.id) for run, _ in view.records()}
    for call in view.calls:
        if call.op is Op.RUN:
            for run in call.runs:
                if run not in recorded:
                    yield Violation("G2", run, f"asked for, acknowledged at {call.ack_ms}, and no record")


def _plan(spec: dict[str, Any] | None, lo_ms: int, hi_ms: int) -> list[int]:
    return planned(spec, lo_ms, hi_ms) if spec is not None and lo_ms <= hi_ms else []
