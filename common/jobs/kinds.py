"""The kinds of values that a job is made of: numbers, choices, texts, lists, and objects of them.

A kind stands in a field's annotation. pydantic reads the field by its core schema; the same limits make its JSON Schema
and the words of the documentation.

Pure: pydantic's core, standard library and its neighbours.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, TypedDict, TypeVar, Unpack, get_args, get_type_hints

from pydantic_core import CoreSchema, SchemaValidator, ValidationError, core_schema

from common.errors import Problem
from common.jobs.reading import (
    REMEDY_ERROR,
    all_wrong,
    check_unicode,
    key_path,
    kind_of,
    problems_of,
    shown,
    text,
    unknown,
    wrong,
)

T = TypeVar("T")

Schema = dict[str, Any]

_BLANKS: Final = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Python strips from a text; what ``\\s`` is differs from one engine of expressions to the next."""
NOT_BLANK: Final = rf"[^\x00]*[^\x00{_BLANKS}][^\x00]*"
"""The pattern of a text that has something in it, and no NUL."""


class Kind(ABC):
    """How a value is read, and how it is described."""

    @property
    @abstractmethod
    def type(self) -> str:
        """What it is, e.g. ``whole number``."""

    @property
    @abstractmethod
    def limits(self) -> str:
        """What is checked beyond, e.g. ``0 to 100``; may be empty."""

    @property
    def core(self) -> CoreSchema:
        """How pydantic reads it."""
        return core_schema.no_info_plain_validator_function(self.read)

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Its JSON Schema."""

    def read(self, value: Any) -> Any:
        """The value as the program has it; `wrong`, `all_wrong`. Not of a kind that has a ``core`` of its own."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """The value as JSON has it, of one that was read."""
        return value


@dataclass(frozen=True)
class Truth(Kind):
    """True or false."""

    type: str = "true or false"
    limits: str = ""

    @property
    def core(self) -> CoreSchema:
        return _needed(core_schema.bool_schema(strict=True), "needed: true or false")

    @property
    def schema(self) -> Schema:
        return {"type": "boolean"}


@dataclass(frozen=True)
class Choice(Kind):
    """One of the words of an enum, or of those of them that ``of`` names."""

    words: type[StrEnum]
    of: tuple[StrEnum, ...] = ()
    type: str = "text"

    @property
    def _offered(self) -> tuple[StrEnum, ...]:
        return self.of or tuple(self.words)

    @property
    def limits(self) -> str:
        return ", ".join(f"`{word}`" for word in self._offered)

    @property
    def core(self) -> CoreSchema:
        schema: CoreSchema = core_schema.enum_schema(self.words, list(self.words))
        if self.of:  # whose own list of members leaves out none
            words = core_schema.literal_schema([str(word) for word in self.of])
            schema = core_schema.no_info_after_validator_function(self.words, words)
        return _needed(schema, f"one of: {', '.join(self._offered)}")

    @property
    def schema(self) -> Schema:
        return {"type": "string", "enum": [str(word) for word in self._offered]}

    def write(self, value: StrEnum) -> str:
        return str(value)


@dataclass(frozen=True, kw_only=True)
class Number(Kind):
    """A number in a range, both ends included. It stays as it was given: 5 and 5.0 are stored as they came."""

    low: int
    high: int
    whole: bool = False
    unit: str = "seconds"

    @property
    def type(self) -> str:
        return "whole number" if self.whole else "number"

    @property
    def limits(self) -> str:
        return f"{self.low:,} to {self.high:,}"

    @property
    def core(self) -> CoreSchema:
        whole = core_schema.int_schema(strict=True, ge=self.low, le=self.high)
        broken = core_schema.float_schema(strict=True, ge=self.low, le=self.high, allow_inf_nan=False)
        of_unit = f" of {self.unit}" if self.unit else ""
        return _needed(
            whole if self.whole else core_schema.union_schema([whole, broken], mode="left_to_right"),
            f"needed: a {self.type}{of_unit} from {self.limits}",
        )

    @property
    def schema(self) -> Schema:
        schema: Schema = {"type": "integer" if self.whole else "number", "minimum": self.low, "maximum": self.high}
        return schema | ({"x-unit": self.unit} if self.unit else {})


@dataclass(frozen=True, kw_only=True)
class Pattern(Kind):
    """A text of one form."""

    pattern: str
    """In the common part of Python's and of ECMAScript's expressions; it matches the whole text."""
    form: str
    """The form in words; it completes "needed: ..."."""
    longest: int
    type: str = "text"

    @property
    def limits(self) -> str:
        return self.form

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    @property
    def schema(self) -> Schema:
        return {"type": "string", "maxLength": self.longest, "pattern": f"^{self.pattern}$"}

    def read(self, value: Any) -> str:
        given = text(value, self.form)
        if "\0" in given:
            raise wrong("contains a NUL character", "remove it")
        if len(given) > self.longest:
            raise wrong(f"is {len(given):,} characters long", f"at most {self.longest:,}")
        if not self._compiled.fullmatch(given):
            raise wrong(f"is {shown(given)}", f"needed: {self.form}")
        return given


@dataclass(frozen=True, kw_only=True)
class AnyText(Kind):
    """A text that may be empty, but has no NUL."""

    longest: int
    type: str = "text"

    @property
    def limits(self) -> str:
        return f"up to {self.longest:,} characters"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "maxLength": self.longest, "pattern": r"^[^\x00]*$"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise wrong(f"is {shown(value)}", f"needed: a text of {self.limits}")
        if "\0" in value:
            raise wrong("contains a NUL character", "remove it")
        if len(value) > self.longest:
            raise wrong(f"is {len(value):,} characters long", f"needed: {self.limits}")
        check_unicode(value)
        return value


@dataclass(frozen=True, kw_only=True)
class Several(Kind):
    """A list, or where ``alone`` one value by itself; a tuple inside."""

    of: Kind
    what: str
    """In the plural, e.g. ``expressions``."""
    least: int = 1
    most: int
    alone: bool = True
    unique: bool = False

    @property
    def type(self) -> str:
        return f"{self.of.type}, or a list" if self.alone else f"list of {self.what}"

    @property
    def limits(self) -> str:
        least = "up to" if self.least == 0 else f"{self.least:,} to"
        number = f"{least} {self.most:,} {self.what}"
        return f"{number}, each {self.of.limits}" if self.of.limits else number

    @property
    def core(self) -> CoreSchema:
        several = core_schema.tuple_variable_schema(self.of.core)
        return core_schema.no_info_wrap_validator_function(self._read, several)

    @property
    def schema(self) -> Schema:
        several: Schema = {"type": "array", "items": self.of.schema, "maxItems": self.most}
        if self.least:
            several["minItems"] = self.least
        if self.unique:
            several["uniqueItems"] = True
        return {"anyOf": [self.of.schema, several]} if self.alone else several

    def write(self, value: tuple[Any, ...]) -> Any:
        """One value as itself, where that may be."""
        values = [self.of.write(one) for one in value]
        if not self.alone or len(values) > 1:
            return values
        return values[0] if values else None

    def _read(self, value: Any, read: Callable[[Any], tuple[Any, ...]]) -> tuple[Any, ...]:
        if not isinstance(value, list):
            if not self.alone:
                raise wrong(f"is {shown(value)}", f"needed: a {self.type}")
            try:
                return read([value])
            except ValidationError as error:  # reported as the value's own
                problems = problems_of(error)
                raise all_wrong(replace(one, field=one.field.removeprefix("[0]")) for one in problems) from None
        if not self.least <= len(value) <= self.most:
            raise wrong(f"has {len(value):,} entries", f"needed: {self.least:,} to {self.most:,} {self.what}")
        values = read(value)
        if self.unique and len(set(values)) < len(values):
            raise all_wrong(_repeated(values))
        return values


def _repeated(values: tuple[Any, ...]) -> Iterator[Problem]:
    seen = set[Any]()
    for index, value in enumerate(values):
        if value in seen:
            yield Problem(field=f"[{index}]", message=f"is {shown(value)} again", remedy="give each once")
        seen.add(value)


_LONGEST_NAME: Final = 128


@dataclass(frozen=True, kw_only=True)
class Named(Kind):
    """An object whose names the user chooses."""

    pattern: str
    """Of a name."""
    what: str
    """Of one of its names, e.g. ``label``."""
    of: Kind
    most: int
    example: str
    reserved: str | None = None
    """What no name may begin with."""
    type: str = "object"

    @property
    def limits(self) -> str:
        taken = f", none that begins with `{self.reserved}`" if self.reserved else ""
        names = self.pattern.replace("|", "\\|")
        return f"up to {self.most} names like `{names}`{taken}; each {self.of.type}: {self.of.limits}"

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.ASCII)

    @property
    def core(self) -> CoreSchema:
        values = core_schema.dict_schema(values_schema=self.of.core)
        return core_schema.no_info_wrap_validator_function(self._read, values)

    @property
    def schema(self) -> Schema:
        names: Schema = {"pattern": f"^{self.pattern}$", "maxLength": _LONGEST_NAME}
        if self.reserved:
            names["not"] = {"pattern": f"^{self.reserved}"}
        return {
            "type": "object", "maxProperties": self.most, "propertyNames": names,
            "additionalProperties": self.of.schema,
        }  # fmt: skip

    def write(self, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.of.write(one) for name, one in value.items()}

    def _read(self, value: Any, read: Callable[[Any], dict[str, Any]]) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise wrong(f"is {shown(value)}", f"needed: an object such as {self.example}")
        if len(value) > self.most:
            raise wrong(f"has {len(value):,} entries", f"at most {self.most}")
        bad = [problem for name in value if (problem := self._fault(name)) is not None]
        try:
            if not bad:
                return MappingProxyType(read(value))
            read({name: one for name, one in value.items() if self._fault(name) is None})
        except ValidationError as error:
            bad += problems_of(error)
        raise all_wrong(bad)

    def _fault(self, name: str) -> Problem | None:
        if not self._compiled.fullmatch(name) or len(name) > _LONGEST_NAME:
            message, remedy = f"has the name {shown(name)}", f"{self.what} names look like {self.pattern}"
        elif self.reserved and name.startswith(self.reserved):
            message, remedy = f"sets {shown(name)}", f"names that begin with {self.reserved} are etcron's own"
        else:
            return None
        return Problem(field=key_path(name), message=message, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class Object(Kind):
    """An object of known fields, each of which may be left out: a dataclass whose fields have kinds."""

    of: type[Any]
    name: str
    """Its name, for messages."""
    example: str
    also: Callable[[Any], None] = lambda _: None
    """Checks what was made as a whole; `wrong`, `all_wrong`."""
    type: str = "object"
    limits: str = ""

    @cached_property
    def members(self) -> Mapping[str, ObjectField]:
        """Its fields, by their names in JSON."""
        return members_of(self.of)

    @property
    def schema(self) -> Schema:
        return object_schema(self.of)

    def write(self, value: Any) -> dict[str, Any]:
        return written(value, self.members)

    @cached_property
    def core(self) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(self._read, _dataclass_core(self.of))

    def _read(self, value: Any, read: Callable[[Any], Any]) -> Any:
        if not isinstance(value, dict):
            raise wrong(f"is a JSON {kind_of(value)}: {shown(value)}", f"needed: an object such as {self.example}")
        made, problems = read_members(value, read, self.members, of=self.name)
        if problems:
            raise all_wrong(problems)
        self.also(made)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectField:
    """A field of an object: its name in JSON, the attribute that it becomes, and its description."""

    name: str
    attribute: str
    is_needed: bool
    kind: Kind
    meaning: str
    example: Any
    shown: Shown


class Shown(TypedDict, total=False):
    """How the console shows a field, in English; its schema tells it as ``title`` and ``x-form``."""

    label: str
    hint: str
    """What stands beneath it; its meaning where this is not given."""
    section: str
    """Of the form; of a field within an object it is the object's."""
    input: str
    """What it is typed into, where its type does not tell: ``command``, ``expressions``, ``calendar``, ``radios``."""
    choices: Mapping[str, str]
    """What some values are called, in the order in which they are offered."""
    means: Mapping[str, str]
    """The same of what they mean."""
    unset: str
    """What null, or nothing, stands for."""
    absent: str
    """What is shown in its place where the trigger rules it out."""


