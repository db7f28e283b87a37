"""The exit statuses of the command line, and the error that carries one."""

from __future__ import annotations

from enum import IntEnum

from common.errors import EtcronError


class ExitStatus(IntEnum):
    """What a script can tell from the exit status."""

    OK = 0
    NO = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    UNAVAILABLE = 6
    NOT_ALLOWED = 7


class CommandError(EtcronError):
    """The command cannot go on. The message says what to do."""

    def __init__(self, message: str, status: ExitStatus = ExitStatus.NO) -> None:
        super().__init__(message)
        self.status = status
