"""A user's wish to end one run, under ``kills/<job>/<plan>/<attempt>``.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Self

from common.protocol.keys import RunId
from common.protocol.values import MALFORMED, brief, instant, words, words_or_none

OVERDUE_MS: Final = 60_000
"""A kill that is pending for so long, beyond the job's grace: its worker cannot end the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Who wants which run ended, since when, and why."""

    run_id: RunId
    by: str
    at_ms: int
    reason: str | None = None
    revision: int = 0
    """The key's create revision: it applies only to a run whose fence is smaller."""

    @property
    def before_start(self) -> str:
        """What became of a run that it reached before there was a process, in words."""
        because = f": {self.reason}" if self.reason else ""
        return f"killed by {self.by} before start{because}"

    def overdue_in_ms(self, now_ms: int, *, grace_s: float = 0) -> int:
        """How long the run's worker still has to end it; 0 or less: it cannot, and the run may be given up."""
        return self.at_ms + round(grace_s * 1000) + OVERDUE_MS - now_ms

    def to_json(self) -> bytes:
        """The value of the kill's key."""
        return json.dumps({"by": self.by, "atMs": self.at_ms, "reason": self.reason}, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, run_id: RunId, revision: int) -> Self:
        """Read a kill; ValueError where it is none."""
        try:
            document = json.loads(value)
            return cls(
                run_id=run_id, revision=revision, by=words(document["by"]), at_ms=instant(document["atMs"]),
                reason=words_or_none(document.get("reason")),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a kill: {brief(error)}") from error
