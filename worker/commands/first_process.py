"""Executes a program as the leader of a new session: what ``subprocess.Popen`` does of it, and nothing else.

A worker does this for every run, and half of what ``Popen`` costs is not the start: it is choosing among options that
are the same each time, and a pipe that tells why a program could not be executed. Here the same function of the
standard library is called, with vfork, so that the worker's size does not matter, and with one such pipe for all that
are started together. That function is not documented; where this Python is newer than those it was tried with,
``Popen`` takes its place, and all stays as it is.
"""

from __future__ import annotations

import _posixsubprocess
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

_NEWEST_KNOWN: Final = (3, 13)
_WITH_VFORK: Final = True
_NONE: Final = -1
_MOST_TOLD: Final = 4000
_NEXT_FAULT: Final = re.compile(rb"(?=(?:OSError|SubprocessError):)")
_BEFORE_EXEC: Final = "noexec"
"""What is told of a fault before the program was looked for: in the directory, most likely."""
_PARENT, _FLAGS, _NOT_EXECUTED = 1, 6, 0x40
"""Of /proc/<pid>/stat, counted from the state on; and PF_FORKNOEXEC of the kernel's flags: forked, and no more."""


class Program(Struct, frozen=True, kw_only=True):
    """What to execute, and where. Descriptors stay the caller's."""

    arguments: tuple[str, ...]
    """The program first: a path, or a name that is looked for in ``path``."""
    path: str
    """Directories, with colons between them."""
    environment: Sequence[bytes]
    """``NAME=value`` each."""
    directory: str
    stdin: int
    output: int
    """Standard output and standard error."""
    umask: int


class Faults:
    """Tells of the programs that could not be executed, of all that are begun together with it.

    A pipe that the children write to and lose when they execute their programs. It is opened when it is first needed.
    """

    __slots__ = ("_read_end", "_told", "_write_end")

    def __init__(self) -> None:
        self._read_end = self._write_end = _NONE
        self._told: deque[bytes] | None = None

    def ends(self) -> tuple[int, int]:
        """To read from, to write to. OSError: there are no descriptors to spare."""
        if self._read_end == _NONE:
            self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        return self._read_end, self._write_end

    def of(self, pid: int) -> bytes | None:
        """What this process has told; None: it has executed its program. To be asked in the order of the starts.

        The first answer waits until each of them has done one or the other, and nothing can be begun any more.
        """
        if self._told is None:
            self._close_write_end()
            told = b"".join(iter(lambda: os.read(self._read_end, _MOST_TOLD), b""))  # each writes its fault in parts
            self._told = deque(filter(None, _NEXT_FAULT.split(told)))
            self.close()  # now: whose a fault is takes a descriptor to ask
        if not self._told or not _is_only_forked(pid):
            return None
        # The last one serves whatever is still to come: side by side, without vfork, two may have told it in one.
        return self._told.popleft() if len(self._told) > 1 else self._told[0]

    def close(self) -> None:
        """Give the descriptors back."""
        self._close_write_end()
        if self._read_end != _NONE:
            os.close(self._read_end)
            self._read_end = _NONE

    def _close_write_end(self) -> None:
        if self._write_end != _NONE:
            os.close(self._write_end)
            self._write_end = _NONE


class Execution:
    """One program on its way to being executed: made ready, begun, and then asked whether it could be.

    Three steps, for whoever starts several: the processor forgets all that this process was about when it executes
    another program, so what is done for all of them before the first, or after the last, costs half.
    """

    __slots__ = ("_faults", "_options", "_program", "pid")

    def __init__(self, program: Program, faults: Faults) -> None:
        """OSError: there are no descriptors to spare."""
        self._program = program
        self._faults = faults
        self.pid: int | None = None
        """Of its process, which the caller reaps."""
        arguments, directory = [os.fsencode(argument) for argument in program.arguments], os.fsencode(program.directory)
        read_end, write_end = faults.ends()
        self._options: tuple[Any, ...] = (
            arguments, _places(program, arguments[0]),
            True, (write_end,),  # closes all but this one, which the exec itself closes
            directory, program.environment,
            program.stdin, _NONE, _NONE, program.output, _NONE, program.output, read_end, write_end,
            True, True, _NONE,  # signals as Python found them; a new session, and with it a group
            None, None, None, program.umask,
            None, _WITH_VFORK,
        )  # fmt: skip

    def begin(self) -> None:
        """Blocks until the program has been executed, or could not be. OSError, ValueError: as of `check`."""
        if sys.version_info[:2] > _NEWEST_KNOWN:
            self.pid = _by_popen(self._program)
        else:
            self.pid = _posixsubprocess.fork_exec(*self._options)

    def check(self) -> None:
        """OSError: it could not be executed; ``filename`` is the directory, or the program. Its process is no more.

        ValueError: something in it has no place in a command line or an environment.
        """
        if self.pid is not None and (told := self._faults.of(self.pid)) is not None:
            pid, self.pid = self.pid, None
            os.waitpid(pid, 0)
            raise _fault(self._program, told)


def _places(program: Program, name: bytes) -> tuple[bytes, ...]:
    if b"/" in name:
        return (name,)
    return tuple(os.path.join(place, name) for place in os.fsencode(program.path).split(b":"))


def _is_only_forked(pid: int) -> bool:
    """Whether this child, which need not be there any more but for its exit, has never executed a program.

    Where that cannot be seen (no descriptor is left, or /proc is another pid namespace's) it counts as executed: what
    was taken for a fault would be ended, and perhaps run again; a fault that is taken for a run has failed, with 255.
    """
    try:
        _, _, status = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")
    except OSError:
        return False
    fields = status.split()
    return int(fields[_PARENT]) == os.getpid() and bool(int(fields[_FLAGS]) & _NOT_EXECUTED)


def _fault(program: Program, told: bytes) -> OSError | subprocess.SubprocessError:
    """``OSError:<errno in hex>:<where>``, as the child has told it."""
    kind, _, rest = told.decode(errors="replace").partition(":")
    number, _, where = rest.partition(":")
    if kind != "OSError" or not number:
        return subprocess.SubprocessError(f"{kind}: {where or rest}")
    error = int(number, 16)
    place = program.directory if where.startswith(_BEFORE_EXEC) else program.arguments[0]
    return OSError(error, os.strerror(error), place)


def _by_popen(program: Program) -> int:
    environment = dict(variable.split(b"=", 1) for variable in program.environment)
    process = subprocess.Popen(
        program.arguments, stdin=program.stdin, stdout=program.output, stderr=subprocess.STDOUT,
        cwd=program.directory, env=environment, start_new_session=True, umask=program.umask,
    )  # fmt: skip
    process.returncode = 0  # it is reaped elsewhere, never by Popen, which would warn otherwise
    return process.pid
