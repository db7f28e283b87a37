"""G7: after an edit has been acknowledged, nothing is claimed under the spec that it replaced; and an edit that leaves
alone when the job fires takes no fire away.

The first is decided by etcd's own order: a run's fence is the revision of its claim. The harness read etcd's revision
after the answer, so a run with a greater fence was claimed after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.chaos.history import Call
from tests.chaos.view import RAN, Record, Run, View, Violation

_WHEN = ("every", "offset", "cronExpr", "at", "after", "jitterSeconds", "broadcast")
"""The fields by which the jobs of a chaos run say when they fire."""


def check(view: View) -> Iterator[Violation]:
    """Every claim against every edit of its job, and every fire that an edit took away against that edit."""
    edits: dict[str, list[Call]] = {}
    for call in view.calls:
        if call.op.is_edit and call.etcd_revision is not None and call.job_revision is not None:
            edits.setdefault(call.job, []).append(call)
    for run, record in view.records():
        if record["status"] in RAN and record.get("fence"):
            for call in edits.get(run.id.job, ()):
                yield from _against(run, record, call)
        elif str(record.get("reason")).startswith("edited"):
            yield from _taken_away(view, run, record)


def _taken_away(view: View, run: Run, record: Record) -> Iterator[Violation]:
    for era, following in pairwise(view.eras.get(run.id.job, ())):
        if not era.spec or not following.spec or era.revision != record.get("revision"):
            continue
        if following.revision == era.revision:
            continue  # saved again as it was: it is the next edit that took the fire away
        if _when(era.spec) == _when(following.spec):
            yield Violation("G7", str(run.id), "taken away by an edit that left alone when the job fires")


def _when(spec: dict[str, Any]) -> list[Any]:
    return [spec.get(field) for field in _WHEN]


def _against(run: Run, record: Record, call: Call) -> Iterator[Violation]:
    assert call.etcd_revision is not None
    least = call.job_revision or call.etcd_revision + 1
    if record["fence"] > call.etcd_revision and record.get("revision", 0) < least:
        text = f"claimed at revision {record['fence']} under the job's {record.get('revision')}, after the {call.op}"
        yield Violation("G7", str(run.id), f"{text} (revision {least}) was acknowledged at {call.etcd_revision}")
