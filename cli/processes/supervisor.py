"""Children that are kept running: started again with back-off when they die, ended in order, never outliving us.

Every child is in a session of its own (so that Ctrl-C reaches only us, and we stop them in order) and dies with us by
the kernel's parent-death signal. What it prints goes straight into its log file: nothing blocks when we are stopped or
slow, and nothing is lost when we die.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from cli.errors import CommandError, ExitStatus
from common.process.lifecycle import set_parent_death_signal
from worker.run.orphans import EVERY_S, Orphans, is_first_process

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
GOOD_RUN_S = 60.0
LOG_LIMIT_BYTES = 5_000_000
HURRY_S = 8.0
"""What is left to a child after a second wish to stop: a worker ends its commands (TERM, 5 s, KILL)."""

Say = Callable[[str], None]
Loop = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSpec:
    """What to run, and how to tell that it is ready."""

    name: str
    command: Sequence[str]
    log: Path | None
    """None: it prints where we print."""
    is_ready: Callable[[], Awaitable[bool]]
    port: int | None = None
    """Where it listens: it is ready only once it does so itself, or a process that it has started (it may be a script
    that starts the server). Another process there may have answered `is_ready`."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    directory: Path | None = None
    """Where it runs; None: where we do."""
    before_start: Callable[[], None] = lambda: None
    hopeless: int | None = None
    """An exit status that another start would not mend."""
    stop_within_s: float = 10.0
    ready_within_s: float = 30.0


