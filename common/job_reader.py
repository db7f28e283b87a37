"""Reading a job from what a user sent: every mistake at once, each with its field and its remedy.

Pure: standard library and its neighbours. Source of the limits: ``docs/job-model.md``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, TypeVar

from common.errors import InvalidInputError, Problem, ScheduleError
from common.job import NEVER, JobSpec, Misfire, MisfirePolicy, Overlap
from common.schedule import parse_cron

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)

MAX_SPEC_BYTES: Final = 65_536
MAX_NAME_LENGTH: Final = 128
MAX_COMMAND_LENGTH: Final = 32_768
MAX_OUTPUT_LIMIT_BYTES: Final = 8 * 1024 * 1024
MAX_ENTRIES: Final = 100
"""Of ``env`` and of ``labels``."""
MAX_VALUE_LENGTH: Final = 4_096
MAX_SECONDS: Final = 366 * 86_400

_NAME = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)
NOT_YET: Final = frozenset(
    {"every", "after", "at", "startAt", "endAt", "calendar", "jitterSeconds", "retry", "onWorkerLost", "workdir",
     "user", "shell", "workers", "broadcast", "slots", "priority", "maxDurationWarnSeconds", "notify"}
)  # fmt: skip


def load_object(text: bytes | str, *, field_name: str = "job") -> dict[str, Any]:
    """The JSON object in ``text``; InvalidInputError naming the field where it is none, or beyond 64 KiB."""
    size = len(text.encode(errors="surrogatepass")) if isinstance(text, str) else len(text)
    if size > MAX_SPEC_BYTES:
        raise _single(field_name, f"is {size:,} bytes long", f"a job is at most {MAX_SPEC_BYTES:,} bytes of JSON")
    example = 'send a JSON object such as {"name":"hello","command":"echo hello","cronExpr":"0 * * * * * *"}'
    try:
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_members)
    except (ValueError, RecursionError) as error:
        raise _single(field_name, f"is not JSON ({error})", example) from error
    if not isinstance(document, dict):
        raise _single(field_name, f"is a JSON {_kind(document)}, not an object", example)
    return document


def parse_job(document: Mapping[str, Any]) -> JobSpec:
    """The valid job in ``document``, or InvalidInputError with every mistake at once."""
    reader = _Reader(document)
    name = reader.take("name", _read_name)
    values: dict[str, Any] = {
        attribute: reader.take(json_name, read)
        for json_name, (attribute, read) in _OPTIONAL.items()
        if document.get(json_name) is not None
    }
    command = reader.take("command", _read_command)
    cron_expr = reader.take("cronExpr", _read_text)
    reader.refuse_unknown()
    if isinstance(cron_expr, str):
        _check_schedule(reader.problems, cron_expr, values.get("timezone") or "UTC", name or "")
    if name is not None and command is not None and cron_expr is not None and not reader.problems:
        spec = JobSpec(name=name, command=command, cron_exprs=(cron_expr,), **values)
        size = len(json.dumps(spec.to_stored(), ensure_ascii=False).encode())
        if size <= MAX_SPEC_BYTES - 1024:
            return spec
        reader.fault("job", f"is {size:,} bytes long", f"keep it below {MAX_SPEC_BYTES - 1024:,} bytes")
    raise InvalidInputError(reader.problems)


class _FieldError(Exception):
    """A value of a field is wrong: (what, remedy)."""


class _Reader:
    """Takes fields out of a document and gathers what was wrong with them."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def fault(self, name: str, message: str, remedy: str) -> None:
        self.problems.append(Problem(field=name, message=message, remedy=remedy))

    def take(self, name: str, read: Callable[[Any], T]) -> T | None:
        try:
            return read(self.document.get(name))
        except InvalidInputError as error:
            self.problems.extend(error.problems)
        except _FieldError as error:
            self.fault(name, *error.args)
        return None

    def refuse_unknown(self) -> None:
        for name in self.document:
            if name in _KNOWN:
                continue
            if name in NOT_YET:
                self.fault(name, "is not supported yet", "leave it out")
            else:
                self.fault(_shown(name), "is not a field of a job", _nearest(name, _KNOWN | NOT_YET))


