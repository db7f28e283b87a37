"""What calls take in their queries: models that pydantic reads, and from which the parameters of OpenAPI come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from aiohttp import web
from pydantic import BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, ValidationError, core_schema

from common.errors import InvalidInputError, Problem, nearest
from common.instants import to_ms
from common.jobs.kinds import Schema
from common.jobs.reading import check, problems_of, shown, wrong

_MAX_MS: Final = 8_000_000_000_000
"""Beyond the year 2199."""


class Query(BaseModel):
    """What a call takes; by itself, of one that takes nothing. Each field is annotated with its `Parameter`."""

    @classmethod
    def read(cls, request: web.Request, *, takes_others: bool = False, clashes: Iterable[Problem] = ()) -> Self:
        """What a query says; InvalidInputError with every mistake, also those between parameters (`clashes`).

        `takes_others`: a name that is not known is no mistake.
        """
        given, names = request.query, [parameter["name"] for parameter in cls.parameters()]
        known = f"known: {', '.join(sorted(names))}" if names else "it has none: leave it out"
        problems = []
        for name in () if takes_others else [name for name in given if name not in names]:
            remedy = f"did you mean {meant}?" if (meant := nearest(name, names)) else known
            problems.append(Problem(field=name[:80], message="is not a parameter of this call", remedy=remedy))
        try:
            made = cls.model_validate({name: given.getall(name, []) for name in names})
        except ValidationError as error:
            raise InvalidInputError([*problems, *problems_of(error), *clashes]) from None
        check([*problems, *clashes])
        return made

    @classmethod
    def parameters(cls) -> list[Schema]:
        """As OpenAPI has them."""
        return [
            {"name": field.alias or name, "in": "query", "description": field.description, "schema": kind.schema}
            for name, field in cls.model_fields.items()
            for kind in field.metadata
        ]


@dataclass(frozen=True)
class Parameter:
    """How the texts of a parameter are read (none where it was left out; it raises `wrong`), and their schema."""

    read: Callable[[list[str]], Any]
    schema: Schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)


def single(schema: Schema, value: Callable[[str], Any] = str) -> Parameter:
    """The value of the first text; None where there is none, or nothing in it."""

    def read(texts: list[str]) -> Any:
        text = texts[0] if texts else ""
        try:
            text.encode()
        except UnicodeEncodeError:
            raise wrong("is not valid Unicode", "percent-encode UTF-8") from None
        return value(text) if text else None

    return Parameter(read, schema)


def whole(low: int, high: int, default: int) -> Parameter:
    """A whole number of a range."""

    def read(texts: list[str]) -> int:
        text = texts[0] if texts else str(default)
        if text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20 and low <= int(text) <= high:
            return int(text)
        raise wrong(f"is {shown(text)}", f"a whole number from {low:,} to {high:,}; {default:,} when left out")

    return Parameter(read, {"type": "integer", "minimum": low, "maximum": high, "default": default})


def word(words: type[StrEnum]) -> Parameter:
    """A word of an enum, or None."""

    def value(text: str) -> StrEnum:
        if text not in list(words):
            raise wrong(f"is {shown(text)}", f"one of: {', '.join(words)}")
        return words(text)

    return single({"type": "string", "enum": [str(word) for word in words]}, value)


def _ms(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _MAX_MS:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return to_ms(moment)
    except (ValueError, OverflowError):
        pass
    remedy = "a time with its offset such as 2026-03-29T01:00:00Z (write + as %2B), or milliseconds since 1970"
    raise wrong(f"is {shown(text)}", remedy)


_DIGITS: Final = {"type": "string", "pattern": "^[0-9]{1,13}$", "description": "milliseconds since the epoch"}
Instant = Annotated[int | None, single({"anyOf": [{"type": "string", "format": "date-time"}, _DIGITS]}, _ms)]
Cursor = Annotated[
    str | None, single({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,2000}$"}),
    Field(description="`nextCursor` of the page before, unchanged."),
]  # fmt: skip
Limit = Annotated[int, whole(1, 500, 50), Field(description="Items of a page, at most.")]
