"""What commands print: tables, name and value, JSON; warnings and errors go to stderr.

Whatever comes from a server or a job is told without its control characters, and with what is not seen, or has a
terminal show text in another order, written out (``\\u202e``). Every command prints through here alone.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

_CONTROLS: Final = {code: chr(0x2400 + code) for code in range(32)} | {127: "\N{SYMBOL FOR DELETE}"}
_OF_ONE_LINE: Final = _CONTROLS | dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}")
_UNSEEN: Final = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Controls, marks of direction, joiners, byte order marks, separators of lines and paragraphs."""


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
    lines = json.dumps(document, indent=2, ensure_ascii=False).split("\n")
    print("\n".join(line.translate(_ESCAPES) for line in lines))


def tell(*lines: str) -> None:
    """Lines of the answer, each of them one; at once."""
    for line in lines or ("",):
        print(one_line(line), flush=True)


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
        print(f"{indent}{one_line(name):<{width}}  {one_line(value)}".rstrip())


def print_output(text: str) -> None:
    """What a command has printed: as it was into a pipe or a file, harmless on a terminal."""
    shown = many_lines(text) if sys.stdout.isatty() else text
    print(shown, end="" if not shown or shown.endswith("\n") else "\n", flush=True)


def say(text: str) -> None:
    """Something for the person beside the data."""
    print(many_lines(text), file=sys.stderr)


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
