"""Where we are the first process of a container, what commands leave behind becomes our child, and is reaped.

Linux gives a process whose parent has ended to process 1, and that is the worker, or who keeps several running, where
it is a container's only program. What nobody reaps stays in the table of processes for ever, and in the container's
limit on them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from worker.machine.processes import children_of

_EVERY_S: Final = 5.0
_FIRST: Final = 1


def is_first_process() -> bool:
    """Whether orphans come to this process."""
    return os.getpid() == _FIRST


class Orphans:
    """Reaps children that are not this process's own. On the event loop, which starts and reaps those."""

    def __init__(self, *, own: Callable[[], Collection[int]], every_s: float = _EVERY_S) -> None:
        """``own``: the process ids of the children that somebody else here reaps."""
        self._own = own
        self._every_s = every_s

    async def run(self) -> None:
        """Reaps until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            self._reap()

    def _reap(self) -> None:
        own = self._own()
        for pid in children_of(os.getpid()):
            if pid not in own:
                with suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
