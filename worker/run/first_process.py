"""Executes a shell as the leader of a new session: what ``subprocess.Popen`` does of it, and nothing else.

A worker does this for most runs, and half of what ``Popen`` costs is not the start: it is choosing among options that
are the same each time, and a pipe that tells why a program could not be executed. Here the same function of the
standard library is called, with vfork, so that the worker's size does not matter, and with one such pipe for all that
are started together. That function is not documented: where this Python is newer than those it was tried with, the
launcher starts everything. It also starts what could not be executed here, and knows why it cannot be.

The caller of vfork waits until the program has been executed: only what cannot hang is executed here.
"""

from __future__ import annotations

import _posixsubprocess
import os
import re
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from worker.machine.processes import is_only_forked

IS_KNOWN: Final = sys.version_info[:2] <= (3, 13)
"""Whether this Python's function is one that this was tried with."""
_WITH_VFORK: Final = True
_NONE: Final = -1
_MOST_READ: Final = 4000
_NEXT_FAULT: Final = re.compile(rb"(?=(?:OSError|SubprocessError):)")


class Faults:
    """Tells of the programs that could not be executed, of all that are begun together with it.

    A pipe that the children write to and lose when they execute their programs. It is opened when it is first needed.
    """

    __slots__ = ("_faults", "_read_end", "_write_end")

    def __init__(self) -> None:
        self._read_end = self._write_end = _NONE
        self._faults: deque[bytes] | None = None

    def ends(self) -> tuple[int, int]:
        """To read from, to write to. OSError: there are no descriptors to spare."""
        if self._read_end == _NONE:
            self._read_end, self._write_end = os.pipe2(os.O_CLOEXEC)
        return self._read_end, self._write_end

    def has(self, pid: int) -> bool:
        """Whether this process could not execute its program. To be asked in the order of the starts.

        The first answer waits until each of them has done one or the other, and nothing can be begun any more.
        """
        if self._faults is None:
            self._close_write_end()
            faults = b"".join(iter(lambda: os.read(self._read_end, _MOST_READ), b""))  # each writes its fault in parts
            self._faults = deque(filter(None, _NEXT_FAULT.split(faults)))
            self.close()  # now: whose a fault is takes a descriptor to ask
        if not self._faults or not is_only_forked(pid):
            return False
        # The last one serves whatever is still to come: side by side, without vfork, two may have written it as one.
        if len(self._faults) > 1:
            self._faults.popleft()
        return True

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
    """One program on its way to being executed: made ready, begun, and then asked whether it was.

    Three steps, for a caller that starts several: the processor forgets all that this process was about when it
    executes another program, so what is done for all of them before the first, or after the last, costs half.
    """

    __slots__ = ("_faults", "_options", "pid")

    def __init__(
        self, faults: Faults, *, arguments: Sequence[str], environment: Sequence[bytes], directory: str, stdin: int,
        output: int, umask: int,
    ) -> None:  # fmt: skip
        """``arguments``: the path of the program first. ``environment``: ``NAME=value`` each. ``output``: its standard
        output and standard error. Descriptors stay the caller's. OSError: there are none to spare.
        """
        self._faults = faults
        self.pid: int | None = None
        """Of its process, which the caller reaps."""
        encoded = [os.fsencode(argument) for argument in arguments]
        read_end, write_end = faults.ends()
        self._options: tuple[Any, ...] = (
            encoded, (encoded[0],),
            True, (write_end,),  # closes all but this one, which the exec itself closes
            directory, environment,
            stdin, _NONE, _NONE, output, _NONE, output, read_end, write_end,
            True, True, _NONE,  # signals as Python found them; a new session, and with it a group
            None, None, None, umask,
            None, _WITH_VFORK,
        )  # fmt: skip

    def begin(self) -> None:
        """Blocks until the program has been executed, or could not be. OSError: there is no process to be had.

        ValueError: something in it has no place in a command line or an environment.
        """
        self.pid = _posixsubprocess.fork_exec(*self._options)

    def has_executed(self) -> bool:
        """False: it could not be, and its process is no more."""
        assert self.pid is not None, "it was begun"
        if not self._faults.has(self.pid):
            return True
        pid, self.pid = self.pid, None
        os.waitpid(pid, 0)
        return False
