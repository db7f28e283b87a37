"""What commands print: tables, name and value, JSON; warnings and errors go to stderr.

Into a pipe or a file everything goes whole and plain. On a terminal a table is cut to its width, and states have a
colour (``NO_COLOR`` takes it away).

Whatever comes from a server or a job is printed without its control characters, and with what is not seen, or has a
terminal show text in another order, written out (``\\u202e``). Every command prints through here alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TextIO

from cli.errors import ExitStatus
from cli.progress import clear_line
from common.verdicts import Verdict

_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32)} | {127: "\N{SYMBOL FOR DELETE}"}
_OF_ONE_LINE: Final = _CONTROLS | dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Controls, marks of direction, joiners, byte order marks, separators of lines and paragraphs."""

_BOLD, _RED, _GREEN, _YELLOW, _CYAN = "1", "31", "32", "33", "36"
_OF_STATES: Final = (
    {str(one): _GREEN if one is Verdict.SUCCESS else _RED if one.is_of_a_run else _YELLOW for one in Verdict}
    | {"accepting": _GREEN, "broken": _RED, "gone": _RED}
    | dict.fromkeys(("paused", "waiting", "unknown", "draining", "drained", "stopped"), _YELLOW)
    | dict.fromkeys(("running", "claimed", "ending"), _CYAN)
)
_HAVE_STATES: Final = frozenset({"state", "status", "verdict", "last result", "last run"})
"""The columns, and the names of values, that begin with a state."""
_WHOLE: Final = frozenset({"NAME", "RUN", "REVISION"})
"""Columns that are copied into another command, so they are cut last."""
_LEAST: Final = (20, 10, 1)
"""What is left of another column that is cut: a time without its offset, a date, anything."""


class _Escapes(dict[int, str | int]):
    """For `str.translate`: what is seen as it is, the rest as JSON escapes it."""

    def __missing__(self, code: int) -> str | int:
        one = chr(code)
        unseen = unicodedata.category(one) in _UNSEEN
        self[code] = shown = (json.dumps(one)[1:-1] if code != 127 else "\\u007f") if unseen else code
        return shown


_ESCAPES: Final = _Escapes()


def print_json(document: Any) -> None:
    """A document of the API, as it is; what is not seen is in it as JSON's own escapes."""
    clear_line()
    # In an encoding that has not all of it, Python's own escapes would stand there, which are not JSON's.
    is_plain = (sys.stdout.encoding or "utf-8").lower() not in ("utf-8", "utf8")
    lines = json.dumps(document, indent=2, ensure_ascii=is_plain).split("\n")
    print("\n".join(line.translate(_ESCAPES) for line in lines))


def tell(*lines: str) -> None:
    """Lines of the answer, each of them one; at once."""
    clear_line()
    for line in lines or ("",):
        print(one_line(line), flush=True)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, none: str, spare: Sequence[str] = ()) -> None:
    """Aligned columns; where there are no rows, `none` on stderr.

    ``spare``: the columns to leave out, one after the other, of what does not fit on the terminal.
    """
    lines = [tuple(heads), *(tuple(one_line(cell) for cell in row) for row in rows)]
    if len(lines) == 1:
        say(none)
        return
    clear_line()
    if sys.stdout.isatty():
        _print_fitted(lines, shutil.get_terminal_size().columns, spare)
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip())


def print_records(
    output: str, heads: Sequence[str], records: Sequence[Any], row: Callable[[Any], Sequence[str]], *, none: str,
    spare: Sequence[str] = (),
) -> int:  # fmt: skip
    """Records as ``-o`` wants them, ``json`` or ``table``: a row each; the exit status."""
    if output == "json":
        print_json(records)
    else:
        print_table(heads, map(row, records), none=none, spare=spare)
    return ExitStatus.OK


