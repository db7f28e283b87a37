"""G5: users give up only what is not well, and nothing is given up that no user has given up."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.history import Call, Op
from tests.chaos.view import Run, View, Violation

_TAKEN = ("lost", "pending")
"""Outcomes of a wish that was taken."""
_SESSION_ENDS_MS = 60_000
"""So long before a wish may be what took the session of the run's worker: elections and slow answers are long."""
_OF_ALL = ("etcd", "keys")


def may_be_taken(call: Call) -> bool:
    """Whether it is a wish that was taken, or whose first sending may have been."""
    return call.op is Op.GIVE_UP and (call.outcome in _TAKEN or call.in_doubt)


def check(view: View) -> Iterator[Violation]:
    """Every wish that was taken, and every record that names one."""
    wishes = {run: call for call in view.calls if may_be_taken(call) for run in call.runs}
    for run, record in view.records():
        call = wishes.get(str(run.id))
        is_given_up = str(record.get("reason")).startswith("given up by")
        if call is None and is_given_up:
            yield Violation("G5", str(run.id), f"{record['reason']}, and no user has")
        elif call is not None and (is_given_up or call.outcome in _TAKEN) and _was_well(view, call, run):
            yield Violation("G5", str(run.id), f"given up at {call.ack_ms}, and nothing had happened to its worker")


def _was_well(view: View, call: Call, run: Run) -> bool:
    """Whether nothing that the harness has done explains that its worker could not be reached."""
    worker = run.signs[0].worker if run.signs else (run.record or {}).get("worker")
    faults = view.faults_between(call.sent_ms - _SESSION_ENDS_MS, call.ack_ms)
    return not any(fault.target in (worker, *_OF_ALL) for fault in faults)
