"""What a killed worker's guardian owes: the commands of a worker that got SIGKILL are gone a second afterwards.

A command writes a sign of life every 25 ms, and its newest one counts. A second, and the run's grace for one that
ignores TERM.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.view import View, Violation

KILLED = "SIGKILL"
"""What the harness calls this fault."""
_GONE_WITHIN_MS = 1000


def check(view: View) -> Iterator[Violation]:
    """Every run that was going when its worker was killed: TERM at once, after its grace KILL."""
    kills = [fault for fault in view.faults if fault.what == KILLED]
    for run in view.runs.values():
        if not run.starts:
            continue
        grace_ms = int(view.spec_of(run.id.job).get("killGraceSeconds", 5) * 1000)
        first_ms, last_ms = run.starts[0].wall_ms, max(one.wall_ms for one in run.signs)
        for fault in kills:
            lived_ms = last_ms - fault.from_ms
            is_its = fault.target == run.starts[0].worker and first_ms < fault.from_ms
            if is_its and lived_ms > grace_ms + _GONE_WITHIN_MS:
                yield Violation("guardian", str(run.id), f"lived {lived_ms} ms after {fault.target} was killed")
