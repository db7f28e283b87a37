"""The kinds of values that only a job has: its name, its command, spans, zones, calendars.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from common.duration import Duration, parse_duration
from common.errors import ScheduleError
from common.jobs.job import NEVER
from common.jobs.kinds import AnyText, Number, Several
from common.jobs.reading import Faults, FieldError, Kind, shown, text
from common.jobs.retry import Retry
from common.schedules.job_calendar import MAX_ENTRIES, NEEDED, Calendar, check_entry
from common.schedules.zones import load_zone

MAX_NAME_LENGTH: Final = 128
MAX_COMMAND_LENGTH: Final = 32_768
MAX_ARGUMENTS: Final = 1_000
MAX_EXPRESSIONS: Final = 20
MAX_SECONDS: Final = 366 * 86_400

_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def is_job_name(name: str) -> bool:
    """Whether a job may be called so."""
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None and name not in {".", ".."}


@dataclass(frozen=True, slots=True)
class JobName:
    """The name of a job."""

    type: str = "text"
    limits: str = f"1 to {MAX_NAME_LENGTH} ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`"

    def __call__(self, value: Any) -> str:
        remedy = f"1 to {MAX_NAME_LENGTH} ASCII letters, digits, '.', '_' or '-'"
        name = text(value, remedy)
        if len(name) > MAX_NAME_LENGTH:
            raise FieldError(f"is {len(name)} characters long", remedy)
        if not is_job_name(name):
            raise FieldError(f"{shown(name)} has characters that a name cannot have", remedy)
        return name


@dataclass(frozen=True, slots=True)
class Command:
    """A line for the shell, or the arguments of a program."""

    type: str = "text, or a list of texts"
    limits: str = f"up to {MAX_COMMAND_LENGTH:,} characters and {MAX_ARGUMENTS:,} arguments; no NUL"

    def __call__(self, value: Any) -> str | tuple[str, ...]:
        if isinstance(value, list):
            return self._arguments(value)
        remedy = 'a command line for the shell, e.g. \'echo hello\', or a list such as ["echo", "hello"]'
        line = text(value, remedy)
        return str(AnyText(longest=MAX_COMMAND_LENGTH)(line))

    def _arguments(self, value: list[Any]) -> tuple[str, ...]:
        if not value:
            raise FieldError("is an empty list", 'needed: the program and its arguments, e.g. ["echo", "hello"]')
        several = Several(of=AnyText(longest=MAX_COMMAND_LENGTH), what="arguments", most=MAX_ARGUMENTS, alone=False)
        arguments = several(value)
        if not arguments[0].strip():
            faults = Faults()
            faults.add("[0]", "is empty", "needed: the program, e.g. /usr/bin/rsync")
            faults.check()
        if sum(map(len, arguments)) > MAX_COMMAND_LENGTH:
            length = sum(map(len, arguments))
            raise FieldError(f"is {length:,} characters long", f"at most {MAX_COMMAND_LENGTH:,}: put it into a script")
        return arguments


@dataclass(frozen=True, slots=True)
class ExpressionText:
    """A cron expression, to be parsed where zone and job are known."""

    type: str = "cron expression"
    limits: str = ""

    def __call__(self, value: Any) -> str:
        return text(value, "a cron expression such as '0 */5 * * * * *', or a list of them")


@dataclass(frozen=True, slots=True)
class MomentText:
    """An instant, to be read where the zone is known."""

    type: str = "time"
    limits: str = "ISO 8601, with an offset or in `timezone`; the years 1970 to 2199"

    def __call__(self, value: Any) -> str:
        return text(value, "a time such as 2026-12-24T18:00:00+01:00, or without an offset in the job's timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A duration with its unit."""

    least_s: int = 1
    type: str = "span"

    @property
    def limits(self) -> str:
        return f"{self.least_s} s to 366 days, as `90s`, `15m`, `1h30m`, `1d`, `2w`"

    def __call__(self, value: Any) -> Duration:
        given = text(value, "a span such as 90s, 15m or 1h30m")
        try:
            duration = parse_duration(given)
        except ValueError as error:
            raise FieldError(f"is {shown(given)}", f"needed: {error}") from error
        if duration.ms < self.least_s * 1000:
            raise FieldError(f"is {shown(given)}", f"needed: at least {self.least_s}s")
        return duration


@dataclass(frozen=True, slots=True)
class ZoneName:
    """An IANA time zone of the pinned tzdata."""

    type: str = "text"
    limits: str = "an IANA name such as `Europe/Berlin`"

    def __call__(self, value: Any) -> str:
        name = text(value, "an IANA name such as Europe/Berlin or UTC")
        try:
            load_zone(name)
        except ScheduleError as error:
            raise FieldError(f"{shown(name)} {error.message}", error.remedy) from error
        return name


@dataclass(frozen=True, slots=True)
class LostAfter:
    """A number of seconds, or "never"."""

    type: str = 'number, or "never"'
    limits: str = Number(low=1, high=MAX_SECONDS).limits

    def __call__(self, value: Any) -> Any:
        if value == NEVER:
            return NEVER
        if isinstance(value, str):
            raise FieldError(f"is {shown(value)}", 'needed: a number of seconds, or "never"')
        return Number(low=1, high=MAX_SECONDS)(value)


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    """A date or a span of dates, of one year or of every year."""

    type: str = "date"
    limits: str = "`YYYY-MM-DD` or `MM-DD`, or two of them with a `/` between"

    def __call__(self, value: Any) -> str:
        entry = text(value, NEEDED)
        try:
            check_entry(entry)
        except ValueError as error:
            raise FieldError(f"is {shown(entry)}", f"needed: {error}") from error
        return entry


_DATES: Final[Kind] = Several(of=CalendarEntry(), what="dates", most=MAX_ENTRIES, alone=False)


@dataclass(frozen=True, slots=True)
class CalendarKind:
    """Dates to leave out, or dates that alone are open."""

    type: str = "object"
    limits: str = f"`exclude` or `include`: {_DATES.limits}"

    def __call__(self, value: Any) -> Calendar:
        example = 'an object such as {"exclude": ["12-24/01-02", "2026-05-01"]}'
        if not isinstance(value, dict):
            raise FieldError(f"is {shown(value)}", f"needed: {example}")
        said = self._said(value)
        if len(said) != 1:
            what = "has both exclude and include" if said else "has neither exclude nor include"
            raise FieldError(what, f"needed: {example}")
        [(mode, dates)] = said.items()
        faults = Faults()
        entries = faults.take(mode, _DATES, dates)
        faults.check()
        assert entries is not None, "what was read without a fault is there"
        calendar = Calendar(entries=entries, include=mode == "include")
        if not calendar.days:
            raise FieldError("leaves no day open", "needed: dates that leave some day open")
        return calendar

    def _said(self, value: Mapping[str, Any]) -> dict[str, Any]:
        known = ("exclude", "include")
        faults = Faults()
        faults.refuse_unknown(value, known, of="calendar")
        faults.check()
        return {name: dates for name, dates in value.items() if dates is not None}


def check_retry(retry: Retry) -> None:
    """InvalidInputError where the delay is beyond the largest one."""
    if retry.delay_s > retry.max_delay_s:
        faults = Faults()
        message = f"is {retry.delay_s:g}, beyond maxDelaySeconds ({retry.max_delay_s:g})"
        faults.add("delaySeconds", message, "lower it, or raise maxDelaySeconds")
        faults.check()
