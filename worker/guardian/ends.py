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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from worker.guardian.group_leader import GroupLeader
from worker.machine.left_groups import LeftGroup
from worker.machine.looks import Looks
from worker.machine.marked import Leftover, find_leftovers
from worker.machine.tree import Tree

_log = logging.getLogger(__name__)

_PIDS_SHOWN: Final = 20


@dataclass(slots=True, kw_only=True, eq=False)
class ForcedEnd(Tree[GroupLeader | None]):
    """One run that is being ended."""

    run: str
    endless: bool
    """A process of it may still come: it is looked for until the worker says that there is none."""
    term: bool
    """Whether it gets a TERM from here; False where its worker has sent one."""
    given_up: bool = False

    @property
    def clear(self) -> bool:
        """Whether nothing of it lives, or nothing can be done about what does."""
        return self.given_up or (not self.endless and self.is_quiet)


class Ends:
    """The runs that are being ended, by id."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._ends: dict[str, ForcedEnd] = {}
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
        self, run: str, leader: GroupLeader | None, *, kill_at: float, term: bool = True, endless: bool = False
    ) -> None:
        """End a run; called again, the earlier ``kill_at`` counts. ``term``: False where its worker has sent one."""
        end = self._ends.get(run)
        if end is None:
            end = self._ends[run] = ForcedEnd(run=run, group=leader, kill_at=kill_at, endless=endless, term=term)
            if term:
                end.begin()
        end.group, end.term = leader or end.group, end.term or term
        end.kill_at, end.endless, end.given_up = min(end.kill_at, kill_at), endless, False
        end.begin_anew()

    def found_process(self, run: str, leader: GroupLeader | None) -> None:
        """The run that is looked for has a process after all: it is this one, and no more are to come."""
        end = self._ends.get(run)
        if end is not None:
            end.group, end.endless = leader, False
            end.begin_anew()

    def nothing_more_comes(self) -> None:
        """What has not been found by now was never started."""
        for end in self._ends.values():
            end.endless = False

    def over(self, run: str) -> None:
        """Nothing of it is left, its worker says."""
        self._ends.pop(run, None)

    def left(self, now_ms: int) -> list[LeftGroup]:
        """The groups of those that were given up."""
        given_up = ((end.run, end.group) for end in self._ends.values() if end.given_up)
        return [left for run, leader in given_up if leader and (left := leader.left_of(run, now_ms)) is not None]

    def look(self, now: float) -> None:
        """One look at all of them, and signals to what lives; blocks for some milliseconds, on a busy machine longer.

        So the groups whose grace is over are killed before it, and what has left them after it.
        """
        open_ends = {run: end for run, end in self._ends.items() if not end.clear}
        for end in open_ends.values():
            leader = end.group
            if end.kill_if_due(now, lives=leader is not None and leader.is_living()):
                _note_kill(end, [leader.pid] if leader else [])
        try:
            leaders = {
                end.group.pid: run
                for run, end in open_ends.items()
                if end.group is not None and end.group.is_known()
            }  # fmt: skip
            living: dict[str, list[Leftover]] = {run: [] for run in open_ends}
            for leftover in self._looks.look(partial(find_leftovers, self._instance, leaders=leaders)):
                if leftover.run_id in living:
                    living[leftover.run_id].append(leftover)
            for run, end in open_ends.items():
                self._judge(end, living[run], now)
        except OSError as error:
            # What is known of them without a look has been ended; whether that was all, a later look will show.
            if not self._is_blind:
                _log.error("cannot look for what runs have left: %s", error, extra={"action": "guardian.blind"})
            self._is_blind = True
        else:
            self._is_blind = False

    def _judge(self, end: ForcedEnd, living: Sequence[Leftover], now: float) -> None:
        end.looked(lives=bool(living))
        if living and end.kill_if_due(now):
            _note_kill(end, _some_pids(living))
        for leftover in living:
            # Before its grace is over the leader's group has had a TERM of its own, or its worker has sent one to all.
            is_signalled = not end.term or (end.group is not None and leftover.pgid == end.group.pid)
            if end.killing_since is not None or not is_signalled:
                end.end(leftover.process)
        if living and end.is_overdue(now) and not end.endless:
            end.given_up = True
            extra = {"action": "guardian.gave_up", "run": end.run, "pids": _some_pids(living)}
            _log.error("%s: processes cannot be ended: %s", end.run, extra["pids"], extra=extra)


def _note_kill(end: ForcedEnd, pids: Sequence[int]) -> None:
    extra = {"action": "guardian.kill", "run": end.run, "pids": pids}
    _log.warning("%s is killed by the guardian", end.run, extra=extra)


def _some_pids(living: Sequence[Leftover]) -> list[int]:
    """For the log: a line of reasonable length."""
    return [one.pid for one in living[:_PIDS_SHOWN]]