def _check_schedule(problems: list[Problem], expr: str, timezone: str, name: str) -> None:
    try:
        parse_cron(expr, timezone=timezone, job=name)
    except ScheduleError as error:
        fault = f"{error.field} {error.text!r}: {error.message}"
        problems.append(Problem(field="cronExpr", message=fault, remedy=error.remedy))


def _read_name(value: Any) -> str:
    remedy = f"1 to {MAX_NAME_LENGTH} ASCII letters, digits, '.', '_' or '-'"
    text = _read_text(value, remedy=remedy)
    if len(text) > MAX_NAME_LENGTH:
        raise _FieldError(f"is {len(text)} characters long", remedy)
    if not _NAME.fullmatch(text) or text in {".", ".."}:
        raise _FieldError(f"{_shown(text)} has characters that a name cannot have", remedy)
    return text


def check_name(value: Any) -> str:
    """The job name, or InvalidInputError naming ``name``."""
    reader = _Reader({"name": value})
    name = reader.take("name", _read_name)
    if name is None:
        raise InvalidInputError(reader.problems)
    return name


def _read_command(value: Any) -> str:
    remedy = "a command line for the shell, e.g. 'echo hello'"
    if isinstance(value, list):
        raise _FieldError("as a list of arguments is not supported yet", remedy)
    text = _read_text(value, remedy=remedy)
    if "\0" in text:
        raise _FieldError("contains a NUL character", "remove it")
    if len(text) > MAX_COMMAND_LENGTH:
        raise _FieldError(f"is {len(text):,} characters long", f"at most {MAX_COMMAND_LENGTH:,}: put it into a script")
    return text


