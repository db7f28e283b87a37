"""A guardian's real process, with the test in its worker's place, and commands that carry the marks of runs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from common.clock import SystemClock
from tests.support.waiting import PATIENCE_S, wait_until
from worker.guardian.child import Child
from worker.guardian.messages import Group, Intent, Message, encode

_numbers = count(1)


@dataclass(eq=False)
class Guarding:
    """See the module. Use :func:`guarding`."""

    child: Child
    instance: str
    words: list[Message] = field(default_factory=list)
    commands: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def intend(
        self, run: str, *, allowance_s: float | None = 600.0, grace_s: float = PATIENCE_S, locked: bool = True,
        session: str = "s1", pid: int | None = None,
    ) -> None:  # fmt: skip
        """Announce a run; its session was confirmed just now."""
        self.queue_intent(run, allowance_s=allowance_s, grace_s=grace_s, locked=locked, session=session, pid=pid)
        assert self.child.flush()

    def queue_intent(
        self, run: str, *, allowance_s: float | None = 600.0, grace_s: float = PATIENCE_S, locked: bool = True,
        session: str = "s1", pid: int | None = None,
    ) -> None:  # fmt: skip
        """The same, to be told in one write with what is sent next: no look comes between them, however slow we are."""
        now = SystemClock().boottime()
        self.child.queue(encode(Intent(run, session, now, allowance_s, grace_s, locked, pid)))

    def spawn(self, run: str, command: str, *, first_line: bytes = b"up\n") -> subprocess.Popen[bytes]:
        """A process of the run, whose command has printed its first line (empty: it was ended before that)."""
        environment = {"PATH": os.environ["PATH"], "ETCRON_INSTANCE": self.instance, "ETCRON_RUN_ID": run}
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], env=environment, start_new_session=True, stdout=subprocess.PIPE
        )
        if run in self.commands:
            self.commands[run].communicate()
        self.commands[run] = process
        assert process.stdout is not None
        assert process.stdout.readline() == first_line
        return process

    def start(self, run: str, command: str, **settings: float | None) -> subprocess.Popen[bytes]:
        """A run that has begun, of which the guardian hears now: so that none is ended before its first line."""
        process = self.spawn(run, command)
        self.queue_intent(run, **settings)  # type: ignore[arg-type]
        assert self.child.send(Group(run, process.pid))
        return process

    def has_said(self, message: Message) -> bool:
        """Whether it has said this by now."""
        self.words += self.child.receive() or []
        return message in self.words

    async def said(self, message: Message) -> None:
        await wait_until(lambda: self.has_said(message), description=f"the guardian says {message}")

    async def gone(self, run: str) -> int:
        """The exit status of the command, once it has ended."""
        process = self.commands[run]
        await wait_until(lambda: process.poll() is not None, description=f"the command of {run} has ended")
        return process.wait()

    async def ended(self) -> None:
        """The guardian's process is gone."""
        await wait_until(self.child.has_ended, description="the guardian has ended")


@contextmanager
def guarding(directory: Path, instance: str | None = None) -> Iterator[Guarding]:
    """A guardian; it and all commands are gone afterwards."""
    instance = instance or f"guarding-{os.getpid()}-{next(_numbers)}"
    guard = Guarding(Child(lock=directory / "guardian.lock", instance=instance, logs=("info", "text")), instance)
    try:
        yield guard
    finally:
        guard.child.kill()
        guard.child._process.wait()
        guard.child.leave()
        for process in guard.commands.values():
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def sleeping(marks: Mapping[str, str], *, leads: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """A process that shows these marks; gone afterwards. ``leads``: a session and a group of its own."""
    with subprocess.Popen(["/bin/sleep", "300"], env=marks, start_new_session=leads) as process:
        try:
            until = SystemClock().monotonic() + 10
            # In the middle of its exec it shows none.
            while marks and not Path(f"/proc/{process.pid}/environ").read_bytes():
                assert SystemClock().monotonic() < until, "it shows its environment"
            yield process
        finally:
            process.kill()
