"""What is owed after a worker was killed: its guardian ends its commands at once; without one, its next start does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    kills = sorted((fault for fault in view.faults if _is_kill(fault)), key=lambda fault: fault.from_ms)
    for run in view.runs.values():
        if not run.starts:
            continue
        grace_ms = int(view.spec_of(run.id.job).get("killGraceSeconds", 5) * 1000)
        last_ms = max(one.wall_ms for one in run.signs)
        for fault, until_ms in _owed(run, kills):
            if last_ms > until_ms + grace_ms:
                text = f"lived {last_ms - fault.from_ms} ms after {fault.what} of {fault.target}"
                yield Violation("guardian", str(run.id), text)


def _is_kill(fault: Fault) -> bool:
    what = fault.what
    return what in (KILLED, KILLED_WITH_GUARDIAN) or what.startswith((f"{KILLED} at ", f"{KILLED}: "))


def _owed(run: Run, kills: Iterable[Fault]) -> list[tuple[Fault, int]]:
    """Each kill of the run's worker while it was going, and until when TERM is owed to the run.

    After a kill with the guardian nobody but the worker's next start ends the run: a new guardian knows nothing of it.
    Where that start is itself killed before it may have come so far, it is the start after it.
    """
    start, owed = run.starts[0], list[tuple[Fault, int]]()
    for kill in kills:
        if kill.target != start.worker or kill.from_ms <= start.wall_ms:
            continue
        again = owed and owed[-1][0].what == KILLED_WITH_GUARDIAN and kill.from_ms <= owed[-1][1]
        if again:
            owed[-1] = owed[-1][0], kill.until_ms + _STARTS_WITHIN_MS
        elif kill.what == KILLED_WITH_GUARDIAN:
            owed.append((kill, kill.until_ms + _STARTS_WITHIN_MS))
        else:
            owed.append((kill, kill.from_ms + _NOTICED_WITHIN_MS))
    return owed
