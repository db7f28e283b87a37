"""The records of this worker's own runs: what every record of a claimed run says, and how this one ended."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from common.protocol.kill import Kill
from common.protocol.records import claimed_record
from common.protocol.run import RunRecord
from common.verdicts import Verdict
from worker.launch import Outcome
from worker.runs import Run

NOT_STARTED: Final = "claimed, not started"
"""Why a claimed run is missed."""
_WORTH_FORGETTING: Final = 256
"""Characters of an output: shorter ones are cheaper to keep in memory than to copy the record for."""


def without_long_output(record: RunRecord) -> RunRecord:
    """For who keeps thousands of records; how much was printed stays known."""
    return record if len(record.output) <= _WORTH_FORGETTING else replace(record, output="")


def run_record(run: Run, outcome: Outcome, *, host: str) -> RunRecord:
    """The record of a run whose processes have ended."""
    return replace(
        _claimed(run, outcome.verdict, outcome.end_ms),
        err=outcome.err,
        reason=outcome.reason,
        by=outcome.by or run.entry.by,
        output=outcome.output,
        output_bytes=outcome.output_bytes,
        output_truncated=outcome.output_truncated,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        start_ms=outcome.start_ms,
        max_rss=outcome.max_rss,
        cpu_seconds=outcome.cpu_seconds,
        schedule_ms=run.schedule_ms,
        host=host,
    )


def not_started_record(
    run: Run, *, status: Verdict, reason: str, now_ms: int, host: str, kill: Kill | None = None
) -> RunRecord:
    """The record of a claimed run of which no process was ever started; ``kill``: because of it."""
    return replace(
        _claimed(run, status, now_ms),
        reason=reason,
        err=f"{status}: {reason}" if kill is None else kill.before_start,
        by=run.entry.by if kill is None else kill.by,
        host=host,
    )


def _claimed(run: Run, status: Verdict, end_ms: int) -> RunRecord:
    spec = run.job.spec
    return claimed_record(
        run.run_id, run.entry, fence=run.fence, status=status, end_ms=end_ms, command=spec.command_line,
        labels=spec.labels,
    )  # fmt: skip
