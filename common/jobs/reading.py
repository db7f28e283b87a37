"""Reading JSON that a user sent: every mistake at once, each with its path, what was wrong, and the remedy.

pydantic finds the mistakes, and these words tell them: its own name no remedy. What etcron checks itself raises
`wrong`, or `all_wrong` for mistakes within a value, whose fields are paths from it on (``delaySeconds``, ``[2]``).

Pure: pydantic's core, standard library and its neighbours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Final

from pydantic_core import PydanticCustomError, ValidationError

from common.errors import InvalidInputError, Problem

MAX_UNKNOWN: Final = 50
"""So many unknown fields are reported one by one."""
REMEDY_ERROR: Final = "needed"
"""Of pydantic's errors: the message is the remedy."""
_WRONG: Final = "wrong"
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]{1,80}", re.ASCII)


def wrong(message: str, remedy: str) -> PydanticCustomError:
    """To be raised: the value itself is wrong."""
    return all_wrong([Problem(field="", message=message, remedy=remedy)])


def all_wrong(problems: Iterable[Problem]) -> PydanticCustomError:
    """To be raised: these things are wrong within the value."""
    return PydanticCustomError(_WRONG, _WRONG, {"problems": tuple(problems)})


def problems_of(error: ValidationError) -> list[Problem]:
    """What pydantic found, in our words."""
    problems: list[Problem] = []
    for one in error.errors(include_url=False):
        path = ""
        for part in one["loc"]:
            path = joined(path, f"[{part}]" if isinstance(part, int) else key_path(part))
        if one["type"] == _WRONG:
            problems += _within(path, one["ctx"])
        else:
            problems.append(Problem(field=path, message=f"is {shown(one['input'])}", remedy=one["msg"]))
    return problems


def faults_within(field: str, error: PydanticCustomError) -> Iterable[Problem]:
    """Of what `wrong` or `all_wrong` made, read by itself: this field's mistakes."""
    return _within(field, error.context or {})


def _within(path: str, context: Mapping[str, Any]) -> Iterable[Problem]:
    return (replace(each, field=joined(path, each.field)) for each in context["problems"])


def unknown(given: Iterable[str], known: Collection[str], *, of: str) -> Iterable[Problem]:
    """Each name that is not known, with the nearest one that is."""
    names = [name for name in given if name not in known]
    for name in names[:MAX_UNKNOWN]:
        yield Problem(field=printable(name), message=f"is not a field of {of}", remedy=meant(name, known))
    if len(names) > MAX_UNKNOWN:
        message = f"and {len(names) - MAX_UNKNOWN - 1:,} more are not fields of {of}"
        yield Problem(field=printable(names[MAX_UNKNOWN]), message=message, remedy="leave them out")


def check(problems: Collection[Problem]) -> None:
    """InvalidInputError with every mistake, if there is any."""
    if problems:
        raise InvalidInputError(problems)


def joined(path: str, rest: str) -> str:
    """A path and what follows it: ``retry`` and ``limit`` are ``retry.limit``, ``at`` and ``[2]`` are ``at[2]``."""
    return path + rest if not path or not rest or rest.startswith("[") else f"{path}.{rest}"


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
    """A text that is not blank; `wrong` naming the remedy."""
    if value is None:
        raise wrong("is missing", f"needed: {remedy}")
    if not isinstance(value, str):
        raise wrong(f"is a JSON {kind_of(value)}", f"needed: {remedy}")
    if not value.strip():
        raise wrong("is empty", f"needed: {remedy}")
    check_unicode(value)
    return value


def check_unicode(value: str) -> None:
    """`wrong` where the text cannot be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise wrong("is not valid Unicode", "remove lone surrogates") from error


def shown(value: Any) -> str:
    """A value as a message repeats it: in its own script, without what is not seen, and short."""
    try:
        words = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return f"a very deep {kind_of(value)}"
    words = words if len(words) <= 60 else words[:57] + "..."
    return words if words.isprintable() else "".join(one if one.isprintable() else ascii(one)[1:-1] for one in words)


def printable(name: str) -> str:
    """A name as a path shows it: as it is, but short and without what cannot be sent."""
    return name[:80].encode(errors="backslashreplace").decode() or '""'


def kind_of(value: object) -> str:
    """What JSON calls a value of this type."""
    kinds: dict[type, str] = {str: "text", bool: "boolean", list: "array", dict: "object", type(None): "null"}
    return kinds.get(type(value), "number")
