"""An administrator's wish that a worker takes no new fires, under ``drains/<worker>``; it outlives every process.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from common.protocol.values import MALFORMED, instant, words, words_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Who drained a worker, since when, and why."""

    by: str
    since_ms: int
    reason: str | None = None

    def to_json(self) -> bytes:
        """The value of the drain's key."""
        document = {"by": self.by, "sinceMs": self.since_ms, "reason": self.reason}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read a drain; one that cannot be read is a drain all the same, of an unknown user."""
        try:
            document = json.loads(value)
            return cls(
                by=words(document["by"]), since_ms=instant(document["sinceMs"]),
                reason=words_or_none(document.get("reason")),
            )  # fmt: skip
        except MALFORMED:
            return cls(by="somebody", since_ms=0, reason="its key in etcd cannot be read")

    def __str__(self) -> str:
        """In words, as the reason why the worker takes no fires."""
        return f"drained by {self.by}" + (f": {self.reason}" if self.reason else "")
