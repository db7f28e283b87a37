"""G9: output beyond its limit is cut and the record says so; how much was printed is known, whatever the bytes were."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.view import Record, Run, View, Violation

_LIMIT = 262_144
_RECORDED_WITHIN_MS = 60_000


def check(view: View) -> Iterator[Violation]:
    """Every run that ended by itself and says how much it had printed."""
    for run, record in view.records():
        printed = run.ends[0].printed if run.ends else None
        if printed is None or record["status"] not in ("success", "failed") or _has_lost_it(view, run, record):
            continue
        limit = view.spec_of(run.id.job).get("outputLimitBytes", _LIMIT)
        if record.get("outputBytes", 0) != printed:
            yield Violation("G9", str(run.id), f"printed {printed} bytes, recorded are {record.get('outputBytes', 0)}")
        if bool(record.get("outputTruncated")) != (printed > limit):
            said = "cut" if record.get("outputTruncated") else "whole"
            yield Violation("G9", str(run.id), f"printed {printed} bytes of {limit} that are kept, recorded as {said}")


def _has_lost_it(view: View, run: Run, record: Record) -> bool:
    """A worker that cannot write records verdicts without output; the record has to say why."""
    end = run.ends[0]
    return bool(record.get("err")) and view.cannot_write(end.worker, end.wall_ms, end.wall_ms + _RECORDED_WITHIN_MS)