class Child:
    """One process at a time of a spec, kept running between `start` and `stop`."""

    def __init__(self, spec: ChildSpec, say: Say) -> None:
        self.spec = spec
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = asyncio.Event()
        self._ended.set()
        self._failure = "has not been started"
        self._stopping = False

    @property
    def pid(self) -> int | None:
        """The running process, if any."""
        return self._process.pid if self._process and not self._ended.is_set() else None

    async def start(self) -> None:
        """Start it and wait until it is ready; CommandError with the end of its log where it does not get there."""
        self._spawn()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.spec.ready_within_s):
                while not self._ended.is_set():
                    if self._listens() and await self.spec.is_ready() and not self._ended.is_set():
                        return
                    await self._ends_within(0.05)
        what = self._how() if self._ended.is_set() else f"is not ready after {self.spec.ready_within_s:g} s"
        raise CommandError(
            f"{self.spec.name} {what}; the end of {self.spec.log}:\n{self.log_end()}", ExitStatus.UNAVAILABLE
        )

    def _listens(self) -> bool:
        """Whether it listens on its port; believed where the system does not let us see what it has open."""
        if self.spec.port is None or self._process is None:
            return True
        try:
            process = psutil.Process(self._process.pid)
            return _listens_on(self.spec.port, process) or any(
                _listens_on(self.spec.port, one) for one in process.children(recursive=True)
            )
        except psutil.AccessDenied:
            return True
        except psutil.Error:
            return False

    async def keep_running(self) -> None:
        """Start it again whenever it ends, until `stop`; says so, with the end of its log where it ended by itself.

        CommandError where it has ended with the status that is hopeless.
        """
        delay_s = FIRST_DELAY_S
        while not self._stopping:
            if not await self._ends_within(GOOD_RUN_S):
                delay_s = FIRST_DELAY_S
                continue
            if self._process is not None and self._process.returncode == self.spec.hopeless and not self._stopping:
                raise CommandError(f"{self.spec.name} {self._how()}", ExitStatus(self._process.returncode))
            self._say(f"{self.spec.name} {self._how()}; starting it again in {delay_s:g} s")
            if self._process is not None and self._process.returncode > 0 and self.spec.log is not None:
                self._say(self.log_end(lines=3))
            await asyncio.sleep(delay_s)
            self._spawn()
            delay_s = min(2 * delay_s, LONGEST_DELAY_S)

    async def stop(self, hurry: asyncio.Event) -> None:
        """End it: TERM, its time, KILL. `hurry` cuts its time short (with another TERM, which it may understand)."""
        self._stopping = True
        if self.pid is None:
            return
        self._signal(signal.SIGTERM)
        if await self._ends_within(self.spec.stop_within_s, unless=hurry):
            return
        self._signal(signal.SIGTERM)
        if await self._ends_within(HURRY_S):
            return
        self._say(f"{self.spec.name} does not stop; killing it")
        self._signal(signal.SIGKILL)
        await self._ended.wait()

    def log_end(self, lines: int = 8) -> str:
        """The last lines that it printed; nothing where it has no log of its own."""
        if self.spec.log is None:
            return ""
        try:
            with self.spec.log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
                tail = file.read().decode(errors="replace").splitlines()
        except OSError:
            return ""
        return "\n".join("    " + line for line in tail[-lines:])

    def _spawn(self) -> None:
        """Start a process; one that cannot be started, or not be watched, counts as one that has ended."""
        self._process, self._ended = None, asyncio.Event()
        try:
            process = self._popen()
            try:
                self._watch(process, self._ended)
            except OSError:
                process.kill()  # the supervisor could not see it end
                process.wait()
                raise
        except OSError as error:
            self._failure = f"cannot be started ({error})"
            self._ended.set()
        else:
            self._process = process

    def _popen(self) -> subprocess.Popen[bytes]:
        self.spec.before_start()
        if self.spec.log is None:
            return self._popen_printing_to(None)
        trim_log(self.spec.log)
        with self.spec.log.open("ab") as output:
            return self._popen_printing_to(output)

    def _popen_printing_to(self, output: IO[bytes] | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.spec.command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(self.spec.environ),
            cwd=self.spec.directory,
            umask=0o077,  # what it writes is for this user alone
            start_new_session=True,
            # It takes no lock that another thread of this process, which writes the log, could hold at the fork.
            preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
        )

    @staticmethod
    def _watch(process: subprocess.Popen[bytes], ended: asyncio.Event) -> None:
        """Set the event when the process ends, without a thread: its pidfd becomes readable then."""
        loop = asyncio.get_running_loop()
        pidfd = os.pidfd_open(process.pid)

        def on_end() -> None:
            loop.remove_reader(pidfd)
            os.close(pidfd)
            process.wait()
            ended.set()

        loop.add_reader(pidfd, on_end)

    async def _ends_within(self, seconds: float, *, unless: asyncio.Event | None = None) -> bool:
        """Whether it ends within the time, or before the event."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._ended, unless) if event]
        _, pending = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
        return self._ended.is_set()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and not self._ended.is_set():
            self._process.send_signal(number)

    def _how(self) -> str:
        if self._process is None:
            return self._failure
        code = self._process.returncode
        return f"ended with {f'status {code}' if code >= 0 else signal.Signals(-code).name}"


def reaping(children: Sequence[Child], *, every_s: float = EVERY_S) -> dict[str, Loop]:
    """The loop that reaps what commands leave behind where we are a container's first process; none where not."""
    if not is_first_process():
        return {}
    orphans = Orphans(own=lambda: {child.pid for child in children if child.pid is not None}, every_s=every_s)
    return {"reap orphans": orphans.run}


def _listens_on(port: int, process: psutil.Process) -> bool:
    connections = process.net_connections("tcp")
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)


def trim_log(path: Path, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
    """Keep a log below about twice the limit: what is beyond it moves to `<name>.1`.

    Copied and truncated in place, because the child goes on writing to the same file (opened for appending); a line
    written between the two is lost. Where the disk has no room for the copy, it stays as it is.
    """
    former = path.with_name(path.name + ".1")
    try:
        if path.exists() and path.stat().st_size > limit_bytes:
            shutil.copyfile(path, former)
            os.truncate(path, 0)
    except OSError:
        with contextlib.suppress(OSError):
            former.unlink()  # half of a copy; its room is needed
