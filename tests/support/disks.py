"""Disks that become full or hang, and recover: a small file system of its own, or a limit on a process's files."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system of a few MiB."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ballast = directory / "ballast"

    def fill(self) -> None:
        """Not a byte more finds room in it."""
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        try:
            for size in (65_536, 4096, 1):
                with contextlib.suppress(OSError):
                    while os.write(descriptor, b"x" * size):
                        pass
        finally:
            os.close(descriptor)

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(directory: Path, size: str = "8m") -> Iterator[SmallDisk | None]:
    """A small disk mounted there; None where mounting is not allowed."""
    directory.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(directory)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield SmallDisk(directory) if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


class LoopDisk:
    """A mounted file system of its own that can be made to hang: what writes to it waits."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Until it is left, or this process ends, however it does: else nobody could end what waits."""
        script = 'fsfreeze -f "$1" && echo; read -r _; fsfreeze -u "$1"'
        command = ["sh", "-c", script, "sh", str(self.directory)]
        # A session of its own: Ctrl-C must not end it before it has thawed the disk.
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as frozen:
            assert frozen.stdin is not None
            assert frozen.stdout is not None
            assert frozen.stdout.read(1), "it could not be frozen"
            try:
                yield
            finally:
                frozen.stdin.close()


@contextmanager
def loop_disk(directory: Path) -> Iterator[LoopDisk | None]:
    """A disk mounted there that can hang; None where mounting, or freezing, is not allowed."""
    disk = mount_loop_disk(directory)
    try:
        yield disk
    finally:
        if disk is not None:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)


def mount_loop_disk(directory: Path, mebibytes: int = 64) -> LoopDisk | None:
    """The same, to be unmounted by the caller; its image, beside the directory, goes with the last that uses it."""
    directory.mkdir(parents=True)
    if os.geteuid() != 0:
        return None
    image = directory.with_name(f"{directory.name}.image")
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    try:
        # No block is kept for root: a disk that is full is so for everybody.
        if not _run("mkfs.ext4", "-q", "-F", "-m", "0", image) or not _run("mount", "-o", "loop", image, directory):
            return None
    finally:
        image.unlink()
    if _run("fsfreeze", "-f", directory) and _run("fsfreeze", "-u", directory):
        return LoopDisk(directory)
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
    return None


def _run(*command: str | Path) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def limit_files(pid: int, size: int | None) -> None:
    """No file of the process may grow beyond so many bytes, as on a full disk; None: any may again."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if size is None else size, hard))


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may grow beyond ``size`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def failing_disk(call: str, error: int = errno.EIO) -> Iterator[None]:
    """This call of `os` fails, whatever it is to do."""

    def fail(*_: object) -> None:
        raise OSError(error, "the disk fails" if error == errno.EIO else os.strerror(error))

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(os, call, fail)
        yield
