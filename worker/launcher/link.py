"""The worker's side of the launcher: one process, begun when it is needed, and again where it has ended.

Nothing here waits. A start is a `Starting`: its channel tells of its process, and of whatever keeps that from executing
the command.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from worker.launcher.accounts import Account
from worker.launcher.request import AT, FAULT, LONGEST_MESSAGE, PID, OwnAccount, StartRequest, Step, parts_of, receive
from worker.launcher.unstartable import (
    NotNowError,
    ShortageError,
    TooEarlyError,
    TooLateError,
    UnstartableError,
    shortage,
)

_log = logging.getLogger(__name__)

_PROGRAM: Final = str(Path(__file__).with_name("__main__.py"))
_ASK_AGAIN_S: Final = 1.0
_BUSY: Final = (errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS)
_HANGS_AT: Final[dict[Step, str]] = {
    "user": "it hung while its user was looked up",
    "directory": "it hung while it entered its directory",
    "command": "it hung while its program was opened",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedProcess:
    """The process of a start, a child of this one; it waits for `Starting.go`."""

    pid: int
    pidfd: int | None
    """The caller's to close; None: there was no descriptor to have."""


class Starting:
    """A command that the launcher was asked to start, until it is over."""

    __slots__ = ("_fault", "_step", "_worker", "channel")

    def __init__(self, channel: socket.socket, worker: str) -> None:
        self.channel = channel
        self._worker = worker
        self._step: Step = "user"
        self._fault: list[str] | None = None

    def process(self) -> LaunchedProcess | None:
        """Once there is something to read: its process; None: there is none, and none comes (see ``fault``)."""
        try:
            content, descriptors = receive(self.channel, 1)
        except OSError:
            content, descriptors = b"", []
        kind, *parts = parts_of(content)
        if kind == PID:
            return LaunchedProcess(pid=int(parts[0]), pidfd=descriptors[0] if descriptors else None)
        self._fault = parts if kind == FAULT else None
        return None

    def go(self) -> None:
        """It may be executed now."""
        try:
            self.channel.send(b"!")
        except OSError:
            return  # it has ended meanwhile

    def fault(self) -> UnstartableError | NotNowError | None:
        """Why nothing was executed; None: that was not reported. Ask once its process is over, or there is none."""
        self._read_rest()
        if self._fault is None:
            return None
        match self._fault:
            case ["late", *_]:
                return TooLateError("it was past its limit when it was to be executed")
            case ["early", *_]:
                return TooEarlyError("the wall clock went back behind its time")
            case ["short", text]:
                return ShortageError(text)
            case ["clone", number]:
                error = OSError(int(number), os.strerror(int(number)))
                return shortage(error, worker=self._worker) or ShortageError(f"no process is to be had: {error}")
            case [_, text]:
                return UnstartableError(text)
            case _:
                raise ValueError(f"not from a launcher: {self._fault}")

    def hung_at(self) -> str:
        """Where its process was, in words, where that has not executed its command."""
        self._read_rest()
        return _HANGS_AT[self._step]

    def close(self) -> None:
        """Give the descriptor back; a process that has not had its go ends."""
        self.channel.close()

    def _read_rest(self) -> None:
        while True:
            try:
                content = self.channel.recv(LONGEST_MESSAGE)
            except ConnectionResetError:  # it ended without its go; what it sent before is there to be read
                continue
            except OSError:
                return
            match parts_of(content):
                case [kind, "user" | "directory" | "command" as step] if kind == AT:
                    self._step = step
                case [kind, *parts] if kind == FAULT:
                    self._fault = parts
                case _:
                    return


class Launcher:
    """Starts what may hang. Its own process touches nothing that may. Enter it before it is asked for anything."""

    def __init__(self, *, worker: str, allowed_users: Collection[str] = (), default_user: str | None = None) -> None:
        self._worker = worker
        self._users = (default_user or "", *allowed_users)
        self._own: OwnAccount | None = None
        self._asking: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    async def __aenter__(self) -> Self:
        self._asking = asyncio.create_task(self._ask_for_own_account(), name="own account")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Its process ends; what that has started goes on."""
        assert self._asking is not None, "it was entered"
        self._asking.cancel()
        self._end()

    @property
    def pid(self) -> int | None:
        """Its process, while there is one."""
        return None if self._process is None else self._process.pid

    def own_account_for(self, user: str | None) -> Account | None:
        """The worker's own, where a job with this ``user`` runs as it; None: it does not, or that is not known yet."""
        return self._own.account if self._own is not None and user in self._own.of_users else None

    async def prepared(self) -> None:
        """Once the worker's own user is known, however long the name service takes."""
        assert self._asking is not None, "it was entered"
        await asyncio.shield(self._asking)

    def ask(self, request: StartRequest, output: int) -> Starting:
        """Asks for a start with its output there; returns at once. ShortageError: it cannot be asked now."""
        try:
            content = os.memfd_create("etcron-request")
            try:
                with open(content, "wb", closefd=False) as file:
                    file.write(request.to_bytes())
                return Starting(self._send(content, output), self._worker)
            finally:
                os.close(content)
        except OSError as error:
            why = shortage(error, worker=self._worker) if error.errno not in _BUSY else None
            raise why or ShortageError(f"the launcher of worker {self._worker} is behind: {error.strerror}") from error

    async def _ask_for_own_account(self) -> None:
        while self._own is None:
            try:
                with self._send() as channel:
                    content = await asyncio.get_running_loop().sock_recv(channel, LONGEST_MESSAGE)
                if not content:
                    raise OSError(errno.EPIPE, "the launcher ended")
                self._own = OwnAccount.from_bytes(content)
            except OSError as error:
                extra = {"action": "launcher.own_account"}
                _log.warning("the worker's own user is not known yet: %s", error, extra=extra)
                await asyncio.sleep(_ASK_AGAIN_S)

    def replace(self, why: str) -> None:
        """End the process, and with it every start of which no process is known: their channels close."""
        if self._process is None:
            return
        extra = {"action": "launcher.replaced", "pid": self.pid, "why": why}
        _log.error("the launcher, process %s, is replaced: %s", self.pid, why, extra=extra)
        self._end()

    def _send(self, *descriptors: int) -> socket.socket:
        """The channel of what is asked with these; OSError: it cannot be asked."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                ours.setblocking(False)
                self._ask_or_begin((*descriptors, theirs.fileno()))
            except BaseException:
                ours.close()
                raise
        return ours

    def _ask_or_begin(self, descriptors: Collection[int]) -> None:
        if self._control is not None:
            try:
                socket.send_fds(self._control, [b"!"], descriptors)
            except (BrokenPipeError, ConnectionError):
                self.replace("it has ended")
            else:
                return
        self._begin()
        assert self._control is not None
        socket.send_fds(self._control, [b"!"], descriptors)

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull, "rb") as null:
            try:
                ours.setblocking(False)
                # With this process's environment, which no command gets: what is preloaded here is there, too.
                self._process = subprocess.Popen(
                    (sys.executable, "-I", "-S", _PROGRAM, str(theirs.fileno()), self._worker, *self._users),
                    stdin=null, stdout=subprocess.DEVNULL, cwd="/", start_new_session=True,
                    pass_fds=(theirs.fileno(),),
                )  # fmt: skip
            except BaseException:
                ours.close()
                raise
        self._control = ours

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()  # it waits for nothing, so it ends at once
            self._process = None
