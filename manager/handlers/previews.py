"""What a preview of a schedule is asked with. Every mistake at once, each with its field and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import TypeAdapter

from common.errors import InvalidInputError
from common.jobs.job import TIMING, JobSpec
from common.jobs.kinds import AnyText, Number, Schema, members_of, object_schema, read_members, says
from common.jobs.reader import parse_timing
from common.jobs.reading import check, unknown

MAX_PREVIEW: Final = 100
DEFAULT_PREVIEW: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    name: Annotated[str, AnyText(longest=1_000), says("name", "any text: what H takes its value from", "backup")] = ""
    n: Annotated[int, Number(low=1, high=MAX_PREVIEW, whole=True, unit="fires"), says(
        "n", "how many fires", 10)] = DEFAULT_PREVIEW  # fmt: skip


_WISH: Final = TypeAdapter(_Wish)
_OWN: Final = members_of(_Wish)


def read_preview(document: Mapping[str, Any]) -> tuple[JobSpec, int]:
    """The schedule to be shown, as a job without a command, and how many fires; InvalidInputError."""
    problems = list(unknown(document, (*TIMING, *_OWN), of="a preview"))
    own = {name: value for name, value in document.items() if name in _OWN}
    wish, wrong = read_members(own, _WISH.validate_python, _OWN, of="a preview")
    wish = wish or _Wish()
    try:
        spec = parse_timing(document, name=wish.name)
    except InvalidInputError as error:
        raise InvalidInputError([*problems, *error.problems, *wrong]) from None
    check([*problems, *wrong])
    return spec, wish.n


def preview_schema() -> Schema:
    """What it takes, as JSON Schema."""
    schema, of_job = object_schema(_Wish), object_schema(JobSpec)["properties"]
    schema["properties"] |= {name: of_job[name] for name in TIMING}
    return schema
