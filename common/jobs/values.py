"""The kinds of values that only a job has: its name, its command, spans, zones, instants, calendars.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import CoreSchema, ValidationError, core_schema

from common.errors import Problem, ScheduleError
from common.instants import Duration, parse_duration
from common.jobs.kinds import NOT_BLANK, AnyText, Kind, Number, Schema, Several, or_null
from common.jobs.reading import all_wrong, problems_of, shown, text, unknown, wrong
from common.schedules.cron import MAX_EXPRESSION_CHARACTERS
from common.schedules.job_calendar import ENTRY_FORM, MOST_DATES, Calendar, check_entry
from common.schedules.moment import Moment, parse_moment
from common.schedules.schedule import parse_cron
from common.schedules.zones import load_zone, zone_names

MAX_NAME_LENGTH: Final = 128
MAX_COMMAND_LENGTH: Final = 32_768
MAX_ARGUMENTS: Final = 1_000
MAX_EXPRESSIONS: Final = 20
MAX_SECONDS: Final = 366 * 86_400
NEVER: Final = "never"

_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_CRON_FIELD: Final = r"[0-9A-Za-z*?,/#()&-]+"
_MACRO: Final = "|".join(
    "".join(f"[{letter}{letter.upper()}]" for letter in macro)
    for macro in ("yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly", "reboot")
)
_YEAR_DAY: Final = r"(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_DATE: Final = rf"(19[7-9][0-9]|2[01][0-9]{{2}})-{_YEAR_DAY}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What expressions and instants are read in; the context of pydantic's reading."""

    timezone: str = "UTC"
    name: str = ""
    """What ``H`` takes its value from."""


def is_job_name(name: str) -> bool:
    """Whether a job may be called so."""
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None and name not in {".", ".."}


@dataclass(frozen=True)
class JobName(Kind):
    """The name of a job."""

    type: str = "text"
    limits: str = f"1 to {MAX_NAME_LENGTH} ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`"

    @property
    def schema(self) -> Schema:
        pattern = r"^([A-Za-z0-9._-]*[A-Za-z0-9_-][A-Za-z0-9._-]*|[.]{3,})$"
        return {"type": "string", "maxLength": MAX_NAME_LENGTH, "pattern": pattern}

    def read(self, value: Any) -> str:
        remedy = f"1 to {MAX_NAME_LENGTH} ASCII letters, digits, '.', '_' or '-'"
        name = text(value, remedy)
        if len(name) > MAX_NAME_LENGTH:
            raise wrong(f"is {len(name)} characters long", remedy)
        if not is_job_name(name):
            raise wrong(f"{shown(name)} has characters that a name cannot have", remedy)
        return name


_LINE: Final = AnyText(longest=MAX_COMMAND_LENGTH)
_ARGUMENTS: Final = Several(of=_LINE, what="arguments", most=MAX_ARGUMENTS, alone=False)


@dataclass(frozen=True)
class Command(Kind):
    """A line for the shell, or the arguments of a program."""

    type: str = "text, or a list of texts"
    limits: str = f"up to {MAX_COMMAND_LENGTH:,} characters and {MAX_ARGUMENTS:,} arguments; no NUL"

    @property
    def core(self) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._read, _ARGUMENTS.core)

    @property
    def schema(self) -> Schema:
        line = {**_LINE.schema, "pattern": f"^{NOT_BLANK}$"}
        return {"anyOf": [line, {**_ARGUMENTS.schema, "prefixItems": [line]}]}

    def write(self, value: str | tuple[str, ...]) -> str | list[str]:
        return value if isinstance(value, str) else list(value)

    def _read(self, value: Any, read_list: Any) -> str | tuple[str, ...]:
        if not isinstance(value, list):
            return _LINE.read(text(value, "a command line for the shell, e.g. 'echo hello', or a list such as "
                                          '["echo", "hello"]'))  # fmt: skip
        if not value:
            raise wrong("is an empty list", 'needed: the program and its arguments, e.g. ["echo", "hello"]')
        arguments: tuple[str, ...] = read_list(value)
        if not arguments[0].strip():
            raise all_wrong(
                [Problem(field="[0]", message="is empty", remedy="needed: the program, e.g. /usr/bin/rsync")]
            )
        if (length := sum(map(len, arguments))) > MAX_COMMAND_LENGTH:
            raise wrong(f"is {length:,} characters long", f"at most {MAX_COMMAND_LENGTH:,}: put it into a script")
        return arguments


