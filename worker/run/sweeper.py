"""What is left of a run is ended: TERM, after the run's grace KILL, and again until nothing of it lives.

Two kinds of remains. After an exit of its own accord, a run's *process group* is what counts. After a kill or a
timeout everything does that the run started: its group, its session, and whatever carries its marks.

    add ──TERM──> look ──nothing lives──> on_clear
                   │ ^
                   └─┘ every 5 to 200 ms; from ``kill_at`` on with KILL; ten seconds later it gives up,
                       but not on the leader: without its exit there is no verdict. It is reported as stuck, and
                       looked for no more: its exit says that it is gone

One look serves all remains: one pass over /proc, in a thread, and none at all for a group that is empty. While
everything counts, the leader is kept as a zombie, so that its number, which names the group and the session, cannot
be given to anybody else.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from common.clock import Clock
from common.protocol.keys import RunId
from worker.machine.looks import Looks
from worker.machine.process_group import ProcessGroup
from worker.machine.processes import Process, all_processes, run_mark
from worker.machine.tree import Tree

_log = logging.getLogger(__name__)

_FIRST_LOOK_AFTER_S = 0.005
_LOOK_AT_LEAST_EVERY_S = 0.2


@dataclass(slots=True, kw_only=True, eq=False)
class Remains(Tree[ProcessGroup]):
    """What is left of one run, and how far its ending has come, by the monotonic clock."""

    run_id: RunId
    everything: bool
    """Also what has left the group. Then the leader must not be reaped before ``on_clear``."""
    is_said_to_be_overdue: bool = False
    stuck: bool = False
    """Its leader is beyond every signal: in the kernel, most likely waiting for a mount."""


class Sweeper:
    """Ends remains, and tells ``on_clear(remains, survivors)`` for each; survivors are the pids it had to give up.

    Before that ``on_stuck(remains)``, where the leader itself cannot be ended.
    """

    def __init__(
        self, *, instance: str, clock: Clock, on_clear: Callable[[Remains, Sequence[int]], None],
        on_stuck: Callable[[Remains], None],
    ) -> None:  # fmt: skip
        self._instance = instance
        self._clock = clock
        self._on_clear = on_clear
        self._on_stuck = on_stuck
        self._loop = asyncio.get_running_loop()
        self._remains: list[Remains] = []
        self._delay = _FIRST_LOOK_AFTER_S
        self._timer: asyncio.TimerHandle | None = None
        self._looking = False
        self._is_blind = False
        self._looks = Looks()
        self._looking_task: asyncio.Task[list[list[int]]] | None = None

    def add(self, remains: Remains) -> None:
        """Begin to end them."""
        self._remains.append(remains)
        remains.begin()
        self.look_soon()

    def look_soon(self) -> None:
        """Something has happened: do not wait for the next look."""
        self._delay = _FIRST_LOOK_AFTER_S
        self._schedule()

    def close(self) -> None:
        """Stop looking."""
        self._remains.clear()
        self._schedule()
        self._looks.close()
        if self._looking_task is not None:
            self._looking_task.cancel()

    @property
    def _looked_for(self) -> tuple[Remains, ...]:
        """What is stuck is looked for once it has exited."""
        return tuple(one for one in self._remains if not one.stuck or one.group.leader_exited())

    def _schedule(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._looked_for and not self._looking:
            now = self._clock.monotonic()
            due = [remains.kill_at - now for remains in self._remains if remains.killing_since is None]
            self._timer = self._loop.call_later(max(0.0, min([self._delay, *due])), self._look)

    def _look(self) -> None:
        self._timer = None
        self._delay = min(self._delay * 2, _LOOK_AT_LEAST_EVERY_S)
        for remains in tuple(self._remains):
            if remains.kill_if_due(self._clock.monotonic()):
                self._delay = _FIRST_LOOK_AFTER_S
                _log.warning("%s did not end on TERM", remains.run_id,
                             extra={"action": "run_sent_kill", "run_id": str(remains.run_id)})  # fmt: skip
            if not remains.everything and not remains.group.send(0):
                self._clear(remains)
        if looked_for := self._looked_for:
            self._looking = True
            look_at_them = functools.partial(look, looked_for, self._instance)
            self._looking_task = self._loop.create_task(self._looks.look_beside(look_at_them), name="sweeper")
            self._looking_task.add_done_callback(lambda looked: self._looked(looked_for, looked))

    def _looked(self, looked_for: Sequence[Remains], looked: asyncio.Future[list[list[int]]]) -> None:
        self._looking = False
        if looked.cancelled():
            return
        if (error := looked.exception()) is not None:
            if not self._is_blind:  # once: it looks five times a second
                _log.warning("cannot look for what runs have left: %s", error, extra={"action": "look_failed"})
            self._is_blind = True
        else:
            self._is_blind = False
            for remains, living in zip(looked_for, looked.result(), strict=True):
                self._judge(remains, living)
        self._schedule()

    def _judge(self, remains: Remains, living: Sequence[int]) -> None:
        remains.looked(lives=bool(living))
        gone = remains.group.leader_exited()
        if gone and (remains.is_quiet or not (living or remains.everything)):
            # Only zombies are left in the group; a living one that was missed by the look would go with this.
            remains.group.send(signal.SIGKILL)
            self._clear(remains)
        elif remains.is_overdue(self._clock.monotonic()):
            if not remains.is_said_to_be_overdue:
                remains.is_said_to_be_overdue = True
                extra = {"action": "run_survived_kill", "run_id": str(remains.run_id), "pids": living}
                _log.error("%s: processes cannot be ended: %s", remains.run_id, living, extra=extra)
            if gone:
                self._clear(remains, living)
            elif not remains.stuck:
                remains.stuck = True
                self._on_stuck(remains)

    def _clear(self, remains: Remains, survivors: Sequence[int] = ()) -> None:
        self._remains.remove(remains)
        self._on_clear(remains, survivors)


def look(looked_for: Sequence[Remains], instance: str) -> list[list[int]]:
    """The living pids of each, in the same order; those outside of the group are sent TERM once, or KILL. Blocks."""
    by_leader = {remains.group.leader: remains for remains in looked_for}
    by_mark = {str(remains.run_id): remains for remains in looked_for if remains.everything}
    living: dict[int, list[int]] = {id(remains): [] for remains in looked_for}
    for process in all_processes():
        if process.dead:
            continue
        remains = by_leader.get(process.group)
        if remains is None:
            remains = _whose_stray(process, by_leader, by_mark, instance)
            if remains is not None:
                remains.end(process)
        if remains is not None:
            living[id(remains)].append(process.pid)
    return [living[id(remains)] for remains in looked_for]


def _whose_stray(
    process: Process, by_leader: dict[int, Remains], by_mark: dict[str, Remains], instance: str
) -> Remains | None:
    """The run whose group this process has left; by its session, else by its marks."""
    remains = by_leader.get(process.session)
    if remains is not None and remains.everything:
        return remains
    mark = run_mark(process.pid, instance) if by_mark else None
    return by_mark.get(mark) if mark is not None else None
