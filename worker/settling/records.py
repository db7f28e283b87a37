"""The records that a worker writes: of a run that ended, and of fires that did not run."""

from __future__ import annotations

from common.protocol.kill import Kill
from common.protocol.planner import FireRange
from common.protocol.run import RunEntry, RunRecord, Verdict, shown_command
from worker.catalog import CatalogJob
from worker.launch import Outcome
from worker.runs import Run

_COMMAND_SHOWN = 1000
"""Of the command, in a record that lies in etcd until it is delivered."""


def fire_record(
    job: CatalogJob, *, fires: FireRange, status: Verdict, reason: str, now_ms: int, by: str | None = None
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


def created_ms(entry: RunEntry) -> int:
    """When the run was asked for; one that the schedule made, when it was claimed."""
    return entry.claim_ms if entry.create_ms is None else entry.create_ms


def run_record(run: Run, outcome: Outcome, *, host: str) -> RunRecord:
    """The record of a run whose processes have ended."""
    return RunRecord(
        run_id=run.run_id,
        status=outcome.verdict,
        command=shown_command(run.job.spec.command_line, run.entry.args),
        err=outcome.err,
        reason=outcome.reason,
        note=run.entry.note,
        by=outcome.by or run.entry.by,
        output=outcome.output,
        output_bytes=outcome.output_bytes,
        output_truncated=outcome.output_truncated,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        start_ms=outcome.start_ms,
        end_ms=outcome.end_ms,
        max_rss=outcome.max_rss,
        cpu_seconds=outcome.cpu_seconds,
        plan_ms=run.entry.plan_ms,
        schedule_ms=run.schedule_ms,
        create_ms=created_ms(run.entry),
        claim_ms=run.entry.claim_ms,
        worker=run.entry.worker,
        host=host,
        trigger=run.entry.trigger,
        revision=run.entry.revision,
        fence=run.fence,
        labels=run.job.spec.labels,
    )


def not_started_record(
    run: Run, *, status: Verdict, reason: str, now_ms: int, host: str, kill: Kill | None = None
) -> RunRecord:
    """The record of a claimed run of which no process was ever started; ``kill``: because of it."""
    return RunRecord(
        run_id=run.run_id,
        status=status,
        reason=reason,
        err=f"{status}: {reason}" if kill is None else kill.before_start,
        by=run.entry.by if kill is None else kill.by,
        note=run.entry.note,
        command=shown_command(run.job.spec.command_line, run.entry.args),
        plan_ms=run.entry.plan_ms,
        create_ms=created_ms(run.entry),
        claim_ms=run.entry.claim_ms,
        end_ms=now_ms,
        worker=run.entry.worker,
        host=host,
        trigger=run.entry.trigger,
        revision=run.entry.revision,
        fence=run.fence,
        labels=run.job.spec.labels,
    )
