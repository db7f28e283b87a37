"""Hides the values of secrets in what a command prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

SHOWN: Final = b"***"
_FIRST: Final = 32
"""Bytes of a value by which its beginning is found."""
_MOST_TRIED: Final = 32


class Mask:
    """Replaces each value by ``***``, also where it comes in several pieces. What a command makes of a value (its
    Base64, its first half) is not found.
    """

    def __init__(self, values: Sequence[bytes]) -> None:
        """``values``: none is empty; the longest first, so that one which begins like another is hidden whole."""
        self._pattern = re.compile(b"|".join(map(re.escape, values)))
        self._values = tuple(values)
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be shown of the output so far; an end that is the beginning of a value is held back."""
        data = self._held + chunk
        return self._take(data, keep=max(_begun(value, data) for value in self._values))

    def end(self) -> bytes:
        """What was held back."""
        return self._take(self._held, keep=0)

    def _take(self, data: bytes, *, keep: int) -> bytes:
        shown, done = bytearray(), 0
        certain = len(data) - keep
        for match in self._pattern.finditer(data):
            if match.start() >= certain:
                break
            shown += data[done : match.start()]
            shown += SHOWN
            done = match.end()
        upto = max(done, certain, 0)
        shown += data[done:upto]
        self._held = data[upto:]
        return bytes(shown)


def _begun(value: bytes, data: bytes) -> int:
    """How many bytes at the end are the beginning of this value, and not all of it.

    More where they look like it in too many places, as a row of dashes does for a long key: each place that is looked
    at copies all that follows it.
    """
    first, tried = value[:_FIRST], 0
    start = data.find(first, max(0, len(data) - len(value) + 1))
    while start >= 0:
        if tried >= _MOST_TRIED or value.startswith(data[start:]):
            return len(data) - start
        start, tried = data.find(first, start + 1), tried + 1
    start = data.find(value[0], max(0, len(data) - len(first) + 1))
    while start >= 0 and not value.startswith(data[start:]):
        start = data.find(value[0], start + 1)
    return 0 if start < 0 else len(data) - start
