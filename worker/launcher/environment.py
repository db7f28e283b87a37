"""What a command finds around it is the same on every worker: a clean environment, nothing of the worker's own.

From the bottom up: who the command runs as, the job's ``env``, the run's ``ETCRON_*``; the later one wins. The names
that begin with ``ETCRON_`` are etcron's: a process is known by them (``worker.machine.marks``), so no job sets them,
but for those in which a channel's job gets its message.
Standard library only: the launcher, too, stands on it.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from common.instants import iso
from worker.machine.marks import INSTANCE_MARK, NOTICE, RESERVED, RUN_MARK

if TYPE_CHECKING:
    from common.protocol.keys import RunId

_REMEMBERED: Final = 256
_RESTORED_BY_SUBPROCESS = frozenset({signal.SIGPIPE, signal.SIGXFSZ})


def marks(run_id: RunId, *, plan_ms: int, fence: int, worker: str, instance: str) -> dict[str, str]:
    """The ``ETCRON_*`` variables of a run: what its environment says of it, and what it is found by."""
    return {
        "ETCRON_JOB": run_id.job_name,
        RUN_MARK: str(run_id),
        "ETCRON_PLAN_TIME": _iso(plan_ms),
        "ETCRON_PLAN_MS": str(plan_ms),
        "ETCRON_ATTEMPT": str(run_id.attempt),
        "ETCRON_FENCE": str(fence),
        "ETCRON_WORKER": worker,
        INSTANCE_MARK: instance,
    }


def encoded(of_run: Mapping[str, str]) -> list[bytes]:
    """The same, ``NAME=value`` each."""
    # In one, for no name or value has a NUL: each by itself would cost as much as a pipe.
    return os.fsencode("\0".join([f"{name}={value}" for name, value in of_run.items()])).split(b"\0")


def allowed_in(job_env: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a job, or who asks for its run, may set of its ``env``. ValueError: a name that no variable can have."""
    if any("=" in name for name in job_env):
        raise ValueError("illegal environment variable name")
    return tuple(
        (name, value) for name, value in job_env.items() if name.startswith(NOTICE) or not name.startswith(RESERVED)
    )


def variables(*, user: str, home: str, path: str, shell: str, job_env: Iterable[tuple[str, str]]) -> dict[str, str]:
    """All but the marks; nothing is in them that is not named here or in the job. ``job_env``: see ``allowed_in``."""
    own = {"PATH": path, "HOME": home, "USER": user, "LOGNAME": user, "SHELL": shell, "LANG": "C.UTF-8"}
    return {**own, **dict(job_env)}


@functools.lru_cache(maxsize=_REMEMBERED)
def _iso(plan_ms: int) -> str:
    """In a burst all runs have one plan time."""
    return iso(plan_ms)


def give_commands_default_signals() -> None:
    """Commands start with no signal ignored or blocked, however the worker itself was started.

    An ignored signal stays ignored across exec: under a worker started by ``nohup``, or with ``&`` in a script, no
    command would notice HUP or INT. A handler does not survive exec, so one that does nothing takes the place of the
    ignoring. (SIGCHLD ignored would even take the exit statuses away.) What is blocked stays
    so over exec, too: no command would end on a TERM, nor this worker itself. Only the main thread may do this.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - _RESTORED_BY_SUBPROCESS:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else lambda _number, _frame: None)
