"""The first process of a run as a guardian knows it, which is not its parent: exactly this one, or none."""

from __future__ import annotations

import os
import signal
from typing import Final, Self

from worker.machine.left_groups import LeftGroup
from worker.machine.process_group import ProcessGroup
from worker.machine.processes import read_process, run_mark

_TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
_NOT_GIVEN_AWAY_S: Final = 1.0
"""All numbers would have to be given away once to come to the same one again."""


class GroupLeader:
    """Leads the group and the session of a run; its number is the run's for as long as ``is_known`` says so."""

    __slots__ = ("_given_away", "_group", "_started", "pid")

    def __init__(self, pid: int, started: int | None) -> None:
        """``started``: None where it is gone already, and only its group is there."""
        self.pid = pid
        self._started = started
        self._given_away = False
        self._group = ProcessGroup(pid)
        try:
            self._group.pidfd = os.pidfd_open(pid)
        except OSError:  # out of descriptors: it is signalled by its number
            self._group.pidfd = None

    @classmethod
    def of(
        cls, run: str, pid: int, *, instance: str, parent: int, began: float = 0.0, reported: float = 0.0,
        now: float = float("inf"),
    ) -> Self | None:  # fmt: skip
        """The process with this id, where it is the run's; None: it is gone, and so is its group.

        It is where it began while the worker was starting it, between ``began`` and ``reported`` by the boot clock;
        also where it is the child of ``parent``, the worker, or carries the run's mark. The number of a process that
        ended at once may be another process's by now; a group of that number is the run's where ``now`` is soon after
        ``reported``.
        """
        process = read_process(pid)
        if process is None:
            gone = cls(pid, None)
            return gone if now < reported + _NOT_GIVEN_AWAY_S and gone.is_left() else None
        if process.group != pid:
            return None
        began_then = int(began * _TICKS_A_SECOND) <= process.started <= int(reported * _TICKS_A_SECOND)
        if not began_then and process.parent != parent and run_mark(pid, instance) != run:
            return None
        return cls(pid, process.started)

    def is_known(self) -> bool:
        """Whether its number has not been given away. It is kept back while anybody is left in its group or session.

        Also False where that cannot be seen, for want of descriptors.
        """
        if self._is_there():
            return True
        try:
            process = read_process(self.pid)
        except OSError:
            return False
        if process is None:
            # Gone and reaped, by the worker or by init.
            self._group.leader_reaped = True
        elif process.started != self._started:
            self._given_away = True  # for good: what that one leaves behind is not the run's either
        return not self._given_away

    def is_living(self) -> bool:
        """Whether its own process has not exited; False also where that cannot be seen, for want of descriptors."""
        try:
            process = read_process(self.pid)
        except OSError:
            return False
        return process is not None and process.started == self._started and not process.dead

    def left_of(self, run: str, now_ms: int) -> LeftGroup | None:
        """Its group, where a process is left in it, dead or alive; None also where that cannot be seen."""
        if not self.is_left():
            return None
        return LeftGroup(run=run, leader=self.pid, since_ms=now_ms, leader_started=self._started)

    def is_left(self) -> bool:
        """Whether a process is left in its group, dead or alive; False also where that cannot be seen."""
        return self.is_known() and self._group.send(0)

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group."""
        if self._group.is_exact or self.is_known():
            self._group.send(number)

    def _is_there(self) -> bool:
        """Whether its own process has not been reaped, so that no other can have its number. Takes no descriptor."""
        if self._group.pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(self._group.pidfd, 0)
        except PermissionError:
            return True
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Give the descriptor back."""
        self._group.close()
