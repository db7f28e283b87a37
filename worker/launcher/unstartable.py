"""Why a command could not be started, in words that say what to change, and where: the job, the worker, the machine.

A shortage of the worker is kept apart from a mistake in the job: it may pass, and the job is not to blame for it.
What is wrong with a directory or a program is asked of these themselves, which may hang: the launcher's children do
that. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from worker.launcher.accounts import NEEDED_CAPABILITIES

SHORT_OF: Final[Mapping[int | None, str]] = {
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
    """What allowed a start does not hold now. Nothing was started; the dispatcher decides anew."""


class TooLateError(NotNowError):
    """It does not hold any more: this process was stopped on the way to the start."""


class TooEarlyError(NotNowError):
    """The wall clock stands before the run's time: it has jumped back on the way to the start."""


def unforeseen(error: Exception) -> str:
    """What a record says of an unforeseen error; the worker's log has where it came from."""
    return f"the worker failed in a way that nobody foresaw ({type(error).__name__}: {str(error)[:200]}); see its log"


def shortage(error: OSError, *, worker: str, user: str | None = None) -> ShortageError | None:
    """What the worker is out of, where that is why; ``user``: another one that the command runs as."""
    if error.errno not in SHORT_OF:
        return None
    # The limit on processes counts those of the user that the command runs as.
    whose = f' for user "{user}"' if error.errno == errno.EAGAIN and user is not None else ""
    return ShortageError(f"worker {worker} is out of {SHORT_OF[error.errno]}{whose}: {error.strerror}")


def candidates(program: str, path: str) -> list[str]:
    """Where the program may be, as execvp(3) looks for it. ``path``: the run's PATH."""
    return [program] if "/" in program else [os.path.join(place, program) for place in path.split(":")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A start as it was tried."""

    arguments: tuple[str, ...]
    is_shell: bool
    """The program is a shell, which the job need not have named."""
    worker: str
    user: str
    is_other_user: bool
    directory: str
    named_by: Literal["workdir", "HOME"] | None
    """What of the job says the directory; None: nothing."""
    path: str
    """The run's PATH."""

    def why_not(self, error: Exception, step: str) -> UnstartableError:
        """What came of it, in words. ``step``: user, directory or command."""
        if isinstance(error, OSError):
            short = shortage(error, worker=self.worker, user=self.user if self.is_other_user else None)
            if short is not None:
                return short
        if step == "user":
            return UnstartableError(
                f'worker {self.worker} cannot become user "{self.user}": {error}: it needs the capabilities '
                + ", ".join(NEEDED_CAPABILITIES)
            )
        if step == "directory":
            what, remedy = self._directory_fault(error)
            instead = {"workdir": "change the job's workdir", "HOME": "change HOME in the job's env"}
            other = instead.get(self.named_by or "", "give the job a workdir")
            return UnstartableError(
                f"its directory {self.directory} {what} on worker {self.worker}: {remedy}, or {other}"
            )
        return UnstartableError(self._refused_by_system(error) if isinstance(error, OSError) else str(error))

    def _directory_fault(self, error: Exception) -> tuple[str, str]:
        """What is wrong with it, and what to do. Where an error's number does not tell, it is asked itself."""
        if not isinstance(error, FileNotFoundError | NotADirectoryError | PermissionError):
            return f"cannot be used ({error})", "mend that"
        try:
            if not stat.S_ISDIR(os.stat(self.directory).st_mode):
                return "is not a directory", "make it one"
        except FileNotFoundError:
            return "does not exist", "create it there"
        except NotADirectoryError:
            return "is below something that is not a directory", "create it there"
        except PermissionError:
            pass
        except (OSError, ValueError) as other:
            return f"cannot be used ({other})", "mend that"
        return (f'may not be entered by user "{self.user}"',
                "let that user search it and all above it (chmod, chown)")  # fmt: skip

    def _refused_by_system(self, error: OSError) -> str:
        program, what = self.arguments[0], _FILE_FAULTS.get(error.errno)
        if what is None:
            return f"{error.strerror}: {error.filename or program}"
        if error.errno == errno.ENOENT and self._is_there():
            what = "names an interpreter (after #!) that does not exist"
        elif "/" not in program and error.errno in (errno.ENOENT, errno.EACCES):
            # EACCES: of some directory, or of a file; the others have been searched, too.
            what = f'is nowhere in its PATH ({self.path}) where user "{self.user}" may execute it'
        if self.is_shell:
            return (f"the shell {program} {what} on worker {self.worker}: give another "
                    "(shell of the job, or bashPath of the worker)")  # fmt: skip
        return f"the program {program} {what} on worker {self.worker}: mend that there, or change the job's command"

    def _is_there(self) -> bool:
        """A script whose interpreter is missing is refused as if it were missing itself."""
        places = [os.path.join(self.directory, place) for place in candidates(self.arguments[0], self.path)]
        return any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places)
