"""Workers, managers and log stores for tests, forked from a process that has read their code already.

Importing it is most of what a process costs that lives for some seconds, and a cluster has six. What is forked runs
``python -m worker``, ``manager`` or ``cli`` as ever: with its own arguments, environment, directory, descriptors and
exit; only its command line, and what ``/proc`` shows of its environment, are those of the process that it came from. A
worker's guardian and launcher are forked, too, and what `etcron up` starts (``forked``).

    pytest --(connects)--> this module's process, which has read the code
                              '--fork--> a server for this pytest process, at its niceness
    pytest --(program, flags, environ; log, status)--> the server --fork--> worker
                                                         '--(exit status)--> pytest
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from common.process.lifecycle import set_parent_death_signal
from tests.support.etcd_server import DYING_WITH_PARENT
from tests.support.forked import (
    LONGEST_LINE,
    OF_A_WORKER,
    OF_UP,
    fork_programs_from_here,
    have_own_streams,
    run_program,
)
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).parents[2]
_MOST_BYTES: Final = 131_072
_MOST_CLIENTS: Final = 100
_IN_WITHIN_S: Final = 60.0
_STARTERS: Final = {("worker",): OF_A_WORKER, ("cli", "start", "worker"): OF_A_WORKER, ("cli", "up"): OF_UP}
"""What starts programs in the process of such a command."""
_OF_UP: Final = ("cli.processes.up", "cli.processes.etcd_user", "cli.admin", "manager.access.recovery")
_OF_THE_LOG_STORE: Final = ("neosqlite.collection.query_helper", "nx_27017.nx_27017", "nx_27017.server")
"""What they read once they are called."""


_COMMAND: Final = """\
#!{python} -IS
import json, os, signal, socket, sys

control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control.connect({door!r})
status, told = os.pipe()
request = {{"program": {program!r}, "flags": sys.argv[1:], "directory": os.getcwd(), "environ": dict(os.environ)}}
socket.send_fds(control, [json.dumps(request).encode()], [told, 1, 2, 0])
os.close(told)
pid = int(control.recv(32))
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int(os.read(status, 16) or -signal.SIGKILL)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""It ends as what it has asked for does, and passes on what would end it."""


class WarmProcess:
    """One that was forked there, with what tests use of ``subprocess.Popen``."""

    def __init__(self, pid: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Its exit status, below 0 the signal that ended it; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        if (status := self._look(timeout)) is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    async def ended(self) -> int:
        """Its exit status, once it has ended."""
        await wait_until(lambda: self.poll() is not None, description=f"process {self.pid} has ended")
        return self.wait()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            told = os.read(self._status, 16)
            os.close(self._status)
            self.returncode = int(told) if told else -signal.SIGKILL  # whoever would tell has gone, and all with it
        return self.returncode


class Warm:
    """The way to the process that forks. It is started when it is first needed, or before those that will share it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._door: bytes | None = None
        self._control: socket.socket | None = None

    def open(self) -> None:
        """From now on processes that are forked from this one share what has been read."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind("")  # the kernel chooses an abstract name
            door.listen(_MOST_CLIENTS)
            self._process = subprocess.Popen(
                [*DYING_WITH_PARENT, sys.executable, "-P", "-m", __name__, str(door.fileno()), " " * LONGEST_LINE],
                pass_fds=[door.fileno()],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
            )
            self._door = door.getsockname()

    def start(
        self,
        program: str,
        flags: Sequence[str],
        *,
        directory: Path,
        environ: Mapping[str, str],
        log: int,
        errors: int | None = None,
        stdin: int | None = None,
    ) -> WarmProcess:
        """``python -m PROGRAM FLAGS``, with its output in ``log``, but what goes to ``errors``."""
        if self._control is None:
            self._control = self._connected()
        status, told = os.pipe()
        request = {"program": program, "flags": flags, "directory": str(directory), "environ": dict(environ)}
        try:
            errors = log if errors is None else errors
            streams = [log, errors] if stdin is None else [log, errors, stdin]
            socket.send_fds(self._control, [json.dumps(request).encode()], [told, *streams])
        finally:
            os.close(told)
        pid = int(self._control.recv(32))
        return WarmProcess(pid, status)

    def write_command(self, file: Path, program: str) -> None:
        """An executable file that is ``python -m PROGRAM``, with the arguments, streams and variables of its caller."""
        if self._door is None:
            self.open()
        file.write_text(_COMMAND.format(python=sys.executable, door=self._door, program=program))
        file.chmod(0o755)

    def _connected(self) -> socket.socket:
        if self._door is None:
            self.open()
        assert self._door is not None, "it is open"
        control = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.settimeout(_IN_WITHIN_S)
        control.connect(self._door)
        return control

    def end(self) -> None:
        """With it ends what it has forked."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()


WARM: Final = Warm()
atexit.register(WARM.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    program: str
    flags: Sequence[str]
    directory: str
    environ: Mapping[str, str]
    streams: Sequence[int]
    """Its output, its errors, and what it reads, where that is something."""


def _serve(control: socket.socket) -> _Request | None:
    """In each process that is forked: what it is to be. In this one, at the end: None."""
    own, going = os.getpid(), dict[int, tuple[int, int]]()  # pidfd: pid, where its status goes
    asked = control.fileno()
    while True:
        for ready in select.select([asked, *going], [], [])[0]:
            if ready != asked:
                pid, told = going.pop(ready)
                with contextlib.suppress(BrokenPipeError):
                    os.write(told, str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                os.close(told)
                os.close(ready)
                continue
            message, descriptors, _, _ = socket.recv_fds(control, _MOST_BYTES, 4)
            if not message:
                return None
            told, *streams = descriptors
            pid = os.fork()
            if not pid:
                set_parent_death_signal(own)
                for descriptor in (control.detach(), *going, *(status for _, status in going.values()), told):
                    os.close(descriptor)
                known: dict[str, Any] = json.loads(message)
                return _Request(**known, streams=streams)
            for descriptor in streams:
                os.close(descriptor)
            going[os.pidfd_open(pid)] = (pid, told)
            control.send(str(pid).encode())


def _become(request: _Request) -> None:
    """As if it had been executed: its environment, directory, output and arguments."""
    os.environ.clear()
    os.environ.update(request.environ)
    os.chdir(request.directory)
    for descriptor, number in zip(request.streams, (1, 2, 0), strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)
    have_own_streams()
    sys.argv = [request.program, *request.flags]
    for command, starters in _STARTERS.items():
        if (request.program, *request.flags)[: len(command)] == command:
            fork_programs_from_here(starters)


def _main() -> None:
    for name in ("cli.__main__", "manager.__main__", "worker.__main__", *_OF_UP, *_OF_THE_LOG_STORE):
        import_module(name)

    gc.collect()
    gc.freeze()
    request = _serve(_one_client(socket.socket(fileno=int(sys.argv[1]))))
    if request is not None:
        _become(request)
        run_program(request.program)


def _one_client(door: socket.socket) -> socket.socket:
    """In each process that is forked for a client. This one never returns: it is killed, and they with it."""
    own = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    while True:
        client, _ = door.accept()
        if not os.fork():
            set_parent_death_signal(own)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            door.close()
            pid, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))
            return client
        client.close()


if __name__ == "__main__":
    _main()
