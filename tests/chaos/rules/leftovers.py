"""What is owed after a worker was killed: its guardian ends its commands at once; without one, its next start does."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import Fault
from tests.chaos.view import Run, View, Violation

KILLED = "SIGKILL"
KILLED_WITH_GUARDIAN = "SIGKILL with its guardian"
"""What the harness calls these faults; the first also with `` at <failpoint>`` or ``: why`` behind it."""
_NOTICED_WITHIN_MS = 1000
_STARTS_WITHIN_MS = 12_000
"""A worker on a busy machine: until it has found and told what its forerunner left."""


def check(view: View) -> Iterator[Violation]:
    """Every run that was going when its worker was killed: TERM, its grace, KILL, and a second to notice."""
    owed = [(fault, owed_ms) for fault in view.faults if (owed_ms := _ended_within_ms(fault)) is not None]
    for run in view.runs.values():
        if not run.starts:
            continue
        grace_ms = int(view.spec_of(run.id.job).get("killGraceSeconds", 5) * 1000)
        for fault, owed_ms in owed:
            lived_ms = _lived_ms(run, fault)
            if lived_ms > grace_ms + owed_ms:
                yield Violation("guardian", str(run.id), f"lived {lived_ms} ms after {fault.what} of {fault.target}")


def _ended_within_ms(fault: Fault) -> int | None:
    """How soon after the fault TERM is sent to what was running; None: it does not have to be."""
    if fault.what == KILLED_WITH_GUARDIAN:
        return fault.until_ms - fault.from_ms + _STARTS_WITHIN_MS
    is_kill = fault.what == KILLED or fault.what.startswith((f"{KILLED} at ", f"{KILLED}: "))
    return _NOTICED_WITHIN_MS if is_kill else None


def _lived_ms(run: Run, fault: Fault) -> int:
    """How long the run, which was going then, lived after its worker was killed; 0: none of that."""
    is_its = fault.target == run.starts[0].worker and run.starts[0].wall_ms < fault.from_ms
    return max(one.wall_ms for one in run.signs) - fault.from_ms if is_its else 0