def _read_text(value: Any, *, remedy: str = "a text") -> str:
    if value is None:
        raise _FieldError("is missing", f"needed: {remedy}")
    if not isinstance(value, str):
        raise _FieldError(f"is a JSON {_kind(value)}", f"needed: {remedy}")
    if not value.strip():
        raise _FieldError("is empty", f"needed: {remedy}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise _FieldError("is not valid Unicode", "remove lone surrogates") from error
    return value


def _read_timezone(value: Any) -> str:
    text = _read_text(value)
    try:
        parse_cron("@yearly", timezone=text)
    except ScheduleError as error:
        raise _FieldError(error.message, error.remedy) from error
    return text


def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _FieldError(f"is {_shown(value)}", "needed: true or false")
    return value


def _choice(kind: type[E]) -> Callable[[Any], E]:
    def read(value: Any) -> E:
        if not isinstance(value, str) or value not in set(kind):
            raise _FieldError(f"is {_shown(value)}", f"one of: {', '.join(kind)}")
        return kind(value)

    return read


def _number(low: float, high: float, *, whole: bool = False, unit: str = "seconds") -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        kinds = int if whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            raise _FieldError(f"is {_shown(value)}", f"needed: {kind} of {unit} from {low:,} to {high:,}")
        return value

    return read


def _read_lost_after(value: Any) -> Any:
    if value == NEVER:
        return NEVER
    if isinstance(value, str):
        raise _FieldError(f"is {_shown(value)}", 'a number of seconds, or "never"')
    return _number(1, MAX_SECONDS)(value)


def _read_misfire(value: Any) -> Misfire:
    if not isinstance(value, dict):
        raise _FieldError(f"is {_shown(value)}", 'an object such as {"policy": "latest", "graceSeconds": 60}')
    reader = _Reader(value)
    values = {
        attribute: reader.take(name, read) for name, (attribute, read) in _MISFIRE.items() if name in value
    }  # fmt: skip
    for name in value:
        if name not in _MISFIRE:
            reader.fault(_shown(name), "is not a field of misfire", _nearest(name, frozenset(_MISFIRE)))
    if reader.problems:
        raise InvalidInputError(
            Problem(field=f"misfire.{p.field}", message=p.message, remedy=p.remedy) for p in reader.problems
        )
    return Misfire(**values)  # type: ignore[arg-type]


def _texts(pattern: re.Pattern[str], what: str, example: str) -> Callable[[Any], Mapping[str, str]]:
    def read(value: Any) -> Mapping[str, str]:
        if not isinstance(value, dict):
            raise _FieldError(f"is {_shown(value)}", f"an object of texts such as {example}")
        if len(value) > MAX_ENTRIES:
            raise _FieldError(f"has {len(value):,} entries", f"at most {MAX_ENTRIES}")
        for key, text in value.items():
            _check_entry(pattern, what, key, text)
        return MappingProxyType(value)

    return read


def _check_entry(pattern: re.Pattern[str], what: str, key: str, text: Any) -> None:
    if not pattern.fullmatch(key) or len(key) > MAX_NAME_LENGTH:
        raise _FieldError(f"has the name {_shown(key)}", f"{what} names look like {pattern.pattern}")
    if what == "environment" and key.startswith("ETCRON_"):
        raise _FieldError(f"sets {_shown(key)}", "names that begin with ETCRON_ are etcron's own")
    if not isinstance(text, str) or "\0" in text or len(text) > MAX_VALUE_LENGTH:
        raise _FieldError(f"has a bad value for {_shown(key)}", f"a text of at most {MAX_VALUE_LENGTH:,} characters")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _FieldError(f"has a value for {_shown(key)} that is not valid Unicode", "mend it") from error


_MISFIRE: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "policy": ("policy", _choice(MisfirePolicy)),
    "graceSeconds": ("grace_s", _number(1, 86_400, whole=True)),
    "windowSeconds": ("window_s", _number(0, MAX_SECONDS, whole=True)),
    "limit": ("limit", _number(1, 100, whole=True, unit="runs")),
}
_OPTIONAL: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "timezone": ("timezone", _read_timezone),
    "enabled": ("enabled", _read_bool),
    "overlap": ("overlap", _choice(Overlap)),
    "misfire": ("misfire", _read_misfire),
    "timeoutSeconds": ("timeout_s", _number(0, MAX_SECONDS)),
    "killGraceSeconds": ("kill_grace_s", _number(0, 3600)),
    "outputLimitBytes": ("output_limit_bytes", _number(0, MAX_OUTPUT_LIMIT_BYTES, whole=True, unit="bytes")),
    "env": ("env", _texts(_ENV_NAME, "environment", '{"LEVEL": "debug"}')),
    "lostAfterSeconds": ("lost_after_s", _read_lost_after),
    "labels": ("labels", _texts(_LABEL_NAME, "label", '{"team": "billing"}')),
}
_KNOWN: Final = frozenset({"name", "command", "cronExpr", *_OPTIONAL})


def _nearest(name: str, known: frozenset[str]) -> str:
    by_lower = {one.lower(): one for one in sorted(known)}
    short = name.lower()[:80]
    longer = [one for one in by_lower if len(short) >= 3 and one.startswith(short)]
    near = longer[:1] or get_close_matches(short, list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]}?" if near else f"known: {', '.join(sorted(known - NOT_YET))}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=True, default=str) if not isinstance(value, str) else repr(value)
    except RecursionError:
        return f"a very deep {_kind(value)}"
    return text if len(text) <= 60 else text[:57] + "..."


def _kind(value: object) -> str:
    kinds: dict[type, str] = {str: "text", bool: "boolean", list: "array", dict: "object", type(None): "null"}
    return kinds.get(type(value), "number")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is given twice")
    return document


def _single(name: str, message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError([Problem(field=name, message=message, remedy=remedy)])
