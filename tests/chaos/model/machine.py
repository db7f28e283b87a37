"""A worker's machine: its processes, its disk and its guardian. They outlive the worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from common.protocol.run import RunRecord
from tests.chaos.model.settings import KILL_GRACE, LOST_AFTER, MARGIN
from tests.chaos.model.world import Actor, Started, World

if TYPE_CHECKING:
    from tests.chaos.model.runs import Run


@dataclass(slots=True, eq=False)
class Process:
    """One command, and what its worker last told the guardian of it."""

    run: Run
    seen: Started
    verdict: str
    """How it ends by itself."""
    on_end: Callable[[str], None]
    """Told to the worker, if that still lives."""
    life: int
    killed: bool = False


@dataclass(slots=True, eq=False)
class Machine:
    """Its guardian knows the deadline of each process: it never passes the moment at which the lock can pass on."""

    world: World
    worker: Actor
    spool: list[RunRecord] = field(default_factory=list)
    """Records on the disk that the log store has not acknowledged."""
    processes: list[Process] = field(default_factory=list)
    nature: Actor = field(init=False)

    def __post_init__(self) -> None:
        self.nature = Actor(f"machine of {self.worker.name}")

    def spool_append(self, record: RunRecord) -> None:
        self.spool.append(record)
        self.world.history.spooled.append((self.world.now, self.worker.name, record))

    def start(self, run: Run, verdict: str, lasts: int, on_end: Callable[[str], None], *, frozen: bool) -> Process:
        world = self.world
        seen = Started(world.now, run.run_id, run.fence, self.worker.name, run.entry.locked, frozen)
        world.history.starts.append(seen)
        process = Process(run, seen, verdict, on_end, self.worker.life)
        self.processes.append(process)
        world.later(lasts, self.nature, self._ended, process, verdict)
        if run.entry.locked or frozen:
            world.later(100 if frozen else 0, self.nature, self._look, process)
        return process

    def kill(self, process: Process, how: str = "killed", *, within: int = KILL_GRACE) -> None:
        if process.seen.end is None and (not process.killed or within < KILL_GRACE):
            process.killed = True
            self.world.later(self.world.rng.randint(0, within), self.nature, self._ended, process, how)

    def worker_died(self) -> None:
        """The pipe is closed: the guardian ends all."""
        for process in list(self.processes):
            self.kill(process, "with its worker")

    def _look(self, process: Process) -> None:
        """The guardian's, from the intent on; also while the worker is stopped."""
        if process.seen.end is not None:
            return
        left = process.run.session.confirmed + LOST_AFTER - KILL_GRACE - MARGIN - self.world.now
        if left <= 0:
            self.kill(process, "out of touch", within=100 if process.seen.frozen else KILL_GRACE)
        elif process.run.entry.locked:
            self.world.later(left, self.nature, self._look, process)

    def _ended(self, process: Process, how: str) -> None:
        if process.seen.end is not None:
            return
        process.seen.end, process.seen.how = self.world.now, how
        self.processes.remove(process)
        if process.life == self.worker.life:
            self.world.later(0, self.worker, partial(process.on_end, how))
