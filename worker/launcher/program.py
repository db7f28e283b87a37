"""The launcher's process: takes requests, and forks for each. It waits for its worker alone."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal
import socket
import sys
from contextlib import suppress
from types import FrameType
from typing import Final

from worker.launcher.accounts import Accounts
from worker.launcher.child import ChildStart, tell_own_account
from worker.launcher.request import FAULT, StartRequest, message, receive

DESCRIPTORS: Final = 3
"""With each request: its content, the output, the channel. Only the channel: who the worker's own user is is asked."""
_CLONE_PARENT: Final = 0x8000
_CLONE_NUMBERS: Final = {"x86_64": 56, "aarch64": 220, "riscv64": 220, "loongarch64": 220}
_OTHER_CLONE_NUMBER: Final = 120
_STACK_FIRST: Final = ("s390x",)
_UMASK: Final = 0o022

_syscall = ctypes.PyDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def serve(control: socket.socket, accounts: Accounts) -> None:
    """Until the worker has closed its end. A start of a request copies this process: so it is kept small."""
    _default_signals()
    os.umask(_UMASK)
    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write("etcron-launcher")
    worker = os.getppid()
    gc.collect()
    gc.freeze()
    while True:
        content, descriptors = receive(control, DESCRIPTORS)
        if not content:
            return
        try:
            if len(descriptors) == DESCRIPTORS:
                _start(control, descriptors, accounts, worker)
            elif len(descriptors) == 1 and os.fork() == 0:  # a process of this one's own: no parent has to wait for it
                tell_own_account(socket.socket(fileno=descriptors[0]), accounts)
            # Else there were none left to take them with: closing the channel says so.
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def _start(control: socket.socket, descriptors: list[int], accounts: Accounts, worker: int) -> None:
    content, output, number = descriptors
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, number)
    try:
        start = ChildStart(StartRequest.read(content), output, channel, accounts, worker)
        pid = _clone()
        if pid == 0:
            os.close(control.fileno())
            start.become_command()
        if pid < 0:
            error = ctypes.get_errno()
            with suppress(OSError):
                channel.send(message(FAULT, "clone", str(error)), socket.MSG_NOSIGNAL)
    finally:
        channel.detach()


def _clone() -> int:
    """fork(2), but the child is the worker's: 0 in it; here its number, negative where there is none (errno).

    Not by ``os.fork``, which knows no flags. What that does for other threads is not needed here: there are none.
    """
    machine = platform.machine()
    number = _CLONE_NUMBERS.get(machine, _OTHER_CLONE_NUMBER)
    flags, stack = ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD), ctypes.c_ulong(0)
    first, second = (stack, flags) if machine in _STACK_FIRST else (flags, stack)
    nothing = ctypes.c_ulong(0)
    return int(_syscall(ctypes.c_long(number), first, second, nothing, nothing, nothing))


def _default_signals() -> None:
    """A command starts with no signal ignored or blocked, however the worker itself was started."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, _reap)  # not ignored: an exec would leave it so


def _reap(_number: int, _frame: FrameType | None) -> None:
    """Those that tell the worker's own account; the others are the worker's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if sys.platform != "linux":
    raise ImportError("the launcher needs Linux")
