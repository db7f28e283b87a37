"""The processes that runs have started are found by the marks in their environment, and by what they belong to.

Every process that a run starts inherits ``ETCRON_INSTANCE`` and ``ETCRON_RUN_ID``. With each marked process go the
other members of its session, for a command may have cleared its environment; but never this process, its ancestors
or its own session (a job may start a worker), nor who shares an ancestor's session without a mark.

Anybody may begin a process with forged marks, also in a session of others: a web server's, or as root by sudo. So
marks reach only what their process could end itself, its own user's; root's only where the first process of the
session, which is root's and has the marks, vouches for all of it, or has ended. Where a run's first process is known,
its session needs no marks.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from worker.machine.processes import Process, all_processes, read_process, real_user, run_mark

_ROOT: Final = 0
_ANY: Final = -1
"""In place of a user: whoever it is."""
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
    marked = {process.pid: found for process in others if (found := _marked(process, instance)) is not None}
    of_own_line = {process.session for process in processes if process.pid in spared}
    sessions = _sessions(
        (one for one in marked.values() if one[0].session not in of_own_line), {process.pid for process in processes}
    )

    def run_of(process: Process) -> str | None:
        led_by = leaders.get(process.group) or leaders.get(process.session)
        if led_by or process.pid in marked:
            return led_by or marked[process.pid][1]
        if (by_user := sessions.get(process.session)) is None:
            return None
        return by_user.get(_ANY) or by_user.get(real_user(process.pid))

    now = [marked[process.pid][0] if process.pid in marked else process for process in others]
    return [
        Leftover(pid=process.pid, run_id=mark, pgid=process.group, process=process)
        for process in now
        if (mark := run_of(process)) and run_id in (None, mark)
    ]


def _marked(process: Process, instance: str) -> tuple[Process, str] | None:
    """The process as it is since it shows its marks, and the run that they name; None: it shows none of ours.

    What was read of it before may be of the time between its fork and its exec: then its group and its session are its
    worker's, and what is in these is not the run's.
    """
    mark = run_mark(process.pid, instance)
    now = None if mark is None else read_process(process.pid)
    return None if mark is None or now is None or now.started != process.started else (now, mark)


def _sessions(marked: Iterable[tuple[Process, str]], living: Container[int]) -> Mapping[int, Mapping[int | None, str]]:
    """By session, the runs that its members of a user belong to."""
    found = defaultdict[int, dict[int | None, str]](dict)
    for process, mark in marked:
        user = real_user(process.pid)
        if user == _ROOT and process.pid == process.session:
            found[process.session][_ANY] = mark
        elif user is not None and (user != _ROOT or process.session not in living):
            found[process.session][user] = mark
    return found


def _own_line(processes: Iterable[Process]) -> set[int]:
    """This process and its ancestors."""
    parents = {process.pid: process.parent for process in processes}
    line: set[int] = set()
    pid = os.getpid()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line
