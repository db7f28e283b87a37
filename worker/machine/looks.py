"""Looks at the machine's processes, in a thread that no process holds up for long.

To read what a process has in its memory, its environment, is to wait for a lock of that memory, and on older kernels
for its exec: a process that waits for a dead mount may hold both. A look that is held up so is left behind with its
thread, and begun again without that process.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

from worker.machine.processes import is_held_up

_T = TypeVar("_T")
_ASKED_EVERY_S: Final = 0.1
_MOST_LEFT_BEHIND: Final = 64
"""At a time."""


async def look_once(work: Callable[[], _T]) -> _T:
    """What one look finds, in a thread of its own: others may wait for a name service, in the loop's. HeldUpError;
    OSError: /proc cannot be read; RuntimeError: the machine is out of threads.
    """
    looks = Looks()
    try:
        return await looks.look_beside(work)
    finally:
        looks.close()


class HeldUpError(OSError):
    """More processes than ever should hold up the thread that reads them."""


class _Thread:
    """Does one work after the other, for as long as there is a caller to give it some. OSError: none can be had."""

    def __init__(self) -> None:
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: one that is held up for ever holds up no exit.
        self._thread = threading.Thread(target=self._work, name="looks", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            raise OSError(errno.EAGAIN, f"{error} (the machine is out of processes)") from error

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        future = Future[_T]()

        def carry_out() -> None:
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._works.put(carry_out)
        return future

    @property
    def is_held_up(self) -> bool:
        return is_held_up(self._thread.ident)

    @property
    def is_there(self) -> bool:
        """Until it is closed, and what it does is done."""
        return self._thread.is_alive()

    def close(self) -> None:
        self._works.put(None)

    def _work(self) -> None:
        while (work := self._works.get()) is not None:
            work()


class Looks:
    """One look at a time. Its thread begins at once: when it is needed, the machine may be out of processes.

    OSError (EAGAIN): it is so already.
    """

    def __init__(self, *, most_left_behind: int = _MOST_LEFT_BEHIND) -> None:
        self._most_left_behind = most_left_behind
        self._thread = _Thread()
        self._left_behind: list[_Thread] = []

    def look(self, work: Callable[[], _T]) -> _T:
        """What the look finds. HeldUpError; OSError: /proc cannot be read. Blocks."""
        while True:
            future = self._free_thread().submit(work)
            while not self._thread.is_held_up:
                try:
                    return future.result(_ASKED_EVERY_S)
                except TimeoutError:
                    if future.done():
                        raise

    async def look_beside(self, work: Callable[[], _T]) -> _T:
        """The same, beside the event loop."""
        import asyncio  # not for a guardian: it has no loop, and would start a third later

        while True:
            future = asyncio.wrap_future(self._free_thread().submit(work))
            while not self._thread.is_held_up:
                done, _ = await asyncio.wait({future}, timeout=_ASKED_EVERY_S)
                if done:
                    return future.result()

    def close(self) -> None:
        """No more looks are asked for."""
        self._thread.close()

    def _free_thread(self) -> _Thread:
        """One that is held up is left behind, and ends once nothing holds it up."""
        if self._thread.is_held_up:
            self._left_behind = [thread for thread in self._left_behind if thread.is_there]
            if len(self._left_behind) >= self._most_left_behind:
                raise HeldUpError(f"{len(self._left_behind)} processes hold up whoever looks at them")
            thread = _Thread()
            self._thread.close()
            self._left_behind.append(self._thread)
            self._thread = thread
        return self._thread
