"""A user's wish to give up one run, under ``giveups/<job>/<plan>/<attempt>``: its lock is to pass on.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from common.protocol.keys import RunId
from common.protocol.values import MALFORMED, brief, instant, words


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Who gives up which run, since when, and why."""

    run_id: RunId
    by: str
    at_ms: int
    reason: str
    is_of_ending: bool = False
    """Of a run that is ending on a live worker, which is to free its lock."""
    revision: int = 0
    """The key's create revision: it applies only to a run whose fence is smaller."""

    def __str__(self) -> str:
        return f"given up by {self.by}: {self.reason}"

    def to_json(self) -> bytes:
        """The value of the wish's key."""
        document = {"by": self.by, "atMs": self.at_ms, "reason": self.reason}
        if self.is_of_ending:
            document["ending"] = True
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, run_id: RunId, revision: int) -> Self:
        """Read a wish; ValueError where it is none."""
        try:
            document = json.loads(value)
            return cls(
                run_id=run_id, revision=revision, by=words(document["by"]), at_ms=instant(document["atMs"]),
                reason=words(document["reason"]), is_of_ending=document.get("ending") is True,
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a wish to give up a run: {brief(error)}") from error
