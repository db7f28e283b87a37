"""Reads and closes pipes of outputs that somebody may still write to, in a thread that none of them holds up for long.

Whoever splices into a pipe, or writes to it what lies on a dead mount, holds its lock until that comes. To read such a
pipe, to ask for its size or to close it is to wait for that lock, also where the pipe does not block. So it may not be
done in the event loop. A read that waits so is left behind with its thread, and the others go on in a new one.

Of a pipe that nobody has open for writing any more none of this can happen: it costs no thread.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from worker.run.running import Running, read_chunk, read_rest

_log = logging.getLogger(__name__)

_LOOKED_AT_EVERY_S: Final = 0.2
_HELD_UP_AFTER_LOOKS: Final = 3
"""In a row, at each of which the kernel let it wait: one that only waits for a processor is not held up."""
_MOST_HELD_UP: Final = 64
"""Threads; with so many the next one that is held up holds up the outputs of all, and nothing else."""


def is_written_to(pipe: int) -> bool:
    """Whether somebody has it open for writing."""
    poll = select.poll()
    poll.register(pipe, 0)
    return not any(events & select.POLLHUP for _, events in poll.poll(0))


class _Thread:
    """Does one work after the other. RuntimeError: the machine is out of threads."""

    def __init__(self) -> None:
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon: one that is held up for ever holds up no exit.
        self._thread = threading.Thread(target=self._work, name="outputs", daemon=True)
        self._thread.start()

    @property
    def waits(self) -> bool:
        """Whether the kernel lets it wait, uninterruptibly, as for the lock of a pipe."""
        try:
            stat = Path(f"/proc/self/task/{self._thread.native_id}/stat").read_bytes()
        except OSError:
            return False
        return stat.rpartition(b")")[2].split()[:1] == [b"D"]

    def submit(self, work: Callable[[], None]) -> None:
        self._works.put(work)

    def close(self) -> None:
        """It ends once it has done what it was given."""
        self._works.put(None)

    def _work(self) -> None:
        while (work := self._works.get()) is not None:
            work()


@dataclass(slots=True, kw_only=True, eq=False)
class _Reading:
    """What is to be read of one pipe."""

    run: Running
    pipe: int
    read: Callable[[int], bytes | None]
    then: Callable[[bytes | None], None]
    is_last: bool = False
    """The pipe is closed with it, and it is not waited for where the pipe is held up."""
    is_over: bool = False


class OutputReader:
    """One at a time, in the order in which they were asked for. On the running event loop."""

    def __init__(self) -> None:
        """OSError: the machine is out of threads."""
        self._loop = asyncio.get_running_loop()
        try:
            self._thread = _Thread()
        except RuntimeError as error:
            raise OSError(f"{error} (the machine is out of processes)") from error
        self._waiting: deque[_Reading] = deque()
        self._current: _Reading | None = None
        self._asked = set[int]()
        """Pipes of which a chunk is to be read, or is being read."""
        self._timer: asyncio.TimerHandle | None = None
        self._waited = 0
        self._held_up: dict[int, tuple[_Reading, _Thread]] = {}
        """By the pipe: a read that was left behind, and where."""

    def read(self, run: Running, then: Callable[[bytes | None], None]) -> None:
        """Read a pipe's worth of what it has printed: bytes, empty at its end, None where there are none now."""
        assert run.pipe is not None, "it is open"
        self._asked.add(run.pipe)
        self._waiting.append(_Reading(run=run, pipe=run.pipe, read=read_chunk, then=then))
        self._next()

    def finish(self, run: Running, then: Callable[[], None]) -> None:
        """Take all that it printed before now, and close its pipe; then. Of a pipe that is held up the rest is lost."""
        pipe, run.pipe = run.pipe, None
        if pipe is None:
            then()
            return
        if pipe not in self._asked and not is_written_to(pipe):
            run.take(read_rest(pipe))
            os.close(pipe)
            then()
            return

        def take(rest: bytes | None) -> None:
            run.take(rest or b"")
            then()

        last = _Reading(run=run, pipe=pipe, read=_read_rest_and_close, then=take, is_last=True)
        if pipe in self._held_up:
            self._put_behind(last)
            return
        self._waiting.append(last)
        self._next()

    def close(self) -> None:
        """What still waits is closed; nothing more is told."""
        if self._timer is not None:
            self._timer.cancel()
        for one in self._waiting:
            if one.is_last:
                self._thread.submit(functools.partial(_closed, one.pipe))
        self._waiting.clear()
        self._thread.close()

    def _next(self) -> None:
        if self._current is not None or not self._waiting:
            return
        self._current = current = self._waiting.popleft()
        self._thread.submit(functools.partial(self._carry_out, current))
        self._waited = 0
        self._timer = self._loop.call_later(_LOOKED_AT_EVERY_S, self._look)

    def _carry_out(self, reading: _Reading) -> None:
        """In the thread."""
        try:
            found = reading.read(reading.pipe)
        except OSError as error:  # it is none of ours any more
            _log.warning("the output of %s cannot be read: %s", reading.run.launch.run_id, error,
                         extra={"action": "read_failed", "run_id": str(reading.run.launch.run_id)})  # fmt: skip
            found = b""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._carried_out, reading, found)

    def _carried_out(self, reading: _Reading, found: bytes | None) -> None:
        held_up, thread = self._held_up.get(reading.pipe, (None, None))
        if reading is self._current:
            assert self._timer is not None
            self._timer.cancel()
            self._current = None
        elif reading is held_up and thread is not None:
            del self._held_up[reading.pipe]
            thread.close()
        if not reading.is_last:
            self._asked.discard(reading.pipe)
        self._over(reading, found)
        self._next()

    def _over(self, reading: _Reading, found: bytes | None) -> None:
        if not reading.is_over:
            reading.is_over = True
            reading.then(found)

    def _look(self) -> None:
        """Whether what is being read is held up: then the others go on without it."""
        self._waited = self._waited + 1 if self._thread.waits else 0
        if self._waited < _HELD_UP_AFTER_LOOKS or not self._leave_behind():
            self._timer = self._loop.call_later(_LOOKED_AT_EVERY_S, self._look)

    def _leave_behind(self) -> bool:
        """False: it cannot be."""
        held_up = self._current
        assert held_up is not None
        run_id = held_up.run.launch.run_id
        try:
            if len(self._held_up) >= _MOST_HELD_UP:
                raise RuntimeError(f"{len(self._held_up)} outputs are held up already")
            thread = _Thread()
        except RuntimeError as error:
            _log.warning("the output of %s holds up all others: %s", run_id, error,
                         extra={"action": "output_held_up", "run_id": str(run_id)})  # fmt: skip
            return False
        self._held_up[held_up.pipe] = held_up, self._thread
        self._thread, self._current = thread, None
        _log.info("a process of %s holds up whoever reads its output", run_id,
                  extra={"action": "output_held_up", "run_id": str(run_id)})  # fmt: skip
        if held_up.is_last:
            self._over(held_up, None)
        for one in [one for one in self._waiting if one.pipe == held_up.pipe]:
            self._waiting.remove(one)
            self._put_behind(one)
        self._next()
        return True

    def _put_behind(self, last: _Reading) -> None:
        """Its pipe is held up by an earlier read. It is waited for a moment: who held the pipe may just have ended."""
        earlier, thread = self._held_up[last.pipe]
        thread.submit(functools.partial(self._carry_out, last))

        def give_up() -> None:
            if not last.is_over:
                earlier.is_over = True
                self._over(last, None)

        self._loop.call_later(_LOOKED_AT_EVERY_S * _HELD_UP_AFTER_LOOKS, give_up)


def _read_rest_and_close(pipe: int) -> bytes:
    try:
        return read_rest(pipe)
    finally:
        os.close(pipe)


def _closed(pipe: int) -> None:
    with suppress(OSError):
        os.close(pipe)
