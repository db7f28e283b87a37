"""G8: when the answer to a kill says killed, nothing of the run is left, not even what has left its session."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import Op
from tests.chaos.view import Id, View, Violation


def check(view: View) -> Iterator[Violation]:
    """Every kill that was answered with `killed`."""
    for call in view.calls:
        if call.op is not Op.KILL or call.outcome != "killed":
            continue
        for run in (view.runs.get(Id.of(text)) for text in call.runs):
            if run is None:
                continue
            if run.status != "killed":
                yield Violation("G8", str(run.id), f"the answer was killed, the record says {run.status}")
            last_ns = max((one.boot_ns for one in (*run.signs, *run.departed)), default=0)
            if last_ns > call.ack_boot_ns:
                late_ms = (last_ns - call.ack_boot_ns) / 1e6
                yield Violation("G8", str(run.id), f"wrote {late_ms:.0f} ms after the answer that it was killed")
