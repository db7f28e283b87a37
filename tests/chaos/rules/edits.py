"""G7: after an edit has been acknowledged, nothing is claimed under the spec that it replaced.

Decided by etcd's own order: a run's fence is the revision of its claim. The harness read etcd's revision after the
answer, so a run with a greater fence was claimed after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import Call
from tests.chaos.view import RAN, Record, Run, View, Violation


def check(view: View) -> Iterator[Violation]:
    """Every claim against every edit of its job."""
    edits: dict[str, list[Call]] = {}
    for call in view.calls:
        if call.op.is_edit and call.etcd_revision is not None and call.job_revision is not None:
            edits.setdefault(call.job, []).append(call)
    for run, record in view.records():
        if record["status"] in RAN and record.get("fence"):
            for call in edits.get(run.id.job, ()):
                yield from _against(run, record, call)


def _against(run: Run, record: Record, call: Call) -> Iterator[Violation]:
    assert call.etcd_revision is not None
    least = call.job_revision or call.etcd_revision + 1
    if record["fence"] > call.etcd_revision and record.get("revision", 0) < least:
        text = f"claimed at revision {record['fence']} under the job's {record.get('revision')}, after the {call.op}"
        yield Violation("G7", str(run.id), f"{text} (revision {least}) was acknowledged at {call.etcd_revision}")
