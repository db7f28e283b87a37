"""One worker or manager of a chaos run: with a clock or a user of its own, armed or not; limited and ended at will."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.cluster import ROOT, Process
from tests.support.disks import LoopDisk
from tests.support.etcd_server import DYING_WITH_PARENT
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until
from tests.support.warm import WARM

FAILPOINT = "ETCRON_FAILPOINT"
_ENDS_WITHIN_S = 60.0
_LIMIT = """
import resource, sys
pid, which, at_most = map(int, sys.argv[1:])
before, hard = resource.prlimit(pid, which)
resource.prlimit(pid, which, (at_most, hard))
print(before)
"""
_FAKETIME = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def faketime() -> Path | None:
    """Debian's libfaketime (`make faketime`), or None."""
    return next((found for pattern in _FAKETIME for found in Path("/").glob(pattern.lstrip("/"))), None)


@dataclass(slots=True, eq=False)
class ChaosProcess(Process):
    """A process with something special around it."""

    clock: Path | None = None
    """The file that says how wrong its wall clock is; None: it has the machine's."""
    uid: int | None = None
    """Who it runs as; None: as the harness."""

    def start(self) -> None:
        assert self.popen is None, f"{self.name} runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        environ = {**inherited(), "HOME": str(self.directory), **self._own_clock(), **self.environ}
        with (self.directory / "log").open("ab") as log:
            if self.uid is None and "LD_PRELOAD" not in environ:
                self.popen = WARM.start(
                    self.program, self.flags, directory=self.directory, environ=environ, log=log.fileno()
                )
                return
            self.popen = subprocess.Popen(
                [*as_user(self.uid), *DYING_WITH_PARENT, sys.executable, "-P", "-m", self.program, *self.flags],
                cwd=self.directory,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _own_clock(self) -> dict[str, str]:
        library = faketime()
        if self.clock is None or library is None:
            return {}
        return {
            "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "NO_FAKE_STAT": "1",
        }  # fmt: skip


def inherited() -> dict[str, str]:
    """What every process of the fleet gets from the harness."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}


def as_user(uid: int | None) -> list[str]:
    """What goes before a command: that user, who may still read what only root may (an interpreter in its home)."""
    if uid is None:
        return []
    may_read = "+dac_read_search"
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", f"--inh-caps={may_read}",
            f"--ambient-caps={may_read}", "--"]  # fmt: skip


def can_be_user(uid: int) -> bool:
    """Whether a worker can be started as that user here."""
    command = [*as_user(uid), sys.executable, "-P", "-c", "import worker.agent"]
    environ = {**inherited(), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(command, cwd="/", env=environ, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@dataclass(slots=True, eq=False)
class Member:
    """One worker or manager, and the ways to its stores."""

    process: ChaosProcess
    etcd: list[Proxy]
    log_store: Proxy
    port: int = 0
    """Of a manager: where it serves."""
    disk: Path | None = None
    """A small file system of its own, on which its data lie."""
    loop_disk: LoopDisk | None = None
    """The same, where it can be made to hang."""
    is_held_down: bool = False
    """A fault has it; the supervisor leaves it alone until the fault is over."""

    @property
    def name(self) -> str:
        return self.process.name

    @property
    def is_worker(self) -> bool:
        return self.process.program == "worker"

    @property
    def pid(self) -> int | None:
        """None: it does not run."""
        popen = self.process.popen
        return popen.pid if popen is not None and popen.poll() is None else None

    @property
    def is_stopped(self) -> bool:
        """Whether a signal has stopped it."""
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        return False

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, where it runs."""
        if self.pid is not None:
            os.kill(self.pid, number)

    def guardian(self) -> int | None:
        """The process that guards its commands; None: there is none at the moment."""
        for child in _children(self.pid):
            with contextlib.suppress(psutil.Error):
                if "guardian" in " ".join(child.cmdline()) and "ETCRON_RUN_ID" not in child.environ():
                    return child.pid
        return None

    def descendants(self) -> list[int]:
        """All processes below it: its guardian, its commands, but what has left them as a daemon does."""
        return [child.pid for child in _children(self.pid, recursive=True)]

    def limit(self, pid: int, which: int, at_most: int) -> int:
        """Set a soft limit of the running process ``pid``; what it was before. Blocks. OSError: it cannot be set.

        Asked as the process's own user: root may lack the right to limit others.
        """
        command = [
            *as_user(self.process.uid),
            sys.executable,
            "-I",
            "-S",
            "-c",
            _LIMIT,
            str(pid),
            str(which),
            str(at_most),
        ]
        answer = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise OSError(f"a limit of {self.name} cannot be set: {answer.stderr[-300:]}")
        return int(answer.stdout)

    def set_clock(self, offset: str) -> None:
        """Make its wall clock that wrong, e.g. ``+30s``; it notices within a second."""
        clock = self.process.clock
        assert clock is not None, f"{self.name} has the machine's clock"
        beside = clock.with_suffix(".new")
        beside.write_text(offset + "\n")
        beside.chmod(0o644)
        beside.rename(clock)

    async def end(self, number: signal.Signals) -> bool:
        """End it; it stays down until `revive`. False: it did not end by this signal, and got SIGKILL."""
        self.is_held_down = True
        popen, self.process.popen = self.process.popen, None
        if popen is None:
            return True
        popen.send_signal(number)
        try:
            await wait_until(lambda: popen.poll() is not None, description=self.name, timeout=_ENDS_WITHIN_S)
        except AssertionError:
            popen.kill()
            popen.wait()
            return False
        return True

    def start_armed(self, failpoint: str) -> None:
        """Start it, held down, with this failpoint; `revive` clears it for the next start."""
        self.process.environ[FAILPOINT] = failpoint
        self.process.start()

    def has_died(self) -> bool:
        """Whether it has ended since it was started; then it counts as not started."""
        if self.process.popen is not None and self.process.popen.poll() is not None:
            self.process.popen = None
        return self.process.popen is None

    def revive(self) -> None:
        """The supervisor may have it back."""
        self.is_held_down = False
        self.process.environ.pop(FAILPOINT, None)
        if self.process.popen is None:
            self.process.start()


def _children(pid: int | None, *, recursive: bool = False) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive) if pid is not None else []
    except psutil.Error:
        return []
