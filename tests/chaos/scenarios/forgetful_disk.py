"""A file system that forgets at a power cut what was not synced: ``forgetful_disk.py DISK MOUNT [--lies]``, as root.

Writes stay in memory until an fsync or fdatasync of their file, names until an fsync of their directory; what was
synced lies in DISK. SIGKILL is a power cut that takes all the rest along. At SIGTERM a random part of the rest reaches
the disk first, by pages and in any order, as a disk's own cache may write it. With ``--lies`` an fsync writes nothing.

Needs `mfusepy` and a libfuse, named by FUSE_LIBRARY_PATH where it lies elsewhere.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import random
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any, Final

from mfusepy import FUSE, FuseOSError, Operations

PAGE: Final = 4096


class File:
    """One, or a directory; its content as programs see it."""

    def __init__(self, number: int, mode: int, content: bytes = b"") -> None:
        self.number = number
        self.mode = mode
        self.content = bytearray(content)
        self.unsynced: set[int] = set()
        """Pages."""
        self.changed_ns = time.time_ns()

    def attributes(self) -> dict[str, Any]:
        times = dict.fromkeys(("st_atime", "st_mtime", "st_ctime"), self.changed_ns)
        owner = {"st_uid": os.getuid(), "st_gid": os.getgid()}
        return {"st_mode": self.mode, "st_size": len(self.content), "st_nlink": 1, **times, **owner}


class ForgetfulDisk(Operations):  # type: ignore[misc]
    """All files lie in memory, and what is synced on the disk: ``<number>`` each, their names in ``names``."""

    use_ns = True

    def __init__(self, disk: Path, *, lies: bool) -> None:
        self._disk = disk
        self._lies = lies
        self._synced: dict[str, tuple[int, int]] = {"/": (0, stat.S_IFDIR | 0o700)}
        """Number and mode of what is on the disk, by path."""
        names = disk / "names"
        if names.exists():
            self._synced = {path: (one[0], one[1]) for path, one in json.loads(names.read_text()).items()}
        self._files = {path: File(number, mode, self._on_disk(number)) for path, (number, mode) in self._synced.items()}
        self._numbers = itertools.count(1 + max((int(one.name) for one in disk.glob("[0-9]*")), default=0))

    def _on_disk(self, number: int) -> bytes:
        place = self._disk / str(number)
        return place.read_bytes() if place.exists() else b""

    def cut(self) -> None:
        """Some of what nobody asked to be written is on the disk."""
        share = random.choice((0.1, 0.5, 0.9))
        for file in set(self._files.values()):
            self._write(file, {page for page in file.unsynced if random.random() < share})
        for path in {*self._files, *self._synced}:
            if random.random() < share:
                self._settle(path)
        self._write_names()

    def _write(self, file: File, pages: set[int]) -> None:
        with os.fdopen(os.open(self._disk / str(file.number), os.O_RDWR | os.O_CREAT, 0o600), "r+b") as place:
            for page in sorted(pages):
                place.seek(page * PAGE)
                place.write(file.content[page * PAGE : (page + 1) * PAGE])
            if pages == file.unsynced:
                place.truncate(len(file.content))
        file.unsynced -= pages

    def _settle(self, path: str) -> None:
        if path in self._files:
            self._synced[path] = self._files[path].number, self._files[path].mode
        else:
            self._synced.pop(path, None)

    def _write_names(self) -> None:
        draft = self._disk / "names.new"
        there = {path: one for path, one in self._synced.items() if os.path.dirname(path) in self._synced}
        draft.write_text(json.dumps(there))
        draft.rename(self._disk / "names")

    def _at(self, path: str) -> File:
        if path not in self._files:
            raise FuseOSError(errno.ENOENT)
        return self._files[path]

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        if not self._lies:
            self._write(self._at(path), set(self._at(path).unsynced))
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        for one in {*self._files, *self._synced}:
            if os.path.dirname(one) == path or one == path:
                self._settle(one)
        self._write_names()
        return 0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        return self._at(path).attributes()

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *(os.path.basename(one) for one in self._files if os.path.dirname(one) == path != one)]

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self._files[path] = File(next(self._numbers), stat.S_IFREG | stat.S_IMODE(mode))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self._files[path] = File(next(self._numbers), stat.S_IFDIR | stat.S_IMODE(mode))
        return 0

    def open(self, path: str, flags: int) -> int:
        self._at(path)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return bytes(self._at(path).content[offset : offset + size])

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        file = self._at(path)
        if offset > len(file.content):
            self.truncate(path, offset)
        file.content[offset : offset + len(data)] = data
        file.unsynced |= set(range(offset // PAGE, (offset + len(data) - 1) // PAGE + 1))
        file.changed_ns = time.time_ns()
        return len(data)

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        file = self._at(path)
        was = len(file.content)
        del file.content[length:]
        file.content.extend(bytes(max(0, length - was)))
        file.unsynced |= set(range(min(was, length) // PAGE, max(was, length) // PAGE + 1))
        file.changed_ns = time.time_ns()
        return 0

    def unlink(self, path: str) -> int:
        del self._files[path]
        return 0

    rmdir = unlink

    def rename(self, old: str, new: str) -> int:
        moved = {path: path.replace(old, new, 1) for path in self._files if path == old or path.startswith(old + "/")}
        for path, other in moved.items():
            self._files[other] = self._files.pop(path)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        file = self._at(path)
        file.mode = stat.S_IFMT(file.mode) | stat.S_IMODE(mode)
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        return {
            "f_bsize": PAGE,
            "f_frsize": PAGE,
            "f_blocks": 1 << 24,
            "f_bfree": 1 << 23,
            "f_bavail": 1 << 23,
            "f_namemax": 255,
        }


def main() -> None:
    """Serve until the cut."""
    disk, mount = sys.argv[1:3]
    files = ForgetfulDisk(Path(disk), lies="--lies" in sys.argv)

    def cut(*_: object) -> None:
        files.cut()
        os._exit(0)

    signal.signal(signal.SIGTERM, cut)
    FUSE(files, mount, foreground=True, nothreads=True, allow_other=False, hard_remove=False)


if __name__ == "__main__":
    main()
