"""How far a command is that takes longer than two seconds: a line on the terminal (stderr), gone at the end."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

_AFTER_S: Final = 2.0
_EACH_S: Final = 0.1
_BAR: Final = 30

_Item = TypeVar("_Item")


class Progress:
    """Counts what is done. Of several at a time the outermost alone is shown.

    ``total``: how many there are; None where that is not known. ``shown``: a number of them for people.
    """

    _outermost: Progress | None = None

    def __init__(
        self,
        what: str,
        total: int | None = None,
        *,
        shown: Callable[[int], str] = "{:,}".format,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self._what = what
        self._shown = shown
        self._monotonic = monotonic
        self._done = 0
        self._draw_at = monotonic() + _AFTER_S
        self._is_drawn = False

    def __enter__(self) -> Self:
        if Progress._outermost is None:
            Progress._outermost = self
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if Progress._outermost is self:
            self.clear()
            Progress._outermost = None

    def advance(self, count: int = 1) -> None:
        """So many more are done."""
        self._done += count
        now = self._monotonic()
        if Progress._outermost is self and now >= self._draw_at and _can_be_shown():
            self._draw_at = now + _EACH_S
            self._is_drawn = True
            _write(f"\r\x1b[K{self._line()[: _columns() - 1]}")

    def clear(self) -> None:
        """Take the line away, as something else is to be printed there."""
        if self._is_drawn:
            self._is_drawn = False
            _write("\r\x1b[K")

    def _line(self) -> str:
        if not self.total:
            return f"{self._what}  {self._shown(self._done)}"
        full = min(_BAR, _BAR * self._done // self.total)
        bar = "#" * full + "-" * (_BAR - full)
        return f"{self._what}  [{bar}]  {self._shown(self._done)} of {self._shown(self.total)}"


def tracked(items: Sequence[_Item], what: str) -> Iterator[_Item]:
    """The items, with the progress of the loop that goes through them."""
    with Progress(what, len(items)) as progress:
        for item in items:
            yield item
            progress.advance()


def clear_line() -> None:
    """Make room on the terminal for something else."""
    if Progress._outermost is not None:
        Progress._outermost.clear()


def megabytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / 1e6:.1f} MB"


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # a terminal that is gone
        print(text, end="", file=sys.stderr, flush=True)


def _can_be_shown() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
