"""What the kernel tells of a process that has exited, taken once and for all: reaping it frees its number."""

from __future__ import annotations

import os
import resource

from msgspec import Struct

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


def reap(pid: int, own_peak: OwnPeak) -> Exit:
    """Take the exit of a child that has exited; from here on its number may be given away.

    Where something else in this process has taken it already, nothing is known of it.
    """
    try:
        _, status, usage = os.wait4(pid, 0)
    except ChildProcessError:
        return Exit()
    code = os.waitstatus_to_exitcode(status)
    return Exit(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        max_rss=usage.ru_maxrss * _KIB if own_peak.is_exceeded_by(usage.ru_maxrss) else None,
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 6),
    )
