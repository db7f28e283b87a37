"""The manager's Unix socket: made safely, served, and removed.

The kernel says which system user connects, so nobody else can be one. That holds for callers; that this socket is the
manager's own, they know by its directory, which nobody but its owner may write to.

A lock beside the socket says whether its manager lives: a socket that a dead one has left is replaced, a live one's is
left alone. It is bound, given its mode, and only then listened on: no process gets in while it has another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from aiohttp import web

from common.errors import ConfigError, Problem

DIRECTORY_MODE: Final = 0o750
MODE: Final = 0o660
_BACKLOG: Final = 128


@contextmanager
def unix_socket(path: Path) -> Iterator[socket.socket]:
    """A socket that is bound there, and not listened on yet; it is gone afterwards. ConfigError."""
    with ExitStack() as stack:
        try:
            _check_directory(path.parent)
            stack.callback(os.close, _lock(path))
            bound = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            _make_way(path)
            bound.bind(str(path))
            path.chmod(MODE)
            stack.callback(_remove, path, path.lstat())
        except OSError as error:
            raise _refused(
                f"{path} cannot be listened on: {error.strerror or error}", "give a path in a directory of this user"
            ) from error
        yield bound


def _remove(path: Path, made: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        if os.path.samestat(path.lstat(), made):
            path.unlink()


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        directory.mkdir(mode=DIRECTORY_MODE, parents=True)
        directory.chmod(DIRECTORY_MODE)  # whatever the umask says
    about = directory.stat()
    if about.st_uid not in (os.geteuid(), 0):
        raise _refused(
            f"{directory} belongs to another user, who could put their own socket there", "give it to this user"
        )
    if about.st_mode & stat.S_IWOTH:
        raise _refused(
            f"{directory} can be written to by every user, who could put their own socket there",
            "name a directory of its own, e.g. /run/etcron",
        )


def _lock(path: Path) -> int:
    lock = os.open(
        path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
    )  # fmt: skip
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise _taken(path) from None
    return lock


def _make_way(path: Path) -> None:
    """Take away what a dead manager has left."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise _refused(f"{path} is there, and is no socket", "give a path where nothing is")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.setblocking(False)
        try:
            trial.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
        except BlockingIOError:
            pass  # a process listens, and many wait
    raise _taken(path)


def _taken(path: Path) -> ConfigError:
    return _refused(f"{path} is another process's, which listens there", "stop that one, or give another path")


def _refused(message: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(field="socket", message=message, remedy=remedy)])


class UnixSocketSite(web.BaseSite):
    """Serves what is bound already."""

    def __init__(self, runner: web.BaseRunner, bound: socket.socket) -> None:
        super().__init__(runner, backlog=_BACKLOG)
        self._bound = bound

    @property
    def name(self) -> str:
        return f"http://unix:{self._bound.getsockname()}:"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(server, sock=self._bound, backlog=self._backlog)
