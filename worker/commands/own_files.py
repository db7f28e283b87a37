"""Directories and programs that can be reached without waiting for anything: for those, a start needs no launcher.

The kernel is asked to look a path up in its memory alone and on the root file system alone (openat2(2), Linux 5.12):
it refuses what it would have to read, what crosses a mount point, an automount among them, and what a symbolic link
leads there. So nothing is touched that may hang, however the path, or what is mounted there, changes meanwhile.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from typing import Final

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
