"""Starts the first process of a run: its environment, user, directory and descriptors, and nothing of the worker's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection
from typing import TypeVar

from common.clock import Clock
from common.process import failpoints
from worker.commands.accounts import Account, Accounts, RefusedUserError
from worker.commands.becoming import Becoming
from worker.commands.environment import Marks, Surroundings, surroundings
from worker.commands.first_process import Execution, Faults, Program
from worker.commands.running import Running
from worker.commands.unstartable import Attempt, TooEarlyError, TooLateError, UnstartableError
from worker.launch import Launch

_T = TypeVar("_T")
_UMASK = 0o022


class Start:
    """A start on its way, and what it holds until it is finished, or given up."""

    __slots__ = ("around", "attempt", "becoming", "execution", "faults", "pipe", "start_ms", "started_s", "write_end")

    def __init__(self, attempt: Attempt, around: Surroundings, faults: Faults) -> None:
        self.attempt = attempt
        self.around = around
        self.faults = faults
        self.execution: Execution | None = None
        """None: it becomes another user's first."""
        self.becoming: Becoming | None = None
        self.pipe: int | None = None
        self.write_end: int | None = None
        self.start_ms = 0
        self.started_s = 0.0

    @property
    def pid(self) -> int | None:
        """Of its process, once there is one."""
        if self.becoming is not None:
            return self.becoming.pid
        return None if self.execution is None else self.execution.pid

    def close_write_end(self) -> None:
        if self.write_end is not None:
            os.close(self.write_end)
            self.write_end = None

    def give_up(self) -> None:
        """Nothing is left of it: a process that nobody would know of is no more."""
        if self.pid is not None:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        if self.becoming is not None:
            self.becoming.close()
        self.close_write_end()
        if self.pipe is not None:
            os.close(self.pipe)


class Spawner:
    """Starts processes for one worker, each in three steps: `prepare`, `execute`, `finish`.

    Whoever starts several takes each step for all of them: see `Execution`. Every step may raise UnstartableError: it
    cannot be started; ShortageError: it may be later. Then nothing of the start is left.
    """

    def __init__(
        self,
        *,
        worker: str,
        instance: str,
        path: str,
        allowed_users: Collection[str] = (),
        default_user: str | None = None,
        clock: Clock,
    ) -> None:
        self._worker = worker
        self._instance = instance
        self._path = path
        self._clock = clock
        self._accounts = Accounts(worker=worker, allowed=allowed_users, default=default_user)
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._null)

    def prepare(self, launch: Launch, faults: Faults) -> Start:
        """All that can be done before its time is looked at. ``faults``: of all that are started together."""
        if not launch.arguments:
            raise UnstartableError("the command is empty")
        account = self._account(launch)
        try:
            around = surroundings(account=account, path=self._path, shell=launch.shell, job_env=launch.env)
        except ValueError as error:
            raise UnstartableError(str(error)) from error
        attempt = Attempt(
            launch=launch, worker=self._worker, account=account,
            directory=launch.workdir or around.variables["HOME"], path=around.variables["PATH"],
        )  # fmt: skip
        start = Start(attempt, around, faults)
        _take(self._make_ready, start)
        return start

    def execute(self, start: Start) -> None:
        """The command is executed, if this is still its time: that is looked at last of all, for this process may be
        stopped anywhere, and the clock may jump.

        TooLateError past the launch's ``start_until``, TooEarlyError before its time. Blocks until the command has been
        executed, under a millisecond.
        """
        _take(self._execute, start)

    def finish(self, start: Start) -> Running:
        """The run, its command executed. As another user it may still fail to be: that is known once the process has
        exited (see ``Running.outcome``)."""
        return _take(_finish, start)

    def _account(self, launch: Launch) -> Account:
        try:
            return self._accounts.of(launch.user)
        except RefusedUserError as error:
            raise UnstartableError(str(error)) from error
        except OSError as error:
            own = Attempt(launch=launch, worker=self._worker, account=Account.own(), directory="/", path=self._path)
            raise own.why_not(error) from error

    def _marks(self, launch: Launch) -> Marks:
        return Marks(run_id=launch.run_id, plan_ms=launch.plan_ms, fence=launch.fence,
                     worker=self._worker, instance=self._instance)  # fmt: skip

    def _make_ready(self, start: Start) -> None:
        attempt = start.attempt
        start.pipe, start.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(start.pipe, False)
        if attempt.account.other is None:
            # No function before the exec, no change of user: either would turn vfork into fork, whose cost grows with
            # us.
            program = Program(
                arguments=attempt.launch.arguments, path=attempt.path,
                environment=[*start.around.encoded, *self._marks(attempt.launch).encoded()],
                directory=attempt.directory, stdin=self._null, output=start.write_end, umask=_UMASK,
            )  # fmt: skip
            start.execution = Execution(program, start.faults)

    def _execute(self, start: Start) -> None:
        launch = start.attempt.launch
        start.start_ms, start.started_s = self._clock.wall_ms(), self._clock.boottime()
        if launch.start_until is not None and start.started_s >= launch.start_until:
            raise TooLateError(f"{launch.run_id} was allowed to start until {launch.start_until}")
        if launch.not_before_ms is not None and start.start_ms < launch.not_before_ms:
            raise TooEarlyError(f"{launch.run_id} was not to start before {launch.not_before_ms}")
        if failpoints.armed:
            failpoints.hit("before_spawn")
        if start.execution is not None:
            start.execution.begin()
        else:
            start.becoming = self._become(start)
        if failpoints.armed:
            failpoints.hit("after_spawn")

    def _become(self, start: Start) -> Becoming:
        attempt, own = start.attempt, self._marks(start.attempt.launch).variables()
        assert attempt.account.other is not None, "it is another user"
        assert start.write_end is not None, "it is ready"
        return Becoming(
            attempt, attempt.account.other, environment={**start.around.variables, **own}, marks=own,
            stdin=self._null, stdout=start.write_end, umask=_UMASK,
        )  # fmt: skip


def _finish(start: Start) -> Running:
    if start.execution is not None:
        start.execution.check()
    start.close_write_end()
    assert start.pid is not None, "it was executed"
    assert start.pipe is not None, "it was executed"
    return Running(
        start.attempt.launch, pid=start.pid, pipe=start.pipe, start_ms=start.start_ms, started_s=start.started_s,
        becoming=start.becoming,
    )  # fmt: skip


def _take(step: Callable[[Start], _T], start: Start) -> _T:
    """One step; where it fails, the start is given up."""
    try:
        return step(start)
    except BaseException as error:
        start.give_up()
        if isinstance(error, OSError | ValueError | subprocess.SubprocessError):
            raise start.attempt.why_not(error) from error
        raise
