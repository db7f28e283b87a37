"""What the launcher is asked to start, and what a child of it says on its channel. Standard library only."""

from __future__ import annotations

import marshal
import os
import socket
import time
from array import array
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self

from worker.launcher.accounts import Account

LONGEST_MESSAGE: Final = 8192
PID: Final = "pid"
AT: Final = "at"
FAULT: Final = "fault"

Kind = Literal["unstartable", "short", "late", "early"]
"""Of a fault: the command cannot be started; not now, for want of something; past its limit; before its time."""

Step = Literal["user", "directory", "command"]


class StartRequest(NamedTuple):
    """One command. Strings are as Python has them for the system: ``os.fsencode`` gives the bytes."""

    arguments: tuple[str, ...]
    is_shell: bool
    """The first argument is a shell, which the job need not have named."""
    user: str | None
    own: tuple[str, str] | None
    """The worker's own user and its home, where the command runs as it and it is known; None: ``user`` is looked up."""
    workdir: str | None
    """None: the run's HOME."""
    path: str
    shell: str
    job_env: tuple[tuple[str, str], ...]
    marks: tuple[tuple[str, str], ...]
    allowed_s: float | None
    """Seconds from ``asked_boot_s`` within which it may be executed; None: at any time."""
    ahead_s: float | None
    """Seconds (mostly below 0) from ``asked_s`` to the run's time; None: it has none."""
    asked_s: float
    """The wall clock, when this was asked."""
    asked_boot_s: float

    def to_bytes(self) -> bytes:
        return marshal.dumps(tuple(self))

    @classmethod
    def read(cls, descriptor: int) -> Self:
        """From a file in memory that holds the bytes."""
        return cls._make(marshal.loads(os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_END), 0)))

    def is_late(self) -> bool:
        """Whether what allowed the start has ended."""
        return self.allowed_s is not None and boot_s() - self.asked_boot_s >= self.allowed_s

    def is_early(self) -> bool:
        """Whether the wall clock has gone back behind the run's time since this was asked."""
        return self.ahead_s is not None and time.time() - self.asked_s < self.ahead_s


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnAccount:
    """The worker's own user, and which of a job's ``user`` mean it here."""

    account: Account
    of_users: frozenset[str | None]

    def to_bytes(self) -> bytes:
        return marshal.dumps((self.account.user, self.account.home, self.of_users))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        user, home, of_users = marshal.loads(content)
        return cls(account=Account(user=user, home=home), of_users=of_users)


def boot_s() -> float:
    """The boot clock, as the kernel has it: the same in the worker and in the launcher."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def receive(channel: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """The next message and its descriptors, at most so many; no content: it is closed."""
    # Not `socket.recv_fds`: it forgets its flags, and what it takes would be inherited.
    room = socket.CMSG_LEN(most * array("i").itemsize)
    content, ancillary, _, _ = channel.recvmsg(LONGEST_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    return content, list(descriptors)


def message(*parts: str) -> bytes:
    """One message on a channel."""
    return "\0".join(parts).encode(errors="surrogateescape")[:LONGEST_MESSAGE]


def parts_of(content: bytes) -> list[str]:
    """What ``message`` was made of."""
    return content.decode(errors="replace").split("\0")
