"""What a killed worker left running is found again by the marks in its environment, and ended.

Every process that a run starts inherits ``ETCRON_INSTANCE`` and ``ETCRON_RUN_ID``. With each marked process go the
other members of its session, for a command may have cleared its environment; but never this process, its ancestors
or its own session (a job may start a worker).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from common.clock import Clock
from worker.processes import Process, all_processes, run_mark, send

log = logging.getLogger(__name__)

_FIRST_LOOK_AFTER_S = 0.005
_LOOK_EVERY_S = 0.2
_GIVE_UP_AFTER_KILL_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A living process of a run of ours."""

    pid: int
    run_id: str
    """As its environment says it; ``RunId.parse`` reads it."""
    pgid: int
    process: Process


def find_leftovers(instance: str, run_id: str | None = None) -> list[Leftover]:
    """The living processes that runs of this instance started, or only those of one run. Blocks for milliseconds."""
    processes = [process for process in all_processes() if not process.dead]
    spared, own_session = _own_line(processes), os.getsid(0)
    others = [process for process in processes if process.session != own_session and process.pid not in spared]
    marks = {process.pid: mark for process in others if (mark := run_mark(process.pid, instance)) is not None}
    sessions = {process.session: marks[process.pid] for process in others if process.pid in marks}
    return [
        Leftover(pid=process.pid, run_id=mark, pgid=process.group, process=process)
        for process in others
        if (mark := marks.get(process.pid) or sessions.get(process.session)) and run_id in (None, mark)
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


async def end_leftovers(
    instance: str, kill_grace_s: float, clock: Clock, *, spared: Collection[str] = ()
) -> list[Leftover]:
    """End what runs of this instance left running: TERM, after the grace KILL; returns when all of it is gone.

    ``spared``: runs that had ended by themselves; what they have left in the background on purpose goes on.

    Gives up ten seconds after the KILL and returns what is still there: stuck in the kernel, or another user's.
    """
    kill_at = clock.monotonic() + kill_grace_s
    told: set[tuple[int, int]] = set()
    delay = _FIRST_LOOK_AFTER_S
    while left := [one for one in await asyncio.to_thread(find_leftovers, instance) if one.run_id not in spared]:
        now = clock.monotonic()
        if now >= kill_at + _GIVE_UP_AFTER_KILL_S:
            pids = [leftover.pid for leftover in left]
            log.error("left running by an earlier worker, and not to be ended: %s", pids,
                      extra={"action": "leftovers_survived", "pids": pids})  # fmt: skip
            break
        await asyncio.to_thread(_end, left, told, killing=now >= kill_at)
        await asyncio.sleep(delay)
        delay = min(delay * 2, _LOOK_EVERY_S)
    return left


def _end(left: Iterable[Leftover], told: set[tuple[int, int]], *, killing: bool) -> None:
    for leftover in left:
        process = leftover.process
        if killing:
            send(process, signal.SIGKILL)
        elif (process.pid, process.started) not in told:
            told.add((process.pid, process.started))
            log.warning("process %d of %s was left running: ended", process.pid, leftover.run_id,
                        extra={"action": "leftover_ended", "run_id": leftover.run_id, "pid": process.pid})  # fmt: skip
            send(process, signal.SIGTERM, signal.SIGCONT)
