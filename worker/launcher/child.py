"""A start in the launcher: made ready there, carried out in a child of it, which may hang, and then only itself.

The kernel copies each page of memory that the child writes to, a count of references among them, and that was most of
what a start cost. So what cannot hang is done before there is a child, and the child has little to do but system calls.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, NoReturn

from worker.launcher.accounts import Account, Accounts, RefusedUserError
from worker.launcher.environment import variables
from worker.launcher.request import AT, FAULT, PID, Kind, OwnAccount, StartRequest, Step, message
from worker.launcher.unstartable import Attempt, ShortageError, candidates

_FAILED: Final = 127
_AT_DIRECTORY: Final = message(AT, "directory")
_AT_COMMAND: Final = message(AT, "command")
_PID_SIZE: Final = 4


class _Ready(NamedTuple):
    """What follows from the account that the command runs as."""

    account: Account
    directory: str
    environment: Mapping[str, str]
    candidates: Sequence[str]

    @classmethod
    def of(cls, request: StartRequest, account: Account) -> _Ready:
        around = variables(
            user=account.user, home=account.home, path=request.path, shell=request.shell, job_env=request.job_env
        )
        return cls(
            account, request.workdir or around["HOME"], {**around, **dict(request.marks)},
            candidates(request.arguments[0], around["PATH"]),
        )  # fmt: skip


class ChildStart:
    """One command on its way."""

    def __init__(
        self, request: StartRequest, output: int, channel: socket.socket, accounts: Accounts, worker: int
    ) -> None:
        """``worker``: its process, whose child is to carry this out."""
        self._request = request
        self._output = output
        self._channel = channel
        self._accounts = accounts
        self._worker = worker
        self._step: Step = "user"
        own = request.own
        self._ready = None if own is None else _Ready.of(request, Account(user=own[0], home=own[1]))

    def become_command(self) -> NoReturn:
        """In the child: executes it; or says on the channel why not, and ends."""
        try:
            os.setsid()
            self._tell_pid()
            self._carry_out()
        except ConnectionError:
            pass  # the worker has ended: this start is not wanted any more
        except BaseException as error:
            sys.excepthook(type(error), error, error.__traceback__)  # to the worker's stderr
        finally:
            os._exit(_FAILED)

    def _tell_pid(self) -> None:
        """With a pidfd: the number may be another process's by the time that the worker reads this."""
        pid = os.getpid()
        content = b"%s\0%d" % (PID.encode(), pid)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            self._channel.send(content)
            return
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, pidfd.to_bytes(_PID_SIZE, sys.byteorder))
        self._channel.sendmsg((content,), (rights,))
        os.close(pidfd)

    def _carry_out(self) -> None:
        """Returns only where nothing was executed; that has been reported."""
        request = self._request
        try:
            if (ready := self._ready) is None:
                ready = self._ready = _Ready.of(request, self._accounts.of(request.user))
            if (other := ready.account.other) is not None:
                # It opens /dev/stdout and /dev/stderr, to write: who reads there could hold up the worker's reading.
                os.fchmod(self._output, 0o222)
                os.setgroups(other.groups)
                os.setresgid(other.gid, other.gid, other.gid)
                os.setresuid(other.uid, other.uid, other.uid)
            self._step = "directory"
            self._channel.send(_AT_DIRECTORY)
            os.chdir(ready.directory)
            self._step = "command"
            self._channel.send(_AT_COMMAND)
            self._execute(ready)
        except RefusedUserError as error:
            self._tell("unstartable", str(error))
        except Exception as error:
            why_not = self._attempt().why_not(error, self._step)
            self._tell("short" if isinstance(why_not, ShortageError) else "unstartable", str(why_not))

    def _attempt(self) -> Attempt:
        request, ready = self._request, self._ready
        account, directory, path = Account(user="?", home="/"), "/", request.path
        if ready is not None:
            account, directory, path = ready.account, ready.directory, ready.environment["PATH"]
        return Attempt(
            arguments=request.arguments, is_shell=request.is_shell, worker=self._accounts.worker, user=account.user,
            is_other_user=account.other is not None, directory=directory,
            named_by="workdir" if request.workdir is not None else "HOME" if "HOME" in dict(request.job_env) else None,
            path=path,
        )  # fmt: skip

    def _execute(self, ready: _Ready) -> None:
        """As execvp(3) does it: the first that can be; else the first error that is not just an absence."""
        if not self._channel.recv(1) or os.getppid() != self._worker:
            return  # the worker has ended, or has given this start up
        os.dup2(self._output, 1)
        os.dup2(self._output, 2)
        first = None
        last = OSError("no candidates")
        for program in ready.candidates:
            # Asked last of all: any step before may have taken as long as it liked.
            if (is_late := self._request.is_late()) or self._request.is_early():
                self._tell("late" if is_late else "early", "")
                return
            try:
                os.execve(program, self._request.arguments, ready.environment)
            except (FileNotFoundError, NotADirectoryError) as error:
                last = error
            except OSError as error:
                last, first = error, first or error
        raise first or last

    def _tell(self, kind: Kind, text: str) -> None:
        self._channel.send(message(FAULT, kind, text))


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
