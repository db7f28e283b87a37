"""Reading a job from what a user sent: every mistake at once, each with its path and its remedy.

Pure: standard library and its neighbours. The limits are those of the table in ``common.jobs.fields``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from common.errors import InvalidInputError, Problem
from common.jobs.fields import EXAMPLE, FIELDS, NOT_YET, REQUIRED, TIMING
from common.jobs.job import JobSpec
from common.jobs.reading import Faults, given, kind_of, shown
from common.jobs.timing import check_timing
from common.jobs.values import JobName

__all__ = [
    "KNOWN",
    "MAX_SPEC_BYTES",
    "NOT_YET",
    "check_name",
    "first_given_twice",
    "load_object",
    "parse_job",
    "parse_timing",
]

MAX_SPEC_BYTES: Final = 65_536
_ROOM_FOR_THE_SAVE: Final = 1024
KNOWN: Final = frozenset(field.name for field in FIELDS)
"""The fields of a job that this version has."""


def load_object(
    text: bytes | str, *, field_name: str = "job", example: str = EXAMPLE, is_job: bool = True
) -> dict[str, Any]:
    """The JSON object in ``text``; InvalidInputError naming the field where it is none, or, of a job, beyond 64 KiB."""
    size = len(text.encode(errors="surrogatepass")) if isinstance(text, str) else len(text)
    if is_job and size > MAX_SPEC_BYTES:
        raise _single(field_name, f"is {size:,} bytes long", f"a job is at most {MAX_SPEC_BYTES:,} bytes of JSON")
    remedy = f"send a JSON object such as {example}"
    try:
        document = _DECODER.decode(text if isinstance(text, str) else _text_of(text))
    except (ValueError, RecursionError) as error:
        raise _single(field_name, f"is not JSON ({_why(error)})", remedy) from error
    if not isinstance(document, dict):
        raise _single(field_name, f"is a JSON {kind_of(document)}, not an object", remedy)
    return document


def parse_job(document: Mapping[str, Any]) -> JobSpec:
    """The valid job in ``document``, or InvalidInputError with every mistake at once. A null is as if left out."""
    faults, said = Faults(), given(document)
    values = _read(faults, said, KNOWN)
    for name in REQUIRED:
        if name not in said:
            faults.take(name, next(field.kind for field in FIELDS if field.name == name), None)
    _refuse_unknown(faults, document)
    faults.check()
    spec = JobSpec(**values)
    size = len(json.dumps(spec.to_stored(), ensure_ascii=False).encode())
    limit = MAX_SPEC_BYTES - _ROOM_FOR_THE_SAVE
    if size > limit:
        raise _single("job", f"is {size:,} bytes long", f"keep it below {limit:,} bytes")
    return spec


def parse_timing(document: Mapping[str, Any], *, name: str = "") -> JobSpec:
    """A job without a command that has the trigger, window and calendar of ``document``; other members are ignored.

    InvalidInputError with every mistake at once. ``name`` is what ``H`` takes its value from.
    """
    faults = Faults()
    values = _read(faults, {field: value for field, value in given(document).items() if field in TIMING}, TIMING, name)
    faults.check()
    return JobSpec(**{"name": name, "command": "", **values})


def check_name(value: Any) -> str:
    """The job name, or InvalidInputError naming ``name``."""
    faults = Faults()
    name = faults.take("name", JobName(), value)
    faults.check()
    assert name is not None, "what was read without a fault is there"
    return name


def _read(faults: Faults, said: Mapping[str, Any], known: Collection[str], name: str = "") -> dict[str, Any]:
    """The values of the known fields, by attribute; those with a mistake are None."""
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


def _text_of(value: bytes) -> str:
    """JSON is UTF-8, -16 or -32, as its first bytes tell."""
    return value.decode(json.detect_encoding(value), "surrogatepass")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_unique_members)
"""Made once: a catalog is 100,000 jobs."""


def _single(name: str, message: str, remedy: str) -> InvalidInputError:
    return InvalidInputError([Problem(field=name, message=message, remedy=remedy)])
