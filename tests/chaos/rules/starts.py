"""G1, G3, G4, G9: at most one start for each fire and attempt, and records that say what was."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tests.chaos.history import Evidence
from tests.chaos.view import NEVER_RAN, Record, Run, View, Violation

_NAMED = re.compile(r"(\S+@\S+#\d+)")
"""A run, in the reason why another was skipped."""
_ROUNDING_MS = 5
_AFTER_ITS_RECORD_MS = 200
_AFTER_ITS_END_MS = 100
_SET_JUST_THEN_MS = 5000
_BY_ITS_WORKER = "worker restarted"
"""Why a worker calls its own runs lost, at its next start; all others are called so by the steward."""
_SKEW_MS = 250
"""That far a clock may be off before its process stops to decide."""


def check(view: View) -> Iterator[Violation]:
    """Every run by itself."""
    for run in view.runs.values():
        subject = str(run.id)
        if len(run.starts) > 1:
            where = ", ".join(f"{one.worker} pid {one.pid} fence {one.fence} at {one.wall_ms}" for one in run.starts)
            yield Violation("G1", subject, f"{len(run.starts)} starts: {where}")
        if run.record is None:
            first = (*run.signs, *run.lingering)[0]
            yield Violation("G9", subject, f"started at {first.wall_ms} on {first.worker}, and no record")
        else:
            for text in (*_lies(run, run.record), *_wrong_times(view, run, run.record)):
                yield Violation("G3", subject, text)
        early_ms = _early_ms(view, run)
        if early_ms > 0:
            yield Violation("G4", subject, f"started {early_ms} ms before its time")
    recorded = {str(run.id) for run, _ in view.records()}
    for run, record in view.records():
        named = _NAMED.search(record.get("reason") or "")
        if record["status"] == "skipped" and named and named[1] not in recorded:
            yield Violation("G3", str(run.id), f"skipped for {named[1]}, of which there is no record")
    for doubled in view.doubled:
        yield Violation("G9", doubled, "more than one record")


def _early_ms(view: View, run: Run) -> float:
    """How long before its time it started; of a worker whose clock was set just then, beyond what may be claimed ahead.

    It is claimed in time, by a clock that is right; between that and the start the clock may be set.
    """
    if run.id.plan_ms is None:
        return 0
    shown_ms = [one.wall_ms for one in run.starts]
    recorded_ms = (run.record or {}).get("startTime") or math.inf
    worker = run.starts[0].worker if run.starts else (run.record or {}).get("worker", "")
    if view.has_wrong_clock(worker, run.id.plan_ms - _SET_JUST_THEN_MS, run.id.plan_ms):
        return max((run.id.plan_ms - ms for ms in shown_ms), default=0) - view.header.claim_lead_ms - _SKEW_MS
    return run.id.plan_ms - min([*shown_ms, recorded_ms])


def _lies(run: Run, record: Record) -> Iterator[str]:
    """What the record says and the evidence does not."""
    status, reason = record["status"], record.get("reason")
    if status in NEVER_RAN and run.starts:
        yield f"{status} ({reason}), and started on {run.starts[0].worker} at {run.starts[0].wall_ms}"
    if status == "success" or (status == "failed" and record.get("exitCode") is not None):
        yield from _of_a_whole_run(run, record)
    for start in run.starts[:1]:
        if status not in NEVER_RAN and (record.get("fence"), record.get("worker")) != (start.fence, start.worker):
            recorded = f"fence {record.get('fence')} on {record.get('worker')}"
            yield f"{status}, recorded {recorded}; it ran with {start.fence} on {start.worker}"


def _wrong_times(view: View, run: Run, record: Record) -> Iterator[str]:
    """What the record's times say and the evidence does not, whichever clock of those that the harness has set wrong
    they were written by."""
    for start in run.starts[:1]:
        started_ms = view.written_at(record["startTime"], start.worker) if record.get("startTime") else set()
        late_ms = min(started_ms, default=0) - start.wall_ms
        if late_ms > _ROUNDING_MS:
            yield f"recorded to have started {late_ms} ms after its first line"
    if run.starts and record["status"] == "lost":
        yield from _started_after_it_was_lost(view, run.starts[0], record)
    if run.signs and record["status"] not in (*NEVER_RAN, "lost"):
        yield from _outlived_its_record(view, run, record)


def _started_after_it_was_lost(view: View, start: Evidence, record: Record) -> Iterator[str]:
    reason = record.get("reason")
    written_ms = view.written_at(record["endTime"], start.worker if reason == _BY_ITS_WORKER else None)
    after_ms = start.wall_ms - max(written_ms)
    if after_ms > _AFTER_ITS_RECORD_MS:
        yield f"started {after_ms} ms after it was recorded as lost ({reason})"


def _outlived_its_record(view: View, run: Run, record: Record) -> Iterator[str]:
    """The end may be dated by the start: as long after it as the run went on."""
    worker, status, end_ms = run.signs[0].worker, record["status"], record["endTime"]
    start_ms = record.get("startTime") or end_ms
    ended_ms = view.written_at(end_ms, worker) | {at + end_ms - start_ms for at in view.written_at(start_ms, worker)}
    signs = [*run.signs, *(run.departed if status in ("killed", "timeout") else ())]
    beyond_ms = max(one.wall_ms for one in signs) - max(ended_ms)
    if beyond_ms > _AFTER_ITS_END_MS:
        yield f"{status} ({record.get('reason')}), and lived {beyond_ms} ms beyond its recorded end"


def _of_a_whole_run(run: Run, record: Record) -> Iterator[str]:
    status, code = record["status"], record.get("exitCode")
    if not run.starts:
        yield f"{status}, and there is no start"
    elif len(run.ends) != 1:
        yield f"{status}, and there are {len(run.ends)} ends"
    elif run.ends[0].exit_code != code or (status == "success") != (code == 0):
        yield f"{status} with exit code {code}; it ended with {run.ends[0].exit_code}"
