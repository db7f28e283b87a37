"""What is owed after a worker was killed: its guardian ends its commands at once; without one, its next start does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.chaos.history import Fault
from tests.chaos.view import NO_DESCRIPTORS, NO_PROCESSES, Run, View, Violation

KILLED, FROZEN = "SIGKILL", "SIGSTOP"
KILLED_WITH_GUARDIAN = "SIGKILL with its guardian"
"""What the harness calls these faults; the first also with `` at <failpoint>`` or ``: why`` behind it."""
_NOTICED_WITHIN_MS = 1000
STARTS_WITHIN_MS = 20_000
"""A worker on a busy machine, until it has found and told what its forerunner left: seen were 13 s and more, on two
cores with forty processes that wanted them. As long as a run of this harness is out of touch before it counts as lost:
what lives on beyond that would show as an overlap, too.
"""


def check(view: View) -> Iterator[Violation]:
    """Every run that was going when its worker was killed: TERM, its grace, KILL, and a second to notice."""
    faults = sorted((one for one in view.faults if _is_kill(one) or _holds_up(one)), key=lambda one: one.from_ms)
    for run in view.runs.values():
        if not run.starts:
            continue
        grace_ms = int(view.spec_of(run.id.job).get("killGraceSeconds", 5) * 1000)
        last_ms = max(one.wall_ms for one in run.signs)
        for fault, until_ms in _owed(run, faults):
            if last_ms > until_ms + grace_ms:
                text = f"lived {last_ms - fault.from_ms} ms after {fault.what} of {fault.target}"
                yield Violation("guardian", str(run.id), text)


def _is_kill(fault: Fault) -> bool:
    what = fault.what
    return what in (KILLED, KILLED_WITH_GUARDIAN) or what.startswith((f"{KILLED} at ", f"{KILLED}: "))


def _holds_up(fault: Fault) -> bool:
    """Whether a worker that starts just then cannot go on before it is over."""
    return fault.what.startswith((FROZEN, NO_DESCRIPTORS, NO_PROCESSES))


def _owed(run: Run, faults: Iterable[Fault]) -> list[tuple[Fault, int]]:
    """Each kill of the run's worker while it was going, and until when TERM is owed to the run.

    After a kill with the guardian nobody but the worker's next start ends the run: a new guardian knows nothing of it.
    Where that start is itself killed or held up before it may have come so far, it has its time from then on.
    """
    start, owed = run.starts[0], list[tuple[Fault, int]]()
    for fault in faults:
        if fault.target != start.worker or fault.from_ms <= start.wall_ms:
            continue
        is_starting = bool(owed) and owed[-1][0].what == KILLED_WITH_GUARDIAN and fault.from_ms <= owed[-1][1]
        if is_starting:
            owed[-1] = owed[-1][0], max(owed[-1][1], fault.until_ms + STARTS_WITHIN_MS)
        elif fault.what == KILLED_WITH_GUARDIAN:
            owed.append((fault, fault.until_ms + STARTS_WITHIN_MS))
        elif _is_kill(fault):
            owed.append((fault, fault.from_ms + _NOTICED_WITHIN_MS))
    return owed
