"""The guardian's process as its worker has it: started, spoken to, listened to, ended. Nothing here waits."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker.guardian.messages import Lines, Message, decode_all, encode

_log = logging.getLogger(__name__)

_PROGRAM: Final = str(Path(__file__).with_name("__main__.py"))
_ENVIRONMENT: Final = {"PATH": os.defpath, "LANG": "C.UTF-8"}
"""No mark of a run is in it, even where a run has started this worker."""
_PIPE_CAPACITY: Final = 1 << 20
"""Bytes, of each pipe; the machine may give less, 4096 of them at least."""
_READ_SIZE: Final = 65_536
_ATOMIC: Final = select.PIPE_BUF
"""Bytes that are written whole or not at all, whichever process is killed meanwhile."""


class Child:
    """One guardian process. ``pid``; ``in_fd``, ``out_fd``: this side's ends of the pipes from and to it."""

    def __init__(self, *, lock: Path, instance: str, logs: tuple[str, str]) -> None:
        """``logs``: level and form. OSError: it could not be started."""
        command = (sys.executable, "-I", "-S", _PROGRAM, str(lock.absolute()), instance, *logs)
        # A session of its own: neither Ctrl-C nor a signal to the worker's group reaches it. It inherits no descriptor.
        self._process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=_ENVIRONMENT,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.out_fd = self._process.stdin.fileno()
        self.in_fd = self._process.stdout.fileno()
        self._lines = Lines()
        self._unsent: deque[bytes] = deque()
        self._queued: list[bytes] = []
        for pipe in (self.out_fd, self.in_fd):
            os.set_blocking(pipe, False)
            with suppress(OSError):  # as far as the machine lets this user
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_CAPACITY)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_behind(self) -> bool:
        """Whether something waits until the guardian has read what was sent before."""
        return bool(self._unsent)

    def send(self, message: Message) -> bool:
        """In order, as soon as the pipe has room, which is nearly always now; False: it has ended."""
        self.queue(encode(message))
        return self.flush()

    def queue(self, line: bytes) -> None:
        """To be sent with the next message, in the same write if it fits."""
        self._queued.append(line)

    def flush(self) -> bool:
        """Writes as much of what waits as the pipe takes; False: it has ended."""
        self._unsent.extend(self._queued)
        self._queued.clear()
        while self._unsent:
            lines, size = list[bytes](), 0
            for line in self._unsent:  # as many as go into one atomic write, one at least
                size += len(line)
                if lines and size > _ATOMIC:
                    break
                lines.append(line)
            try:
                os.write(self.out_fd, b"".join(lines))
            except BlockingIOError:
                return True
            except OSError:
                return False
            for _ in lines:
                self._unsent.popleft()
        return True

    def receive(self) -> list[Message] | None:
        """All that it has sent since; None: it has ended, and has sent nothing more."""
        data = b""
        try:
            while chunk := os.read(self.in_fd, _READ_SIZE):
                data += chunk
            if not data:
                return None
        except BlockingIOError:
            pass
        return decode_all(self._lines.take(data), _misheard)

    def leave(self) -> None:
        """Close the pipes: it ends every run that was not reported as over, and then itself."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def has_ended(self) -> bool:
        """Whether its process is gone; to be asked until it is, for that reaps it."""
        return self._process.poll() is not None

    def forget(self) -> None:
        """It goes on by itself, and is reaped when this process has ended."""
        self._process.returncode = self._process.poll() or 0  # else Popen would warn of it


def _misheard(error: ValueError) -> None:
    """As of a guardian that was started from a newer version's files: the rest of what it says counts."""
    _log.error("%s", error, extra={"action": "guardian.misheard"})
