"""What runs tell through their descriptors, exits and output, by one registration at the event loop for all of them.

The loop's own way, a handle for each event and two registrations for each run, costs as much as a start. Here the
descriptors lie in an epoll of their own, which the loop watches as one. Exits come first: what has exited is read to
the end then. And output is watched only of those that are still there after a moment: until then the pipe holds it, and
most runs are over. So the output of most runs costs no registration and no event.
"""

from __future__ import annotations

import asyncio
import logging
import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from worker.pacing import YOUNG_S
from worker.run.running import Running

_log = logging.getLogger(__name__)

_IN_ONE_LOOK: Final = 32
"""Then others have their turn: what is left is seen in the next one."""


class RunWatch:
    """Reports exits and output until it is to forget their descriptors. The receiver must not raise."""

    def __init__(self, *, on_exits: Callable[[Sequence[Running]], None], on_output: Callable[[Running], None]) -> None:
        """On the running event loop. ``on_output`` is called again and again while there is something to read."""
        self._on_exits = on_exits
        self._on_output = on_output
        self._exits: dict[int, Running] = {}
        self._outputs: dict[int, Running] = {}
        self._young: deque[tuple[float, Running]] = deque()
        """With the loop's time from which on their output is watched."""
        self._timer: asyncio.TimerHandle | None = None
        self._epoll = select.epoll()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._look)

    def close(self) -> None:
        """Give the descriptor back."""
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def exit_of(self, run: Running, pidfd: int) -> None:
        """Tell of its exit. OSError: it cannot be watched now."""
        self._begin(self._exits, run, pidfd)

    def output_of(self, run: Running, pipe: int) -> None:
        """Tell of its output, and of the end of it. OSError: it cannot be watched now."""
        self._begin(self._outputs, run, pipe)

    def output_soon(self, run: Running) -> None:
        """The same, from 50 ms on, of the pipe that it has then, if it has one; tried again where it cannot be."""
        self._young.append((self._loop.time() + YOUNG_S, run))
        if self._timer is None:
            self._timer = self._loop.call_later(YOUNG_S, self._watch_grown)

    def forget(self, descriptor: int) -> None:
        """No more of this one; to be called before it is closed; of one that is not watched it does nothing."""
        if self._exits.pop(descriptor, None) is not None or self._outputs.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def _watch_grown(self) -> None:
        now = self._loop.time()
        while self._young and self._young[0][0] <= now:
            _, run = self._young.popleft()
            if run.pipe is None:
                continue
            try:
                self.output_of(run, run.pipe)
            except OSError as error:
                _log.warning("the output of %s cannot be watched yet: %s", run.launch.run_id, error,
                             extra={"action": "watch_failed", "run_id": str(run.launch.run_id)})  # fmt: skip
                self._young.append((now + YOUNG_S, run))
        self._timer = self._loop.call_later(self._young[0][0] - now, self._watch_grown) if self._young else None

    def _begin(self, watched: dict[int, Running], run: Running, descriptor: int) -> None:
        if descriptor not in watched:
            self._epoll.register(descriptor, select.EPOLLIN)
            watched[descriptor] = run

    def _look(self) -> None:
        # Whose they are is settled before any is reported: descriptors are closed then, and their numbers given anew.
        found = [descriptor for descriptor, _ in self._epoll.poll(0, _IN_ONE_LOOK)]
        exited = [run for descriptor in found if (run := self._exits.get(descriptor)) is not None]
        printing = [(one, run) for one in found if (run := self._outputs.get(one)) is not None]
        if exited:
            self._on_exits(exited)
        for descriptor, run in printing:
            if self._outputs.get(descriptor) is run:
                self._on_output(run)
