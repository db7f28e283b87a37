"""Where we are the first process of a container, what commands leave behind becomes our child, and is reaped.

Linux gives a process whose parent has ended to process 1, and that is the worker, or who keeps several running, where
it is a container's only program. What is not reaped stays in the table of processes for ever, and in the container's
limit on them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Final

from worker.machine.processes import children_of

EVERY_S: Final = 5.0
_LOOKS: Final = 3
"""So often one has to be seen dead: the starter of a process asks for its status within 10 s."""
_FIRST: Final = 1


def is_first_process() -> bool:
    """Whether orphans come to this process."""
    return os.getpid() == _FIRST


class Orphans:
    """Reaps children that are not this process's own. On the event loop, which starts and reaps those."""

    def __init__(self, *, own: Callable[[], Collection[int]], every_s: float = EVERY_S) -> None:
        """``own``: the process ids of the children that another part of this process reaps; of such as are not named,
        as a program that gives a secret, the status is left alone for some looks."""
        self._own = own
        self._every_s = every_s
        self._dead: dict[int, int] = {}
        """How often each was seen dead."""

    async def run(self) -> None:
        """Reaps until cancelled."""
        while True:
            await asyncio.sleep(self._every_s)
            self.look()

    def look(self) -> None:
        """Reaps what has been dead for long."""
        own, before = self._own(), self._dead
        self._dead = {}
        for pid in children_of(os.getpid()):
            with suppress(ChildProcessError):
                if pid in own or os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    continue
                self._dead[pid] = before.get(pid, 0) + 1
                if self._dead[pid] >= _LOOKS:
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)
