"""Guardians and launchers for workers, and what `etcron up` starts, forked from what has read their code already.

Reading it is half of what a worker costs that lives for a second. What is forked runs the program's ``main`` as ever:
with the command line, environment, directory and descriptors that it was given, as a child of the worker's process,
which is a test's own or one of ``warm``.

    the worker's process --(command, environment, directory; descriptors)--> this module's process
            ^'--------------- guardian or launcher <--clone, with CLONE_PARENT-------'
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import resource
import runpy
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn
from unittest import mock

from worker.guardian import __main__ as guardian
from worker.launcher import __main__ as launcher
from worker.launcher.program import _clone

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); import {__name__} as it; it.serve(int(sys.argv[1]))"
_MAINS: Final[Mapping[str | None, Callable[[], None]]] = {one.__file__: one.main for one in (guardian, launcher)}
_MOST_BYTES: Final = 131_072
_MOST_DESCRIPTORS: Final = 8
LONGEST_LINE: Final = 2048
_WITHIN_S: Final = 60.0
_LIMITS: Final = sorted({number for name, number in vars(resource).items() if name.startswith("RLIMIT_")})
COPY: Final = "tests-copy"
"""What a copy is called, among the children of its process."""
_ARG_START: Final = 45
"""In ``/proc/PID/stat``, after the name."""


class _Popen(subprocess.Popen[bytes]):
    """All but the start of a Python program is its own."""

    def _execute_child(
        self, args: Sequence[str], executable: None, preexec_fn: object, close_fds: bool, pass_fds: Sequence[int],
        cwd: str | Path | None, env: Mapping[str, str] | None, *rest: Any,
    ) -> None:  # fmt: skip
        if args[0] != sys.executable:
            execute = super()._execute_child  # type: ignore[misc]
            execute(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
            return
        pipes, umask = rest[3:9], rest[13]
        own = {number: number if pipe < 0 else pipe for number, pipe in enumerate((pipes[0], pipes[3], pipes[5]))}
        own |= {number: number for number in pass_fds}
        request = {
            "command": args, "directory": str(cwd or Path.cwd()), "numbers": list(own), "umask": umask,
            "environment": dict(os.environ if env is None else env), "dies_with_parent": preexec_fn is not None,
        }  # fmt: skip
        try:
            control = _forking(os.getpid())
            socket.send_fds(control, [json.dumps(request).encode()], list(own.values()))
            self.pid = int(control.recv(32))
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


_FORKING: Final = SimpleNamespace(PIPE=subprocess.PIPE, DEVNULL=subprocess.DEVNULL, Popen=_Popen)
OF_A_WORKER: Final = ("worker.guardian.child.subprocess", "worker.launcher.link.subprocess")
OF_UP: Final = ("cli.processes.supervisor.subprocess", "asyncio.unix_events.subprocess")
"""What starts programs, in these processes."""


@contextmanager
def forked_programs() -> Iterator[None]:
    """Within it workers of this process get their guardians and launchers from there."""
    with ExitStack() as patches:
        for one in OF_A_WORKER:
            patches.enter_context(mock.patch(one, _FORKING))
        yield


def fork_programs_from_here(starters: Sequence[str]) -> None:
    """From now on what these start is forked from a copy of what this process is now, with one thread.

    In its command line there must be room for theirs: ``LONGEST_LINE``.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_WITHIN_S)
    if not os.fork():
        os.setsid()
        _be_called(COPY)
        ours.close()
        serve(theirs.detach())
        os._exit(0)
    theirs.close()
    _copies[os.getpid()] = ours
    for one in starters:
        mock.patch(one, _FORKING).start()


_copies: Final = dict[int, socket.socket]()
"""The way to the copy of a process, by its number."""


@cache
def _forking(own: int) -> socket.socket:
    """The way to the process that forks for this one; it ends with it."""
    if own in _copies:
        return _copies[own]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_WITHIN_S)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(theirs.fileno()), " " * LONGEST_LINE],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/", start_new_session=True,
        )  # fmt: skip
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def serve(control: int) -> None:
    """In that process, until the other has closed its end."""
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=control) as asked:
        while True:
            message, descriptors, _, _ = socket.recv_fds(asked, _MOST_BYTES, _MOST_DESCRIPTORS)
            if not message:
                return
            if not (pid := _clone()):
                _become(json.loads(message), asked, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            asked.send(str(pid).encode())


def _become(request: Mapping[str, Any], asked: socket.socket, descriptors: Sequence[int]) -> NoReturn:
    """As if it had been executed."""
    status = 1
    try:
        os.setsid()
        if request["dies_with_parent"]:
            from common.process.lifecycle import set_parent_death_signal  # not where only guardians are forked

            set_parent_death_signal(os.getppid())
        asked.close()
        for kind in _LIMITS:
            resource.setrlimit(kind, resource.prlimit(os.getppid(), kind))
        if request["umask"] >= 0:
            os.umask(request["umask"])
        _number(descriptors, request["numbers"])
        os.chdir(request["directory"])
        os.environ.clear()
        os.environ.update(request["environment"])
        _show(request["command"])
        _be_called(Path(sys.executable).name)
        have_own_streams()
        sys.argv = request["command"][3:]
        status = _run()
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with suppress(OSError):
            sys.stdout.flush()
        atexit._run_exitfuncs()
        os._exit(status)


def _run() -> int:
    """A guardian or launcher, or the module of ``python -P -m``; its exit status."""
    try:
        if (main := _MAINS.get(sys.argv[0])) is not None:
            main()
        else:
            if sys.argv[0] == "worker":
                fork_programs_from_here(OF_A_WORKER)
            run_program(sys.argv[0])
    except SystemExit as ends:
        if not isinstance(ends.code, int | None):
            print(ends.code, file=sys.stderr)  # noqa: T201
            return 1
        return ends.code or 0
    return 0


def run_program(name: str) -> None:
    """As ``python -m`` does, whatever was imported before."""
    sys.modules.pop(f"{name}.__main__", None)  # else there is a warning
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def have_own_streams() -> None:
    """Those of Python are as it makes them for what is executed: the former ones knew another file, or a terminal."""
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115


def _be_called(name: str) -> None:
    Path("/proc/self/comm").write_text(name)


def _number(descriptors: Sequence[int], numbers: Sequence[int]) -> None:
    """Each gets its number, by way of one that is nobody's."""
    above = max(*descriptors, *numbers) + 1
    for place, one in enumerate(descriptors):
        os.dup2(one, above + place)
        os.close(one)
    for place, number in enumerate(numbers):
        os.dup2(above + place, number)
        os.close(above + place)


def _show(command: Sequence[str]) -> None:
    """In ``/proc/PID/cmdline``: by it a guardian knows another."""
    start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[_ARG_START])
    ctypes.memmove(start, "\0".join(command).encode().ljust(LONGEST_LINE, b"\0"), LONGEST_LINE)
