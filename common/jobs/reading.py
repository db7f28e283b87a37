"""Reading JSON that a user sent: every mistake at once, each with its path, what was wrong, and the remedy.

A *kind* reads one value. It raises a FieldError for a mistake of the value itself, and an InvalidInputError for
mistakes within it, whose fields are paths from it on (``delaySeconds``, ``[2]``); whoever calls it puts its own name
before them. A kind says its ``type`` and its ``limits``, so that the documentation is made from what is checked.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, Final, Protocol, TypeVar

from common.errors import InvalidInputError, Problem

T = TypeVar("T")

MAX_UNKNOWN: Final = 50
"""So many unknown fields are told one by one."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)


class FieldError(Exception):
    """A value is wrong: (what, remedy)."""


class Kind(Protocol):
    """How a value is read, and what is said of it."""

    @property
    def type(self) -> str:
        """What it is, e.g. ``whole number``."""
        ...

    @property
    def limits(self) -> str:
        """What is checked beyond, e.g. ``0 to 100``; may be empty."""
        ...

    def __call__(self, value: Any) -> Any:
        """The value as the program has it; FieldError, InvalidInputError."""
        ...


class Faults:
    """Gathers what is wrong, one place after the other."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, field: str, message: str, remedy: str) -> None:
        """One more mistake."""
        self.problems.append(Problem(field=field, message=message, remedy=remedy))

    @contextmanager
    def at(self, path: str) -> Iterator[None]:
        """What is raised within is noted as a mistake at this path."""
        try:
            yield
        except (InvalidInputError, FieldError) as error:
            self.note(path, error)

    def note(self, path: str, error: InvalidInputError | FieldError) -> None:
        """What was raised, as mistakes at this path."""
        if isinstance(error, FieldError):
            self.add(path, *error.args)
            return
        for problem in error.problems:
            self.add(joined(path, problem.field), problem.message, problem.remedy)

    def take(self, path: str, read: Callable[[Any], T], value: Any) -> T | None:
        """The value as read, or None, its mistakes noted."""
        try:
            return read(value)
        except (InvalidInputError, FieldError) as error:
            self.note(path, error)
            return None

    def refuse_unknown(self, given: Iterable[str], known: Iterable[str], *, of: str) -> None:
        """Note each name that is not known, with the nearest one that is."""
        known = sorted(known)
        unknown = [name for name in given if name not in known]
        for name in unknown[:MAX_UNKNOWN]:
            self.add(printable(name), f"is not a field of {of}", meant(name, known))
        if len(unknown) > MAX_UNKNOWN:
            rest = len(unknown) - MAX_UNKNOWN
            self.add(printable(unknown[MAX_UNKNOWN]), f"and {rest - 1:,} more are not fields of {of}", "leave them out")

    def check(self) -> None:
        """InvalidInputError with every mistake so far, if there is any."""
        if self.problems:
            raise InvalidInputError(self.problems)


def joined(path: str, rest: str) -> str:
    """A path and what follows it: ``retry`` and ``limit`` are ``retry.limit``, ``at`` and ``[2]`` are ``at[2]``."""
    return path + rest if not path or rest.startswith("[") else f"{path}.{rest}"


def key_path(key: str) -> str:
    """The path of a key that the user chose: as it is where it is plain, else ``["..."]``."""
    return key if _PLAIN_KEY.fullmatch(key) else f"[{json.dumps(key[:80])}]"


def meant(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the nearest one, or all."""
    by_lower = {one.lower(): one for one in sorted(known)}
    short = name.lower()[:80]
    longer = [one for one in by_lower if len(short) >= 3 and one.startswith(short)]
    near = longer[:1] or get_close_matches(short, list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[near[0]]}?" if near else f"known: {', '.join(sorted(known))}"


def text(value: Any, remedy: str) -> str:
    """A text that is not blank; FieldError naming the remedy."""
    if value is None:
        raise FieldError("is missing", f"needed: {remedy}")
    if not isinstance(value, str):
        raise FieldError(f"is a JSON {kind_of(value)}", f"needed: {remedy}")
    if not value.strip():
        raise FieldError("is empty", f"needed: {remedy}")
    check_unicode(value)
    return value


def check_unicode(value: str) -> None:
    """FieldError where the text cannot be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise FieldError("is not valid Unicode", "remove lone surrogates") from error


def shown(value: Any) -> str:
    """A value as a message repeats it: in ASCII, and short."""
    try:
        told = json.dumps(value, ensure_ascii=True, default=str) if not isinstance(value, str) else ascii(value)
    except RecursionError:
        return f"a very deep {kind_of(value)}"
    return told if len(told) <= 60 else told[:57] + "..."


def printable(name: str) -> str:
    """A name as a path shows it: as it is, but short and without what cannot be sent."""
    return name[:80].encode(errors="backslashreplace").decode() or '""'


def kind_of(value: object) -> str:
    """What JSON calls a value of this type."""
    kinds: dict[type, str] = {str: "text", bool: "boolean", list: "array", dict: "object", type(None): "null"}
    return kinds.get(type(value), "number")


def given(document: Mapping[str, Any]) -> dict[str, Any]:
    """The members that say something: null is the same as left out."""
    return {name: value for name, value in document.items() if value is not None}
