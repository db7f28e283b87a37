"""The record of the fires that a decision passes: missed, superseded by a newer one, or closed by the calendar."""

from __future__ import annotations

from common.protocol.planner import Decision
from common.protocol.run import RunRecord, Verdict
from worker.catalog import CatalogJob
from worker.settling.records import fire_record


def passed_record(job: CatalogJob, decision: Decision, *, now_ms: int, late: str | None = None) -> RunRecord | None:
    """One record for all of them, None where there are none. ``late``: the reason of missed ones, in other words."""
    if decision.passed is None:
        return None
    status, reason = Verdict.SKIPPED, "calendar"
    if decision.superseded is not None:
        reason = f"overlap: {job.spec.overlap} kept a newer fire"
    elif decision.missed is not None:
        status = Verdict.MISSED
        reason = late or ("late" if decision.claim_ms is None else "late: a newer fire was due")
    return fire_record(job, fires=decision.passed, status=status, reason=reason, now_ms=now_ms)
