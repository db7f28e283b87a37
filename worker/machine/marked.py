"""The processes that runs have started are found by the marks in their environment, and by what they belong to.

Every process that a run starts inherits ``ETCRON_INSTANCE`` and ``ETCRON_RUN_ID``. With each marked process go the
other members of its session, for a command may have cleared its environment; but never this process, its ancestors
or its own session (a job may start a worker).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from worker.machine.processes import Process, all_processes, run_mark

_NOBODY: Mapping[int, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A living process of a run of ours."""

    pid: int
    run_id: str
    """As its environment says it; ``RunId.parse`` reads it."""
    pgid: int
    process: Process


def find_leftovers(instance: str, run_id: str | None = None, *, leaders: Mapping[int, str] = _NOBODY) -> list[Leftover]:
    """The living processes that runs of this instance started, or only those of one run. Blocks for milliseconds.

    ``leaders``: process ids that are known to lead the group and the session of a run; who is in one of these is the
    run's whatever its environment says.
    """
    processes = [process for process in all_processes() if not process.dead]
    spared, own_session = _own_line(processes), os.getsid(0)
    others = [process for process in processes if process.session != own_session and process.pid not in spared]
    marks = {process.pid: mark for process in others if (mark := run_mark(process.pid, instance)) is not None}
    sessions = {process.session: marks[process.pid] for process in others if process.pid in marks}

    def run_of(process: Process) -> str | None:
        led_by = leaders.get(process.group) or leaders.get(process.session)
        return led_by or marks.get(process.pid) or sessions.get(process.session)

    return [
        Leftover(pid=process.pid, run_id=mark, pgid=process.group, process=process)
        for process in others
        if (mark := run_of(process)) and run_id in (None, mark)
    ]


def _own_line(processes: Iterable[Process]) -> set[int]:
    """This process and its ancestors."""
    parents = {process.pid: process.parent for process in processes}
    line: set[int] = set()
    pid = os.getpid()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line
