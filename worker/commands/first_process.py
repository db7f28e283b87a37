"""Executes a program as the leader of a new session: what ``subprocess.Popen`` does of it, and nothing else.

A worker does this for every run, and half of what ``Popen`` costs is not the start: it is choosing among options that
are the same each time. Here the same function of the standard library is called, with vfork, so that the worker's size
does not matter, and with a pipe of its own that tells why a program could not be executed. That function is not
documented; where this Python is newer than those it was tried with, ``Popen`` takes its place, and all stays as it is.
"""

from __future__ import annotations

import _posixsubprocess
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

_NEWEST_KNOWN: Final = (3, 13)
_WITH_VFORK: Final = True
_NONE: Final = -1
_MOST_TOLD: Final = 4000
_BEFORE_EXEC: Final = "noexec"
"""What is told of a fault before the program was looked for: in the directory, most likely."""


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


def execute(program: Program) -> int:
    """The id of the process that executes it now, to be reaped by the caller.

    Blocks until it does. OSError: it could not be; ``filename`` is the directory, or the program. ValueError: something
    in it has no place in a command line or an environment.
    """
    if sys.version_info[:2] > _NEWEST_KNOWN:
        return _by_popen(program)
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pid = _fork_exec(program, read_end, write_end)
        finally:
            os.close(write_end)
        told = b"".join(iter(lambda: os.read(read_end, _MOST_TOLD), b""))  # the child writes its fault in parts
    finally:
        os.close(read_end)
    if told:
        os.waitpid(pid, 0)
        raise _fault(program, told)
    return pid


def _fork_exec(program: Program, read_end: int, write_end: int) -> int:
    arguments = [os.fsencode(argument) for argument in program.arguments]
    options: tuple[Any, ...] = (
        arguments, _places(program, arguments[0]),
        True, (write_end,),  # closes all but this one, which the exec itself closes
        os.fsencode(program.directory), program.environment,
        program.stdin, _NONE, _NONE, program.output, _NONE, program.output, read_end, write_end,
        True, True, _NONE,  # signals as Python found them; a new session, and with it a group
        None, None, None, program.umask,
        None, _WITH_VFORK,
    )  # fmt: skip
    return _posixsubprocess.fork_exec(*options)


def _places(program: Program, name: bytes) -> tuple[bytes, ...]:
    if b"/" in name:
        return (name,)
    return tuple(os.path.join(place, name) for place in os.fsencode(program.path).split(b":"))


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
