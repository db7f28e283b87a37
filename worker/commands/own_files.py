"""Directories and programs that can be reached without waiting for anything: for those, a start needs no launcher.

The kernel is asked to look a path up in its memory alone and on the root file system alone (openat2(2), Linux 5.12):
it refuses what it would have to read, what crosses a mount point, an automount among them, and what a symbolic link
leads there. So nothing is touched that may hang, however the path, or what is mounted there, changes meanwhile.
"""

from __future__ import annotations

import ctypes
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


def open_directory(path: str) -> int | None:
    """A descriptor for entering it (O_PATH), the caller's to close; None: it may have to be waited for, or is none."""
    return _open(path, _DIRECTORY)


def is_at_hand(path: str) -> bool:
    """Whether a file lies there that need not be waited for."""
    descriptor = _open(path, _FILE)
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def _open(path: str, how: bytes) -> int | None:
    encoded = os.fsencode(path)
    if not encoded.startswith(b"/") or b"\0" in encoded:
        return None
    descriptor: int = _syscall(
        ctypes.c_long(_OPENAT2), ctypes.c_int(_AT_FDCWD), encoded, how, ctypes.c_size_t(len(how))
    )  # fmt: skip
    return descriptor if descriptor >= 0 else None
