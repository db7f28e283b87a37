"""An executor with real processes, and its outcomes to wait for."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from common.clock import SystemClock
from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from tests.support.forked import forked_programs
from tests.support.waiting import wait_until
from worker.launch import Launch, Outcome
from worker.launcher.link import Launcher
from worker.launcher.unstartable import NotNowError
from worker.machine.processes import Process, all_processes, run_mark
from worker.run.executor import Executor, Unguarded


class _Told(Unguarded):
    """Notes of which runs and processes a guardian would be told."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        if self._runs.is_guarded:
            self._runs.open.update(run_ids)
        return self._runs.is_guarded

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        self._runs.started[run_id] = pid

    def over(self, run_id: RunId) -> None:
        self._runs.open.discard(run_id)

    def read_messages(self) -> None:
        self._runs.heeded += 1


_TRIES = 20
_OF_JOB = ("workdir", "user", "timeout_s", "kill_grace_s", "output_limit_bytes")


class Runs:
    """Starts commands and collects what becomes of them. Each has an instance of its own, as two workers have."""

    _numbers = count(1)

    def __init__(self, allowed_users: Collection[str] = ()) -> None:
        self.instance = f"test-{os.getpid()}-{next(self._numbers)}"
        self.outcomes: dict[RunId, Outcome] = {}
        self.not_now: dict[RunId, NotNowError] = {}
        self.stuck: set[RunId] = set()
        self.given_twice: list[Outcome] = []
        self.started: dict[RunId, int] = {}
        """Those that have had a process, and its id."""
        self.is_guarded = True
        self.open: set[RunId] = set()
        """Those that a guardian was told of, and not that they are over."""
        self.heeded = 0
        """How often it was asked for its words."""
        self.on_end: Callable[[Outcome], None] = lambda _outcome: None
        self.launcher = Launcher(worker="w1", allowed_users=allowed_users)
        self.executor = Executor(
            launcher=self.launcher,
            worker="w1", instance=self.instance, path=os.environ.get("PATH", "/usr/bin:/bin"), clock=SystemClock(),
            on_end=self._on_end, on_not_now=self.not_now.__setitem__, on_stuck=self.stuck.add,
            guard=_Told(self),
        )  # fmt: skip

    def start(self, command: str | tuple[str, ...], **settings: Any) -> RunId:
        """Start a command under a new run id."""
        run_id = settings.pop("run_id", None) or RunId.planned("job", 1_700_000_000_000 + next(self._numbers))
        settings = {"env": {}, "plan_ms": run_id.plan_ms, "fence": 7, **settings}
        of_job = {name: settings.pop(name) for name in _OF_JOB if name in settings}
        spec = JobSpec(name="job", command=command, **of_job)
        self.executor.start([Launch(run_id=run_id, spec=spec, **settings)])
        return run_id

    async def running(self, command: str | tuple[str, ...], **settings: Any) -> RunId:
        """The same, once it has a process."""
        run_id = self.start(command, **settings)
        await wait_until(lambda: run_id in self.started, description=f"a process of {run_id}")
        return run_id

    def executed(self, command: str, **settings: Any) -> RunId:
        """The same, its command executed before the loop has another turn.

        While others rename or mount something, the kernel may have no path at hand, and the launcher starts the run:
        then another one is started.
        """
        for _ in range(_TRIES):
            if (run_id := self.start(command, **settings)) in self.started:
                return run_id
        raise AssertionError("no start is executed at once")

    async def ended(self, run_id: RunId) -> Outcome:
        """The outcome, once it is given."""
        await wait_until(lambda: run_id in self.outcomes, description=f"{run_id} to end")
        return self.outcomes[run_id]

    async def outcome_of(self, command: str | tuple[str, ...], **settings: Any) -> Outcome:
        """Start a command and wait for its outcome."""
        return await self.ended(self.start(command, **settings))

    async def printed(self, run_id: RunId, text: str) -> None:
        """Wait until a running command has printed this."""
        running = self.executor.running
        await wait_until(
            lambda: run_id in running and text in running[run_id].output.text(),
            description=f"{text!r} from {run_id}",
        )  # fmt: skip

    def alive(self, run_id: RunId) -> list[Process]:
        """The living processes that carry the marks of a run."""
        return [p for p in all_processes() if not p.dead and run_mark(p.pid, self.instance) == str(run_id)]

    def _on_end(self, outcome: Outcome) -> None:
        if outcome.run_id in self.outcomes:
            self.given_twice.append(outcome)
        self.outcomes[outcome.run_id] = outcome
        if outcome.left is not None:  # as a worker does, once that is written down
            outcome.left.close()
            self.open.discard(outcome.run_id)
        self.on_end(outcome)


@asynccontextmanager
async def executing(*, allowed_users: Collection[str] = ()) -> AsyncIterator[Runs]:
    """An executor that is closed afterwards; whatever it was asked to start has had exactly one outcome then."""
    runs = Runs(allowed_users)
    with forked_programs():
        async with runs.launcher:
            await runs.launcher.prepared()
            try:
                yield runs
            finally:
                await runs.executor.close()
    assert not runs.given_twice
    assert not runs.open
    assert set(runs.started) <= {*runs.outcomes, *runs.not_now, *runs.stuck}
