"""The errors that etcron raises, branched by what the caller can do about them.

Every class's docstring is its default message; it names the remedy. Pure: standard library only.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass


class EtcronError(Exception):
    """Something in etcron went wrong; the log has the details."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.cleandoc(type(self).__doc__ or ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in what somebody gave us: where, what, and how to mend it."""

    field: str
    """The field as the user wrote it, e.g. ``cronExpr`` or ``misfire.graceSeconds``."""
    message: str
    """What was wrong, with the offending text."""
    remedy: str
    """What to write instead."""
    may_pass: bool = False
    """Of a configuration: time may mend it (an address, a port, the dates of a certificate)."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}; {self.remedy}"


class InvalidInputError(EtcronError):
    """The input is not valid. Mend the named fields and send it again; nothing was stored."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(" | ".join(str(problem) for problem in self.problems) or None)


class ConfigError(InvalidInputError):
    """The configuration is not valid. Mend the named keys and start again."""

    @property
    def exit_status(self) -> int:
        """Of a program that does not start: 1 where another start may, 2 where it may not (deploy/*.service)."""
        return 1 if all(problem.may_pass for problem in self.problems) else 2


class ScheduleError(EtcronError):
    """The schedule is not valid. Mend the named field of: second minute hour day-of-month month day-of-week year."""

    def __init__(self, *, field: str, text: str, message: str, remedy: str) -> None:
        self.field = field
        """The cron field's name (``second`` ... ``year``), ``timezone``, or ``expression`` for the whole of it."""
        self.text = text
        """The offending text, as given (shortened beyond 80 characters)."""
        self.message = message
        """What is wrong with it: it goes on after the text."""
        self.remedy = remedy
        super().__init__(f"{self.sentence}; {remedy}")

    @property
    def sentence(self) -> str:
        """``Hour 25 is not between 0 and 23``."""
        return f"{self.field.capitalize()} {self.text if self.text.isdigit() else repr(self.text)} {self.message}"


class NotFoundError(EtcronError):
    """There is nothing by that name. List what there is and try again."""


class LoginNeededError(EtcronError):
    """You are not logged in. Log in (`etcron login`, or the console), or send a token."""


class ForbiddenError(EtcronError):
    """You may not do that. Ask an administrator of etcron for the right; nothing was done."""


class ConflictError(EtcronError):
    """Somebody else changed it meanwhile. Read it again and repeat the change."""


class StaleError(ConflictError):
    """It has changed since the revision in If-Match. Read it again and repeat the change."""


class UnavailableError(EtcronError):
    """A server that etcron needs cannot be reached. It is tried again by itself; check that it runs."""


class OvertakenError(UnavailableError):
    """It changed each time before the edit was carried out, until the time for that was over: nothing was done.

    Workers change a job with each of its fires, so this is no conflict of two people. Try again.
    """


class ClockOffError(UnavailableError):
    """This process does not know the time: its clock is off. Mend the clock (NTP), or ask another manager."""


class EtcdAwayError(UnavailableError):
    """No member of etcd answers. Check that it runs, and try again."""

    def __init__(self, addresses: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"etcd ({addresses}) does not answer: {reason}; try again")


class EtcdError(EtcronError):
    """etcd did not do what was asked."""


class EtcdRefusedError(EtcdError):
    """etcd refused the request: it was certainly not carried out."""


class EtcdBusyError(EtcdRefusedError):
    """etcd has too much to do, and has not looked at the request. Send it again a little later."""


class EtcdCompactedError(EtcdRefusedError):
    """The asked-for revision has been compacted away. Read the prefix again."""


class EtcdLeaseGoneError(EtcdRefusedError):
    """The lease does not exist any more. Open a new session."""


class EtcdAccessError(EtcdRefusedError):
    """etcd does not let this user do that. Mend the user, the password or the role; nothing was carried out."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"{problem.message}; {problem.remedy}")


class EtcdInDoubtError(EtcdError):
    """No answer from etcd: the request may or may not have been carried out. Settle it before going on."""


class EtcdFullError(EtcdInDoubtError):
    """etcd's database is full, so that it takes no writes. Compact and defragment it, and disarm its alarm NOSPACE."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like the given one, whatever its case; None where nothing is near."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    matches = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None
