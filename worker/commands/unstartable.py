"""Why a command could not be started, in words that say what to change, and where: the job, the worker, the machine.

A shortage of the worker is told apart from a mistake in the job: it may pass, and the job is not to blame for it.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from worker.commands.accounts import Account
from worker.launch import Launch

_SHORT_OF: Final[Mapping[int | None, str]] = {
    errno.EAGAIN: "processes (ulimit -u, or the limit of its container)",
    errno.ENOMEM: "memory",
    errno.EMFILE: "open files (ulimit -n; or fewer slots)",
    errno.ENFILE: "open files of the whole machine (fs.file-max)",
}
_FILE_FAULTS: Final[Mapping[int | None, str]] = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist",
    errno.EACCES: "may not be executed",
    errno.ENOEXEC: "is not a program (a script needs #! and its interpreter in the first line)",
}


class UnstartableError(Exception):
    """A command that cannot be started; the text says why and what to do."""


class ShortageError(UnstartableError):
    """The worker has not got what a start needs; that may pass."""


class NotNowError(Exception):
    """What allowed a start does not hold now. Nothing was started; whoever asked for it decides anew."""


class TooLateError(NotNowError):
    """It does not hold any more: this process was stopped on the way to the start."""


class TooEarlyError(NotNowError):
    """The wall clock stands before the run's time: it has jumped back on the way to the start."""


def unforeseen(error: Exception) -> str:
    """What a record says of an error that nobody foresaw; the worker's log has where it came from."""
    return f"the worker failed in a way that nobody foresaw ({type(error).__name__}: {str(error)[:200]}); see its log"


class Attempt(Struct, frozen=True, kw_only=True):
    """A start as it was tried."""

    launch: Launch
    worker: str
    account: Account
    directory: str
    path: str
    """The run's PATH."""

    def why_not(self, error: Exception, step: str | None = None) -> UnstartableError:
        """What came of it, in words. ``step``: what failed of a change of user (``another_user``)."""
        if isinstance(error, OSError) and error.errno in _SHORT_OF:
            return self._shortage(error)
        if step == "user":
            return UnstartableError(
                f'worker {self.worker} cannot become user "{self.account.user}": {error}: it needs the capabilities '
                "CAP_SETUID and CAP_SETGID"
            )
        fault = self._directory_fault(step)
        if fault is not None:
            what, remedy = fault
            return UnstartableError(
                f"its directory {self.directory} {what} on worker {self.worker}: {remedy}, or {self._other_directory()}"
            )
        return UnstartableError(self._refused_by_system(error) if isinstance(error, OSError) else str(error))

    def _shortage(self, error: OSError) -> ShortageError:
        # The limit on processes counts those of the user that the command runs as.
        whose = f' for user "{self.account.user}"' if error.errno == errno.EAGAIN and self.account.other else ""
        return ShortageError(f"worker {self.worker} is out of {_SHORT_OF[error.errno]}{whose}: {error.strerror}")

    def _directory_fault(self, step: str | None) -> tuple[str, str] | None:
        """What is wrong with it, and what to do. Asked of itself: the error may be the directory's or the program's."""
        if step == "command":
            return None
        not_entered = (f'may not be entered by user "{self.account.user}"',
                       "let that user search it and all above it (chmod, chown)")  # fmt: skip
        try:
            if not stat.S_ISDIR(os.stat(self.directory).st_mode):
                return "is not a directory", "make it one"
        except FileNotFoundError:
            return "does not exist", "create it there"
        except NotADirectoryError:
            return "is below something that is not a directory", "create it there"
        except PermissionError:
            return not_entered
        except (OSError, ValueError) as other:
            return f"cannot be used ({other})", "mend that"
        if step == "directory":
            return not_entered  # root finds nothing wrong with it, and that user does
        return None if os.access(self.directory, os.X_OK, effective_ids=True) else not_entered

    def _other_directory(self) -> str:
        if self.launch.workdir is not None:
            return "change the job's workdir"
        return "change HOME in the job's env" if "HOME" in self.launch.env else "give the job a workdir"

    def _refused_by_system(self, error: OSError) -> str:
        program, what = self.launch.arguments[0], _FILE_FAULTS.get(error.errno)
        if what is None:
            return f"{error.strerror}: {error.filename or program}"
        if error.errno == errno.ENOENT and self._is_there(program):
            what = "names an interpreter (after #!) that does not exist"
        elif "/" not in program and error.errno in (errno.ENOENT, errno.EACCES):
            # EACCES: of some directory, or of a file; the others have been searched, too.
            what = f'is nowhere in its PATH ({self.path}) where user "{self.account.user}" may execute it'
        if isinstance(self.launch.command, str):
            return (f"the shell {program} {what} on worker {self.worker}: give another "
                    "(shell of the job, or bashPath of the worker)")  # fmt: skip
        return f"the program {program} {what} on worker {self.worker}: mend that there, or change the job's command"

    def _is_there(self, program: str) -> bool:
        """A script whose interpreter is missing is refused as if it were missing itself."""
        return (
            shutil.which(os.path.join(self.directory, program) if "/" in program else program, path=self.path)
            is not None
        )
