"""Ends runs from outside of their worker: TERM, after the grace KILL, until nothing of them lives.

    begin ──TERM──> look ──nothing lives, twice──> clear
                     │ ^
                     └─┘ from ``kill_at`` on with KILL; after ten seconds of it it gives up

A look is one pass over /proc for all of them: their groups, their sessions, and whatever carries their marks. Where
/proc cannot be read (the machine is out of descriptors) their groups are signalled all the same, and it looks again.
Times are the boot clock's, in seconds.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from worker.guardian.leader import Leader
from worker.machine.left_groups import LeftGroup
from worker.machine.looks import Looks
from worker.machine.marked import Leftover, find_leftovers
from worker.machine.processes import send

_log = logging.getLogger(__name__)

GIVE_UP_AFTER_KILL_S: Final = 10.0
_QUIET_LOOKS: Final = 2
_PIDS_SHOWN: Final = 20


@dataclass(slots=True, kw_only=True, eq=False)
class End:
    """One run that is being ended."""

    run: str
    leader: Leader | None
    kill_at: float
    endless: bool
    """A process of it may still come: it is looked for until the worker says that there is none."""
    term: bool
    """Whether it gets a TERM from here; False where its worker has sent one."""
    told: set[tuple[int, int]] = field(default_factory=set)
    """Who was sent a TERM: process id and start time."""
    killing_since: float | None = None
    quiet_looks: int = 0
    given_up: bool = False

    @property
    def clear(self) -> bool:
        """Whether nothing of it lives, or nothing can be done about what does."""
        return self.given_up or (not self.endless and self.quiet_looks >= _QUIET_LOOKS)


class Ends:
    """The runs that are being ended, by id."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._ends: dict[str, End] = {}
        self._looks = Looks()
        self._is_blind = False

    def __contains__(self, run: object) -> bool:
        return run in self._ends

    @property
    def busy(self) -> bool:
        """Whether there is something to look for."""
        return any(not end.clear for end in self._ends.values())

    def next_kill_at(self, now: float) -> float:
        """When the next grace is over; infinity where none is running."""
        return min((end.kill_at for end in self._ends.values() if end.kill_at > now), default=float("inf"))

    def begin(
        self, run: str, leader: Leader | None, *, kill_at: float, term: bool = True, endless: bool = False
    ) -> None:
        """End a run; said again, the earlier ``kill_at`` counts. ``term``: False where its worker has sent one."""
        end = self._ends.get(run)
        if end is None:
            end = self._ends[run] = End(run=run, leader=leader, kill_at=kill_at, endless=endless, term=term)
            if term and leader is not None:
                leader.send(signal.SIGTERM)
                leader.send(signal.SIGCONT)  # a stopped process takes no TERM
        end.leader, end.term = leader or end.leader, end.term or term
        end.kill_at, end.endless = min(end.kill_at, kill_at), endless
        end.quiet_looks, end.given_up, end.killing_since = 0, False, None

    def has_process(self, run: str, leader: Leader | None) -> None:
        """The run that is looked for has a process after all: it is this one, and no more are to come."""
        end = self._ends.get(run)
        if end is not None:
            end.leader, end.endless, end.quiet_looks, end.killing_since = leader, False, 0, None

    def nothing_more_comes(self) -> None:
        """What has not been found by now was never started."""
        for end in self._ends.values():
            end.endless = False

    def over(self, run: str) -> None:
        """Nothing of it is left, its worker says."""
        self._ends.pop(run, None)

    def left(self, now_ms: int) -> list[LeftGroup]:
        """The groups of those that were given up."""
        given_up = (end for end in self._ends.values() if end.given_up and end.leader is not None)
        return [left for end in given_up if end.leader and (left := end.leader.left_of(end.run, now_ms)) is not None]

    def look(self, now: float) -> None:
        """One look at all of them, and signals to what lives; blocks for some milliseconds, on a busy machine longer.

        So the groups whose grace is over are killed before it, and what has left them after it.
        """
        open_ends = {run: end for run, end in self._ends.items() if not end.clear}
        for end in open_ends.values():
            _kill_group(end, now)
        try:
            self._look(open_ends, now)
        except OSError as error:
            self._look_in_vain(error)
        else:
            self._is_blind = False

    def _look(self, open_ends: Mapping[str, End], now: float) -> None:
        leaders = {
            end.leader.pid: run
            for run, end in open_ends.items()
            if end.leader is not None and end.leader.is_known()
        }  # fmt: skip
        living: dict[str, list[Leftover]] = {run: [] for run in open_ends}
        for leftover in self._looks.look(partial(find_leftovers, self._instance, leaders=leaders)):
            if leftover.run_id in living:
                living[leftover.run_id].append(leftover)
        for run, end in open_ends.items():
            self._judge(end, living[run], now)

    def _look_in_vain(self, error: OSError) -> None:
        """What is known of them without a look has been ended; whether that was all, a later look will show."""
        if not self._is_blind:
            self._is_blind = True
            _log.error("cannot look for what runs have left: %s", error, extra={"action": "guardian.blind"})

    def _judge(self, end: End, living: Sequence[Leftover], now: float) -> None:
        if not living:
            end.quiet_looks += 1
            return
        end.quiet_looks = 0
        if now < end.kill_at:
            if end.term:
                _term(end, living)
            return
        if end.killing_since is None:
            end.killing_since = now
            _note_kill(end, _some_pids(living))
        if end.leader is not None:
            end.leader.send(signal.SIGKILL)  # also those that came since the look
        for leftover in living:
            send(leftover.process, signal.SIGKILL)
        if now >= end.killing_since + GIVE_UP_AFTER_KILL_S and not end.endless:
            end.given_up = True
            extra = {"action": "guardian.gave_up", "run": end.run, "pids": _some_pids(living)}
            _log.error("%s: processes cannot be ended: %s", end.run, extra["pids"], extra=extra)


def _kill_group(end: End, now: float) -> None:
    """The group of the run's first process, where its grace is over."""
    if end.leader is None or now < end.kill_at:
        return
    if end.killing_since is None and end.leader.is_living():
        end.killing_since = now
        _note_kill(end, [end.leader.pid])
    end.leader.send(signal.SIGKILL)


def _note_kill(end: End, pids: Sequence[int]) -> None:
    extra = {"action": "guardian.kill", "run": end.run, "pids": pids}
    _log.warning("%s is killed by the guardian", end.run, extra=extra)


def _term(end: End, living: Iterable[Leftover]) -> None:
    """TERM to each once. The leader's group has had its own when this began."""
    for leftover in living:
        process = leftover.process
        in_group = end.leader is not None and process.group == end.leader.pid
        if not in_group and (process.pid, process.started) not in end.told:
            send(process, signal.SIGTERM, signal.SIGCONT)
            end.told.add((process.pid, process.started))


def _some_pids(living: Sequence[Leftover]) -> list[int]:
    """For the log: a line of reasonable length."""
    return [one.pid for one in living[:_PIDS_SHOWN]]
