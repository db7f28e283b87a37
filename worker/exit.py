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
    """Bytes, of the largest process; None where the kernel's figure is the worker's (see ``own_peak_rss_kib``)."""
    cpu_seconds: float | None = None


def own_peak_rss_kib() -> int:
    """The most memory that this process has ever held, in KiB, to be asked for before a spawn.

    A child starts in its parent's memory, and the kernel carries the parent's peak over exec into the child's
    ``ru_maxrss``. So a figure up to the worker's own says nothing of the command.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def reap(pid: int, own_peak_kib: int) -> Exit:
    """Take the exit of a child that has exited; from here on its number may be given away.

    Where something else in this process has taken it already, nothing is known of it.
    """
    try:
        _, status, usage = os.wait4(pid, 0)
    except ChildProcessError:
        return Exit()
    code = os.waitstatus_to_exitcode(status)
    told_of_itself = usage.ru_maxrss > own_peak_kib + _RSS_IS_COARSE_KIB
    return Exit(
        exit_code=code if code >= 0 else None,
        signal=-code if code < 0 else None,
        max_rss=usage.ru_maxrss * _KIB if told_of_itself else None,
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 6),
    )
