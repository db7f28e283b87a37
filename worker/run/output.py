"""What a command printed, within a limit whatever it prints: head and tail are kept, the middle is cut and counted."""

from __future__ import annotations

from collections.abc import Iterator

MOST_TEXT_BYTES = 15 * 1024 * 1024
"""Of the text, in UTF-8: with the rest of its record it stays below the 16 MiB of a document in the log store."""
_LONGEST_SHOWN = 3
"""What a byte becomes at most: U+FFFD and U+2400 have three."""
_SLACK = 65_536
_NUL = "\0"
_NUL_SHOWN = "\N{SYMBOL FOR NULL}"
_LONGEST_SEQUENCE = 4
_ROOM_FOR_MARK = 64
_SAMPLES, _SAMPLE_SIZE = 64, 4_096


class Output:
    """Takes bytes, keeps at most ``limit`` of them (and 64 KiB while it collects), and gives text that any store takes.

    Half of the limit is for the head, the rest for the tail. ``printed`` counts every byte.
    """

    __slots__ = ("_head", "_head_limit", "_tail", "_tail_limit", "printed")

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self.printed = 0

    def add(self, chunk: bytes) -> None:
        """Take what was printed next."""
        self.printed += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            # Trimmed only now and then: each trim may move the whole tail.
            if len(self._tail) > self._tail_limit + _SLACK:
                self._trim()

    def newest(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """What is kept of the bytes from this place on, at most so many, each piece with its place; the newest of them,
        and where it is asked for from the beginning, a quarter of the first. No character is torn, but by ``after``.
        """
        upto = self.printed
        if upto - after <= most:
            bounds = [(after, upto)]
        else:
            head = 0 if after else most // 4
            bounds = [(0, head), (upto - (most - head), upto)]
        pieces = [piece for start, end in bounds for piece in self._kept(start, end)]
        whole = []
        for start, piece in pieces:
            begun = piece if start == after else _without_torn_start(piece)
            if shown := _without_torn_end(begun):
                whole.append((start + len(piece) - len(begun), shown))
        return whole

    def _kept(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Of these bytes those that are kept: in one piece where nothing is missing between."""
        spare = max(0, len(self._tail) - self._tail_limit)  # what is not trimmed yet is kept no more
        tail_from = self.printed - len(self._tail) + spare
        head = bytes(self._head[start:end])
        tail = bytes(self._tail[max(start - tail_from, 0) + spare : max(end - tail_from, 0) + spare])
        if head and tail and start + len(head) == max(start, tail_from):
            yield start, head + tail
            return
        if head:
            yield start, head
        if tail:
            yield max(start, tail_from), tail

    @property
    def truncated(self) -> bool:
        """Whether more was printed than is kept."""
        return self.printed > self._head_limit + self._tail_limit

    def text(self) -> str:
        """The kept output as text: bytes that are not UTF-8 become U+FFFD, NUL becomes U+2400 (a visible ``NUL``).

        Where the middle is missing, one line says how many bytes; a character that the cut went through is left out
        whole and counted with them. More is cut where the text would be too large for the log store, which it can be
        where much of it is not text: most of such bytes take three.
        """
        kept = len(self._head) + len(self._tail)
        if kept * _LONGEST_SHOWN <= MOST_TEXT_BYTES:
            return self._text()
        if self._size_by_samples() <= MOST_TEXT_BYTES and len((text := self._text()).encode()) <= MOST_TEXT_BYTES:
            return text
        limit = MOST_TEXT_BYTES // _LONGEST_SHOWN - _ROOM_FOR_MARK
        both = self._head + self._tail
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head, self._tail = both[: self._head_limit], both[-self._tail_limit :]
        return self._text()

    def _size_by_samples(self) -> int:
        """Of the text, roughly: to decode all of it and then cut it takes a quarter of a second where it is no text."""
        kept = self._head + self._tail
        samples = b"".join(kept[at : at + _SAMPLE_SIZE] for at in range(0, len(kept), len(kept) // _SAMPLES))
        return len(as_text(samples).encode()) * len(kept) // len(samples)

    def _text(self) -> str:
        if not self.truncated:
            return as_text(bytes(self._head) + self._tail)
        self._trim()
        head, tail = _without_torn_end(bytes(self._head)), _without_torn_start(bytes(self._tail))
        line_break = b"" if not head or head.endswith(b"\n") else b"\n"
        mark = f"... {self.printed - len(head) - len(tail):,} bytes cut ...\n".encode()
        return as_text(head + line_break + mark + tail)

    def _trim(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]


def as_text(kept: bytes) -> str:
    """What is not UTF-8 becomes U+FFFD, NUL becomes U+2400."""
    return kept.decode("utf-8", errors="replace").replace(_NUL, _NUL_SHOWN)


def _without_torn_end(head: bytes) -> bytes:
    """Leave out a last character whose end is missing."""
    for back in range(1, min(_LONGEST_SEQUENCE, len(head) + 1)):
        byte = head[-back]
        if byte >= 0xC0:  # the first of its sequence: it says how many there are
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return head[:-back] if length > back else head
        if byte < 0x80:
            return head
    return head


def _without_torn_start(tail: bytes) -> bytes:
    """Leave out the rest of a first character whose beginning is missing."""
    start = 0
    while start < min(_LONGEST_SEQUENCE - 1, len(tail)) and 0x80 <= tail[start] < 0xC0:
        start += 1
    return tail[start:]