REBOOT: Final = "@reboot"
"""In place of an expression: when a machine boots."""


@dataclass(frozen=True)
class Expression(Kind):
    """A cron expression, read in the job's zone."""

    type: str = "cron expression"
    limits: str = ""

    @property
    def core(self) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    @property
    def schema(self) -> Schema:
        fields = rf"{_CRON_FIELD}([ \t]+{_CRON_FIELD}){{4}}(([ \t]+{_CRON_FIELD}){{2}})?"
        return {
            "type": "string", "maxLength": MAX_EXPRESSION_CHARACTERS,
            "pattern": rf"^[ \t]*(@({_MACRO})|{fields})[ \t]*$",
        }  # fmt: skip

    def _read(self, value: Any, info: core_schema.ValidationInfo[Around]) -> str:
        expression = text(value, "a cron expression such as '0 */5 * * * * *', or a list of them")
        if expression.strip().lower() == REBOOT:
            return REBOOT
        try:
            parse_cron(expression, timezone=info.context.timezone, job=info.context.name)
        except ScheduleError as error:
            raise wrong(error.sentence, error.remedy) from error
        return expression


@dataclass(frozen=True, kw_only=True)
class Instant(Kind):
    """An instant, read in the job's zone."""

    is_end: bool = False
    type: str = "time"
    limits: str = "ISO 8601, with an offset or in `timezone`; the years 1970 to 2199"

    @property
    def core(self) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    @property
    def schema(self) -> Schema:
        year, day = "(1969|19[7-9][0-9]|2[01][0-9]{2}|2200)", "([0-9]{2}-?[0-9]{2}|W[0-9]{2}(-?[0-9])?)"
        return {"type": "string", "minLength": len("2026-12-24T18:00"), "pattern": rf"^{year}-?{day}[^\x00]+$"}

    def write(self, value: Moment) -> str:
        return value.text

    def _read(self, value: Any, info: core_schema.ValidationInfo[Around]) -> Moment:
        given = text(value, "a time such as 2026-12-24T18:00:00+01:00, or without an offset in the job's timezone")
        try:
            return parse_moment(given, info.context.timezone, is_end=self.is_end)
        except (ValueError, OverflowError) as error:
            raise wrong(f"is {shown(given)}", f"needed: {error}") from error


@dataclass(frozen=True, kw_only=True)
class Span(Kind):
    """A duration with its unit."""

    least_s: int = 1
    type: str = "span"

    @property
    def limits(self) -> str:
        return f"{self.least_s} s to 366 days, as `90s`, `15m`, `1h30m`, `1d`, `2w`"

    @property
    def schema(self) -> Schema:
        units = "".join(f"([0-9]{{1,9}}{unit})?" for unit in "wdhms")
        schema: Schema = {"type": "string", "minLength": 2, "pattern": f"^{units}$"}
        return schema | ({"allOf": [{"pattern": "[1-9]"}]} if self.least_s else {})

    def read(self, value: Any) -> Duration:
        given = text(value, "a span such as 90s, 15m or 1h30m")
        try:
            duration = parse_duration(given)
        except ValueError as error:
            raise wrong(f"is {shown(given)}", f"needed: {error}") from error
        if duration.ms < self.least_s * 1000:
            raise wrong(f"is {shown(given)}", f"needed: at least {self.least_s}s")
        return duration

    def write(self, value: Duration) -> str:
        return value.text


