"""A run whose process was started: what is known of it, what it has printed, and in the end its outcome."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Sequence

from common.protocol.run import Verdict
from worker.commands.exit import Exit
from worker.commands.output import Output
from worker.launch import Ending, Launch, Outcome, exit_in_words
from worker.launcher.link import Starting
from worker.machine.process_group import ProcessGroup

_PIPE_CAPACITY = 65_536
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Running:
    """One run whose process was started; ``launch``, ``pid`` (also its group and session), ``start_ms``, ``ending``."""

    __slots__ = (
        "ending", "exit", "group", "hung_at", "launch", "output", "pipe", "seen_peak_rss", "start_ms", "started_s",
        "starting", "timeout",
    )  # fmt: skip

    def __init__(self, launch: Launch, *, pid: int, pipe: int, start_ms: int, started_s: float) -> None:
        self.launch = launch
        self.group = ProcessGroup(pid)
        self.pipe: int | None = pipe
        self.starting: Starting | None = None
        """Only of one that the launcher starts: whether its command was executed at all is known at its end."""
        self.hung_at: str | None = None
        """Where it was, in words, when it was ended before its command had been executed."""
        self.output = Output(launch.output_limit)
        self.start_ms = start_ms
        self.started_s = started_s
        """The same on the boot clock."""
        self.seen_peak_rss = 0
        """Bytes: the most memory that one of its processes was seen with (see ``usage``)."""
        self.ending: Ending | None = None
        """Why it is being ended from outside."""
        self.exit: Exit | None = None
        """Set once its first process has been reaped."""
        self.timeout: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """The first process: leader of its group and of its session."""
        return self.group.leader

    def read_output(self) -> int | None:
        """Take at most a usual pipe's worth of what was printed; how many bytes, 0 at its end, None where none come.

        No more than that at a time, so that who prints without end leaves the loop to others.
        """
        if self.pipe is None:
            return 0
        try:
            chunk = os.read(self.pipe, _PIPE_CAPACITY)
        except BlockingIOError:
            return None
        self.output.add(chunk)
        return len(chunk)

    def read_rest(self) -> None:
        """Take all that was printed before now: until a read brings nothing, for one need not bring all.

        Its command may have widened the pipe, where memory pages are greater it holds more from the start, and with
        O_DIRECT it gives one write at a time. No more than it can hold, for somebody may go on printing.
        """
        taken = 0
        while self.pipe is not None and (size := self.read_output()):
            taken += max(size, _PAGE)  # what was written with O_DIRECT has a page for itself, however short it is
            if taken >= _PIPE_CAPACITY and taken >= fcntl.fcntl(self.pipe, fcntl.F_GETPIPE_SZ):
                return

    def outcome(self, end_ms: int, survivors: Sequence[int], left: ProcessGroup | None = None) -> Outcome:
        """The outcome, once nothing of it is left (but ``survivors``, which could not be ended). To be asked once.

        ``left``: its group, where some of them are in it.
        """
        ended, ending = self.exit or Exit(), self.ending
        err = ending.in_words(self.launch.timeout_s) if ending else exit_in_words(ended.exit_code, ended.signal)
        if err and self.hung_at is not None:
            err += f"; {self.hung_at}"
        if err and survivors:
            err += f"; could not be ended: processes {', '.join(map(str, survivors))}"
        return Outcome(
            run_id=self.launch.run_id, verdict=self._verdict(ended), err=err, start_ms=self.start_ms, end_ms=end_ms,
            exit_code=ended.exit_code, signal=ended.signal, max_rss=self._max_rss(ended), cpu_seconds=ended.cpu_seconds,
            output=self.output.text(), output_bytes=self.output.printed, output_truncated=self.output.truncated,
            reason=ending.reason if ending else None, by=ending.by if ending else None, left=left,
        )  # fmt: skip

    def _max_rss(self, ended: Exit) -> int | None:
        return max(ended.max_rss or 0, self.seen_peak_rss) or None

    def _verdict(self, ended: Exit) -> Verdict:
        if self.ending is not None:
            return self.ending.kind
        return Verdict.SUCCESS if ended.exit_code == 0 else Verdict.FAILED
