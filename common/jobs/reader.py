"""Reading a job from what a user sent: every mistake at once, each with its path and its remedy.

Pure: pydantic's core, standard library and its neighbours. The limits are those of ``common.jobs.job``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError

from common.errors import InvalidInputError, Problem
from common.jobs.job import EXAMPLE, TIMING, JobSpec
from common.jobs.kinds import members_of, read_members, reader_of
from common.jobs.reading import check, joined, kind_of, problems_of, shown
from common.jobs.timing import clashes
from common.jobs.values import REBOOT, Command, JobName, around

MAX_SPEC_BYTES: Final = 65_536
_LARGEST: Final = MAX_SPEC_BYTES - 1024
"""There is room for what the save writes beside it."""
_MEMBERS: Final = members_of(JobSpec)
KNOWN: Final = frozenset(_MEMBERS)
"""The fields of a job that this version has."""
_read_job: Final = reader_of(JobSpec)
_NAME: Final = SchemaValidator(JobName().core)
_COMMAND: Final = SchemaValidator(Command().core)
_ANY: Final = {"name": "any", "command": "any"}


def load_object(
    text: bytes | str, *, field_name: str = "job", example: str = EXAMPLE, is_job: bool = True
) -> dict[str, Any]:
    """The JSON object in ``text``; InvalidInputError naming the field where it is none, or, of a job, beyond 64 KiB."""
    size = len(text.encode(errors="surrogatepass")) if isinstance(text, str) else len(text)
    if is_job and size > MAX_SPEC_BYTES:
        raise _single(field_name, f"is {size:,} bytes long", f"a job is at most {MAX_SPEC_BYTES:,} bytes of JSON")
    remedy = f"send a JSON object such as {example}"
    try:
        if not isinstance(text, str):  # JSON is UTF-8, -16 or -32, as its first bytes tell
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        document = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _single(field_name, f"is not JSON ({_why(error)})", remedy) from error
    if not isinstance(document, dict):
        raise _single(field_name, f"is a JSON {kind_of(document)}, not an object", remedy)
    return document


def in_zone(document: Mapping[str, Any], timezone: str) -> Mapping[str, Any]:
    """The document, with this zone where it names none. What is stored without one is in UTC, whatever this says."""
    return document if document.get("timezone") is not None else {**document, "timezone": timezone}


def parse_job(document: Mapping[str, Any], *, is_small: bool = False) -> JobSpec:
    """The valid job in ``document``, or InvalidInputError with every mistake at once. A null is as if left out.

    ``is_small``: its JSON is known to be far below the limit.
    """
    spec, problems = _read(document)
    check(problems)
    if not is_small and (size := len(json.dumps(spec.to_stored(), ensure_ascii=False).encode())) > _LARGEST:
        raise _single("job", f"is {size:,} bytes long", f"keep it below {_LARGEST:,} bytes")
    return spec


def parse_timing(document: Mapping[str, Any], *, name: str = "") -> JobSpec:
    """A job without a command that has the trigger, window and calendar of ``document``; other members are ignored.

    InvalidInputError with every mistake at once. ``name`` is what ``H`` takes its value from.
    """
    given = {field: document[field] for field in TIMING if field in document}
    expressions = given.get("cronExpr")
    listed = expressions if isinstance(expressions, list) else [expressions]
    at_boot = any(str(one).strip().lower() == REBOOT for one in listed)
    spec, problems = _read(_ANY | given | ({"broadcast": True} if at_boot else {}), name=name)
    check(problems)
    return replace(spec, name=name, command="")


def check_name(value: Any) -> str:
    """The job name, or InvalidInputError naming ``name``."""
    name: str = _value("name", _NAME, value)
    return name


def check_command(value: Any) -> str | tuple[str, ...]:
    """The command, or InvalidInputError naming ``command``."""
    command: str | tuple[str, ...] = _value("command", _COMMAND, value)
    return command


def _value(field: str, kind: SchemaValidator, value: Any) -> Any:
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        problems = problems_of(error)
    raise InvalidInputError(replace(one, field=joined(field, one.field)) for one in problems)


def _read(document: Mapping[str, Any], name: str = "") -> tuple[JobSpec, list[Problem]]:
    """What can be read of a job, and what is wrong with it. A fault of one field hides no other."""
    given = {field: value for field, value in document.items() if value is not None}
    context = around(given, name)
    spec, problems = read_members(document, lambda members: _read_job(members, context=context), _MEMBERS, of="a job")
    if spec is None:
        wrong = {re.split(r"[.\[]", problem.field, maxsplit=1)[0] for problem in problems}
        right = {field: value for field, value in given.items() if field in KNOWN and field not in wrong}
        spec = _read_job(_ANY | right, context=context)
    return spec, problems + list(clashes(given, spec))


class _NotOursError(ValueError):
    """JSON to others, but not to us; the text says why."""


def _why(error: Exception) -> str:
    """What is wrong with a text that is no JSON, in words that are not Python's."""
    match error:
        case _NotOursError() | json.JSONDecodeError():
            return str(error)
        case UnicodeError():
            return "its bytes are no text in UTF-8"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return "a number in it has too many digits"


def _refuse_constant(text: str) -> float:
    raise _NotOursError(f"{text} is not JSON")


def _unique_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _NotOursError(f"{shown(first_given_twice(pairs))} is given twice")
    return document


def first_given_twice(pairs: list[tuple[str, Any]]) -> str:
    """The first name that another member before it has: one look at each, however many there are."""
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("none is")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_members)
"""Made once: a catalog is 100,000 jobs."""


def _single(name: str, message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError([Problem(field=name, message=message, remedy=remedy)])