@dataclass(frozen=True)
class ZoneName(Kind):
    """An IANA time zone of the pinned tzdata."""

    type: str = "text"
    limits: str = "an IANA name such as `Europe/Berlin`"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "enum": sorted(zone_names())}

    def read(self, value: Any) -> str:
        name = text(value, "an IANA name such as Europe/Berlin or UTC")
        try:
            load_zone(name)
        except ScheduleError as error:
            raise wrong(f"{shown(name)} {error.message}", error.remedy) from error
        return name


@dataclass(frozen=True)
class LostAfter(Kind):
    """A number of seconds, or "never"."""

    type: str = 'number, or "never"'
    limits: str = Number(low=1, high=MAX_SECONDS).limits

    @property
    def core(self) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._read, Number(low=1, high=MAX_SECONDS).core)

    @property
    def schema(self) -> Schema:
        return {"anyOf": [Number(low=1, high=MAX_SECONDS).schema, {"const": NEVER}]}

    def _read(self, value: Any, read_number: Any) -> Any:
        if isinstance(value, str) and value != NEVER:
            raise wrong(f"is {shown(value)}", 'needed: a number of seconds, or "never"')
        return value if value == NEVER else read_number(value)


@dataclass(frozen=True)
class CalendarEntry(Kind):
    """A date or a span of dates, of one year or of every year."""

    type: str = "date"
    limits: str = "`YYYY-MM-DD` or `MM-DD`, or two of them with a `/` between"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "pattern": rf"^({_DATE}(/{_DATE})?|{_YEAR_DAY}(/{_YEAR_DAY})?)$"}

    def read(self, value: Any) -> str:
        entry = text(value, ENTRY_FORM)
        try:
            check_entry(entry)
        except ValueError as error:
            raise wrong(f"is {shown(entry)}", f"needed: {error}") from error
        return entry


_DATES: Final = Several(of=CalendarEntry(), what="dates", most=MOST_DATES, alone=False)
_MODES: Final = ("exclude", "include")


@dataclass(frozen=True)
class Dates(Kind):
    """Dates to leave out, or dates that alone are open."""

    type: str = "object"
    limits: str = f"`exclude` or `include`: {_DATES.limits}"

    @property
    def core(self) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(
            self._read, core_schema.dict_schema(values_schema=_DATES.core)
        )

    @property
    def schema(self) -> Schema:
        return {
            "type": "object", "additionalProperties": False,
            "properties": {mode: or_null(_DATES.schema) for mode in _MODES},
            "anyOf": [
                {"required": [one], "properties": {one: {"type": "array"}, other: {"type": "null"}}}
                for one, other in (_MODES, _MODES[::-1])
            ],
        }  # fmt: skip

    def write(self, value: Calendar) -> dict[str, Any]:
        return value.to_document()

    def _read(self, value: Any, read: Any) -> Calendar:
        example = 'an object such as {"exclude": ["12-24/01-02", "2026-05-01"]}'
        if not isinstance(value, dict):
            raise wrong(f"is {shown(value)}", f"needed: {example}")
        if problems := list(unknown(value, _MODES, of="calendar")):
            raise all_wrong(problems)
        given = {mode: dates for mode, dates in value.items() if dates is not None}
        if len(given) != 1:
            what = "has both exclude and include" if given else "has neither exclude nor include"
            raise wrong(what, f"needed: {example}")
        try:
            [(mode, entries)] = read(given).items()
        except ValidationError as error:
            raise all_wrong(problems_of(error)) from None
        calendar = Calendar(entries=entries, include=mode == "include")
        if not calendar.days:
            raise wrong("leaves no day open", "needed: dates that leave some day open")
        return calendar


def around(given: Mapping[str, Any], name: str = "") -> Around:
    """What the other fields are read in, by the document; a fault in these is reported with their own fields."""
    timezone = given.get("timezone", "UTC")
    known = timezone if isinstance(timezone, str) and timezone in zone_names() else "UTC"
    if not name and isinstance(given.get("name"), str) and is_job_name(given["name"]):
        name = given["name"]
    return Around(timezone=known, name=name)
