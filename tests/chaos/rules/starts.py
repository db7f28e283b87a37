"""G1, G3, G4, G9: at most one start for each fire and attempt, and records that say what was."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tests.chaos.view import NEVER_RAN, Record, Run, View, Violation

_NAMED = re.compile(r"(\S+@\S+#\d+)")
"""A run, in the reason why another was skipped."""
_ROUNDING_MS = 5
_AFTER_ITS_RECORD_MS = 200
_AFTER_ITS_END_MS = 100
_SET_JUST_THEN_MS = 5000
_SETTLED_WITHIN_MS = 60_000
"""A worker that was killed calls its own runs lost at its next start."""
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
            yield Violation("G9", subject, f"started at {run.signs[0].wall_ms} on {run.signs[0].worker}, and no record")
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
    """What the record's times say and the evidence does not; nothing of a worker whose clock was wrong meanwhile."""
    status, reason = record["status"], record.get("reason")
    if not run.signs:
        return
    first_ms, last_ms = min(one.wall_ms for one in run.signs), max(one.wall_ms for one in run.signs)
    settled_ms = last_ms + (_SETTLED_WITHIN_MS if status == "lost" else 0)
    if view.has_wrong_clock(run.signs[0].worker, first_ms, settled_ms):
        return
    for start in run.starts[:1]:
        if record.get("startTime", 0) > start.wall_ms + _ROUNDING_MS:
            yield f"recorded to have started {record['startTime'] - start.wall_ms} ms after its first line"
        if status == "lost" and start.wall_ms > record["endTime"] + _AFTER_ITS_RECORD_MS:
            yield f"started {start.wall_ms - record['endTime']} ms after it was recorded as lost ({reason})"
    if status not in (*NEVER_RAN, "lost"):
        signs = [*run.signs, *(run.departed if status in ("killed", "timeout") else ())]
        beyond_ms = max(one.wall_ms for one in signs) - record["endTime"]
        if beyond_ms > _AFTER_ITS_END_MS:
            yield f"{status} ({reason}), and lived {beyond_ms} ms beyond its recorded end"


def _of_a_whole_run(run: Run, record: Record) -> Iterator[str]:
    status, code = record["status"], record.get("exitCode")
    if not run.starts:
        yield f"{status}, and there is no start"
    elif len(run.ends) != 1:
        yield f"{status}, and there are {len(run.ends)} ends"
    elif run.ends[0].exit_code != code or (status == "success") != (code == 0):
        yield f"{status} with exit code {code}; it ended with {run.ends[0].exit_code}"
