"""Starts the first process of a run: its environment, user, directory and descriptors, and nothing of the worker's.

A shell of this machine, as the worker's own user, in a directory that need not be waited for: executed here. All else,
and what could not be executed here, is asked of the launcher.

Whether a directory or a program can be reached without waiting, the kernel is asked: it looks a path up in its memory
alone and on the root file system alone (openat2(2), Linux 5.12), and refuses what it would have to read, what crosses a
mount point, an automount among them, and what a symbolic link leads there. So nothing is touched that may hang, however
the path, or what is mounted there, changes meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Final, TypeVar

from common.clock import Clock
from common.process import failpoints
from worker.launch import Launch
from worker.launcher.environment import allowed_in, encoded, marks, variables
from worker.launcher.link import LaunchedProcess, Launcher, Starting
from worker.launcher.request import StartRequest, boot_s
from worker.launcher.unstartable import TooEarlyError, TooLateError, UnstartableError, shortage
from worker.run.first_process import IS_KNOWN, Execution, Faults
from worker.run.running import Running

_OPENAT2: Final = 437
_AT_FDCWD: Final = -100
_NO_XDEV, _NO_MAGICLINKS, _CACHED = 0x01, 0x02, 0x20

_syscall = ctypes.PyDLL(None).syscall
_syscall.restype = ctypes.c_long


def _how(flags: int) -> bytes:
    """``struct open_how``."""
    return struct.pack("=QQQ", flags | os.O_PATH | os.O_CLOEXEC, 0, _NO_XDEV | _NO_MAGICLINKS | _CACHED)


_FILE: Final = _how(0)
_DIRECTORY: Final = _how(os.O_DIRECTORY)


class OwnFiles:
    """What the starts of one turn find at hand: each path is looked up once for all of them."""

    __slots__ = ("_directories", "_files")

    def __init__(self) -> None:
        self._files: dict[str, bool] = {}
        self._directories: dict[str, int | None] = {}

    def has(self, path: str) -> bool:
        """Whether a file lies there that need not be waited for."""
        if (known := self._files.get(path)) is not None:
            return known
        descriptor = _open(path, _FILE)
        if descriptor is not None:
            os.close(descriptor)
        self._files[path] = descriptor is not None
        return descriptor is not None

    def directory(self, path: str) -> str | None:
        """By what name a child enters it until `close`; None: it may have to be waited for, or is none."""
        if path not in self._directories:
            self._directories[path] = _open(path, _DIRECTORY)
        descriptor = self._directories[path]
        return None if descriptor is None else f"{_own_descriptors(os.getpid())}/{descriptor}"

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in self._directories.values():
            if descriptor is not None:
                os.close(descriptor)
        self._directories.clear()


@functools.cache
def _own_descriptors(_pid: int) -> str:
    """Where the kernel shows what this process has open, under its own number as /proc counts it.

    In a child "self" is the child: the kernel would make the whole of its part of /proc for one look at it.
    """
    try:
        return f"/proc/{os.readlink('/proc/self')}/fd"
    except OSError:
        return "/proc/self/fd"


def _open(path: str, how: bytes) -> int | None:
    encoded = os.fsencode(path)
    if not encoded.startswith(b"/") or b"\0" in encoded:
        return None
    descriptor: int = _syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(_AT_FDCWD), encoded, how, ctypes.c_size_t(len(how))
    )  # fmt: skip
    return descriptor if descriptor >= 0 else None


_T = TypeVar("_T")
_UMASK: Final = 0o022
_REMEMBERED: Final = 256
_SHELLS: Final = ("/bin/sh", "/bin/bash")


class Turn:
    """What all that are started together share: what tells of their faults, and the paths that were looked up."""

    __slots__ = ("faults", "files")

    def __init__(self) -> None:
        self.faults = Faults()
        self.files = OwnFiles()

    def close(self) -> None:
        """Give the descriptors back."""
        self.faults.close()
        self.files.close()


class AskLauncherError(Exception):
    """It could not be executed here; the launcher knows why, or can."""


class Start:
    """A start on its way, and what it holds until it is finished, or given up."""

    __slots__ = (
        "env", "execution", "is_here", "launch", "pipe", "start_ms", "started_s", "starting", "write_end"
    )  # fmt: skip

    def __init__(self, launch: Launch, env: tuple[tuple[str, str], ...]) -> None:
        self.launch = launch
        self.env = env
        self.is_here = False
        """Whether it can be executed without the launcher."""
        self.execution: Execution | None = None
        """None: the launcher starts it."""
        self.starting: Starting | None = None
        """Once the launcher has been asked."""
        self.pipe: int | None = None
        self.write_end: int | None = None
        self.start_ms = 0
        self.started_s = 0.0

    def close_write_end(self) -> None:
        """It is not needed any more once a process has it."""
        if self.write_end is not None:
            os.close(self.write_end)
            self.write_end = None

    def give_up(self) -> None:
        """Nothing is left of it: a process that nothing would know of is no more, or has not had its go."""
        if self.execution is not None and self.execution.pid is not None:
            os.killpg(self.execution.pid, signal.SIGKILL)
            os.waitpid(self.execution.pid, 0)
        if self.starting is not None:
            self.starting.close()
        self.close_write_end()
        if self.pipe is not None:
            os.close(self.pipe)
            self.pipe = None


class Spawner:
    """Starts processes for one worker, each in three steps: `prepare`, `execute`, `finish`.

    A caller that starts several takes each step for all of them: see `Execution`. Every step may raise
    UnstartableError: it cannot be started; ShortageError: it may be later; AskLauncherError: prepare it anew, not
    ``here``. Then nothing of the start is left.
    """

    def __init__(self, *, worker: str, instance: str, path: str, shell: str, launcher: Launcher, clock: Clock) -> None:
        """``shell``: of this worker, which is known not to hang."""
        self._worker = worker
        self._instance = instance
        self._path = path
        self._shells = {shell, *_SHELLS}
        self._launcher = launcher
        self._clock = clock
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._null)

    def prepare(self, launch: Launch, turn: Turn, *, here: bool = True) -> Start:
        """All that can be done before its time is looked at. ``turn``: of all that are started together."""
        if launch.fault is not None:
            raise UnstartableError(launch.fault)
        if not launch.arguments:
            raise UnstartableError("the command is empty")
        try:
            start = Start(launch, allowed_in(launch.env))
        except ValueError as error:
            raise UnstartableError(str(error)) from error
        self._take(functools.partial(self._make_ready, turn=turn, here=here), start)
        return start

    def execute(self, start: Start) -> None:
        """The command is executed, if this is still its time: that is looked at last of all, for this process may be
        stopped anywhere, and the clock may jump. What the launcher starts it looks at again.

        TooLateError past the launch's ``start_until``, TooEarlyError before its time. Blocks until the command has been
        executed, under a millisecond, or the launcher has been asked.
        """
        self._take(self._execute, start)

    def finish(self, start: Start) -> Running:
        """The run, its command executed."""
        return self._take(self._finish, start)

    def launched(self, start: Start, process: LaunchedProcess) -> Running:
        """The run that the launcher has a process for; whether its command is executed is known at its end."""
        assert start.starting is not None, "it was asked for"
        try:
            run = self._running(start, process.pid)
        except BaseException:
            start.give_up()
            if process.pidfd is not None:
                os.close(process.pidfd)
            raise
        run.group.pidfd, run.starting = process.pidfd, start.starting
        return run

    def _make_ready(self, start: Start, *, turn: Turn, here: bool) -> None:
        start.pipe, start.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(start.pipe, False)
        launch = start.launch
        own = self._launcher.own_account_for(launch.spec.user) if here else None
        is_shell = IS_KNOWN and isinstance(launch.spec.command, str) and launch.shell in self._shells
        if own is None or not is_shell or not turn.files.has(launch.shell):
            return
        # A command for a shell of this machine, as the worker's own user: here, where its directory is at hand, too.
        start.is_here = True
        # What holds a secret is not remembered, nor what this run alone has.
        is_job_s = not launch.masked and launch.env == launch.spec.env
        surroundings = _surroundings if is_job_s else _surroundings.__wrapped__
        home, around = surroundings(own.user, own.home, self._path, launch.shell, start.env)
        if (directory := turn.files.directory(launch.spec.workdir or home)) is None:
            start.is_here = False
            return
        start.execution = Execution(
            turn.faults, arguments=launch.arguments, environment=[*around, *encoded(self._marks(launch))],
            directory=directory, stdin=self._null, output=start.write_end, umask=_UMASK,
        )  # fmt: skip

    def _marks(self, launch: Launch) -> dict[str, str]:
        return marks(launch.run_id, plan_ms=launch.plan_ms, fence=launch.fence,
                     worker=self._worker, instance=self._instance)  # fmt: skip

    def _execute(self, start: Start) -> None:
        launch = start.launch
        start.start_ms, start.started_s = self._clock.wall_ms(), self._clock.boottime()
        if launch.start_until is not None and start.started_s >= launch.start_until:
            raise TooLateError(f"{launch.run_id} was allowed to start until {launch.start_until}")
        if launch.not_before_ms is not None and start.start_ms < launch.not_before_ms:
            raise TooEarlyError(f"{launch.run_id} was not to start before {launch.not_before_ms}")
        if failpoints.armed:
            failpoints.hit("before_spawn")
        if start.execution is not None:
            start.execution.begin()
        else:
            assert start.write_end is not None, "it is ready"
            start.starting = self._launcher.ask(self._request(start), start.write_end)
            start.close_write_end()
        if failpoints.armed:
            failpoints.hit("after_spawn")

    def _request(self, start: Start) -> StartRequest:
        launch, own = start.launch, self._launcher.own_account_for(start.launch.spec.user)
        return StartRequest(
            arguments=launch.arguments, is_shell=isinstance(launch.spec.command, str),
            user=launch.spec.user, own=None if own is None else (own.user, own.home),
            workdir=launch.spec.workdir, path=self._path, shell=launch.shell, job_env=start.env,
            marks=tuple(self._marks(launch).items()),
            allowed_s=None if launch.start_until is None else launch.start_until - start.started_s,
            ahead_s=None if launch.not_before_ms is None else (launch.not_before_ms - start.start_ms) / 1000,
            asked_s=time.time(), asked_boot_s=boot_s(),
        )  # fmt: skip

    def _finish(self, start: Start) -> Running:
        assert start.execution is not None, "it was executed here"
        if not start.execution.has_executed():
            raise AskLauncherError
        assert start.execution.pid is not None, "it was executed"
        return self._running(start, start.execution.pid)

    def _running(self, start: Start, pid: int) -> Running:
        start.close_write_end()
        assert start.pipe is not None, "it was executed"
        return Running(start.launch, pid=pid, pipe=start.pipe, start_ms=start.start_ms, started_s=start.started_s)

    def _take(self, step: Callable[[Start], _T], start: Start) -> _T:
        """One step; where it fails, the start is given up."""
        try:
            return step(start)
        except BaseException as error:
            start.give_up()
            if isinstance(error, OSError) and (short := shortage(error, worker=self._worker)) is not None:
                raise short from error
            if isinstance(error, OSError | ValueError) and start.is_here:
                raise AskLauncherError from error
            raise


@functools.lru_cache(maxsize=_REMEMBERED)
def _surroundings(
    user: str, home: str, path: str, shell: str, job_env: tuple[tuple[str, str], ...]
) -> tuple[str, tuple[bytes, ...]]:
    """The same for all runs of a job."""
    found = variables(user=user, home=home, path=path, shell=shell, job_env=job_env)
    return found["HOME"], tuple(os.fsencode(f"{name}={value}") for name, value in found.items())