@dataclass(frozen=True, slots=True)
class _About:
    name: str
    meaning: str
    example: Any
    shown: Shown


def about(name: str, meaning: str, example: Any, **shown: Unpack[Shown]) -> Any:
    """Of a field: its name in JSON, what it means, a value that it may have, and how the console shows it."""
    return _About(name, meaning, example, shown)


def members_of(owner: type[Any]) -> Mapping[str, ObjectField]:
    """The fields of a dataclass, by their names in JSON; each is annotated with its type, its kind and its meaning."""
    hints, found = get_type_hints(owner, include_extras=True), {}
    for field in fields(owner):
        _, kind, known = get_args(hints[field.name])
        found[known.name] = ObjectField(
            name=known.name, attribute=field.name, kind=kind, meaning=known.meaning, example=known.example,
            shown=known.shown, is_needed=field.default is MISSING and field.default_factory is MISSING,
        )  # fmt: skip
    return MappingProxyType(found)


def reader_of(owner: type[T]) -> Callable[..., T]:
    """Makes one of this dataclass from its members' JSON (and ``context``): ValidationError with every mistake."""
    return SchemaValidator(_dataclass_core(owner)).validate_python


def _dataclass_core(owner: type[Any]) -> CoreSchema:
    members = {member.attribute: member for member in members_of(owner).values()}
    read = []
    for field in fields(owner):
        member = members[field.name]
        core = member.kind.core
        if field.default is not MISSING:
            core = core_schema.with_default_schema(core, default=field.default)
        elif field.default_factory is not MISSING:
            core = core_schema.with_default_schema(core, default_factory=field.default_factory)
        read.append(core_schema.dataclass_field(field.name, core, validation_alias=member.name))
    arguments = core_schema.dataclass_args_schema(owner.__name__, read)
    return core_schema.dataclass_schema(owner, arguments, list(members), slots="__slots__" in vars(owner))


