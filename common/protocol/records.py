"""Every record that is made: of a run that ended, or whose end is not known; of fires and requests that did not run.

All of them are made here, so that a field of the record is filled in one place. What ended a run is the worker's to add
(:mod:`worker.record.records`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from common.jobs.job import Misfire, MisfirePolicy
from common.protocol.keys import RunId
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision, FireRange
from common.protocol.request import Request
from common.protocol.run import RunEntry, RunRecord, shown_command
from common.verdicts import Verdict

_COMMAND_SHOWN = 1000
"""Of the command, in a record that lies in etcd until it is delivered."""
_LATE = "late: "


def fire_record(
    job: PlannedJob, *, fires: FireRange, status: Verdict, reason: str, now_ms: int, by: str | None = None
) -> RunRecord:
    """One record for consecutive fires of a job that did not run."""
    several = fires.count > 1
    return RunRecord(
        run_id=job.run_of(fires.lo_ms),
        status=status,
        reason=reason,
        err=f"{status}: {reason}",
        command=job.spec.command_line[:_COMMAND_SHOWN],
        plan_ms=fires.lo_ms,
        range_end_ms=fires.hi_ms if several else None,
        count=fires.count if several else None,
        count_is_minimum=fires.at_least,
        create_ms=now_ms,
        end_ms=now_ms,
        revision=job.revision,
        worker=job.of_worker,
        labels=job.spec.labels,
        by=by,
    )


def single(plan_ms: int) -> FireRange:
    """The range of one fire."""
    return FireRange(lo_ms=plan_ms, hi_ms=plan_ms, count=1)


def passed_record(job: PlannedJob, decision: Decision, *, now_ms: int, late: str | None = None) -> RunRecord | None:
    """One record for the fires that a decision passes: missed, superseded by a newer one, or closed by the calendar.

    None where there are none. ``late``: the reason of missed ones, in other words. Of fires whose start deadline is not
    over for all of them the record says that newer ones took their place, and then why no worker had taken them.
    """
    if decision.passed is None:
        return None
    status, reason = Verdict.SKIPPED, "calendar"
    if decision.superseded is not None:
        reason = f"overlap: {job.spec.overlap} kept a newer fire"
    elif decision.missed is not None:
        status, misfire = Verdict.MISSED, job.spec.misfire
        if now_ms <= job.dispatch_ms(decision.missed.hi_ms) + misfire.grace_ms:
            reason = _replaced(misfire) + (f"; {late.removeprefix(_LATE)}" if late else "")
        else:
            reason = late or ("late" if decision.claim_ms is None else f"{_LATE}a newer fire was due")
    return fire_record(job, fires=decision.passed, status=status, reason=reason, now_ms=now_ms)


def _replaced(misfire: Misfire) -> str:
    """Which rule has missed fires that could still have started."""
    if misfire.policy is MisfirePolicy.ALL:
        return f"misfire: {misfire.policy} makes up for {misfire.limit} at most"
    return f"misfire: {misfire.policy} kept a newer fire"


def request_record(
    request: Request,
    job: PlannedJob | None,
    *,
    status: Verdict,
    reason: str,
    err: str | None,
    by: str | None,
    now_ms: int,
) -> RunRecord:
    """The record of a run that was asked for and never claimed; ``job``: as it is now, if it is.

    Of a job that was made anew under the same name it says nothing: the run was not asked of that one.
    """
    if job is not None and job.create_revision != request.job_create_revision:
        job = None
    command = shown_command(job.spec.command_line, request.args)[:_COMMAND_SHOWN] if job is not None else ""
    return RunRecord(
        run_id=request.run_id,
        status=status,
        reason=reason,
        err=err or f"{status}: {reason}",
        by=by or request.by,
        note=request.note,
        command=command,
        labels=job.spec.labels if job is not None else {},
        plan_ms=request.plan_ms,
        create_ms=now_ms if request.create_ms is None else request.create_ms,
        end_ms=now_ms,
        trigger=request.trigger,
    )


def claimed_record(
    run_id: RunId, entry: RunEntry, *, fence: int, status: Verdict, end_ms: int, command: str, labels: Mapping[str, str]
) -> RunRecord:
    """What the record of a claimed run says however it ended; ``command``: the job's, empty where it is not known."""
    return RunRecord(
        run_id=run_id,
        status=status,
        command=shown_command(command, entry.args) if command else "",
        plan_ms=entry.plan_ms,
        due_ms=entry.due_ms,
        create_ms=entry.claim_ms if entry.create_ms is None else entry.create_ms,
        claim_ms=entry.claim_ms,
        end_ms=end_ms,
        worker=entry.worker,
        trigger=entry.trigger,
        by=entry.by,
        note=entry.note,
        revision=entry.revision,
        fence=fence,
        labels=labels,
    )


def lost_record(
    run_id: RunId, entry: RunEntry, *, fence: int, reason: str, now_ms: int, command: str, labels: Mapping[str, str]
) -> RunRecord:
    """The record of a run whose end is not known."""
    record = claimed_record(
        run_id, entry, fence=fence, status=Verdict.LOST, end_ms=now_ms, command=command, labels=labels
    )  # fmt: skip
    return replace(record, reason=reason, err=f"lost: {reason}", schedule_ms=entry.dispatch_ms)
