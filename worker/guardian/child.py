"""The guardian's process as its worker has it: started, spoken to, listened to, ended. Nothing here waits."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from worker.guardian.messages import Lines, Message, decode, encode

_PROGRAM: Final = str(Path(__file__).with_name("__main__.py"))
_ENVIRONMENT: Final = {"PATH": os.defpath, "LANG": "C.UTF-8"}
"""No mark of a run is in it, even where a run has started this worker."""
_PIPE_CAPACITY: Final = 1 << 20
"""Bytes: for about eight thousand runs told at once."""
_READ_SIZE: Final = 65_536


class Child:
    """One guardian process. ``pid``; ``listens``: the descriptor to wait for its words on."""

    def __init__(self, *, lock: Path, instance: str, log_level: str) -> None:
        """OSError: it could not be started."""
        command = (sys.executable, "-I", "-S", _PROGRAM, str(lock.absolute()), instance, log_level)
        # A session of its own: neither Ctrl-C nor a signal to the worker's group reaches it. It inherits no descriptor.
        self._process = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/", env=_ENVIRONMENT,
            start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._speaks = self._process.stdin.fileno()
        self.listens = self._process.stdout.fileno()
        self._lines = Lines()
        os.set_blocking(self._speaks, False)
        os.set_blocking(self.listens, False)
        _widen(self._speaks)

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, message: Message) -> bool:
        """One write; False: it has ended, or has not listened for very long."""
        try:
            os.write(self._speaks, encode(message))
        except OSError:
            return False
        return True

    def heard(self) -> list[Message] | None:
        """What it has said since; None: it has ended."""
        try:
            data = os.read(self.listens, _READ_SIZE)
        except BlockingIOError:
            return []
        return [decode(line) for line in self._lines.take(data)] if data else None

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


def _widen(pipe: int) -> None:
    """As far as the machine lets this user."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_CAPACITY)
    except OSError:
        return
