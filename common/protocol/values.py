"""What a value in etcd, or in the log store, has to be before anything is done with it.

It may have been written by a later version, a script, a person. A reader gives what
is safe for all that comes of it (a date, a number for the log store, a key, an answer in JSON), or raises ValueError;
so no caller looks again. Pure: standard library and its neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from common.protocol.keys import MAX_MARK_MS

MALFORMED: Final = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)
"""What reading a document meets that is not as it should be."""
LARGEST: Final = (1 << 63) - 1
"""The largest number that the log store, and an answer of etcd, has room for."""
LONGEST_WORDS: Final = 2_000
"""Characters of what a user writes: who, and why."""
LONGEST_NAME: Final = 400
_DEEPEST: Final = 50


def whole(value: object, *, least: int = 0, most: int = LARGEST) -> int:
    """A whole number within these bounds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{_shown(value)} is no whole number from {least} to {most}")
    return value


def is_instant(value: object) -> TypeGuard[int]:
    """Whether it is milliseconds since the epoch, of a date that there can be."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_MARK_MS


def instant(value: object) -> int:
    """Milliseconds since the epoch, of a date that there can be."""
    if not is_instant(value):
        raise ValueError(f"{_shown(value)} ms since 1970 is no time")
    return value


def instant_or_none(value: object) -> int | None:
    return None if value is None else instant(value)


def number(value: object) -> float:
    """A number that JSON has, of a size that can be reckoned with."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise ValueError(f"{_shown(value)} is no number")
    return value


def name(value: object, *, longest: int = LONGEST_NAME) -> str:
    """A text that may be part of a key."""
    found = text(value)
    if len(found) > longest or (not found.isascii() and any("\ud800" <= one <= "\udfff" for one in found)):
        raise ValueError(f"{_shown(value)} is no name of at most {longest} characters")
    return found


def text(value: object) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no text")
    return value


def words(value: object) -> str:
    """What a user writes: without what cannot be written down again, and no more than `LONGEST_WORDS`."""
    return text(value)[:LONGEST_WORDS].encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def words_or_none(value: object) -> str | None:
    return None if value is None else words(value)


def texts(value: object) -> dict[str, str]:
    """Texts by name."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is no object")
    return {text(one): text(other) for one, other in value.items()}


def tree(value: object) -> dict[str, Any]:
    """Any object, no deeper than what writes it anew, or shows it, can go."""
    if not isinstance(value, dict):
        raise ValueError(f"{_shown(value)} is no object")
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [inner for one in level for inner in _within(one)]
        if not level:
            return value
    raise ValueError(f"it is nested more than {_DEEPEST} deep")


def brief(error: Exception) -> str:
    """Why a value is refused, in a line of the log: in the error may be all of it."""
    return f"{error!s:.300}"


def _within(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


def _shown(value: object) -> str:
    try:
        return f"{value!a:.40}"
    except ValueError:  # a whole number of thousands of digits
        return f"a {type(value).__name__}"
