"""What commands print: tables, name and value, JSON; warnings and errors go to stderr.

Whatever comes from a job (its command, its output) is told without its control characters where a terminal reads it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32)} | {127: "\N{SYMBOL FOR DELETE}"}
_OF_ONE_LINE: Final = _CONTROLS | dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}")
_OF_MANY_LINES: Final = {code: shown for code, shown in _OF_ONE_LINE.items() if chr(code) not in "\n\t"}


def print_json(document: Any) -> None:
    """A document of the API, as it is."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, none: str) -> None:
    """Aligned columns; where there are no rows, `none` on stderr."""
    cells = [[one_line(cell) for cell in row] for row in rows]
    if not cells:
        say(none)
        return
    widths = [max(len(cell) for cell in column) for column in zip(heads, *cells, strict=True)]
    for row in (heads, *cells):
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def print_pairs(pairs: Iterable[tuple[str, str]], *, indent: str = "") -> None:
    """Names and values, the values aligned."""
    lines = list(pairs)
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        print(f"{indent}{name:<{width}}  {one_line(value)}".rstrip())


def print_output(text: str) -> None:
    """What a command has printed: as it was into a pipe or a file, harmless on a terminal."""
    shown = text.translate(_OF_MANY_LINES) if sys.stdout.isatty() else text
    print(shown, end="" if not shown or shown.endswith("\n") else "\n", flush=True)


def say(text: str) -> None:
    """Something for the person beside the data."""
    print(text, file=sys.stderr)


def say_where_cut(shown: int, limit: int | None) -> None:
    """Says that a list may go on, where it is as long as was asked for."""
    if shown == limit:
        say(f"the first {shown}; more with --limit")


def warn(warnings: Iterable[str]) -> None:
    """Warnings, for the person."""
    for warning in warnings:
        say(f"warning: {warning}")


def one_line(text: str) -> str:
    """The text without line ends and other controls."""
    return text.translate(_OF_ONE_LINE)


def value_text(value: Any) -> str:
    """A value of a JSON document in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def quoted(value: Any) -> str:
    """A value in one line, told apart from other kinds; long ones are cut."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:199] + "…"
