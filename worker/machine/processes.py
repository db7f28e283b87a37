"""The machine's processes as /proc shows them, and signals that reach the process that was looked at.

A process id alone names no process: it may be given away between the look and the signal. Id and start time together
do, so a signal goes through a pidfd, after one more look has found the same start time behind it. Reading /proc blocks
for some milliseconds, and a process may hold up the reader of its environment: see ``looks``.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from worker.machine.marks import INSTANCE_MARK, RUN_MARK

_KIB = 1024
_KTHREADD = 2
_READ_SIZE = 65_536
_LONGEST = 6 * 1024 * 1024
"""Bytes: Linux lets no process begin with a longer environment. But one may show all its memory as such later."""
_THREADS_ASKED = 4
"""Of a process that shows no environment: most of them have none."""
_LISTINGS = 8
"""Of the processes, at most: on a busy machine there are always new ones."""
_NEWEST_LOOKS = 200
"""At those that began since the list was read, at most, in all."""
_NEWEST = 64
"""So many of them are looked at in one go, the newest."""
_DEAD_STATES = b"ZX"
_PARENT, _FLAGS, _NOT_EXECUTED = 1, 6, 0x40
"""Of /proc/<pid>/stat, counted from the state on; and PF_FORKNOEXEC of the kernel's flags: forked, and no more."""
_HELD_UP_AFTER_S = 0.5
_NOTHING = (None, 0.0)
_reading: dict[int | None, tuple[int | None, float]] = {}
"""By thread: the process whose environment it reads, and since when."""
_VANISHED = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One line of the process table."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    """Clock ticks since boot."""
    dead: bool
    """It has exited and only waits to be reaped."""


def all_processes() -> Iterator[Process]:
    """Every process that is there when its turn comes, kernel threads left out. OSError where /proc cannot be read.

    Also those that began meanwhile: who forks and ends again and again would never be there when its turn comes. They
    are looked at one by one as they begin, for a new list takes longer than such a one lives. So a caller that
    ends them does it while it iterates.
    """
    seen: set[int] = set()
    newest, looks = _newest_pid(), iter(range(_NEWEST_LOOKS))
    for _ in range(_LISTINGS):
        new = sorted({int(name) for name in os.listdir("/proc") if name.isdecimal()} - seen)
        if not new:
            return
        seen.update(new)
        for pid in new:
            if (process := _in_user_space(pid)) is not None:
                yield process
        for _ in looks:
            before, newest = newest, _newest_pid()
            if newest == before:
                break
            for pid in _begun(before, newest):
                if pid not in seen and (process := _in_user_space(pid)) is not None and _leads_its_threads(pid):
                    seen.add(pid)
                    yield process


def read_process(pid: int) -> Process | None:
    """The process with this id, None where there is none (any more)."""
    line = _read(f"/proc/{pid}/stat")
    if not line:
        return None
    # The name stands in parentheses and may hold anything, parentheses too.
    fields = line[line.rindex(b")") + 2 :].split()
    # A leader whose own thread has ended shows as a zombie while its other threads run on.
    dead = fields[0] in _DEAD_STATES and int(fields[17]) <= 1
    return Process(
        pid=pid, parent=int(fields[1]), group=int(fields[2]), session=int(fields[3]), started=int(fields[19]), dead=dead
    )


def real_user(pid: int) -> int | None:
    """The id of the user whose signals the process takes, whatever program it executes; None where it is gone."""
    for line in (_read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def is_only_forked(pid: int) -> bool:
    """Whether this child, which need not be there any more but for its exit, has never executed a program.

    Where that cannot be seen (no descriptor is left, or /proc is another pid namespace's) it counts as executed: what
    was taken for a fault would be ended, and perhaps run again; a fault that is taken for a run has failed, with 255.
    """
    try:
        _, _, status = (_read(f"/proc/{pid}/stat") or b"").rpartition(b")")
    except OSError:
        return False
    fields = status.split()
    return bool(fields) and int(fields[_PARENT]) == os.getpid() and bool(int(fields[_FLAGS]) & _NOT_EXECUTED)


def _in_user_space(pid: int) -> Process | None:
    process = read_process(pid)
    return None if process is None or _KTHREADD in (process.pid, process.parent) else process


def _begun(before: int, newest: int) -> range:
    """The numbers that were given away since, as far as they are worth a look of their own: the next list has all."""
    first = before + 1 if before < newest else 1  # the numbers have begun anew
    return range(max(first, newest - _NEWEST + 1), newest + 1)


def _newest_pid() -> int:
    """The number that was given away last, to a process or a thread; always the same where the kernel does not tell."""
    return int((_read("/proc/loadavg") or b"0").split()[-1])


def _leads_its_threads(pid: int) -> bool:
    """Whether the number is a process's: /proc also has the other threads, without listing them."""
    try:
        os.close(os.pidfd_open(pid))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return True


def tree_peak_rss(leader: int, most: int) -> tuple[int, int]:
    """The peak memory, in bytes, of the largest of a process and its descendants; and how many were looked at.

    0 where nothing can be seen. At most ``most`` are looked at. Descendants whose parent has exited are not found, nor
    those of other threads than the first. This does not block: it takes no lock of the processes.
    """
    peak, pids, looked_at = 0, [leader], 0
    for pid in pids:
        if looked_at >= most:
            break
        looked_at += 1
        _, found, rest = (_read(f"/proc/{pid}/status") or b"").partition(b"\nVmHWM:")
        if found:  # a zombie has no memory any more
            peak = max(peak, int(rest.split(maxsplit=1)[0]) * _KIB)
        pids += children_of(pid)
    return peak, looked_at


def children_of(pid: int) -> list[int]:
    """The children of a process's first thread, dead ones too; none where the kernel does not tell."""
    return [int(child) for child in (_read(f"/proc/{pid}/task/{pid}/children") or b"").split()]


def run_mark(pid: int, instance: str) -> str | None:
    """The run id in the environment of a process that this instance started, as text; None where it is not ours."""
    environment = _environment(pid)
    if not environment or instance.encode() not in environment:
        return None
    variables = environment.split(b"\0")
    if f"{INSTANCE_MARK}={instance}".encode() not in variables:
        return None
    prefix = f"{RUN_MARK}=".encode()
    return next((v[len(prefix) :].decode(errors="replace") for v in variables if v.startswith(prefix)), None)


def is_held_up(thread: int | None) -> bool:
    """Whether a process holds up this thread, which reads its environment."""
    pid, since = _reading.get(thread, _NOTHING)
    return pid is not None and time.monotonic() - since >= _HELD_UP_AFTER_S


def _environment(pid: int) -> bytes | None:
    """None where it is not ours to read, or where it holds up another thread that reads it."""
    if any(pid == read and is_held_up(thread) for thread, (read, _) in tuple(_reading.items())):
        return None
    own = threading.get_ident()
    _reading[own] = pid, time.monotonic()
    try:
        return _environment_now(pid)
    finally:
        del _reading[own]


def _environment_now(pid: int) -> bytes | None:
    """Where the first thread has ended, that of the others: it is the same, and only they still have it.

    None where it is not ours to read.
    """
    environment = _read(f"/proc/{pid}/environ")
    if environment != b"":
        return environment
    try:
        threads = [name for name in os.listdir(f"/proc/{pid}/task") if name != str(pid)]
    except (*_VANISHED, PermissionError):
        return None
    for thread in threads[:_THREADS_ASKED]:
        if environment := _read(f"/proc/{pid}/task/{thread}/environ"):
            return environment
    return environment


def send(process: Process, *numbers: signal.Signals) -> bool:
    """Signal exactly this process; False where it is gone or belongs to another user."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        now = read_process(process.pid)
        if now is None or now.started != process.started:
            return False
        for number in numbers:
            signal.pidfd_send_signal(pidfd, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)
    return True


def _read(path: str) -> bytes | None:
    """A file in /proc up to ``_LONGEST``; empty where the process or thread is gone, None where it is not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _content(descriptor)
        finally:
            os.close(descriptor)
    except _VANISHED:
        return b""
    except PermissionError:
        return None


def _content(descriptor: int) -> bytes:
    content = os.read(descriptor, _READ_SIZE)
    if len(content) < _READ_SIZE:
        return content
    chunks = [content]
    while len(chunks) * _READ_SIZE < _LONGEST and (chunk := os.read(descriptor, _READ_SIZE)):
        chunks.append(chunk)
    return b"".join(chunks)