def _print_fitted(lines: Sequence[Sequence[str]], room: int, spare: Sequence[str]) -> None:
    """The table in so many columns of a terminal: without what can be spared, then with what is left of long cells."""
    widths = {column[0]: min(max(map(_columns, column)), room) for column in zip(*lines, strict=True)}
    left_out: list[str] = []
    for head in spare:
        if _room_of(widths[one] if one in _WHOLE else min(widths[one], _LEAST[0]) for one in widths) <= room:
            break
        left_out.append(head)
        del widths[head]
    for least in _LEAST:
        while _room_of(widths.values()) > room:
            longer = [one for one in widths if widths[one] > least and (least == 1 or one not in _WHOLE)]
            if not longer:
                break
            widths[max(longer, key=widths.__getitem__)] -= 1
    for number, line in enumerate(lines):
        cells = []
        for head, cell in zip(lines[0], line, strict=True):
            if head in widths:
                shown = _cut(cell, widths[head])
                painted = _painted(shown, _BOLD, sys.stdout) if number == 0 else _state_painted(head, shown)
                cells.append(painted + " " * (widths[head] - _columns(shown)))
        print("  ".join(cells).rstrip())
    if left_out:
        say(f"the terminal is too narrow for {', '.join(left_out)}; -o json has everything")


def _room_of(widths: Iterable[int]) -> int:
    """What columns of these widths take side by side."""
    every = list(widths)
    return sum(every) + 2 * (len(every) - 1)


def _columns(text: str) -> int:
    """How many columns of a terminal it takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def _cut(text: str, width: int) -> str:
    """What of it fits in so many columns."""
    if _columns(text) <= width:
        return text
    while _columns(text) > width - 1:
        text = text[: min(len(text) - 1, width)]
    return text + "…"


def _state_painted(name: str, text: str) -> str:
    """With its colour the state with which a text begins that is called so."""
    word = re.match("[a-z]*", text)
    if word is None or name.casefold() not in _HAVE_STATES:
        return text
    return _painted(word[0], _OF_STATES.get(word[0], ""), sys.stdout) + text[word.end() :]


def _painted(text: str, colour: str, stream: TextIO) -> str:
    if not colour or not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values, the values aligned."""
    clear_line()
    lines = list(pairs)
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        print(f"{one_line(name):<{width}}  {_state_painted(name, one_line(value))}".rstrip())


def print_output(text: str) -> None:
    """What a command has printed: as it was into a pipe or a file, harmless on a terminal."""
    clear_line()
    shown = many_lines(text) if sys.stdout.isatty() else text
    print(shown, end="" if not shown or shown.endswith("\n") else "\n", flush=True)


def print_part(text: str) -> None:
    """Some of what a command prints, as it comes; as `print_output`, and with no line end that is not in it."""
    clear_line()
    print(many_lines(text) if sys.stdout.isatty() else text, end="", flush=True)


def say(text: str) -> None:
    """Something for the person beside the data."""
    clear_line()
    print(many_lines(text), file=sys.stderr)


def complain(text: str) -> None:
    """Something that went wrong."""
    _say_of("etcron:", _RED, text)


def say_where_cut(shown: int, limit: int | None) -> None:
    """Says that a list may go on, where it is as long as was asked for."""
    if shown == limit:
        say(f"the first {shown}; more with --limit")


def warn(warnings: Iterable[str]) -> None:
    """Warnings, for the person."""
    for warning in warnings:
        _say_of("warning:", _YELLOW, warning)


def _say_of(what: str, colour: str, text: str) -> None:
    clear_line()
    print(_painted(what, colour, sys.stderr), many_lines(text), file=sys.stderr)


def one_line(text: str) -> str:
    """The text without line ends and other controls."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_OF_ONE_LINE).translate(_ESCAPES)


def many_lines(text: str) -> str:
    """The text with its line ends and tabs, and without other controls."""
    return "\n".join("\t".join(map(one_line, line.split("\t"))) for line in text.split("\n"))


def value_text(value: Any) -> str:
    """A value of a JSON document in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(value: Any) -> str:
    """A value in one line, told apart from other kinds; long ones are cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
