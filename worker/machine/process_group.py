"""A signal meant for a run's process group reaches that group and never another that was given its number since.

A process group is named by the process id of its leader. The kernel keeps that number back for as long as a process,
dead or alive, is left in the group; once the group is empty, the number may name another group. Since Linux 6.9 a
pidfd of the leader can stand for the whole group: it refers to *this* group even after the leader has been reaped,
so there is nothing to mistake. On older kernels the group is signalled by its number; after the leader has been
reaped only where no process carries the number, for then it has not been given away (but for a second leader that
came, left members behind and went, all since the last look).
"""

from __future__ import annotations

import functools
import os
import signal

_TO_THE_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP


class ProcessGroup:
    """The process group that a command was started in, and whether its leader has been reaped."""

    __slots__ = ("leader", "leader_reaped", "pidfd")

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.pidfd: int | None = None
        """Of the leader; None only while the machine has no descriptor to give."""
        self.leader_reaped = False

    @property
    def is_exact(self) -> bool:
        """Whether a signal reaches this very group, whatever has become of its leader and its number."""
        return self.pidfd is not None and kernel_has_group_pidfds()

    def send(self, number: int) -> bool:
        """Signal every process in the group; whether there was one, zombies included. 0 only asks."""
        try:
            self._send(number)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True  # there are some, but of other users
        return True

    def _send(self, number: int) -> None:
        if self.pidfd is not None and kernel_has_group_pidfds():
            signal.pidfd_send_signal(self.pidfd, number, None, _TO_THE_GROUP)
        elif self.leader_reaped and os.path.exists(f"/proc/{self.leader}"):
            raise ProcessLookupError
        else:
            os.killpg(self.leader, number)

    def leader_exited(self) -> bool:
        """Whether the leader has exited, all of its threads too, so that reaping it does not block."""
        if self.leader_reaped:
            return True
        try:
            return os.waitid(os.P_PID, self.leader, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True  # something else has reaped it

    def close(self) -> None:
        """Give the descriptor back."""
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None


@functools.cache
def kernel_has_group_pidfds() -> bool:
    """Whether a pidfd can stand for a process group (Linux 6.9)."""
    pidfd = os.pidfd_open(os.getpid())
    try:
        signal.pidfd_send_signal(pidfd, 0, None, _TO_THE_GROUP)
    except ProcessLookupError:
        return True  # understood: this process does not lead a group
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True
