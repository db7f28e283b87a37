"""The kinds of values that a job is made of: numbers, choices, texts, lists, and objects of them.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from common.jobs.reading import Faults, FieldError, Kind, check_unicode, given, key_path, kind_of, shown, text


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    type: str = "true or false"
    limits: str = ""

    def __call__(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise FieldError(f"is {shown(value)}", "needed: true or false")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the words of an enum."""

    words: type[StrEnum]
    type: str = "text"

    @property
    def limits(self) -> str:
        return ", ".join(f"`{word}`" for word in self.words)

    def __call__(self, value: Any) -> StrEnum:
        if not isinstance(value, str) or value not in set(self.words):
            raise FieldError(f"is {shown(value)}", f"one of: {', '.join(self.words)}")
        return self.words(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in a range, both ends included."""

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
        if isinstance(value, bool) or not isinstance(value, kinds) or not self.low <= value <= self.high:
            raise FieldError(f"is {shown(value)}", f"needed: a {self.type}{self._of_unit()} from {self.limits}")
        return value

    def _of_unit(self) -> str:
        return f" of {self.unit}" if self.unit else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A text of one form."""

    form: re.Pattern[str]
    limits: str
    """The form in words; it completes "needed: ..."."""
    longest: int
    type: str = "text"

    def __call__(self, value: Any) -> str:
        given_text = text(value, self.limits)
        if "\0" in given_text:
            raise FieldError("contains a NUL character", "remove it")
        if len(given_text) > self.longest:
            raise FieldError(f"is {len(given_text):,} characters long", f"at most {self.longest:,}")
        if not self.form.fullmatch(given_text):
            raise FieldError(f"is {shown(given_text)}", f"needed: {self.limits}")
        return given_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyText:
    """A text that may be empty, but has no NUL."""

    longest: int
    type: str = "text"

    @property
    def limits(self) -> str:
        return f"up to {self.longest:,} characters"

    def __call__(self, value: Any) -> str:
        if not isinstance(value, str):
            raise FieldError(f"is {shown(value)}", f"needed: a text of {self.limits}")
        if "\0" in value:
            raise FieldError("contains a NUL character", "remove it")
        if len(value) > self.longest:
            raise FieldError(f"is {len(value):,} characters long", f"needed: {self.limits}")
        check_unicode(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Several:
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
        number = (
            f"up to {self.most:,} {self.what}" if self.least == 0 else f"{self.least:,} to {self.most:,} {self.what}"
        )
        return f"{number}, each {self.of.limits}" if self.of.limits else number

    def __call__(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            if not self.alone:
                raise FieldError(f"is {shown(value)}", f"needed: a {self.type}")
            return (self.of(value),)
        if not self.least <= len(value) <= self.most:
            raise FieldError(f"has {len(value):,} entries", f"needed: {self.least:,} to {self.most:,} {self.what}")
        faults = Faults()
        read = tuple(faults.take(f"[{index}]", self.of, one) for index, one in enumerate(value))
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
    """An object whose names the user chooses."""

    names: re.Pattern[str]
    what: str
    """Of one of its names, e.g. ``label``."""
    of: Kind
    most: int
    example: str
    longest_name: int = 128
    reserved: str | None = None
    """What no name may begin with."""

    @property
    def type(self) -> str:
        return "object"

    @property
    def limits(self) -> str:
        taken = f", none that begins with `{self.reserved}`" if self.reserved else ""
        names = self.names.pattern.replace("|", "\\|")
        return f"up to {self.most} names like `{names}`{taken}; each {self.of.type}: {self.of.limits}"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field of an object: its name in JSON, the attribute that it becomes, and what is said of it."""

    name: str
    attribute: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """An object of known fields, each of which may be left out."""

    of: str
    """Its name, for messages."""
    members: tuple[Member, ...]
    make: Callable[..., Any]
    example: str
    also: Callable[[Any], None] = lambda _: None
    """Checks what was made as a whole; FieldError, InvalidInputError."""
    type: str = "object"
    limits: str = ""

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
