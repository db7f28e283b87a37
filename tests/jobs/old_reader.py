"""How a job was read before its fields were defined once, and what was stored of it: what the reader is compared with.

It is as it was, without what no comparison needs; the words for names and values, which have not changed, are shared.
The first field that is added or changed deletes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

from common.errors import InvalidInputError, Problem, ScheduleError
from common.instants import Duration, parse_duration
from common.jobs.job import JobSpec, Misfire, MisfirePolicy, OnWorkerLost, Overlap
from common.jobs.reading import joined, key_path, kind_of, meant, printable, shown
from common.jobs.retry import Retry
from common.schedules.job_calendar import MAX_ENTRIES as MAX_DATES
from common.schedules.job_calendar import NEEDED, Calendar, check_entry
from common.schedules.moment import Moment, parse_moment
from common.schedules.schedule import parse_cron
from common.schedules.zones import load_zone

T = TypeVar("T")

MAX_UNKNOWN: Final = 50
_PLAIN_KEY = re.compile("[A-Za-z0-9_-]{1,80}", re.ASCII)


class FieldError(Exception):
    pass


class Faults:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, field: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(field=field, message=message, remedy=remedy))

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        try:
            yield
        except (InvalidInputError, FieldError) as error:
            self.note(path, error)

    def note(self, path: str, error: InvalidInputError | FieldError) -> None:
        if isinstance(error, FieldError):
            self.add(path, *error.args)
            return
        for problem in error.problems:
            self.add(joined(path, problem.field), problem.message, problem.remedy)

    def take(self, path: str, read: Callable[[Any], T], value: Any) -> T | None:
        try:
            return read(value)
        except (InvalidInputError, FieldError) as error:
            self.note(path, error)
            return None

    def refuse_unknown(self, given: Iterable[str], known: Iterable[str], *, of: str) -> None:
        known = sorted(known)
        unknown = [name for name in given if name not in known]
        for name in unknown[:MAX_UNKNOWN]:
            self.add(printable(name), f"is not a field of {of}", meant(name, known))
        if len(unknown) > MAX_UNKNOWN:
            rest = len(unknown) - MAX_UNKNOWN
            self.add(printable(unknown[MAX_UNKNOWN]), f"and {rest - 1:,} more are not fields of {of}", "leave them out")

    def check(self) -> None:
        if self.problems:
            raise InvalidInputError(self.problems)


def text(value: Any, remedy: str) -> str:
    if value is None:
        raise FieldError("is missing", f"needed: {remedy}")
    if not isinstance(value, str):
        raise FieldError(f"is a JSON {kind_of(value)}", f"needed: {remedy}")
    if not value.strip():
        raise FieldError("is empty", f"needed: {remedy}")
    check_unicode(value)
    return value


def check_unicode(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise FieldError("is not valid Unicode", "remove lone surrogates") from error


def given(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Truth:
    def __call__(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise FieldError(f"is {shown(value)}", "needed: true or false")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    words: type[StrEnum]

    def __call__(self, value: Any) -> StrEnum:
        if not isinstance(value, str) or value not in set(self.words):
            raise FieldError(f"is {shown(value)}", f"one of: {', '.join(self.words)}")
        return self.words(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    low: float
    high: float
    whole: bool = False
    unit: str = "seconds"

    @property
    def type(self) -> str:
        return "whole number" if self.whole else "number"

    @property
    def limits(self) -> str:
        return f"{self.low:,} to {self.high:,}"

    def __call__(self, value: Any) -> Any:
        kinds = int if self.whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or (not self.low <= value <= self.high):
            raise FieldError(f"is {shown(value)}", f"needed: a {self.type}{self._of_unit()} from {self.limits}")
        return value

    def _of_unit(self) -> str:
        return f" of {self.unit}" if self.unit else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    form: re.Pattern[str]
    limits: str
    longest: int

    def __call__(self, value: Any) -> str:
        given_text = text(value, self.limits)
        if "\x00" in given_text:
            raise FieldError("contains a NUL character", "remove it")
        if len(given_text) > self.longest:
            raise FieldError(f"is {len(given_text):,} characters long", f"at most {self.longest:,}")
        if not self.form.fullmatch(given_text):
            raise FieldError(f"is {shown(given_text)}", f"needed: {self.limits}")
        return given_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyText:
    longest: int

    @property
    def limits(self) -> str:
        return f"up to {self.longest:,} characters"

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str):
            raise FieldError(f"is {shown(value)}", f"needed: a text of {self.limits}")
        if "\x00" in value:
            raise FieldError("contains a NUL character", "remove it")
        if len(value) > self.longest:
            raise FieldError(f"is {len(value):,} characters long", f"needed: {self.limits}")
        check_unicode(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
    of: Any
    what: str
    least: int = 1
    most: int
    alone: bool = True
    unique: bool = False

    def __call__(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            if not self.alone:
                raise FieldError(f"is {shown(value)}", f"needed: a list of {self.what}")
            return (self.of(value),)
        if not self.least <= len(value) <= self.most:
            raise FieldError(f"has {len(value):,} entries", f"needed: {self.least:,} to {self.most:,} {self.what}")
        faults = Faults()
        read = tuple((faults.take(f"[{index}]", self.of, one) for index, one in enumerate(value)))
        faults.check()
        if self.unique:
            _check_unique(read)
        return read


def _check_unique(values: tuple[Any, ...]) -> None:
    faults, seen = Faults(), set[Any]()
    for index, value in enumerate(values):
        if value in seen:
            faults.add(f"[{index}]", f"is {shown(value)} again", "give each once")
        seen.add(value)
    faults.check()


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    names: re.Pattern[str]
    what: str
    of: Any
    most: int
    example: str
    longest_name: int = 128
    reserved: str | None = None

    def __call__(self, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise FieldError(f"is {shown(value)}", f"needed: an object such as {self.example}")
        if len(value) > self.most:
            raise FieldError(f"has {len(value):,} entries", f"at most {self.most}")
        faults, read = Faults(), {}
        for name, one in value.items():
            with faults.at(key_path(name)):
                self._check_name(name)
                read[name] = self.of(one)
        faults.check()
        return MappingProxyType(read)

    def _check_name(self, name: str) -> None:
        if not self.names.fullmatch(name) or len(name) > self.longest_name:
            raise FieldError(f"has the name {shown(name)}", f"{self.what} names look like {self.names.pattern}")
        if self.reserved and name.startswith(self.reserved):
            raise FieldError(f"sets {shown(name)}", f"names that begin with {self.reserved} are etcron's own")


@dataclass(frozen=True)
class Member:
    name: str
    attribute: str
    kind: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    of: str
    members: tuple[Member, ...]
    make: Callable[..., Any]
    example: str
    also: Callable[[Any], None] = lambda _: None

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise FieldError(f"is a JSON {kind_of(value)}: {shown(value)}", f"needed: an object such as {self.example}")
        faults, values = Faults(), {}
        faults.refuse_unknown(value, [member.name for member in self.members], of=self.of)
        said = given(value)
        for member in self.members:
            if member.name in said:
                values[member.attribute] = faults.take(member.name, member.kind, said[member.name])
        faults.check()
        made = self.make(**values)
        self.also(made)
        return made


MAX_NAME_LENGTH: Final = 128
MAX_COMMAND_LENGTH: Final = 32768

MAX_ARGUMENTS: Final = 1000
MAX_EXPRESSIONS: Final = 20

MAX_SECONDS: Final = 366 * 86400
_NAME = re.compile("[A-Za-z0-9._-]+", re.ASCII)


def is_job_name(name: str) -> bool:
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None and (name not in {".", ".."})


@dataclass(frozen=True, slots=True)
class JobName:
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
    def __call__(self, value: Any) -> str:
        return text(value, "a cron expression such as '0 */5 * * * * *', or a list of them")


@dataclass(frozen=True, slots=True)
class MomentText:
    def __call__(self, value: Any) -> str:
        return text(value, "a time such as 2026-12-24T18:00:00+01:00, or without an offset in the job's timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    least_s: int = 1

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
    def __call__(self, value: Any) -> str:
        name = text(value, "an IANA name such as Europe/Berlin or UTC")
        try:
            load_zone(name)
        except ScheduleError as error:
            raise FieldError(f"{shown(name)} {error.message}", error.remedy) from error
        return name


@dataclass(frozen=True, slots=True)
class LostAfter:
    def __call__(self, value: Any) -> Any:
        if value == "never":
            return "never"
        if isinstance(value, str):
            raise FieldError(f"is {shown(value)}", 'needed: a number of seconds, or "never"')
        return Number(low=1, high=MAX_SECONDS)(value)


@dataclass(frozen=True, slots=True)
class CalendarEntry:
    def __call__(self, value: Any) -> str:
        entry = text(value, NEEDED)
        try:
            check_entry(entry)
        except ValueError as error:
            raise FieldError(f"is {shown(entry)}", f"needed: {error}") from error
        return entry


_DATES: Final[Any] = Several(of=CalendarEntry(), what="dates", most=MAX_DATES, alone=False)


@dataclass(frozen=True, slots=True)
class CalendarKind:
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
    if retry.delay_s > retry.max_delay_s:
        faults = Faults()
        message = f"is {retry.delay_s:g}, beyond maxDelaySeconds ({retry.max_delay_s:g})"
        faults.add("delaySeconds", message, "lower it, or raise maxDelaySeconds")
        faults.check()


MAX_OUTPUT_LIMIT_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 100

MAX_VALUE_LENGTH: Final = 4096
NOT_YET: Final = frozenset({"maxDurationWarnSeconds", "notify"})

TRIGGERS: Final = ("cronExpr", "every", "after", "at")

_ENV_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LABEL_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)

_VALUE = AnyText(longest=MAX_VALUE_LENGTH)
_PATH = Pattern(form=re.compile("/[^\\0]*"), limits="an absolute path such as `/srv/reports`", longest=4095)

_SHELL = Pattern(form=re.compile("/[^\\0]*"), limits="an absolute path such as `/bin/bash`", longest=4095)
_USER = Pattern(
    form=re.compile("[A-Za-z_][A-Za-z0-9._-]*\\$?", re.ASCII),
    limits="a name of a system user such as `www-data`",
    longest=32,
)


def _whole(low: int, high: int, unit: str = "seconds") -> Number:
    return Number(low=low, high=high, whole=True, unit=unit)


_MISFIRE: Final = Members(
    of="misfire",
    make=Misfire,
    example='{"policy": "latest", "graceSeconds": 60}',
    members=(
        Member("policy", "policy", Choice(MisfirePolicy)),
        Member("graceSeconds", "grace_s", _whole(1, 86400)),
        Member("windowSeconds", "window_s", _whole(0, MAX_SECONDS)),
        Member("limit", "limit", _whole(1, 100, "runs")),
    ),
)

_RETRY: Final = Members(
    of="retry",
    make=Retry,
    example='{"limit": 3, "delaySeconds": 10}',
    also=check_retry,
    members=(
        Member("limit", "limit", _whole(0, 100, "retries")),
        Member("delaySeconds", "delay_s", Number(low=0, high=86400)),
        Member("backoff", "backoff", Number(low=1, high=10, unit="")),
        Member("maxDelaySeconds", "max_delay_s", Number(low=0, high=MAX_SECONDS)),
        Member("jitter", "jitter", Number(low=0, high=1, unit="")),
        Member(
            "onExitCodes",
            "on_exit_codes",
            Several(of=_whole(0, 255, ""), what="exit codes", least=0, most=256, alone=False, unique=True),
        ),
        Member("otherWorker", "other_worker", Truth()),
    ),
)

_ENV: Final = Named(
    names=_ENV_NAME, what="environment", of=_VALUE, most=MAX_ENTRIES, example='{"LEVEL": "debug"}', reserved="ETCRON_"
)
_LABELS: Final = Named(names=_LABEL_NAME, what="label", of=_VALUE, most=MAX_ENTRIES, example='{"team": "billing"}')
_WORKERS: Final = Named(
    names=_LABEL_NAME, what="label", of=Several(of=_VALUE, what="values", most=MAX_ENTRIES), most=MAX_ENTRIES,
    example='{"zone": "eu", "gpu": ["a100", "h100"]}',
)  # fmt: skip
FIELDS: Final[tuple[Member, ...]] = (
    Member("name", "name", JobName()), Member("command", "command", Command()),
    Member("cronExpr", "cron_exprs", Several(of=ExpressionText(), what="expressions", most=MAX_EXPRESSIONS)),
    Member("every", "every", Span()), Member("offset", "offset", Span(least_s=0)), Member("after", "after", Span()),
    Member("at", "at", MomentText()), Member("timezone", "timezone", ZoneName()),
    Member("enabled", "enabled", Truth()), Member("startAt", "start_at", MomentText()),
    Member("endAt", "end_at", MomentText()), Member("calendar", "calendar", CalendarKind()),
    Member("jitterSeconds", "jitter_s", _whole(0, 86400)), Member("overlap", "overlap", Choice(Overlap)),
    Member("misfire", "misfire", _MISFIRE), Member("retry", "retry", _RETRY),
    Member("timeoutSeconds", "timeout_s", Number(low=0, high=MAX_SECONDS)),
    Member("killGraceSeconds", "kill_grace_s", Number(low=0, high=3600)),
    Member("onWorkerLost", "on_worker_lost", Choice(OnWorkerLost)),
    Member("lostAfterSeconds", "lost_after_s", LostAfter()),
    Member("env", "env", _ENV),
    Member("workdir", "workdir", _PATH), Member("user", "user", _USER), Member("shell", "shell", _SHELL),
    Member("outputLimitBytes", "output_limit_bytes", _whole(0, MAX_OUTPUT_LIMIT_BYTES, "bytes")),
    Member("labels", "labels", _LABELS), Member("workers", "workers", _WORKERS),
    Member("broadcast", "broadcast", Truth()), Member("slots", "slots", _whole(1, 1024, "slots")),
    Member("priority", "priority", _whole(-100, 100, "")),
)  # fmt: skip

_MOMENTS = {"at": "at", "startAt": "start_at", "endAt": "end_at"}


def check_timing(faults: Faults, said: Mapping[str, Any], values: dict[str, Any]) -> None:
    timezone = values.get("timezone") or "UTC"
    _check_one_trigger(faults, [name for name in TRIGGERS if name in said])
    _check_expressions(faults, said, values, timezone)
    for name, attribute in _MOMENTS.items():
        if values.get(attribute) is not None:
            read = partial(_moment, timezone=timezone, is_end=name == "endAt")
            values[attribute] = faults.take(name, read, values[attribute])
    _check_window(faults, said, values)
    _check_offset(faults, said, values)
    _check_after(faults, said, values)


def _check_one_trigger(faults: Faults, given: list[str]) -> None:
    *others, last = TRIGGERS
    if not given:
        faults.add(TRIGGERS[0], "is missing", f"needed: one of {', '.join(others)} or {last}, to say when it runs")
    elif len(given) > 1:
        rest = " and ".join(given[1:])
        faults.add(given[0], f"stands beside {rest}", f"keep one of {', '.join(given)}: a job has one trigger")


def _check_expressions(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any], timezone: str) -> None:
    exprs = values.get("cron_exprs") or ()
    for index, expr in enumerate(exprs):
        path = f"cronExpr[{index}]" if isinstance(said["cronExpr"], list) else "cronExpr"
        with faults.at(path):
            _check_expression(expr, timezone, values.get("name") or "")


def _check_expression(expr: str, timezone: str, name: str) -> None:
    try:
        parse_cron(expr, timezone=timezone, job=name)
    except ScheduleError as error:
        raise FieldError(f"{error.field} {error.text!r}: {error.message}", error.remedy) from error


def _moment(text: str, *, timezone: str, is_end: bool) -> Moment:
    try:
        return parse_moment(text, timezone, is_end=is_end)
    except (ValueError, OverflowError) as error:
        raise FieldError(f"is {shown(text)}", f"needed: {error}") from error


def _check_window(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    for name in ("startAt", "endAt"):
        if name in said and "at" in said:
            faults.add(name, "stands beside at, which fires once", "leave it out")
    start, end = values.get("start_at"), values.get("end_at")
    if start is not None and end is not None and (end.ms <= start.ms):
        faults.add("endAt", f"is {shown(end.text)}, not after startAt {shown(start.text)}", "needed: a later time")


def _check_offset(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    offset, every = values.get("offset"), values.get("every")
    if "offset" in said and "every" not in said:
        faults.add("offset", "stands without every", "leave it out, or give every, e.g. 15m")
    elif offset is not None and every is not None and (offset.ms >= every.ms):
        faults.add("offset", f"is {shown(offset.text)}, not below every {shown(every.text)}", "needed: a shorter span")


def _check_after(faults: Faults, said: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if "after" not in said:
        return
    overlap = values.get("overlap") or Overlap.SKIP
    if overlap is not Overlap.SKIP:
        faults.add("overlap", f"is {shown(str(overlap))} beside after, whose runs never meet", "leave it out, or skip")
    if values.get("jitter_s"):
        faults.add("jitterSeconds", f"is {values['jitter_s']} beside after, which keeps its delay", "leave it out")
    if values.get("broadcast"):
        faults.add("broadcast", "is true beside after", "leave one of them out: use every for all workers")


MAX_SPEC_BYTES: Final = 65536
_ROOM_FOR_THE_SAVE: Final = 1024

KNOWN: Final = frozenset(field.name for field in FIELDS)


def read_as_before(document: Mapping[str, Any]) -> dict[str, Any]:
    faults, said = Faults(), given(document)
    values = _read(faults, said, KNOWN)
    for name in ("name", "command"):
        if name not in said:
            faults.take(name, next(field.kind for field in FIELDS if field.name == name), None)
    _refuse_unknown(faults, document)
    faults.check()
    stored = stored_of(JobSpec(**values))
    size = len(json.dumps(stored, ensure_ascii=False).encode())
    limit = MAX_SPEC_BYTES - _ROOM_FOR_THE_SAVE
    if size > limit:
        raise _single("job", f"is {size:,} bytes long", f"keep it below {limit:,} bytes")
    return stored


def _read(faults: Faults, said: Mapping[str, Any], known: Collection[str], name: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {"name": name} if name else {}
    for field in FIELDS:
        if field.name in known and field.name in said:
            values[field.attribute] = faults.take(field.name, field.kind, said[field.name])
    check_timing(faults, said, values)
    return values


def _refuse_unknown(faults: Faults, document: Mapping[str, Any]) -> None:
    for name in sorted(NOT_YET & document.keys()):
        faults.add(name, "is not supported yet", "leave it out")
    faults.refuse_unknown([name for name in document if name not in NOT_YET], KNOWN, of="a job")


def _single(name: str, message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError([Problem(field=name, message=message, remedy=remedy)])


DEFAULTS: Final[dict[str, Any]] = {
    "name": "", "command": "", "cronExpr": None, "every": None, "offset": None, "after": None, "at": None,
    "timezone": "UTC", "enabled": True, "startAt": None, "endAt": None, "calendar": None, "jitterSeconds": 0,
    "overlap": "skip", "misfire": {"policy": "latest", "graceSeconds": 60, "windowSeconds": 3600, "limit": 10},
    "retry": {
        "limit": 0, "delaySeconds": 10, "backoff": 2, "maxDelaySeconds": 3600, "jitter": 0, "onExitCodes": [],
        "otherWorker": False,
    },
    "timeoutSeconds": 0, "killGraceSeconds": 5, "onWorkerLost": "record", "lostAfterSeconds": None, "env": {},
    "workdir": None, "user": None, "shell": None, "outputLimitBytes": 262144, "labels": {}, "workers": {},
    "broadcast": False, "slots": 1, "priority": 0,
}  # fmt: skip


def stored_of(spec: JobSpec) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": spec.name, "command": spec.command if isinstance(spec.command, str) else list(spec.command),
        "cronExpr": _short(spec.cron_exprs) if spec.cron_exprs else None, "every": _text(spec.every),
        "offset": _text(spec.offset), "after": _text(spec.after), "at": _text(spec.at), "timezone": spec.timezone,
        "enabled": spec.enabled, "startAt": _text(spec.start_at), "endAt": _text(spec.end_at),
        "calendar": None if spec.calendar is None else spec.calendar.to_document(), "jitterSeconds": spec.jitter_s,
        "overlap": str(spec.overlap), "misfire": _misfire_document(spec.misfire),
        "retry": _retry_document(spec.retry), "timeoutSeconds": spec.timeout_s, "killGraceSeconds": spec.kill_grace_s,
        "onWorkerLost": str(spec.on_worker_lost), "lostAfterSeconds": spec.lost_after_s, "env": dict(spec.env),
        "workdir": spec.workdir, "user": spec.user, "shell": spec.shell, "outputLimitBytes": spec.output_limit_bytes,
        "labels": dict(spec.labels), "workers": {name: _short(values) for name, values in spec.workers.items()},
        "broadcast": spec.broadcast, "slots": spec.slots, "priority": spec.priority,
    }  # fmt: skip
    return {name: value for name, value in document.items() if value != DEFAULTS[name]}


def _text(value: Moment | Duration | None) -> str | None:
    return None if value is None else value.text


def _short(values: tuple[str, ...]) -> str | list[str]:
    """One value as itself, several as a list."""
    return values[0] if len(values) == 1 else list(values)


def _retry_document(retry: Retry) -> dict[str, Any]:
    return {
        "limit": retry.limit, "delaySeconds": retry.delay_s, "backoff": retry.backoff,
        "maxDelaySeconds": retry.max_delay_s, "jitter": retry.jitter, "onExitCodes": list(retry.on_exit_codes),
        "otherWorker": retry.other_worker,
    }  # fmt: skip


def _misfire_document(misfire: Misfire) -> dict[str, Any]:
    return {
        "policy": str(misfire.policy), "graceSeconds": misfire.grace_s,
        "windowSeconds": misfire.window_s, "limit": misfire.limit,
    }  # fmt: skip
