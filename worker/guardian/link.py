"""The worker's link to its guardian: starts it, reports each run to it, and replaces it when it ends or falls silent.

    starting ──ready──> all open runs are sent ──> guarding ──ended, or silent──> starting
                                │                     │ ^
                                └──its pipe is full───┴─┘ (until it has read)

Nothing starts but while it is guarding. What is to be sent meanwhile is kept for then, or for the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from common.clock import Clock
from common.errors import EtcronError
from common.etcd import Session
from common.process.lifecycle import until_first
from common.protocol.keys import RunId
from worker.guardian.child import Child
from worker.guardian.messages import (
    Adopt,
    Confirmed,
    Ended,
    Ending,
    Leapt,
    Message,
    Past,
    Ping,
    Pong,
    Ready,
    encode,
    group_line,
    in_json,
    intent_line,
    over_line,
)
from worker.runs import Run, RunTable

_log = logging.getLogger(__name__)

_TICK_S: Final = 0.5
_SILENT_TICKS: Final = 10
"""Ticks of this process, not time: one that was stopped has not waited for an answer."""
_AWAY_IS_A_FAULT_AFTER_S: Final = 1.0
_LOGGED_AFTER_S: Final = 2.0
_LEAVES_WITHIN_S: Final = 1.0
_LOOK_S: Final = 0.005
_STARTS_AT_ONCE: Final = 3


class GuardianError(EtcronError):
    """The guardian's process cannot be started. Mend what the log says of it: nothing runs without it."""


@dataclass(slots=True, kw_only=True)
class _Open:
    """A run of which the guardian knows, or will."""

    run: Run
    session: Session
    """The one that it was sent last."""
    name: str
    """The run's, as lines have it."""
    pid: int | None = None
    began: float = 0.0
    reported: float = 0.0


