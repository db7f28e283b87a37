"""Starts the first process of a run: its environment, user, directory and descriptors, and nothing of the worker's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Collection

from common.clock import Clock
from common.process import failpoints
from worker.commands.accounts import Account, Accounts, RefusedUserError
from worker.commands.becoming import Becoming
from worker.commands.environment import Marks, Surroundings, surroundings
from worker.commands.first_process import Program, execute
from worker.commands.running import Running
from worker.commands.unstartable import Attempt, TooEarlyError, TooLateError, UnstartableError
from worker.launch import Launch

_UMASK = 0o022


class Spawner:
    """Starts processes for one worker."""

    def __init__(
        self, *, worker: str, instance: str, path: str, allowed_users: Collection[str] = (), clock: Clock
    ) -> None:
        self._worker = worker
        self._instance = instance
        self._path = path
        self._clock = clock
        self._accounts = Accounts(worker=worker, allowed=allowed_users)
        self._null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._null)

    def spawn(self, launch: Launch) -> Running:
        """The run, its command executed. UnstartableError where it could not be, ShortageError where it may be later.

        TooLateError past the launch's ``start_until``, TooEarlyError before its time: looked at last of all, for this
        process may be stopped anywhere, and the clock may jump.

        Blocks until the command has been executed, under a millisecond. As another user it may still fail to be: that
        is known once the process has exited (see ``Running.outcome``).
        """
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
        try:
            return self._start(attempt, around)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise attempt.why_not(error) from error

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

    def _start(self, attempt: Attempt, around: Surroundings) -> Running:
        pipe, write_end = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(pipe, False)
            start_ms, started_s = self._clock.wall_ms(), self._clock.boottime()
            if attempt.launch.start_until is not None and started_s >= attempt.launch.start_until:
                raise TooLateError(f"{attempt.launch.run_id} was allowed to start until {attempt.launch.start_until}")
            if attempt.launch.not_before_ms is not None and start_ms < attempt.launch.not_before_ms:
                raise TooEarlyError(f"{attempt.launch.run_id} was not to start before {attempt.launch.not_before_ms}")
            if failpoints.armed:
                failpoints.hit("before_spawn")
            pid, becoming = self._execute(attempt, write_end, around)
            try:
                if failpoints.armed:
                    failpoints.hit("after_spawn")
                return Running(attempt.launch, pid=pid, pipe=pipe, start_ms=start_ms, started_s=started_s,
                               becoming=becoming)  # fmt: skip
            except BaseException:
                _end(pid)
                raise
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(write_end)

    def _execute(self, attempt: Attempt, write_end: int, around: Surroundings) -> tuple[int, Becoming | None]:
        other, marks = attempt.account.other, self._marks(attempt.launch)
        if other is not None:
            own = marks.variables()
            becoming = Becoming(
                attempt, other, environment={**around.variables, **own}, marks=own,
                stdin=self._null, stdout=write_end, umask=_UMASK,
            )  # fmt: skip
            return becoming.pid, becoming
        # No function before the exec, no change of user: either would turn vfork into fork, whose cost grows with us.
        program = Program(
            arguments=attempt.launch.arguments, path=attempt.path, environment=[*around.encoded, *marks.encoded()],
            directory=attempt.directory, stdin=self._null, output=write_end, umask=_UMASK,
        )  # fmt: skip
        return execute(program), None


def _end(pid: int) -> None:
    """A process that nobody would know of is no more: its run counts as one that was not started."""
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
