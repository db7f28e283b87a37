"""Reads and closes pipes of outputs that a process may still write to, in threads that no pipe holds up for long.

A process that splices into a pipe, or writes to it what lies on a dead mount, holds its lock until that comes. To read
such a pipe, to ask for its size or to close it is to wait for that lock, also where the pipe does not block. So it may
not be done in the event loop. A read that waits so keeps its thread, the run's own from then on, and the others get a
new one.

Where no process has the pipe open for writing any more, one that reads it could hold the lock; that takes the worker's
own user (see ``launcher/child.py``). So of a run that is over and has left no process, the rest is read in the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from worker.run.running import Running, read_chunk, read_rest

_log = logging.getLogger(__name__)

_LOOKED_AT_EVERY_S: Final = 0.2
_GIVEN_UP_AFTER_LOOKS: Final = 3
"""In a row, at each of which the kernel let the thread wait: one that only waits for a processor is not held up."""
_NOT_READ: Final = b"\n... what was printed then could not be read: a process held up the pipe ...\n"
_MOST_HELD_UP: Final = 64
"""Threads; with so many the next one that is held up holds up the outputs of all, and for a moment their ends."""


def _is_written_to(pipe: int) -> bool:
    """Whether somebody has it open for writing."""
    poll = select.poll()
    poll.register(pipe, 0)
    return not any(events & select.POLLHUP for _, events in poll.poll(0))


@dataclass(slots=True, kw_only=True, eq=False)
class _Reading:
    """What is to be read of one pipe."""

    run: Running
    pipe: int
    read: Callable[[int], bytes | None]
    then: Callable[[bytes | None], None]
    is_last: bool = False
    """The pipe is closed with it."""
    is_over: bool = False
    """What it finds, if it ever does, is not wanted any more."""
    is_done: bool = False
    """Its thread is through with it."""
    thread: _Thread | None = None


class _Thread:
    """Does one reading after the other, until it is given None. RuntimeError: the machine is out of threads."""

    def __init__(self, carry_out: Callable[[_Reading], None]) -> None:
        self.readings: SimpleQueue[_Reading | None] = SimpleQueue()
        self.doing: _Reading | None = None
        self._carry_out = carry_out
        # A daemon: Python does not wait for it at its exit. The kernel does, for as long as it is held up.
        self._thread = threading.Thread(target=self._work, name="outputs", daemon=True)
        self._thread.start()

    def put(self, reading: _Reading) -> None:
        reading.thread = self
        self.readings.put(reading)

    @property
    def is_idle(self) -> bool:
        return self.doing is None and self.readings.empty()

    @property
    def waits(self) -> bool:
        """Whether the kernel lets it wait, uninterruptibly, as for the lock of a pipe."""
        try:
            stat = Path(f"/proc/self/task/{self._thread.native_id}/stat").read_bytes()
        except OSError:
            return False
        return stat.rpartition(b")")[2].split()[:1] == [b"D"]

    def take_back(self) -> list[_Reading]:
        """Those that it has not begun."""
        taken = list[_Reading]()
        with suppress(Empty):
            while (reading := self.readings.get_nowait()) is not None:
                taken.append(reading)
        return taken

    def _work(self) -> None:
        while (reading := self.readings.get()) is not None:
            self.doing = reading
            self._carry_out(reading)
            self.doing = None


class OutputReader:
    """On the running event loop."""

    def __init__(self) -> None:
        """OSError: the machine is out of threads."""
        self._loop = asyncio.get_running_loop()
        try:
            self._shared = _Thread(self._carry_out)
        except RuntimeError as error:
            raise OSError(f"{error} (the machine is out of processes)") from error
        self._own: dict[Running, _Thread] = {}
        """Of those that have held up the shared one."""
        self._asked: dict[Running, _Reading] = {}
        """Of which a chunk is to be read, or is being read."""
        self._timer: asyncio.TimerHandle | None = None
        self._warned_of: _Reading | None = None

    def read(self, run: Running, then: Callable[[bytes | None], None]) -> None:
        """Read a pipe's worth of what it has printed: bytes, empty at its end, None where there are none now."""
        assert run.pipe is not None, "it is open"
        self._asked[run] = reading = _Reading(run=run, pipe=run.pipe, read=read_chunk, then=then)
        self._submit(reading)

    def finish(self, run: Running, then: Callable[[], None]) -> None:
        """Take all that it printed before now, and close its pipe; then.

        Of a pipe that is held up the rest is lost, and the output says so.
        """
        pipe, run.pipe = run.pipe, None
        if pipe is None:
            then()
            return
        if run not in self._asked and not _is_written_to(pipe):
            run.take(read_rest(pipe))
            os.close(pipe)
            self._end_own(run)
            then()
            return

        def take(rest: bytes | None) -> None:
            run.take(_NOT_READ if rest is None else rest)
            then()

        last = _Reading(run=run, pipe=pipe, read=_read_rest_and_close, then=take, is_last=True)
        self._submit(last)
        self._loop.call_later(_LOOKED_AT_EVERY_S, self._look_at_last, last, 0)

    def close(self) -> None:
        """Nothing more is asked for."""
        if self._timer is not None:
            self._timer.cancel()
        self._shared.readings.put(None)

    def _submit(self, reading: _Reading) -> None:
        self._own.get(reading.run, self._shared).put(reading)
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOKED_AT_EVERY_S, self._look)

    def _carry_out(self, reading: _Reading) -> None:
        """In its thread."""
        try:
            found = reading.read(reading.pipe)
        except Exception as error:  # of this run alone
            run_id = str(reading.run.launch.run_id)
            extra = {"action": "read_failed", "run_id": run_id}
            _log.warning("the output of %s cannot be read: %s", run_id, error, extra=extra)
            found = b""
        reading.is_done = True
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._carried_out, reading, found)

    def _carried_out(self, reading: _Reading, found: bytes | None) -> None:
        if reading.is_last:
            self._end_own(reading.run)
        else:
            del self._asked[reading.run]
        self._over(reading, found)

    def _over(self, reading: _Reading, found: bytes | None) -> None:
        if not reading.is_over:
            reading.is_over = True
            reading.then(found)

    def _end_own(self, run: Running) -> None:
        if (own := self._own.pop(run, None)) is not None:
            own.readings.put(None)

    def _look(self) -> None:
        """Whether the shared thread is held up: who does that keeps it."""
        self._timer = None
        doing = self._shared.doing
        again_s = _LOOKED_AT_EVERY_S
        if doing is not None and self._shared.waits and self._shared.doing is doing and self._leave_behind(doing):
            again_s /= 10  # the next one may be held up, too
        if not self._shared.is_idle:
            self._timer = self._loop.call_later(again_s, self._look)

    def _leave_behind(self, held_up: _Reading) -> bool:
        """False: there may be no more threads."""
        run_id = held_up.run.launch.run_id
        extra = {"action": "output_held_up", "run_id": str(run_id)}
        try:
            if len(self._own) >= _MOST_HELD_UP:
                for run in [run for run, thread in self._own.items() if thread.is_idle]:
                    self._end_own(run)
            if len(self._own) >= _MOST_HELD_UP:
                raise RuntimeError(f"{len(self._own)} outputs are held up already")
            thread = _Thread(self._carry_out)
        except RuntimeError as error:
            if self._warned_of is not held_up:
                _log.warning("the output of %s holds up all others: %s", run_id, error, extra=extra)
            self._warned_of = held_up
            return False
        _log.info("a process of %s holds up whoever reads its output", run_id, extra=extra)
        behind, self._shared = self._shared, thread
        self._own[held_up.run] = behind
        others = behind.take_back()
        chunks = {one.run for one in others if not one.is_last}
        for one in others:
            # A last one goes behind the chunk of its run, which may just have been begun.
            chunk = self._asked.get(one.run) if one.is_last and one.run not in chunks else None
            stays = one.run is held_up.run or (chunk is not None and not chunk.is_done)
            (behind if stays else thread).put(one)
        return True

    def _look_at_last(self, last: _Reading, looks: int) -> None:
        """Whether its thread is held up for so long that what it would find is given up."""
        if last.is_over:
            return
        assert last.thread is not None, "it was submitted"
        doing = last.thread.doing
        is_held_up = doing is not None and (doing.run is last.run or doing is self._warned_of) and last.thread.waits
        looks = looks + 1 if is_held_up else 0
        if looks < _GIVEN_UP_AFTER_LOOKS:
            self._loop.call_later(_LOOKED_AT_EVERY_S, self._look_at_last, last, looks)
            return
        if (chunk := self._asked.get(last.run)) is not None:
            chunk.is_over = True
        self._over(last, None)


def _read_rest_and_close(pipe: int) -> bytes:
    try:
        return read_rest(pipe)
    finally:
        os.close(pipe)
