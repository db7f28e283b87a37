"""What the executor is asked to start, how a run may be ended from outside, and what comes of it."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from msgspec import Struct, field

from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from common.verdicts import Verdict
from worker.machine.process_group import ProcessGroup


class Launch(Struct, frozen=True, kw_only=True):
    """One run to start. Times in seconds."""

    run_id: RunId
    spec: JobSpec
    """The job's command, surroundings and limits."""
    plan_ms: int
    fence: int
    args: tuple[str, ...] = ()
    """Of this run: after the arguments of a program; ``$1`` and on for the shell, with ``etcron`` for ``$0``."""
    shell: str = "/bin/sh"
    """What a command line is given to: the job's, or the worker's."""
    env: Mapping[str, str] = field(default_factory=dict)
    """The job's own variables, over them its secrets, and over these what was given to this run alone."""
    masked: tuple[bytes, ...] = ()
    """Values of secrets, which its output must not show; the longest first."""
    fault: str | None = None
    """Why it cannot be started, whatever it is; None: it can."""
    start_until: float | None = None
    """On the boot clock: a start that the worker could not carry out is not tried again past it. None: in 2 s."""
    not_before_ms: int | None = None
    """On the wall clock: its dispatch time. None: at once."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """What is executed."""
        command = self.spec.command
        if isinstance(command, str):
            return (self.shell, "-c", command, *(("etcron", *self.args) if self.args else ()))
        return (*command, *self.args) if command else ()


class StopOrder(Struct, frozen=True, kw_only=True):
    """Why a run is ended from outside."""

    kind: Literal[Verdict.KILLED, Verdict.TIMEOUT] = Verdict.KILLED
    reason: str | None = None
    """A short stable phrase, e.g. ``worker shutdown``."""
    by: str | None = None
    """Who asked, e.g. ``console 127.0.0.1``."""

    def in_words(self, timeout_s: float) -> str:
        """What the record says of it."""
        if self.kind is Verdict.TIMEOUT:
            return f"timed out after {timeout_s:g} s"
        who = f" by {self.by}" if self.by else ""
        why = f": {self.reason}" if self.reason else ""
        return f"killed{who}{why}"


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ended: nothing of it is running any more, but what could not be ended. Times in ms since the epoch."""

    run_id: RunId
    verdict: Verdict
    """Success, failed, timeout or killed."""
    exit_code: int | None = None
    signal: int | None = None
    start_ms: int | None = None
    """None: no process ran."""
    end_ms: int
    output: str = ""
    output_bytes: int = 0
    """As printed."""
    output_truncated: bool = False
    err: str = ""
    """Empty on success, else in words."""
    reason: str | None = None
    by: str | None = None
    max_rss: int | None = None
    """Bytes, of the largest process; None where it is not known (see ``worker.run.resources``)."""
    cpu_seconds: float | None = None
    """User and system, of the first process and of all that were waited for, by it or by those in turn."""
    left: ProcessGroup | None = None
    """Its process group, where something in it could not be ended; the receiver closes it.

    The guardian still counts the run as one that goes on, until it is sent the end."""


def unstarted(run_id: RunId, why: str, end_ms: int) -> Outcome:
    """The outcome of a run whose command could not be executed."""
    reason = f"could not be started: {why}"
    return Outcome(run_id=run_id, verdict=Verdict.FAILED, end_ms=end_ms, err=reason, reason=reason)


def exit_in_words(exit_code: int | None, signal: int | None) -> str:
    """``exit status 3``, ``ended by signal 9 (SIGKILL)``; empty for a success."""
    if signal is not None:
        with suppress(ValueError):  # a real-time signal has no name
            return f"ended by signal {signal} ({signals.Signals(signal).name})"
        return f"ended by signal {signal}"
    if exit_code is None:
        return "its exit status is not known: something else in the worker has taken it"
    return f"exit status {exit_code}" if exit_code else ""
