"""Starts a run's command, captures what it prints, and ends it: every start gives exactly one ``Outcome``.

A run is over when nothing of it is left, and only then is its outcome given:

    start ──the worker is short of processes, memory, files──> waiting ──2 s, end()──> on_end (failed, killed; no start)
      │                                                          └──tried again──> (start)
      ├─────spawn fails──────────────────────────────────────────────> on_end (failed, no start)
      │
    running ──exits──> reaped ──its group is empty (the usual case)──> on_end (success, failed)
      │                   └────something is left──> Sweeper ─────────> on_end (success, failed)
      └──end(), timeout──> Sweeper ── everything is gone ──> reaped ─> on_end (killed, timeout)

There is no thread and no task per run, and no registration at the loop (see ``run_watch``). The exit is what
ends a run, not the end of its output: a daemon that keeps the pipe holds up nothing (see ``output_reader``).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from common.clock import Clock
from common.protocol.keys import RunId
from common.protocol.run import SHUTDOWN
from common.timings import STAMP_VALID_S
from common.verdicts import Verdict
from worker.launch import Launch, Outcome, StopOrder, unstarted
from worker.launcher.environment import give_commands_default_signals
from worker.launcher.link import Launcher
from worker.launcher.unstartable import (
    NotNowError,
    ShortageError,
    TooEarlyError,
    TooLateError,
    UnstartableError,
    unforeseen,
)
from worker.machine.process_group import ProcessGroup, kernel_has_group_pidfds
from worker.machine.processes import is_only_forked
from worker.run.output_reader import OutputReader
from worker.run.resources import MemoryWatch, look_at
from worker.run.run_watch import RunWatch
from worker.run.running import EndDates, OwnPeak, Running, reap
from worker.run.spawner import AskLauncherError, Spawner, Start, Turn
from worker.run.sweeper import Remains, Sweeper

_log = logging.getLogger(__name__)

DEFAULT_PATH = "/usr/bin:/bin"
_WATCH_AGAIN_AFTER_S = 0.05
_START_AGAIN_AFTER_S = 0.05
_START_AGAIN_AT_LEAST_EVERY_S = 0.4
_LAUNCHER_ANSWERS_WITHIN_S = 5.0
_HANGS_AFTER_S = 1.0


class Guard(Protocol):
    """What the executor tells the guardian, around each start."""

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        """A process of each of these runs is about to be started; False: of none now, for it would be unguarded."""

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        """It has been, after this second of the boot clock, and leads its group and its session."""

    def over(self, run_id: RunId) -> None:
        """Nothing of the run is left, or nothing of it was started."""

    def read_messages(self) -> None:
        """Whatever the guardian has sent by now is taken in: it may be why a process has just ended."""


class Unguarded:
    """Where there is no guardian: an executor by itself."""

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        return True

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        pass

    def over(self, run_id: RunId) -> None:
        pass

    def read_messages(self) -> None:
        pass


@dataclass(slots=True, kw_only=True, eq=False)
class _Try:
    """A start, tried again where the worker has not got what it takes."""

    launch: Launch
    until: float
    """On the boot clock."""
    tries: int = 0
    start: Start | None = None
    """On its way."""
    here: bool = True
    """Whether it may be executed without the launcher."""
    short: ShortageError | None = None
    """Why it is tried again."""
    stop_order: StopOrder | None = None
    """It is not to go on: it is ended as soon as the launcher says whether there is a process."""
    timer: asyncio.TimerHandle | None = None

    @property
    def is_asked(self) -> bool:
        """Whether the launcher has been asked for it."""
        return self.start is not None and self.start.starting is not None


class Executor:
    """Runs commands on the event loop that it is made on. What it is given to tell must not raise."""

    def __init__(
        self,
        *,
        worker: str,
        instance: str,
        launcher: Launcher,
        clock: Clock,
        on_end: Callable[[Outcome], None],
        on_not_now: Callable[[RunId, NotNowError], None],
        on_stuck: Callable[[RunId], None],
        path: str = DEFAULT_PATH,
        shell: str = "/bin/sh",
        guard: Guard | None = None,
        end_dates: EndDates | None = None,
    ) -> None:
        self._worker = worker
        self._guard: Guard = guard or Unguarded()
        self._clock = clock
        self._end_dates = end_dates or EndDates(clock)
        self._on_end = on_end
        self._on_not_now = on_not_now
        self._on_stuck = on_stuck
        self._loop = asyncio.get_running_loop()
        self._runs: dict[RunId, Running] = {}
        self._stuck: set[RunId] = set()
        """Those that cannot be ended: they go on by themselves, and have their outcome when they are gone."""
        self._waiting: dict[RunId, _Try] = {}
        self._unstarted = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False
        self._own_peak = OwnPeak()
        self._launcher = launcher
        self._spawner = Spawner(
            worker=worker, instance=instance, path=path, shell=shell, launcher=self._launcher, clock=clock
        )
        self._outputs = OutputReader()
        self._run_watch = RunWatch(on_exits=self._on_exits, on_output=self._on_output)
        self._memory = MemoryWatch(self._runs)
        self._sweeper = Sweeper(instance=instance, clock=clock, on_clear=self._cleared, on_stuck=self._on_stuck_remains)
        give_commands_default_signals()
        kernel_has_group_pidfds()  # asked now: when it is needed, there may be no descriptor to ask with

    @property
    def running(self) -> Mapping[RunId, Running]:
        """The runs that have a process, or something left of one."""
        return MappingProxyType(self._runs)

    def start(self, launches: Sequence[Launch]) -> None:
        """Start these runs; never waits for what may hang. What becomes of them is reported, each once, and never from
        within this call.

        ``on_end``: they have ended, or could not be started. ``on_not_now``: nothing was started: their ``start_until``
        has passed on the way (TooLateError), or the wall clock has jumped back behind their time (TooEarlyError). Where
        the worker is short of processes, memory or open files, it is tried again, until ``start_until``. Raises
        ValueError for a run that is running already, RuntimeError after ``close``: both are the caller's bug.
        """
        for launch in launches:
            if launch.run_id in self._runs or launch.run_id in self._waiting:
                raise ValueError(f"{launch.run_id} is running already")
        if self._closed:
            raise RuntimeError("the executor is closed")
        soon = self._clock.boottime() + STAMP_VALID_S
        self._try([_Try(launch=one, until=soon if one.start_until is None else one.start_until) for one in launches])

    def end(self, run_id: RunId, order: StopOrder, *, exited_too: bool = False) -> bool:
        """End a run: TERM to all that it started, after its grace KILL. The first order is the one that counts.

        False where there is no such run, or its first process has exited of its own accord: its verdict stands. A run
        whose start is still being tried ends without one. ``exited_too``: its first process may have exited, and not
        of its own accord, if that is not known here yet: the guardian has ended it for us.
        """
        waiting = self._waiting.get(run_id)
        if waiting is not None:
            waiting.stop_order = waiting.stop_order or order
            if not waiting.is_asked:
                del self._waiting[run_id]
                self._ended_unstarted(waiting, waiting.stop_order)
            return True
        run = self._runs.get(run_id)
        if run is None:
            return False
        if run.stop_order is not None:
            return True
        if run.exit is not None or (run.group.leader_exited() and not exited_too):
            return False
        look_at(run)
        run.stop_order = order
        self._sweep(run)
        return True

    async def drained(self) -> None:
        """Return when nothing runs, but what cannot be ended, and every outcome has been given."""
        while not self._is_idle():
            await self._idle.wait()

    async def close(self) -> None:
        """End what still runs (``killed: worker shutdown``), wait for it, and give everything back.

        What cannot be ended is not waited for: it has no outcome from here.
        """
        already, self._closed = self._closed, True
        for run_id in (*self._waiting, *self._runs):
            self.end(run_id, StopOrder(reason=SHUTDOWN))
        await self.drained()
        if not already:
            for run in [self._runs[run_id] for run_id in self._stuck]:
                self._let_go(run)
                if run.starting is not None:
                    run.starting.close()
            self._memory.close()
            self._outputs.close()
            self._run_watch.close()
            self._sweeper.close()
            self._spawner.close()

    def _try(self, tries: Sequence[_Try]) -> None:
        """Each step of all starts, before the next one: see ``Execution``."""
        is_guarded = self._guard.intents([one.launch.run_id for one in tries])
        turn = Turn()

        def prepare(one: _Try) -> None:
            one.tries += 1
            if not is_guarded:
                raise ShortageError(f"worker {self._worker} has no guardian now (see its log)")
            one.start = self._spawner.prepare(one.launch, turn, here=one.here)

        not_here: list[_Try] = []
        try:
            for step in (prepare, self._execute, self._after_execute):
                going_on = []
                for one in tries:
                    try:
                        step(one)
                    except AskLauncherError:
                        not_here.append(one)
                    except Exception as error:
                        self._failed(one, error)
                    else:
                        going_on.append(one)
                tries = going_on
        finally:
            turn.close()
        for one in not_here:
            one.here, one.tries = False, one.tries - 1
        if not_here:
            self._try(not_here)

    def _execute(self, one: _Try) -> None:
        assert one.start is not None, "it was prepared"
        self._spawner.execute(one.start)

    def _after_execute(self, one: _Try) -> None:
        """The run, or, where the launcher starts it, its wait: until its channel says something, or for too long."""
        start = one.start
        assert start is not None, "it was executed"
        if start.starting is None:
            self._begin(self._spawner.finish(start))
            return
        self._waiting[one.launch.run_id] = one
        self._idle.clear()
        self._loop.add_reader(start.starting.channel, self._on_process, one)
        one.timer = self._loop.call_later(_LAUNCHER_ANSWERS_WITHIN_S, self._launcher.replace, "it does not answer")

    def _failed(self, one: _Try, error: Exception) -> None:
        """Nothing of the start is left."""
        run_id = one.launch.run_id
        one.start = None
        if one.stop_order is not None:
            self._ended_unstarted(one, one.stop_order)
            return
        match error:
            case ShortageError():
                self._try_later(one, error)
            case UnstartableError():
                self._could_not_start(one.launch, str(error))
            case TooLateError() if one.short is not None:
                self._give_up(one, one.short)
            case TooEarlyError() if one.short is not None:
                self._try_later(one, one.short)
            case NotNowError():
                self._guard.over(run_id)
                self._tell_soon(functools.partial(self._on_not_now, run_id, error))
            case _:  # of this run alone: a later try has no caller to raise it to
                extra = {"action": "spawn_unforeseen", "run_id": str(run_id)}
                _log.error("%s was not started, for a reason that nobody foresaw", run_id, extra=extra, exc_info=error)
                self._could_not_start(one.launch, unforeseen(error))

    def _on_process(self, one: _Try) -> None:
        """The launcher has a process for it, or has not."""
        start = one.start
        assert start is not None
        assert start.starting is not None
        assert one.timer is not None
        self._loop.remove_reader(start.starting.channel)
        one.timer.cancel()
        del self._waiting[one.launch.run_id]
        process = start.starting.process()
        if process is None:
            why = start.starting.fault() or ShortageError(f"worker {self._worker} has no launcher now (see its log)")
            start.give_up()
            self._failed(one, why)
            return
        try:
            run = self._spawner.launched(start, process)
        except Exception as error:  # of this run alone
            self._failed(one, error)
            return
        self._begin(run)
        if one.stop_order is not None:
            self.end(run.launch.run_id, one.stop_order)
        # Once the guardian has been sent the process: whatever becomes of us then, it ends it.
        self._loop.call_soon(start.starting.go)

    def _begin(self, run: Running) -> None:
        run_id, timeout_s = run.launch.run_id, run.launch.spec.timeout_s
        self._runs[run_id] = run
        self._idle.clear()
        try:
            self._guard.group(run_id, run.pid, run.started_s)
            self._watch(run)
            self._run_watch.output_soon(run)
            self._memory.begin()
            if timeout_s > 0:
                run.timeout = self._loop.call_later(timeout_s, self.end, run_id, StopOrder(kind=Verdict.TIMEOUT))
        except Exception as error:  # a process that is not watched must not go on
            extra = {"action": "run_unforeseen", "run_id": str(run_id)}
            _log.exception("%s is ended, for a reason that nobody foresaw", run_id, extra=extra)
            self.end(run_id, StopOrder(reason=unforeseen(error)), exited_too=True)

    def _try_later(self, waiting: _Try, error: ShortageError) -> None:
        """Try again soon, or, where that would be too late, give up."""
        run_id = waiting.launch.run_id
        delay = min(_START_AGAIN_AFTER_S * 2 ** (waiting.tries - 1), _START_AGAIN_AT_LEAST_EVERY_S)
        if self._clock.boottime() + delay >= waiting.until:
            self._give_up(waiting, error)
            return
        if waiting.tries == 1:
            _log.warning("%s is tried again: %s", run_id, error,
                         extra={"action": "spawn_short", "run_id": str(run_id)})  # fmt: skip
        self._waiting[run_id] = waiting
        self._idle.clear()
        waiting.short = error
        waiting.timer = self._loop.call_later(delay, self._try_again, waiting)

    def _try_again(self, waiting: _Try) -> None:
        del self._waiting[waiting.launch.run_id]
        assert waiting.short is not None, "it is tried again"
        if self._clock.boottime() >= waiting.until:
            self._give_up(waiting, waiting.short)  # the loop was late: what allowed the start may not hold any more
            return
        self._try([waiting])

    def _give_up(self, waiting: _Try, error: ShortageError) -> None:
        times = "once" if waiting.tries == 1 else f"{waiting.tries} times"
        self._could_not_start(waiting.launch, f"{error} (tried {times}; not the job's fault)")

    def _could_not_start(self, launch: Launch, why: str) -> None:
        self._guard.over(launch.run_id)
        outcome = unstarted(launch.run_id, why, self._clock.wall_ms())
        _log.warning("%s %s", outcome.run_id, outcome.err,
                     extra={"action": "spawn_failed", "run_id": str(outcome.run_id)})  # fmt: skip
        self._tell_soon(functools.partial(self._on_end, outcome))

    def _ended_unstarted(self, waiting: _Try, order: StopOrder) -> None:
        if waiting.timer is not None:
            waiting.timer.cancel()
        launch = waiting.launch
        self._guard.over(launch.run_id)
        outcome = Outcome(
            run_id=launch.run_id, verdict=order.kind, end_ms=self._clock.wall_ms(),
            err=order.in_words(launch.spec.timeout_s), reason=order.reason, by=order.by,
        )  # fmt: skip
        self._tell_soon(functools.partial(self._on_end, outcome))

    def _tell_soon(self, tell: Callable[[], None]) -> None:
        """What became of a run of which nothing was started. Not from within ``start`` or ``end``: no caller expects to
        be called back there."""
        self._unstarted += 1
        self._idle.clear()

        def tell_now() -> None:
            self._unstarted -= 1
            self._be_idle()
            tell()

        self._loop.call_soon(tell_now)

    def _be_idle(self) -> None:
        if self._is_idle():
            self._idle.set()

    def _is_idle(self) -> bool:
        return self._runs.keys() <= self._stuck and not self._waiting and not self._unstarted

    def _watch(self, run: Running) -> None:
        """Have the exit reported; without a descriptor for it, try again: the run goes on."""
        if self._runs.get(run.launch.run_id) is not run:
            return  # ended before it could be watched
        try:
            if run.group.pidfd is None:
                run.group.pidfd = os.pidfd_open(run.pid)
            self._run_watch.exit_of(run, run.group.pidfd)
        except OSError as error:
            _log.warning("%s cannot be watched yet: %s", run.launch.run_id, error,
                         extra={"action": "watch_failed", "run_id": str(run.launch.run_id)})  # fmt: skip
            self._loop.call_later(_WATCH_AGAIN_AFTER_S, self._watch, run)

    def _on_output(self, run: Running) -> None:
        """Take one pipe's worth, then let others have their turn."""
        assert run.pipe is not None, "it is watched"
        self._run_watch.forget(run.pipe)
        self._outputs.read(run, functools.partial(self._on_chunk, run))

    def _on_chunk(self, run: Running, chunk: bytes | None) -> None:
        run.take(chunk or b"")
        if run.pipe is None:
            return  # it is being closed
        if chunk == b"":
            self._close_pipe(run)  # the run goes on until it exits
            return
        try:
            self._run_watch.output_of(run, run.pipe)
        except OSError:
            self._run_watch.output_soon(run)

    def _on_exits(self, runs: Sequence[Running]) -> None:
        self._guard.read_messages()
        for run in runs:
            if self._runs.get(run.launch.run_id) is not run or run.group.pidfd is None:
                continue  # it has been seen to while others were reported
            self._run_watch.forget(run.group.pidfd)
            if run.stop_order is not None and run.group.leader_exited():
                self._sweeper.look_soon()
            elif run.stop_order is not None or not self._reap(run):
                # Another process traces it: its exit is not ours yet.
                self._loop.call_later(_WATCH_AGAIN_AFTER_S, self._watch, run)
            elif run.group.send(0):
                self._sweep(run)
            else:
                self._finish(run)

    def _reap(self, run: Running) -> bool:
        """Whether its exit was ours to take."""
        if run.starting is not None and run.stop_order is not None and is_only_forked(run.pid):
            took_s = self._clock.boottime() - run.started_s
            run.hung_at = run.starting.hung_at() if took_s >= _HANGS_AFTER_S else None
        run.exit = reap(run.pid, self._own_peak)
        if run.exit is None:
            return False
        run.group.leader_reaped = True
        self._cancel_timeout(run)
        return True

    def _sweep(self, run: Running) -> None:
        self._cancel_timeout(run)
        kill_at = self._clock.monotonic() + run.launch.spec.kill_grace_s
        everything = run.stop_order is not None
        self._sweeper.add(Remains(run_id=run.launch.run_id, group=run.group, everything=everything, kill_at=kill_at))

    def _cleared(self, remains: Remains, survivors: Sequence[int]) -> None:
        run = self._runs[remains.run_id]
        if run.exit is None:
            self._reap(run)
        self._finish(run, survivors)

    def _on_stuck_remains(self, remains: Remains) -> None:
        self._stuck.add(remains.run_id)
        self._be_idle()
        self._on_stuck(remains.run_id)

    def _finish(self, run: Running, survivors: Sequence[int] = ()) -> None:
        if self._runs.get(run.launch.run_id) is not run:
            return  # it was stuck, and given up at the end
        self._stuck.discard(run.launch.run_id)
        if run.pipe is not None:
            self._run_watch.forget(run.pipe)
        self._outputs.finish(run, functools.partial(self._finished, run, survivors))

    def _finished(self, run: Running, survivors: Sequence[int]) -> None:
        left = run.group if survivors and run.group.send(0) else None
        self._let_go(run, left=left)
        if left is None:
            self._guard.over(run.launch.run_id)
        why_not: UnstartableError | NotNowError | None = None
        if run.starting is not None:
            if run.stop_order is None:  # else it may be us who ended it before its command could be executed
                why_not = run.starting.fault()
            run.starting.close()
        if why_not is not None:
            if left is not None:
                left.close()
            self._failed(_Try(launch=run.launch, until=run.launch.start_until or 0, here=False, tries=1), why_not)
            return
        end_ms = self._end_dates.now_ms(start_ms=run.start_ms, started_s=run.started_s)
        outcome = run.outcome(end_ms, survivors, left)
        self._be_idle()
        self._on_end(outcome)

    def _let_go(self, run: Running, *, left: ProcessGroup | None = None) -> None:
        """Its descriptors are given back, but the channel of its start, and a group that is left of it."""
        self._close_pipe(run)
        if run.group.pidfd is not None:
            self._run_watch.forget(run.group.pidfd)
        if left is None:
            run.group.close()
        del self._runs[run.launch.run_id]
        self._stuck.discard(run.launch.run_id)

    def _close_pipe(self, run: Running) -> None:
        if run.pipe is not None:
            self._run_watch.forget(run.pipe)
            self._outputs.finish(run, lambda: None)

    @staticmethod
    def _cancel_timeout(run: Running) -> None:
        if run.timeout is not None:
            run.timeout.cancel()
            run.timeout = None
