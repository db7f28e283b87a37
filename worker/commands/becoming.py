"""Starts commands as other users, by way of ``another_user``, and knows why one of them was not executed.

Each start costs 9 ms of CPU in a process of its own, and the worker no more than any other. *Considered:*

* ``subprocess`` with ``user=``: it forks where it otherwise vforks. That costs the loop 2 ms with a worker of 60 MB and
  8 ms with 200 MB; it wakes gRPC's fork handlers (a line on stderr each time; up to 0.3 s were seen); and it enters the
  directory while it still is root, also where the user has no business.
* ``setpriv``: 1 ms, but it enters the directory as root, too; what fails is an exit status like any other; and it would
  be root with the job's environment: whoever sets LD_PRELOAD there would be root. Here root gets the marks alone.
"""

from __future__ import annotations

import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from worker.commands.accounts import Credentials
from worker.commands.unstartable import Attempt, UnstartableError

_PROGRAM = str(Path(__file__).with_name("another_user.py"))
_MOST_TOLD = 4000


class Becoming:
    """A process that becomes the command of a run, or tells why not."""

    __slots__ = ("_attempt", "_told", "pid")

    def __init__(
        self, attempt: Attempt, credentials: Credentials, *, environment: Mapping[str, str], marks: Mapping[str, str],
        stdin: int, stdout: int, umask: int,
    ) -> None:  # fmt: skip
        self._attempt = attempt
        os.fchown(stdout, credentials.uid, credentials.gid)  # else it could not open /dev/stdout and /dev/stderr
        handed = _handed(attempt, credentials, environment)
        try:
            self._told, tell = os.pipe2(os.O_CLOEXEC)
            try:
                os.set_blocking(self._told, False)
                process = subprocess.Popen(
                    (sys.executable, "-I", "-S", _PROGRAM, str(handed), str(tell)), stdin=stdin, stdout=stdout,
                    stderr=subprocess.STDOUT, cwd="/", env=marks, start_new_session=True, umask=umask,
                    pass_fds=(handed, tell),
                )  # fmt: skip
            except BaseException:
                os.close(self._told)
                raise
            finally:
                os.close(tell)
        finally:
            os.close(handed)
        process.returncode = 0  # it is reaped elsewhere
        self.pid = process.pid

    def why_not(self) -> UnstartableError | None:
        """Once the process has exited: why the command was not executed; None where it was, or where it was killed."""
        told = os.read(self._told, _MOST_TOLD).decode(errors="replace")
        if not told:
            return None
        step, number, text = told.split(" ", 2)
        error = OSError(int(number), os.strerror(int(number))) if int(number) else ValueError(text)
        return self._attempt.why_not(error, step)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._told)


def _handed(attempt: Attempt, credentials: Credentials, environment: Mapping[str, str]) -> int:
    """A descriptor with all that the program has to know: others can see neither it nor, in it, the environment."""
    arguments = [os.fsencode(argument) for argument in attempt.launch.arguments]
    places = [b""] if b"/" in arguments[0] else os.fsencode(attempt.path).split(b":")
    content = marshal.dumps((
        credentials.uid, credentials.gid, list(credentials.groups), os.fsencode(attempt.directory),
        [os.path.join(place, arguments[0]) for place in places], arguments,
        {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
    ))  # fmt: skip
    handed = os.memfd_create("etcron")
    try:
        with open(handed, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(handed, 0, os.SEEK_SET)
    except BaseException:
        os.close(handed)
        raise
    return handed
