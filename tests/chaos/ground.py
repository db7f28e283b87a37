"""The ground that one chaos run stands on: a directory, a block of ports and small disks that are nobody else's.

Two runs on one machine do not meet, and nothing of a run is left behind: what an earlier one that was killed left is
cleared away by the next that takes its block.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.disks import LoopDisk, mount_loop_disk

_FIRST_PORT = 32_100
"""Above those that other tests draw from, below those that the kernel gives to outgoing connections."""
_PORTS_OF_A_BLOCK = 20
_BLOCKS = 33
_FIRST_UID = 61_100
_CLONE_NEWNS = 0x0002_0000
_MS_REC_PRIVATE = 0x4000 | 0x4_0000
_MNT_DETACH = 2
_GONE_WITHIN_S = 5.0
_SHARED_MEMORY = Path("/dev/shm")


@dataclass(slots=True, eq=False)
class Ground:
    """What one run may use."""

    block: int
    directory: Path
    has_disks: bool = False
    """Whether `disk` can make one."""
    _disks: list[Path] = field(default_factory=list)
    _ports: int = 0

    @property
    def uid(self) -> int:
        """A user id for processes that shall not be root's; nobody else's while this run goes."""
        return _FIRST_UID + self.block

    def port(self) -> int:
        """One that stays this run's, also while nobody listens on it."""
        self._ports += 1
        assert self._ports <= _PORTS_OF_A_BLOCK, "a chaos run has used up its ports"
        return _FIRST_PORT + self.block * _PORTS_OF_A_BLOCK + self._ports - 1

    def disk(self, path: Path, mebibytes: int) -> None:
        """A file system of that size at the path, in memory."""
        path.mkdir(parents=True, exist_ok=True)
        _mount("tmpfs", path, f"size={mebibytes}m,mode=755")
        self._disks.append(path)

    def loop_disk(self, path: Path, mebibytes: int) -> LoopDisk | None:
        """One that can be made to hang; None: not on this machine."""
        disk = mount_loop_disk(path, mebibytes)
        if disk is not None:
            self._disks.append(path)
        return disk

    def leave(self) -> None:
        """End every process of this run that there still is, and remove its files."""
        end_processes_of(self.directory)
        sweep_fake_clocks()
        for path in self._disks:
            _libc().umount2(os.fsencode(path), _MNT_DETACH)
        shutil.rmtree(self.directory, ignore_errors=True)


@contextmanager
def ground(*, with_disks: bool = True) -> Iterator[Ground]:
    """One that nobody else stands on; `with_disks` this process gets mounts of its own, where it may.

    RuntimeError: there are too many runs on this machine.
    """
    with ExitStack() as stack:
        block = _take_block(stack)
        for old in Path(tempfile.gettempdir()).glob(f"etcron-chaos-{block}-*"):
            Ground(block, old).leave()
        directory = Path(tempfile.mkdtemp(prefix=f"etcron-chaos-{block}-"))
        directory.chmod(0o755)
        here = Ground(block, directory, has_disks=with_disks and _own_mounts())
        stack.callback(here.leave)
        yield here


def end_processes_of(directory: Path, *, of_worker: str | None = None) -> None:
    """KILL all that carries the directory in its environment, as workers, managers and commands do; and guardians.

    ``of_worker``: only the commands of that one.
    """
    mark = os.fsencode(directory) + b"/"
    and_also = b"" if of_worker is None else b"ETCRON_WORKER=" + os.fsencode(of_worker) + b"\0"
    until = time.monotonic() + _GONE_WITHIN_S
    while (pids := list(_marked(mark, and_also))) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)  # between two looks; what they fork meanwhile is marked, too


def sweep_fake_clocks() -> None:
    """libfaketime leaves two files in memory for each process that was killed under it."""
    for path in _SHARED_MEMORY.glob("*faketime_s*_*"):
        found = re.fullmatch(r"(?:sem\.faketime_sem|faketime_shm)_(\d+)", path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            path.unlink(missing_ok=True)


def _take_block(stack: ExitStack) -> int:
    """The lowest that is free; held by an abstract socket, which ends with this process."""
    holder = stack.enter_context(socket.socket(socket.AF_UNIX))
    for block in range(_BLOCKS):
        with contextlib.suppress(OSError):
            holder.bind(f"\0etcron-chaos-{block}")
            return block
    raise RuntimeError(f"{_BLOCKS} chaos runs go on this machine already: wait for one to end")


def _marked(mark: bytes, and_also: bytes = b"") -> Iterator[int]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                environ = (path / "environ").read_bytes()
                is_guardian = not and_also and _guards(mark, (path / "cmdline").read_bytes())
                if (mark in environ and and_also in environ) or is_guardian:
                    yield int(path.name)


def _guards(mark: bytes, command: bytes) -> bool:
    """Whether this is a guardian of this run: its environment is clean, but it is told where its lock is."""
    return b"guardian" in command and mark in command


def _own_mounts() -> bool:
    """Mounts from now on are seen by this process and its children alone, and go with them; False: not allowed."""
    if _libc().unshare(_CLONE_NEWNS) != 0:
        return False
    return bool(_libc().mount(b"none", b"/", None, _MS_REC_PRIVATE, None) == 0)


def _mount(kind: str, path: Path, options: str) -> None:
    if _libc().mount(kind.encode(), os.fsencode(path), kind.encode(), 0, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