def read_members(
    document: Mapping[str, Any], read: Callable[[dict[str, Any]], T], members: Mapping[str, ObjectField], *, of: str
) -> tuple[T | None, list[Problem]]:
    """What pydantic makes of an object's members, and every mistake in it. A null is as if left out."""
    given, problems, made = {}, [], None
    for name, member in members.items():
        value = document.get(name)
        if value is not None or member.is_needed:
            given[name] = value
    try:
        made = read(given)
    except ValidationError as error:
        absent = {name for name, value in given.items() if value is None}
        problems = [replace(one, message="is missing") if one.field in absent else one for one in problems_of(error)]
    return made, problems + list(unknown(document, members, of=of))


def written(value: Any, members: Mapping[str, ObjectField]) -> dict[str, Any]:
    """An object as JSON: each member by its name; what it does not have is null."""
    document = {}
    for name, member in members.items():
        own = getattr(value, member.attribute)
        document[name] = None if own is None else member.kind.write(own)
    return document


def object_schema(owner: type[Any]) -> Schema:
    """The JSON Schema of a dataclass's fields, each with its meaning; null in place of one is as if it was left out."""
    properties: Schema = {}
    members = members_of(owner)
    for name, member in members.items():
        schema = member.kind.schema if member.is_needed else or_null(member.kind.schema)
        properties[name] = {**schema, "description": member.meaning, "examples": [member.example]}
        if own := dict(member.shown):
            properties[name] |= {"title": own.pop("label", name), "x-form": own}
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    needed = [name for name, member in members.items() if member.is_needed]
    return {**schema, "required": needed} if needed else schema


def or_null(schema: Schema) -> Schema:
    """What it takes, or null."""
    choices = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*choices, {"type": "null"}]}


def _needed(schema: CoreSchema, remedy: str) -> CoreSchema:
    """The same, with the remedy in place of pydantic's words."""
    return core_schema.custom_error_schema(schema, custom_error_type=REMEDY_ERROR, custom_error_message=remedy)
