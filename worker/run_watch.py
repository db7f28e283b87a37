"""What runs tell through their descriptors, exits and output, by one registration at the event loop for all of them.

The loop's own way, a handle for each event and two registrations for each run, costs as much as a start. Here the
descriptors lie in an epoll of their own, which the loop watches as one. Exits come first: what has exited is read to
the end then, so that the output of most runs costs no event of its own.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Sequence
from typing import Final

from worker.running import Running

_IN_ONE_LOOK: Final = 32
"""Then others have their turn: what is left is seen in the next one."""


class RunWatch:
    """Tells of exits and of output until it is to forget their descriptors. Who is told must not raise."""

    def __init__(self, *, on_exits: Callable[[Sequence[Running]], None], on_output: Callable[[Running], None]) -> None:
        """On the running event loop. ``on_output`` is told again and again while there is something to read."""
        self._on_exits = on_exits
        self._on_output = on_output
        self._exits: dict[int, Running] = {}
        self._outputs: dict[int, Running] = {}
        self._epoll = select.epoll()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._look)

    def close(self) -> None:
        """Give the descriptor back."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def exit_of(self, run: Running, pidfd: int) -> None:
        """Tell of its exit. OSError: it cannot be watched now."""
        self._begin(self._exits, run, pidfd)

    def output_of(self, run: Running, pipe: int) -> None:
        """Tell of its output, and of the end of it. OSError: it cannot be watched now."""
        self._begin(self._outputs, run, pipe)

    def forget(self, descriptor: int) -> None:
        """No more of this one; to be said before it is closed, of one that is not watched it says nothing."""
        if self._exits.pop(descriptor, None) is not None or self._outputs.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _begin(self, watched: dict[int, Running], run: Running, descriptor: int) -> None:
        if descriptor not in watched:
            self._epoll.register(descriptor, select.EPOLLIN)
            watched[descriptor] = run

    def _look(self) -> None:
        # Whose they are is settled before anybody is told: descriptors are closed then, and their numbers given anew.
        found = [descriptor for descriptor, _ in self._epoll.poll(0, _IN_ONE_LOOK)]
        exited = [run for descriptor in found if (run := self._exits.get(descriptor)) is not None]
        printing = [(one, run) for one in found if (run := self._outputs.get(one)) is not None]
        if exited:
            self._on_exits(exited)
        for descriptor, run in printing:
            if self._outputs.get(descriptor) is run:
                self._on_output(run)
