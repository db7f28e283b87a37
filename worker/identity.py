"""Who this worker is: its name, its instance, and the lock that lets only one process be it on this machine."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from common.errors import ConfigError, ConflictError, Problem
from common.process.disk import written_once
from common.protocol.member import WorkerIdentity, is_worker_name

_FILES: Final = ("lock", "name", "instance", "guardian.lock", "ending.json", "spool")
_ASKED_S: Final = 1.0
_CREDENTIALS: Final = struct.Struct("3i")
"""What the kernel tells of who listens: process, user, group."""
_INSTANCE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class DirectoryTakenError(ConflictError):
    """Another worker uses this data directory. Give each worker a ``dataDir`` of its own, or stop the other one."""


class CopiedDirectoryError(ConflictError):
    """Another live worker has this instance, as its data directory was copied: each would end the other's runs."""

    def __init__(self, instance: str, other: str) -> None:
        super().__init__(
            f"another live worker ({other}) has the instance {instance} of this dataDir, which is a copy. "
            "Give this worker a new, empty dataDir, or stop the other one."
        )


@contextmanager
def alone_on_this_machine(instance: str) -> Iterator[None]:
    """Hold the instance's name; CopiedDirectoryError where another process of ours does on this machine.

    A lock of a file would not tell: its copy has one of its own. Another user may have the name, and keeps no worker
    from starting.
    """
    name = name_held_for(instance)
    with socket.socket(socket.AF_UNIX) as held:
        try:
            held.bind(name)
            held.listen()  # a process that finds it taken asks the kernel which one listens
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            if _is_held_by_us(name):
                raise CopiedDirectoryError(instance, "of this machine") from None
        yield


def name_held_for(instance: str) -> str:
    """The abstract socket. Every user of the machine can read such names, so the instance cannot be read from it."""
    return f"\0etcron-worker-{hashlib.blake2b(instance.encode(), digest_size=16).hexdigest()}"


def _is_held_by_us(name: str) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(_ASKED_S)
        try:
            asking.connect(name)
        except OSError:  # no process listens, or one keeps us waiting: no worker of ours does
            return False
        _, uid, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return uid in (0, os.geteuid())


@contextmanager
def locked_directory(directory: Path) -> Iterator[None]:
    """Hold the data directory's lock; DirectoryTakenError where another process does. ConfigError: it is another's.

    What lies in it is its owner's alone, also what was made with another umask.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if directory.stat().st_uid not in (0, os.geteuid()):
        message = f"{directory} belongs to another user, who could put their own files there"
        remedy = "give it to the worker's user, or name another directory"
        raise ConfigError([Problem(field="dataDir", message=message, remedy=remedy)])
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise DirectoryTakenError(
                f"{directory} is in use by the worker with process id {holder or 'unknown'}. "
                "Give each worker a dataDir of its own, or stop the other one."
            ) from None
        with suppress(OSError):  # on a full disk the lock holds all the same, and names no process
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        for path in map(directory.joinpath, _FILES):  # what a worker makes there; the rest may be another program's
            with suppress(FileNotFoundError, PermissionError):  # ours to read is not always ours to change
                path.chmod(0o700 if path.is_dir() else 0o600)
        yield
    finally:
        os.close(descriptor)


def load_identity(directory: Path, *, name: str | None) -> WorkerIdentity:
    """The identity of the worker of this (locked) directory; made and written down the first time."""
    host = socket.gethostname() or "localhost"
    default = f"{re.sub(r'[^A-Za-z0-9._-]', '-', host)[:48].strip('-._') or 'worker'}-{secrets.token_hex(3)}"
    worker = name or written_once(directory / "name", default)
    if not is_worker_name(worker):
        problem = Problem(
            field="workerName", message=f"{worker[:80]!r} is not a worker's name",
            remedy="1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit",
        )  # fmt: skip
        raise ConfigError([problem])
    path = directory / "instance"
    instance = written_once(path, secrets.token_hex(8))
    if not _INSTANCE.fullmatch(instance):
        problem = Problem(
            field="dataDir", message=f"{path} holds {instance[:80]!r}, which no worker has written",
            remedy="put back what it held, or give the worker a new dataDir",
        )  # fmt: skip
        raise ConfigError([problem])
    return WorkerIdentity(worker=worker, instance=instance, host=host)