class GuardianLink:
    """A ``Guard``. Enter it before anything of the worker's may start; what is open when it is left is ended."""

    def __init__(
        self,
        *,
        directory: Path,
        instance: str,
        table: RunTable,
        margin_s: float,
        logs: tuple[str, str],
        on_past: Callable[[RunId, bool], bool],
        on_ready: Callable[[], None],
        on_leapt: Callable[[], None],
        announce: Callable[[str | None], Awaitable[None]],
        clock: Clock,
    ) -> None:
        """In the directory of the worker's data.

        ``on_past(run, ended)``: it is past its deadline (and the guardian has begun to end it); returns whether it is
        being ended now. ``on_ready()``: processes may start. ``on_leapt()``: the worker's session is to be confirmed
        anew. ``announce(fault)``: no process may have started for a while; None: they may again.
        """
        self._lock = directory / "guardian.lock"
        self._instance = instance
        self._table = table
        self._margin_s = margin_s
        self._logs = logs
        self._on_past = on_past
        self._on_ready = on_ready
        self._on_leapt = on_leapt
        self._announce = announce
        self._clock = clock
        self._open: dict[RunId, _Open] = {}
        self._confirmed: dict[str, float] = {}
        """By session: what the guardian was sent last."""
        self._child: Child | None = None
        self._former: list[Child] = []
        """Ended, and not reaped yet."""
        self._ready = asyncio.Event()
        self._entered = False
        self._began = 0.0
        self._failed_starts = 0
        self._away_since: float | None = None
        self._unanswered = 0
        self._pings = 0
        self._changed = asyncio.Event()
        self._announced: str | None = None
        self._sends_soon = False

    @property
    def guarding(self) -> bool:
        """Whether a process that is started now is guarded."""
        return self._ready.is_set() and self._child is not None and not self._child.is_behind

    @property
    def pid(self) -> int | None:
        """The guardian's process id; None while there is none."""
        return None if self._child is None else self._child.pid

    @property
    def pids(self) -> set[int]:
        """Its process, and those before it that have not been reaped yet."""
        return {child.pid for child in (self._child, *self._former) if child is not None}

    # Beginning and end

    async def __aenter__(self) -> Self:
        """Once it guards; one that is still ending what a former worker has left is waited for."""
        try:
            await self._wait_until_guarding()
        except BaseException:
            if self._child is not None:
                self._child.kill()  # it guards nothing, and would wait for the lock by itself
            await self.__aexit__(None, None, None)
            raise
        self._entered = True
        return self

    async def _wait_until_guarding(self) -> None:
        self._begin()
        began, is_logged = self._clock.monotonic(), False
        while not self.guarding:
            if self._child is None and self._failed_starts >= _STARTS_AT_ONCE:
                raise GuardianError(
                    f"the guardian's process has ended {self._failed_starts} times, and never was ready"
                )
            if self._child is None:
                self._begin()
            if not is_logged and self._clock.monotonic() - began > _LOGGED_AFTER_S:
                is_logged = True
                extra = {"action": "guardian.waits"}
                _log.warning("waits for the guardian of a former life, which ends what was left running", extra=extra)
            try:
                async with asyncio.timeout(_TICK_S):
                    await self._ready.wait()
            except TimeoutError:
                continue

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """It ends what is still open. One that takes longer than a second goes on without this process."""
        self._entered = False
        self._send_queued()  # while it guards: else it would look for what has ended, and end what that left
        self._ready.clear()
        child, self._child = self._child, None
        if child is not None:
            _wait_no_more(child)
            child.leave()
            self._former.append(child)
        until = self._clock.monotonic() + _LEAVES_WITHIN_S
        while self._reap() and self._clock.monotonic() < until:  # noqa: ASYNC110 - it is asked, and does not tell
            await asyncio.sleep(_LOOK_S)
        for one in self._former:
            one.forget()

    async def run(self) -> None:
        """Keeps the guardian in the picture, and keeps one, until cancelled."""
        await until_first(self._tick_for_ever(), self._announce_for_ever())

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self.tick()

    async def _announce_for_ever(self) -> None:
        """Apart from the ticks: announcing may wait for etcd."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            away_since, now = self._away_since, self._clock.monotonic()
            is_away = away_since is not None and now - away_since > _AWAY_IS_A_FAULT_AFTER_S
            fault = "no guardian: its process cannot be started, see the worker's log" if is_away else None
            if fault != self._announced:
                self._announced = fault
                await self._announce(fault)

    # Sent

    def intents(self, run_ids: Sequence[RunId]) -> bool:
        child, runs = self._child, {one: run for one in run_ids if (run := self._table.get(one)) is not None}
        if child is None or not self.guarding or len(runs) < len(run_ids):
            return False
        for run_id, run in runs.items():
            if run_id not in self._open:
                self._open[run_id] = _Open(run=run, session=run.session, name=in_json(str(run_id)))
            child.queue(self._intent_of(self._open[run_id]))
        if self._flush(child) and self.guarding:
            return True  # they lie in the pipe, and are read even if this process ends now
        for run_id in run_ids:
            self.over(run_id)
        return False

    def group(self, run_id: RunId, pid: int, began: float) -> None:
        one = self._open[run_id]
        one.pid, one.began, one.reported = pid, began, self._clock.boottime()
        self._send_soon(group_line(one.name, pid, began, one.reported))

    def over(self, run_id: RunId) -> None:
        if (one := self._open.pop(run_id, None)) is not None:
            self._send_soon(over_line(one.name))

    def tick(self) -> None:
        """Sends what has changed since the last one, notices silence, and starts a guardian where there is none."""
        self._reap()
        if self._child is None:
            self._begin()
        self._changed.set()
        if not self._ready.is_set():
            return
        if self._unanswered >= _SILENT_TICKS:
            self._lost("it does not answer")
            return
        for run_id, one in tuple(self._open.items()):
            if one.run.session is not one.session:
                one.session = one.run.session
                self._send(Adopt(str(run_id), one.session.id, one.session.confirmed_boottime))
        sessions = {one.session.id: one.session for one in self._open.values()}
        self._confirmed = {known: at for known, at in self._confirmed.items() if known in sessions}
        for session in sessions.values():
            if self._confirmed.get(session.id) != session.confirmed_boottime:
                self._confirmed[session.id] = session.confirmed_boottime
                self._send(Confirmed(session.id, session.confirmed_boottime))
        self._unanswered += 1
        self._pings += 1
        self._send(Ping(self._pings))

    def _intent_of(self, one: _Open) -> bytes:
        run = one.run
        lost_after_ms, grace_s = run.entry.lost_after_ms, run.job.spec.kill_grace_s
        allowance_s = None if lost_after_ms is None else lost_after_ms / 1000 - grace_s - self._margin_s
        return intent_line(
            one.name, run.session.id, run.session.confirmed_boottime, allowance_s, grace_s, locked=run.holds_lock,
            pid=one.pid, began=one.began, reported=one.reported,
        )  # fmt: skip

    def _send(self, message: Message) -> bool:
        return self._send_line(encode(message))

    def _send_line(self, line: bytes) -> bool:
        child = self._child
        if not self._ready.is_set() or child is None:
            return False
        child.queue(line)
        return self._flush(child)

    def _send_soon(self, line: bytes) -> None:
        """With the next intent, or when the loop has gone round: one write, and one look of its, for several runs.

        If we die before, it finds what it knows an intent of by its marks, and what has ended nowhere.
        """
        if not self._ready.is_set() or self._child is None:
            return
        self._child.queue(line)
        if not self._sends_soon:
            self._sends_soon = True
            asyncio.get_running_loop().call_soon(self._send_queued)

    def _send_queued(self) -> None:
        self._sends_soon = False
        if self._child is not None and self._ready.is_set():
            self._flush(self._child)

    def _flush(self, child: Child) -> bool:
        if child.flush():
            if child.is_behind:
                asyncio.get_running_loop().add_writer(child.out_fd, self._on_writable)
            return True
        self.read_messages()  # its last messages may show why a process has ended
        if self._child is child:
            self._lost("it does not listen")
        return False

    def _on_writable(self) -> None:
        """It has read: what waited is sent; then processes may start again."""
        child = self._child
        if child is None or not child.flush() or child.is_behind:
            return  # that it has ended is read, too
        asyncio.get_running_loop().remove_writer(child.out_fd)
        self._on_ready()

    # Received

    def read_messages(self) -> None:
        if (child := self._child) is None:
            return
        messages = child.receive()
        if messages is None:
            self._lost("it has ended")
            return
        if messages:
            self._unanswered = 0
        for message in messages:
            self._take(message)

    def _take(self, message: Message) -> None:
        match message:
            case Ready():
                self._on_child_ready()
            case Past(run=run):
                if self._on_past(run_id := RunId.parse(run), False):
                    self._send(Ending(str(run_id)))
            case Ended(run=run):
                self._on_past(RunId.parse(run), True)
            case Leapt():  # what this process sent before, by its own look at the clock, does not count there
                for one in self._open.values():
                    one.run.session.confirm_soon()
                self._on_leapt()  # no run of the newest one may be open yet
            case Pong():
                pass
            case _:
                raise ValueError(f"not for a worker: {message}")

    def _on_child_ready(self) -> None:
        assert self._child is not None
        self._ready.set()
        self._away_since, self._failed_starts = None, 0
        extra = {"action": "guardian.ready", "pid": self._child.pid, "runs": len(self._open)}
        _log.info("guarded by process %d", self._child.pid, extra=extra)
        for one in tuple(self._open.values()):
            one.session = one.run.session
            self._send_line(self._intent_of(one))
        self._changed.set()
        self._on_ready()

    # The process

    def _begin(self) -> None:
        """A new guardian, at most one a tick."""
        now = self._clock.monotonic()
        if self._away_since is None:
            self._away_since = now
        self._began = now
        self._failed_starts += 1
        try:
            child = Child(lock=self._lock, instance=self._instance, logs=self._logs)
        except OSError as error:
            if self._failed_starts == 1:
                extra = {"action": "guardian.unstartable"}
                _log.error("the guardian could not be started, it is tried again: %s", error, extra=extra)
            return
        self._child, self._unanswered = child, 0
        asyncio.get_running_loop().add_reader(child.in_fd, self.read_messages)

    def _lost(self, why: str) -> None:
        """This one does not guard any more: it is ended for certain, and the next one is begun."""
        child, self._child = self._child, None
        if child is None:
            return
        was_guarding = self._ready.is_set()
        self._ready.clear()
        _wait_no_more(child)
        child.kill()  # before its pipe is closed: else it would end all that runs
        child.leave()
        self._former.append(child)
        extra = {"action": "guardian.lost", "pid": child.pid, "why": why, "runs": len(self._open)}
        level = logging.ERROR if was_guarding or self._failed_starts == 1 else logging.DEBUG  # once for each change
        _log.log(level, "the guardian, process %d, is replaced: %s", child.pid, why, extra=extra)
        self._away_since = self._clock.monotonic() if was_guarding else self._away_since
        if was_guarding and self._entered and self._clock.monotonic() - self._began > _TICK_S:
            self._begin()

    def _reap(self) -> bool:
        """Whether some former one has not been reaped yet."""
        self._former = [child for child in self._former if not child.has_ended()]
        return bool(self._former)


def _wait_no_more(child: Child) -> None:
    loop = asyncio.get_running_loop()
    loop.remove_reader(child.in_fd)
    loop.remove_writer(child.out_fd)
