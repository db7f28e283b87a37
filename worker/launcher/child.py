"""The child of the launcher: on its way to the command of one run. It may hang anywhere, and then only itself."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Final, NoReturn

from worker.launcher.accounts import Account, Accounts, RefusedUserError
from worker.launcher.environment import variables
from worker.launcher.request import AT, FAULT, PID, Kind, OwnAccount, Request, Step, message
from worker.launcher.unstartable import Attempt, ShortageError

_FAILED: Final = 127
_UMASK: Final = 0o022
_SET_BACK: Final = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD)


def become_command(
    content: int, output: int, channel: socket.socket, accounts: Accounts, *, worker: int
) -> NoReturn:  # fmt: skip
    """Executes what ``content`` asks for, with its output there; or says on the channel why not, and ends.

    ``worker``: its process, whose child this is.
    """
    try:
        os.setsid()
        _tell_pid(channel)
        with open(content, "rb", closefd=False) as file:
            file.seek(0)
            request = Request.from_bytes(file.read())
        _Start(request, output, channel, accounts, worker).carry_out()
    except ConnectionError:
        pass  # the worker has ended: nobody wants this start any more
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)  # to the worker's stderr
    finally:
        os._exit(_FAILED)


def tell_own_account(channel: socket.socket, accounts: Accounts) -> NoReturn:
    """Who the worker's own user is, and where it lives."""
    try:
        own = Account.own()
        users = frozenset(user for user in (None, own.user) if _is_own(accounts, user))
        channel.send(OwnAccount(account=own, of_users=users).to_bytes())
    finally:
        os._exit(0)


def _is_own(accounts: Accounts, user: str | None) -> bool:
    try:
        return accounts.of(user).other is None
    except RefusedUserError:
        return False


def _tell_pid(channel: socket.socket) -> None:
    """With a pidfd: the number may be somebody else's by the time that the worker reads this."""
    pid = os.getpid()
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        channel.send(message(PID, str(pid)))
        return
    socket.send_fds(channel, [message(PID, str(pid))], [pidfd])
    os.close(pidfd)


class _Start:
    def __init__(self, request: Request, output: int, channel: socket.socket, accounts: Accounts, worker: int) -> None:
        self._request = request
        self._output = output
        self._channel = channel
        self._accounts = accounts
        self._worker = worker
        self._step: Step = "user"

    def carry_out(self) -> None:
        """Returns only where nothing was executed; that has been told."""
        attempt = self._attempt(Account(user="?", home="/"), "/", self._request.path)
        try:
            account = self._accounts.of(self._request.user)
            environment = variables(
                user=account.user, home=account.home, path=self._request.path, shell=self._request.shell,
                job_env=self._request.job_env,
            )  # fmt: skip
            directory = self._request.workdir or environment["HOME"]
            attempt = self._attempt(account, directory, environment["PATH"])
            self._become(account)
            self._next("directory")
            os.umask(_UMASK)
            os.chdir(directory)
            self._next("command")
            self._execute(attempt.candidates(), {**environment, **dict(self._request.marks)})
        except RefusedUserError as error:
            self._tell("unstartable", str(error))
        except Exception as error:
            why_not = attempt.why_not(error, self._step)
            self._tell("short" if isinstance(why_not, ShortageError) else "unstartable", str(why_not))

    def _attempt(self, account: Account, directory: str, path: str) -> Attempt:
        request = self._request
        return Attempt(
            arguments=request.arguments, is_shell=request.is_shell, worker=self._accounts.worker, user=account.user,
            is_other_user=account.other is not None, directory=directory,
            named_by="workdir" if request.workdir is not None else "HOME" if "HOME" in dict(request.job_env) else None,
            path=path,
        )  # fmt: skip

    def _become(self, account: Account) -> None:
        if (other := account.other) is not None:
            os.fchown(self._output, other.uid, other.gid)  # else it could not open /dev/stdout and /dev/stderr
            os.setgroups(other.groups)
            os.setresgid(other.gid, other.gid, other.gid)
            os.setresuid(other.uid, other.uid, other.uid)

    def _execute(self, candidates: list[str], environment: Mapping[str, str]) -> None:
        """As execvp(3) does it: the first that can be; else the first error that is not just an absence."""
        for number in _SET_BACK:
            signal.signal(number, signal.SIG_DFL)
        if not self._channel.recv(1) or os.getppid() != self._worker:
            return  # the worker has ended, or has given this start up
        for descriptor in (1, 2):
            os.dup2(self._output, descriptor)
        first = None
        last = OSError("no candidates")
        for program in candidates:
            if (kind := self._not_now()) is not None:
                self._tell(kind, "")
                return
            try:
                os.execve(program, self._request.arguments, environment)
            except (FileNotFoundError, NotADirectoryError) as error:
                last = error
            except OSError as error:
                last, first = error, first or error
        raise first or last

    def _not_now(self) -> Kind | None:
        """Asked last of all: any step before may have taken as long as it liked."""
        if self._request.is_late():
            return "late"
        return "early" if self._request.is_early() else None

    def _next(self, step: Step) -> None:
        self._step = step
        self._channel.send(message(AT, step))

    def _tell(self, kind: Kind, text: str) -> None:
        self._channel.send(message(FAULT, kind, text))
