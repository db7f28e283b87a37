"""The guardian's process as its worker has it: started, spoken to, listened to, ended. Nothing here waits."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from worker.guardian.messages import Lines, Message, decode, encode

_PROGRAM: Final = str(Path(__file__).with_name("__main__.py"))
_ENVIRONMENT: Final = {"PATH": os.defpath, "LANG": "C.UTF-8"}
"""No mark of a run is in it, even where a run has started this worker."""
_PIPE_CAPACITY: Final = 1 << 20
"""Bytes, of each pipe; the machine may give less, 4096 of them at least."""
_READ_SIZE: Final = 65_536
_ATOMIC: Final = select.PIPE_BUF
"""Bytes that are written whole or not at all, whichever process is killed meanwhile."""


class Child:
    """One guardian process. ``pid``; ``listens``, ``speaks``: this side's ends of the pipes from and to it."""

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
        self.speaks = self._process.stdin.fileno()
        self.listens = self._process.stdout.fileno()
        self._lines = Lines()
        self._unsaid: deque[bytes] = deque()
        self._put_off: list[bytes] = []
        for pipe in (self.speaks, self.listens):
            os.set_blocking(pipe, False)
            with suppress(OSError):  # as far as the machine lets this user
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_CAPACITY)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_behind(self) -> bool:
        """Whether something waits to be said until it has listened to what was said before."""
        return bool(self._unsaid)

    def say(self, message: Message) -> bool:
        """In order, as soon as the pipe has room, which is nearly always now; False: it has ended."""
        self.put_off(encode(message))
        return self.say_rest()

    def put_off(self, line: bytes) -> None:
        """To be said with whatever is said next, in the same write if it fits."""
        self._put_off.append(line)

    def say_rest(self) -> bool:
        """As much of what waits to be said as the pipe takes; False: it has ended."""
        self._unsaid.extend(self._put_off)
        self._put_off.clear()
        while self._unsaid:
            lines, size = list[bytes](), 0
            for line in self._unsaid:  # as many as go into one atomic write, one at least
                size += len(line)
                if lines and size > _ATOMIC:
                    break
                lines.append(line)
            try:
                os.write(self.speaks, b"".join(lines))
            except BlockingIOError:
                return True
            except OSError:
                return False
            for _ in lines:
                self._unsaid.popleft()
        return True

    def heard(self) -> list[Message] | None:
        """All that it has said since; None: it has ended, and has said nothing more."""
        data = b""
        try:
            while chunk := os.read(self.listens, _READ_SIZE):
                data += chunk
            if not data:
                return None
        except BlockingIOError:
            pass
        return [decode(line) for line in self._lines.take(data)]

    def leave(self) -> None:
        """Close the pipes: it ends everything of which it was not told that it is over, and then itself."""
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
