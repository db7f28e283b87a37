"""What calls take in their queries, each said once: read from here, and the parameters of OpenAPI come from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Final, Self, get_args, get_type_hints

from aiohttp import web
from pydantic_core import PydanticCustomError

from common.errors import Problem, nearest
from common.instants import to_ms
from common.jobs.kinds import Schema
from common.jobs.reading import check, faults_within, shown, wrong

_MAX_MS: Final = 8_000_000_000_000
"""Beyond the year 2199."""
_FIRST_MS: Final = to_ms(datetime.min.replace(tzinfo=UTC)) + 1
_LAST_MS: Final = to_ms(datetime.max.replace(tzinfo=UTC)) - 1
"""Of the calendar, each with another one beyond it. An offset may lead further, where nothing is."""


class Query:
    """What a call takes; by itself, of one that takes nothing. Each field has its `Parameter` and its `Meaning`."""

    @classmethod
    def read(cls, request: web.Request, *, takes_others: bool = False, clashes: Iterable[Problem] = ()) -> Self:
        """What a query says; InvalidInputError with every mistake, also those between parameters (`clashes`).

        `takes_others`: a name that is not known is no mistake, nor one that is given twice.
        """
        given, taken, made = request.query, cls._taken(), cls()
        names = [name for name, _, _ in taken.values()]
        known = f"known: {', '.join(sorted(names))}" if names else "it has none: leave it out"
        problems = []
        for name in () if takes_others else [name for name in given if name not in names]:
            remedy = f"did you mean {meant}?" if (meant := nearest(name, names)) else known
            problems.append(Problem(field=name[:80], message="is not a parameter of this call", remedy=remedy))
        for attribute, (name, parameter, _) in taken.items():
            texts = given.getall(name, [])
            if len(texts) > 1 and parameter.schema.get("type") != "array" and not takes_others:
                problems.append(Problem(field=name, message=f"is given {len(texts):,} times", remedy="give each once"))
                continue
            try:
                setattr(made, attribute, parameter.read(texts))
            except PydanticCustomError as error:
                problems += faults_within(name, error)
        check([*problems, *clashes])
        return made

    @classmethod
    def parameters(cls) -> list[Schema]:
        """As OpenAPI has them."""
        return [
            {"name": name, "in": "query", "description": description, "schema": parameter.schema}
            for name, parameter, description in cls._taken().values()
        ]

    @classmethod
    @cache
    def _taken(cls) -> dict[str, tuple[str, Parameter, str]]:
        """Of each field its parameter: by what name, how it is read, and what it means."""
        taken = {}
        for attribute, hint in get_type_hints(cls, include_extras=True).items():
            _, parameter, meaning = get_args(hint)
            taken[attribute] = (meaning.name or attribute, parameter, meaning.text)
        return taken


@dataclass(frozen=True)
class Parameter:
    """How the texts of a parameter are read (none where it was left out; it raises `wrong`), and their schema."""

    read: Callable[[list[str]], Any]
    schema: Schema


@dataclass(frozen=True)
class Meaning:
    """What a parameter means, and its name where the field cannot have that."""

    text: str
    name: str = ""


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
            return min(max(to_ms(moment), _FIRST_MS), _LAST_MS)
    except (ValueError, OverflowError):
        pass
    remedy = "a time with its offset such as 2026-03-29T01:00:00Z (write + as %2B), or milliseconds since 1970"
    raise wrong(f"is {shown(text)}", remedy)


_DIGITS: Final = {"type": "string", "pattern": "^[0-9]{1,13}$", "description": "milliseconds since the epoch"}
Instant = Annotated[int | None, single({"anyOf": [{"type": "string", "format": "date-time"}, _DIGITS]}, _ms)]
Cursor = Annotated[
    str | None, single({"type": "string", "pattern": "^[A-Za-z0-9_-]{1,2000}$"}),
    Meaning("`nextCursor` of the page before, unchanged."),
]  # fmt: skip
Limit = Annotated[int, whole(1, 500, 50), Meaning("Items of a page, at most.")]
