"""How the cron of a machine reads a crontab, where that is not what etcron makes of it. Pure.

Source: `get_list`, `get_range`, `load_entry`, `load_user`, `process_crontab` and `valid_name` of Debian's cron, version
3.0pl1-162 with its patches; the same of cronie 1.5.7 and 1.7.2, and its repair of ranges that end on Sunday, which
came behind 1.7.2 and which builds of that version have, too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_MACROS: Final = frozenset({
    "@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
})  # fmt: skip
_MONTHS: Final = {
    "jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11,
    "dec": 12,
}  # fmt: skip
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("minute", 0, 59, {}), ("hour", 0, 23, {}), ("day of the month", 1, 31, {}), ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _DAYS),
)  # fmt: skip
_ITEM: Final = re.compile(
    r"(?:\*|(?P<first>[A-Za-z0-9]+)(?:-(?P<last>[A-Za-z0-9]+))?)(?:/(?P<step>[0-9]{1,9})(?![A-Za-z0-9]))?", re.ASCII
)
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_NOT_CRONIES: Final = re.compile(r"\..*|#.*|.*~|.+\.rpm(?:save|orig|new)", re.DOTALL)
_WRITABLE: Final = stat.S_IWGRP | stat.S_IWOTH
_RUNNABLE: Final = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH | stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
_RANDOM: Final = re.compile(r"[A-Za-z0-9]*~[A-Za-z0-9]*", re.ASCII)


class Kind(StrEnum):
    """Which cron it is."""

    DEBIAN = "Debian's cron"
    CRONIE = "cronie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The cron of a machine."""

    kind: Kind
    version: str

    def __str__(self) -> str:
        return f"{self.kind} ({self.version})"

    @property
    def gives_up_files(self) -> bool:
        """Whether one line that it cannot read keeps it from running any of the file."""
        return self.kind is Kind.DEBIAN

    @property
    def spreads(self) -> bool:
        """Whether it has RANDOM_DELAY, and CRON_TZ."""
        return self.kind is Kind.CRONIE

    @property
    def is_strict(self) -> bool:
        """Whether it cannot read a range that runs backwards, nor a random time."""
        return self.kind is Kind.CRONIE and self._release < (1, 6)

    @property
    def may_end_on_sunday(self) -> bool:
        """Whether a range may end on Sunday by its name, or as 0: `fri-sun` is then `fri-7`; not with a step."""
        return self.kind is Kind.CRONIE and self._release >= (1, 7, 2)

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(map(int, re.findall(r"[0-9]+", self.version)[:3]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What it makes of an entry's time."""

    is_read: bool = True
    runs: bool = True
    what: str = ""
    """What it makes of it, where that is not what it seems: `takes fri-mon for no weekday at all`."""


def reading(when: str, daemon: Daemon) -> Reading:
    """Of five fields, or a macro."""
    if when.startswith("@"):
        return Reading() if when in _MACROS else _unread(f"has no {when}")
    whys, empty = list[str](), set[str]()
    fields = when.split()
    for text, (name, low, high, names) in zip(fields, _FIELDS, strict=True):
        found = _values(text, low, high, names, daemon)
        if found is None:
            return _unread(f"cannot read the {name} {text}")
        values, read, backward = found
        if read != text:
            whys.append(f"reads the {name} {text} as {read}")
        if backward:
            whys.append(f"takes {backward} for no {name} at all")
        if not values:
            empty.add(name)
    day, weekday = fields[2], fields[4]
    needs_both = day.startswith("*") or weekday.startswith("*")
    days = empty & {"day of the month", "weekday"}
    runs = not empty - days and not (days if needs_both else len(days) == 2)
    return Reading(runs=runs, what=" and ".join(whys)) if whys else Reading()


def name_fault(name: str, daemon: Daemon) -> str | None:
    """Why it passes over a file of /etc/cron.d that is called so."""
    if daemon.kind is Kind.DEBIAN:
        return None if _PLAIN_NAME.fullmatch(name) else "its name may have letters, digits, - and _ alone, and no dot"
    return "its name is one of those that are passed over" if _NOT_CRONIES.fullmatch(name) else None


def file_faults(about: os.stat_result, itself: os.stat_result, daemon: Daemon) -> Iterator[str]:
    """Why it does not run a file outside of users' crontabs; ``itself``: the link, where it is one."""
    is_debians = daemon.kind is Kind.DEBIAN
    if about.st_uid != 0 or (is_debians and itself.st_uid != 0):
        yield "it is not root's (chown root)"
    if about.st_mode & (_WRITABLE if is_debians else _WRITABLE | _RUNNABLE):
        yield f"its mode is {stat.S_IMODE(about.st_mode):o} (chmod 644)"
    if is_debians and about.st_nlink != 1:
        yield "it has several hard links"


def _unread(what: str) -> Reading:
    return Reading(is_read=False, runs=False, what=what)


def _values(
    text: str, low: int, high: int, names: dict[str, int], daemon: Daemon
) -> tuple[set[int], str, str] | None:  # fmt: skip
    """The numbers that a field stands for, what of its text is read, and a range in it that stands for none.

    None: it cannot be read. Debian's cron passes over what follows a number, or a range, that it has read.
    """
    values, backward, at = set[int](), "", 0
    has_random = daemon.kind is Kind.CRONIE and not daemon.is_strict
    while True:
        if has_random and (random := _RANDOM.match(text, at)) is not None:
            values, at = {low}, random.end()  # one of them
        else:
            match = _ITEM.match(text, at)
            some = None if match is None else _of_item(match, low, high, names, daemon)
            if match is None or some is None:
                return None
            after = text[match.end() : match.end() + 1]
            if (after == "/" and not match["step"]) or (after == "-" and match["first"] and not match["last"]):
                return None  # the number behind it is missing
            backward = backward or ("" if some else match[0])
            values |= some
            at = match.end()
        if not text.startswith(",", at):
            break
        at += 1
    if at < len(text) and daemon.kind is Kind.CRONIE:
        return None
    return values, text[:at], backward


def _of_item(
    match: re.Match[str], low: int, high: int, names: dict[str, int], daemon: Daemon
) -> set[int] | None:  # fmt: skip
    step = int(match["step"] or 1)
    if step == 0:
        return None
    if match["first"] is None:
        return set(range(low, high + 1, step))
    if match["step"] and not match["last"]:
        return None
    first = _number(match["first"], names)
    last = _number(match["last"] or match["first"], names)
    if first is None or last is None or not (low <= first <= high and low <= last <= high):
        return None
    if first > last and daemon.is_strict:
        return None
    if first > last == 0 and daemon.may_end_on_sunday and not match["step"]:
        last = 7
    return set(range(first, last + 1, step))


def _number(text: str, names: dict[str, int]) -> int | None:
    return names.get(text.lower(), int(text) if text.isdecimal() and len(text) < 10 else None)
