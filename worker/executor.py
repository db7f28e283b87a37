"""Starts a run's command, captures what it prints, and ends it: every start gives exactly one ``Outcome``.

A run is over when nothing of it is left, and only then is its outcome given:

    start ──spawn fails──────────────────────────────────────────────> on_end (failed, no start)
      │
    running ──exits──> reaped ──its group is empty (the usual case)──> on_end (success, failed)
      │                   └────something is left──> Sweeper ─────────> on_end (success, failed)
      └──end(), timeout──> Sweeper ── everything is gone ──> reaped ─> on_end (killed, timeout)

There is no thread and no task per run: each costs the loop two readers, its pidfd and its pipe. The exit is what ends
a run, not the end of its output: a daemon that keeps the pipe holds up nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from common.clock import Clock
from common.keys import RunId
from common.run import Verdict
from worker.environment import Account, Marks, clean_environment, give_commands_default_signals
from worker.exit import own_peak_rss_kib, reap
from worker.launch import Ending, Launch, Outcome
from worker.process_group import kernel_has_group_pidfds
from worker.running import Running
from worker.sweeper import Remains, Sweeper

__all__ = ["Ending", "Executor", "Launch", "Outcome", "Running"]

log = logging.getLogger(__name__)

DEFAULT_PATH = "/usr/bin:/bin"
_UMASK = 0o022
_WATCH_AGAIN_AFTER_S = 0.05


class Executor:
    """Runs commands on the event loop that it is made on. ``on_started`` and ``on_end`` must not raise."""

    def __init__(
        self,
        *,
        worker: str,
        instance: str,
        clock: Clock,
        on_end: Callable[[Outcome], None],
        on_started: Callable[[RunId, int, int], None] | None = None,
        path: str = DEFAULT_PATH,
    ) -> None:
        self._worker = worker
        self._instance = instance
        self._path = path
        self._clock = clock
        self._on_started = on_started
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._account = Account.own()
        self._runs: dict[RunId, Running] = {}
        self._unstarted = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._closed = False
        self._sweeper = Sweeper(instance=instance, clock=clock, on_clear=self._cleared)
        give_commands_default_signals()
        kernel_has_group_pidfds()  # asked now: when it is needed, there may be no descriptor to ask with

    @property
    def running(self) -> Mapping[RunId, Running]:
        """The runs that have a process, or something left of one."""
        return MappingProxyType(self._runs)

    def start(self, launch: Launch) -> None:
        """Start a run; returns when its command has been executed, or could not be (that comes through ``on_end``).

        Raises ValueError for a run that is running already, RuntimeError after ``close``: both are the caller's bug.
        """
        if launch.run_id in self._runs:
            raise ValueError(f"{launch.run_id} is running already")
        if self._closed:
            raise RuntimeError("the executor is closed")
        try:
            run = self._spawn(launch)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._could_not_start(launch, error)
            return
        self._runs[launch.run_id] = run
        self._idle.clear()
        self._watch(run)
        if launch.timeout_s > 0:
            run.timeout = self._loop.call_later(launch.timeout_s, self.end, launch.run_id, Ending(kind=Verdict.TIMEOUT))
        if self._on_started is not None:
            self._on_started(launch.run_id, run.pid, run.start_ms)

    def end(self, run_id: RunId, ending: Ending) -> bool:
        """End a run: TERM to all that it started, after its grace KILL. The first ending is the one that counts.

        False where there is no such run, or its first process has exited of its own accord: its verdict stands.
        """
        run = self._runs.get(run_id)
        if run is None:
            return False
        if run.ending is not None:
            return True
        if run.group.leader_exited():
            return False
        run.ending = ending
        self._sweep(run)
        return True

    async def drained(self) -> None:
        """Return when nothing runs and every outcome has been given."""
        while self._runs or self._unstarted:
            await self._idle.wait()

    async def close(self) -> None:
        """End what still runs (``killed: worker shutdown``), wait for it, and give everything back."""
        already, self._closed = self._closed, True
        for run_id in tuple(self._runs):
            self.end(run_id, Ending(reason="worker shutdown"))
        await self.drained()
        if not already:
            self._sweeper.close()
            os.close(self._null)

    def _spawn(self, launch: Launch) -> Running:
        if not launch.arguments:
            raise ValueError("the command is empty")
        environment = self._environment_of(launch)
        directory = launch.workdir or environment["HOME"]
        own_peak = own_peak_rss_kib()
        pipe, write_end = os.pipe2(os.O_CLOEXEC)
        with contextlib.ExitStack() as undo:
            undo.callback(os.close, pipe)
            try:
                os.set_blocking(pipe, False)
                start_ms = self._clock.wall_ms()
                pid = self._popen(launch.arguments, write_end, directory, environment)
            finally:
                os.close(write_end)
            undo.pop_all()
        return Running(launch, pid=pid, pipe=pipe, start_ms=start_ms, own_peak_rss_kib=own_peak)

    def _popen(self, arguments: Sequence[str], write_end: int, directory: str, environment: Mapping[str, str]) -> int:
        # No preexec_fn, user or group: any of them would turn vfork into fork, whose cost grows with the worker.
        process = subprocess.Popen(
            arguments, stdin=self._null, stdout=write_end, stderr=subprocess.STDOUT, cwd=directory, env=environment,
            start_new_session=True, umask=_UMASK, close_fds=True,
        )  # fmt: skip
        process.returncode = 0  # it is reaped here, never by Popen, which would warn otherwise
        return process.pid

    def _environment_of(self, launch: Launch) -> dict[str, str]:
        marks = Marks(run_id=launch.run_id, plan_ms=launch.plan_ms, fence=launch.fence,
                      worker=self._worker, instance=self._instance)  # fmt: skip
        return clean_environment(
            account=self._account, path=self._path, shell=launch.shell, job_env=launch.env, marks=marks
        )

    def _could_not_start(self, launch: Launch, error: Exception) -> None:
        reason = f"could not be started: {_in_words(error)}"
        log.warning("%s %s", launch.run_id, reason, extra={"action": "spawn_failed", "run_id": str(launch.run_id)})
        self._unstarted += 1
        self._idle.clear()
        outcome = Outcome(run_id=launch.run_id, verdict=Verdict.FAILED, end_ms=self._clock.wall_ms(),
                          err=reason, reason=reason)  # fmt: skip
        self._loop.call_soon(self._give_unstarted, outcome)

    def _give_unstarted(self, outcome: Outcome) -> None:
        self._unstarted -= 1
        self._give(outcome)

    def _give(self, outcome: Outcome) -> None:
        if not self._runs and not self._unstarted:
            self._idle.set()
        self._on_end(outcome)

    def _watch(self, run: Running) -> None:
        """Have the loop tell of the exit and of output; without descriptors for it, try again: the run goes on."""
        if self._runs.get(run.launch.run_id) is not run:
            return  # ended before it could be watched
        try:
            if run.pipe is not None:
                self._loop.add_reader(run.pipe, self._on_output, run)
            if run.group.pidfd is None:
                run.group.pidfd = os.pidfd_open(run.pid)
            self._loop.add_reader(run.group.pidfd, self._on_exit, run)
        except OSError as error:
            log.warning("%s cannot be watched yet: %s", run.launch.run_id, error,
                        extra={"action": "watch_failed", "run_id": str(run.launch.run_id)})  # fmt: skip
            self._loop.call_later(_WATCH_AGAIN_AFTER_S, self._watch, run)

    def _on_output(self, run: Running) -> None:
        """Take one pipe's worth, then let others have their turn."""
        if run.read_output() == 0:
            self._close_pipe(run)  # the run goes on until it exits

    def _on_exit(self, run: Running) -> None:
        if run.group.pidfd is not None:
            self._loop.remove_reader(run.group.pidfd)
        if run.ending is not None:
            self._sweeper.look_soon()
            return
        self._reap(run)
        if run.group.send(0):
            self._sweep(run)
        else:
            self._finish(run)

    def _reap(self, run: Running) -> None:
        run.exit = reap(run.pid, run.own_peak_rss_kib)
        run.group.leader_reaped = True
        self._cancel_timeout(run)

    def _sweep(self, run: Running) -> None:
        self._cancel_timeout(run)
        kill_at = self._clock.monotonic() + run.launch.kill_grace_s
        everything = run.ending is not None
        self._sweeper.add(Remains(run_id=run.launch.run_id, group=run.group, everything=everything, kill_at=kill_at))

    def _cleared(self, remains: Remains, survivors: Sequence[int]) -> None:
        run = self._runs[remains.run_id]
        if run.exit is None:
            self._reap(run)
        self._finish(run, survivors)

    def _finish(self, run: Running, survivors: Sequence[int] = ()) -> None:
        run.drain_output()
        self._close_pipe(run)
        if run.group.pidfd is not None:
            self._loop.remove_reader(run.group.pidfd)
        run.group.close()
        del self._runs[run.launch.run_id]
        self._give(run.outcome(self._clock.wall_ms(), survivors))

    def _close_pipe(self, run: Running) -> None:
        if run.pipe is not None:
            self._loop.remove_reader(run.pipe)
            os.close(run.pipe)
            run.pipe = None

    @staticmethod
    def _cancel_timeout(run: Running) -> None:
        if run.timeout is not None:
            run.timeout.cancel()
            run.timeout = None


def _in_words(error: Exception) -> str:
    """What the system said, with the file that it said it of."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
