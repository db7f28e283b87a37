"""A run whose process was started: what is known of it, what it has printed, its exit, its outcome."""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import resource
from collections.abc import Callable, Sequence

from msgspec import Struct

from common.clock import Clock
from common.verdicts import Verdict
from worker.launch import Launch, Outcome, StopOrder, exit_in_words
from worker.launcher.link import Starting
from worker.machine.process_group import ProcessGroup
from worker.run.mask import Mask
from worker.run.output import Output

_KIB = 1024
_RSS_IS_COARSE_KIB = 2048


class Exit(Struct, frozen=True, kw_only=True):
    """How a process ended and what it used."""

    exit_code: int | None = None
    signal: int | None = None
    max_rss: int | None = None
    """Bytes, of the largest process; None where the kernel's figure is the worker's (see ``OwnPeak``)."""
    cpu_seconds: float | None = None


class OwnPeak:
    """The most memory that this process has ever held; the kernel is asked only where that matters.

    A child starts in its parent's memory, and the kernel carries the parent's peak over exec into the child's
    ``ru_maxrss``. So a figure up to the worker's own says nothing of the command.
    """

    def __init__(self) -> None:
        self._at_least_kib = 0

    def is_exceeded_by(self, peak_kib: int) -> bool:
        """Whether a child's peak is its own."""
        if peak_kib <= self._at_least_kib + _RSS_IS_COARSE_KIB:
            return False
        self._at_least_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak_kib > self._at_least_kib + _RSS_IS_COARSE_KIB


def reap(pid: int, own_peak: OwnPeak) -> Exit | None:
    """Take the exit of a child that has exited; from here on its number may be given away.

    None: it is not ours to take yet, for as long as another process traces it. Where something else in this process has
    taken it already, nothing is known of it.
    """
    try:
        taken, status, usage = os.wait4(pid, os.WNOHANG)
    except ChildProcessError:
        return Exit()
    if not taken:
        return None
    code = os.waitstatus_to_exitcode(status)
    return Exit(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        max_rss=usage.ru_maxrss * _KIB if own_peak.is_exceeded_by(usage.ru_maxrss) else None,
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 6),
    )


class EndDates:
    """Dates ends. What follows a run is due its delay after that date, also on workers whose clocks are right.

    A wall clock that has jumped during the run says nothing of its end until it has been compared with the others';
    but the boot clock knows how long the run has gone on, and the start was dated by a clock that was trusted.
    """

    def __init__(self, clock: Clock, *, is_vouched_for: Callable[[], bool] = lambda: True) -> None:
        """``is_vouched_for``: whether the wall clock is right, as far as anybody can tell."""
        self._clock = clock
        self._is_vouched_for = is_vouched_for

    def now_ms(self, *, start_ms: int, started_s: float) -> int:
        """The date of an end just now, in ms since the epoch, of what began at this wall and at this boot time."""
        wall_ms = self._clock.wall_ms()  # first: who reads it finds out that it has jumped
        if self._is_vouched_for():
            return wall_ms
        return start_ms + math.ceil((self._clock.boottime() - started_s) * 1000)


_PIPE_CAPACITY = 65_536
_PAGE = os.sysconf("SC_PAGE_SIZE")


def read_chunk(pipe: int) -> bytes | None:
    """At most a usual pipe's worth of what was printed; empty at its end, None where there is nothing now.

    No more than that at a time, so that who prints without end leaves the loop to others. See ``output_reader``: it may
    be held up.
    """
    try:
        return os.read(pipe, _PIPE_CAPACITY)
    except BlockingIOError:
        return None


def read_rest(pipe: int) -> bytes:
    """All that was printed before now: until a read brings nothing, for one need not bring all. It may be held up.

    The command may have widened the pipe, where memory pages are greater it holds more from the start, and with
    O_DIRECT it gives one write at a time. No more than it can hold, for a process may go on printing.
    """
    chunks, taken = list[bytes](), 0
    while chunk := read_chunk(pipe):
        chunks.append(chunk)
        taken += max(len(chunk), _PAGE)  # what was written with O_DIRECT has a page for itself, however short it is
        if taken >= _PIPE_CAPACITY and taken >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ):
            break
    return b"".join(chunks)


class Running:
    """One run whose process was started, and its ``stop_order``, if any; ``pid`` is also its group and session."""

    __slots__ = (
        "exit",
        "group",
        "hung_at",
        "launch",
        "mask",
        "output",
        "pipe",
        "seen_peak_rss",
        "start_ms",
        "started_s",
        "starting",
        "stop_order",
        "timeout",
    )  # fmt: skip

    def __init__(self, launch: Launch, *, pid: int, pipe: int, start_ms: int, started_s: float) -> None:
        self.launch = launch
        self.group = ProcessGroup(pid)
        self.pipe: int | None = pipe
        self.starting: Starting | None = None
        """Only of one that the launcher starts: whether its command was executed at all is known at its end."""
        self.hung_at: str | None = None
        """Where it was, in words, when it was ended before its command had been executed."""
        self.output = Output(launch.spec.output_limit_bytes)
        self.mask = Mask(launch.masked) if launch.masked else None
        self.start_ms = start_ms
        self.started_s = started_s
        """The same on the boot clock."""
        self.seen_peak_rss = 0
        """Bytes: the most memory that one of its processes was seen with (see ``resources``)."""
        self.stop_order: StopOrder | None = None
        """Why it is being ended from outside."""
        self.exit: Exit | None = None
        """Set once its first process has been reaped."""
        self.timeout: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """The first process: leader of its group and of its session."""
        return self.group.leader

    def take(self, printed: bytes) -> None:
        """Keep what it has printed."""
        self.output.add(printed if self.mask is None else self.mask.feed(printed))

    def outcome(self, end_ms: int, survivors: Sequence[int], left: ProcessGroup | None = None) -> Outcome:
        """The outcome, once nothing of it is left (but ``survivors``, which could not be ended). To be asked once.

        ``left``: its group, where some of them are in it.
        """
        ended, order = self.exit or Exit(), self.stop_order
        if self.mask is not None:
            self.output.add(self.mask.end())
        err = order.in_words(self.launch.spec.timeout_s) if order else exit_in_words(ended.exit_code, ended.signal)
        if err and self.hung_at is not None:
            err += f"; {self.hung_at}"
        if err and survivors:
            err += f"; could not be ended: processes {', '.join(map(str, survivors))}"
        verdict = order.kind if order else Verdict.SUCCESS if ended.exit_code == 0 else Verdict.FAILED
        max_rss = max(ended.max_rss or 0, self.seen_peak_rss) or None
        return Outcome(
            run_id=self.launch.run_id, verdict=verdict, err=err, start_ms=self.start_ms, end_ms=end_ms,
            exit_code=ended.exit_code, signal=ended.signal, max_rss=max_rss, cpu_seconds=ended.cpu_seconds,
            output=self.output.text(), output_bytes=self.output.printed, output_truncated=self.output.truncated,
            reason=order.reason if order else None, by=order.by if order else None, left=left,
        )  # fmt: skip
