"""Ends what a run has started: TERM, after its grace KILL, again and again until nothing of it lives.

    begin ──TERM──> look ──nothing lives, twice──> quiet
                     │ ^
                     └─┘ from ``kill_at`` on with KILL; ten seconds later it is overdue: it waits in the kernel, or is
                         another user's

The group of the run's first process is signalled as a whole, each other process of the run by itself. Who looks, how
often and on which clock is the caller's: the worker for its own runs (``run.sweeper``), its guardian for those of
a worker that has ended or is late (``guardian.ends``), and a worker's start for what an earlier one left running
(``run.leftovers``). Times are that clock's, in seconds.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from worker.machine.processes import Process, send

GIVE_UP_AFTER_KILL_S: Final = 10.0
_QUIET_LOOKS: Final = 2
"""A look is not a snapshot: a process in the middle of an exec shows no environment. So look twice for marks."""


class Group(Protocol):
    """A process group that is known to be the run's."""

    def send(self, number: signal.Signals, /) -> object:
        """Signal every process in it."""


_Group = TypeVar("_Group", bound=Group | None)


@dataclass(slots=True, kw_only=True, eq=False)
class Tree(Generic[_Group]):
    """The processes of one run, and how far their ending has come."""

    group: _Group
    """None: its processes are known by their marks alone."""
    kill_at: float
    signalled: set[tuple[int, int]] = field(default_factory=set)
    """What outside of the group was sent a TERM: process id and start time."""
    killing_since: float | None = None
    quiet_looks: int = 0

    def begin(self) -> None:
        """TERM to the group."""
        if self.group is not None:
            self.group.send(signal.SIGTERM)
            self.group.send(signal.SIGCONT)  # a stopped process takes no TERM

    def kill_if_due(self, now: float, *, lives: bool = True) -> bool:
        """Where the grace is over, KILL to the group: also to those that came since a look. Whether it is the first.

        ``lives``: whether anything of it is known to; the ten seconds are from the first KILL to something.
        """
        if now < self.kill_at:
            return False
        is_first = lives and self.killing_since is None
        if is_first:
            self.killing_since = now  # this process may have been stopped since ``kill_at``
        if self.group is not None:
            self.group.send(signal.SIGKILL)
        return is_first

    def end(self, process: Process) -> bool:
        """A process outside of the group: TERM once, or KILL. Whether it is signalled for the first time."""
        if self.killing_since is not None:
            send(process, signal.SIGKILL)
            return False
        who = (process.pid, process.started)
        if who in self.signalled:
            return False
        self.signalled.add(who)
        send(process, signal.SIGTERM, signal.SIGCONT)
        return True

    def looked(self, *, lives: bool) -> None:
        """A look has found something of it alive, or nothing."""
        self.quiet_looks = 0 if lives else self.quiet_looks + 1

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of it lives, for certain."""
        return self.quiet_looks >= _QUIET_LOOKS

    def is_overdue(self, now: float) -> bool:
        """Whether what lives cannot be ended."""
        return self.killing_since is not None and now >= self.killing_since + GIVE_UP_AFTER_KILL_S

    def begin_anew(self) -> None:
        """What was found of it says nothing any more: two looks again, and ten seconds."""
        self.quiet_looks, self.killing_since = 0, None
