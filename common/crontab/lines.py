"""The lines of a crontab, as cron reads them. Pure.

Source: Vixie cron 3.0 (`load_entry`, `load_env`) and cronie; crontab(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

MAX_BYTES: Final = 1024 * 1024
MAX_LINES: Final = 10_000
TAKEN: Final = "#etcron# "
"""What `etcron crontab sync --takeover` puts before a line that etcron runs: a comment to cron."""

_VARIABLE: Final = re.compile(r"""(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\s=]+))\s*=(?P<value>.*)""")
_FIELD: Final = r"\S+\s+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, whatever it is."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Blank(Line):
    """Nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment(Line):
    """For people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable(Line):
    """Holds for all entries below it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Line):
    """What runs, and when."""

    when: str
    """Five fields, or a macro."""
    user: str | None
    """In the format of /etc/crontab."""
    command: str
    """As written, with its `%`."""
    unended: bool = False
    """It is the last line and has no line end, so that cron itself would pass over it."""
    taken: bool = False
    """etcron runs it, and cron passes over it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable(Line):
    """Neither of these."""

    why: str
    taken: bool = False
    """Once an entry, which etcron runs: cron passes over it."""


def read_lines(text: str, *, system: bool, taken: bool = False) -> Iterator[Line]:
    """Every line of the text, in order; `system`: with a user between the time and the command.

    ``taken``: lines that etcron has taken over are entries, too; else they are the comments that they are to cron.
    """
    lines = text.split("\n")
    ended = lines[-1] == ""
    if ended:
        lines.pop()
    for number, raw in enumerate(lines, start=1):
        unended = not ended and number == len(lines)
        line = raw.removesuffix("\r")
        if taken and line.startswith(TAKEN):
            was = _line(number, line.removeprefix(TAKEN), system=system, unended=False)
            if isinstance(was, Entry | Unreadable):
                yield replace(was, text=line, taken=True)
            else:
                yield Comment(number=number, text=line)
        else:
            yield _line(number, line, system=system, unended=unended)


def _line(number: int, raw: str, *, system: bool, unended: bool) -> Line:
    text = raw.lstrip(" \t")
    if not text:
        return Blank(number=number, text=raw)
    if text.startswith("#"):
        return Comment(number=number, text=raw)
    if match := _VARIABLE.fullmatch(text):
        name = next(found for found in (match["double"], match["single"], match["plain"]) if found is not None)
        value = match["value"].strip(" \t")
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        return Variable(number=number, text=raw, name=name, value=value)
    return _entry(number, raw, text, system=system, unended=unended)


def _entry(number: int, raw: str, text: str, *, system: bool, unended: bool) -> Line:
    fields = 1 if text.startswith("@") else 5
    form = rf"(?P<when>(?:{_FIELD}){{{fields}}})" + (r"(?P<user>\S+)\s+" if system else "") + r"(?P<command>\S.*)"
    match = re.fullmatch(form, text, re.DOTALL)
    if match is None:
        wanted = "a macro" if fields == 1 else "five fields"
        user = ", a user" if system else ""
        hint = "" if system else "; has the crontab a user column? Then read it as /etc/crontab (--system)"
        return Unreadable(number=number, text=raw, why=f"it has not {wanted}{user} and a command{hint}")
    return Entry(
        number=number, text=raw, when=" ".join(match["when"].split()), user=match["user"] if system else None,
        command=match["command"], unended=unended,
    )  # fmt: skip
