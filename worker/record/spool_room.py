"""How much of an output the spool keeps as it fills: the bodies of records are cut first, records never.

    below half of the limit     all of it
    from there to the limit     at most a thousandth of the room that is left
    beyond the limit            nothing

A thousandth leaves room for many more, whatever they print. A record without a body is taken also beyond the limit:
only the disk itself refuses it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from common.protocol.run import RunRecord

_SHARE: Final = 1000
_LEAST_BYTES: Final = 256
"""A cut output of less is of no use."""


@dataclass(frozen=True, slots=True)
class Room:
    """A limit, in bytes on the disk; None: none."""

    limit_bytes: int | None
    of: str = "the worker's spool"

    def is_full(self, used_bytes: int) -> bool:
        """Whether it is used up."""
        return self.limit_bytes is not None and used_bytes >= self.limit_bytes

    def is_scarce(self, used_bytes: int) -> bool:
        """Whether outputs are cut."""
        return self.limit_bytes is not None and 2 * used_bytes >= self.limit_bytes

    def fitted(self, record: RunRecord, used_bytes: int) -> RunRecord:
        """The record with as much of its output as there is room for, where so many bytes are taken already."""
        if self.limit_bytes is None or not self.is_scarce(used_bytes) or not record.output:
            return record
        most = max(0, self.limit_bytes - used_bytes) // _SHARE
        if _size(record.output) <= most:
            return record
        if most < _LEAST_BYTES:
            printed = record.output_bytes or _length(record.output)
            return record.without_output(f"output of {printed:,} bytes dropped: {self.of} was full")
        return replace(record, output=self._cut(record.output, most), output_truncated=True)

    def _cut(self, output: str, most: int) -> str:
        """Head and tail of it, and between them one line about the rest; at most so many bytes on the disk."""
        kept = most
        while True:
            head, tail = output[: kept // 2], output[len(output) - kept // 2 :]
            cut_bytes = _length(output) - _length(head) - _length(tail)
            text = f"{head}\n... {cut_bytes:,} bytes cut: {self.of} was nearly full ...\n{tail}"
            if (size := _size(text)) <= most:
                return text
            kept = max(0, min(kept - 16, kept * most // size))


def _size(text: str) -> int:
    """Bytes on the disk, where control characters are written out."""
    return _length(json.dumps(text, ensure_ascii=False)) - 2


def _length(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))
