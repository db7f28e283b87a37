"""What runs take of this machine: how many there may be at once, and how much memory each has taken.

As many as the worker is asked for, as far as its file descriptors go.

Memory is looked up in /proc while runs go, where their exits do not tell: at an exit the kernel tells the peak
(``ru_maxrss``) of the largest process: of the first one and of those that it waited for. But a child begins in the
memory of its parent, and Linux carries the parent's peak into the child's figure, over vfork and exec (``exec_mmap``
in fs/exec.c). So it is exact above the worker's own peak, and says nothing below it. For commands below it there is a
look at ``VmHWM`` of the run's processes, which *is* the command's own: twice a second, and when a run is about to be
ended. VmHWM is a peak itself, so a look misses only what comes after it, and processes that live between two looks.

So ``maxRss`` is the peak of the largest single process of a run (not their sum): exact where it is above the worker's
own peak; below it at least that much, and at most the worker's own peak. It is absent where the run was over before
the first look.

*Considered:* a cgroup for each run (not to be had in most containers; counts the page cache); taskstats (root of the
machine only); starting commands from a small helper process (each start would be a round trip to it, and each exit
its to reap; the guardian may do it one day).
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Mapping
from typing import Final

from common.protocol.keys import RunId
from worker.machine.processes import tree_peak_rss
from worker.run.running import Running

_log = logging.getLogger(__name__)

_EACH: Final = 3
"""Descriptors of a run: its output's pipe, its pidfd, and one for what a spawn needs for a moment."""
_OWN: Final = 96
"""What the worker itself needs: etcd, log store, spool, event loop."""


def affordable_slots(wanted: int, descriptors: int | None = None) -> int:
    """The slots that the limit on open files leaves room for, at least 1; logged as a warning where that is fewer.

    Without it every fire beyond the limit would fail for a reason that is the worker's and not the job's. The limit is
    not raised here, because every command would inherit it.
    """
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0] if descriptors is None else descriptors
    room = wanted if soft == resource.RLIM_INFINITY else max(1, (soft - _OWN) // _EACH)
    if room < wanted:
        extra = {"action": "slots.fewer", "wanted": wanted, "slots": room, "open_files": soft}
        _log.warning(
            "%d slots need more open files than the %d allowed: %d slots are used (raise ulimit -n)",
            wanted, soft, room, extra=extra,
        )  # fmt: skip
    return min(wanted, room)


_LOOK_EVERY_S = 0.5
_PROCESSES_A_LOOK = 50
"""About 40 us each, so a look takes 2 ms of the loop's time at most; with many runs each has its turn less often."""


class MemoryWatch:
    """Looks at the memory of what runs: one timer for all runs, and none while nothing runs."""

    def __init__(self, running: Mapping[RunId, Running]) -> None:
        self._running = running
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._turn = 0

    def begin(self) -> None:
        """Something runs: see to it that there will be looks."""
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_EVERY_S, self._look)

    def close(self) -> None:
        """No more looks."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        runs = tuple(self._running.values())
        left = _PROCESSES_A_LOOK
        for _ in runs:
            if left <= 0:
                break
            left -= look_at(runs[self._turn % len(runs)], left)
            self._turn += 1
        if runs:
            self.begin()


def look_at(run: Running, most: int = _PROCESSES_A_LOOK) -> int:
    """Note the memory of a run whose first process has not been reaped; how many processes were looked at.

    Of a machine without a descriptor for it nothing is noted: a figure keeps no run from being ended.
    """
    if run.exit is not None:
        return 0
    try:
        peak, looked_at = tree_peak_rss(run.pid, most)
    except OSError:
        return most
    run.seen_peak_rss = max(run.seen_peak_rss, peak)
    return looked_at
