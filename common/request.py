"""A wish for one run, under ``requests/<job>/<plan or r-id>/<attempt>``: the way in beside the schedule.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from common.keys import RunId
from common.run import Trigger


class Origin(StrEnum):
    """Why there is a request."""

    OFFERED = "offered"
    """Nobody took the fire in time: everybody may."""
    HANDED_ON = "handedOn"
    """The worker that had claimed it could not start it."""
    MADE_UP = "madeUp"
    """A misfire that the job's policy makes up for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Run this once, by any eligible worker."""

    run_id: RunId
    origin: Origin
    job_create_revision: int
    """Of the job when it was made: a job that was deleted and made again does not run it."""
    plan_ms: int
    dispatch_ms: int
    not_before_ms: int
    expires_ms: int | None = None
    trigger: Trigger = Trigger.SCHEDULE
    by: str | None = None
    revision: int = 0
    """The key's mod revision; 0 for one that is not written yet."""

    def to_json(self) -> bytes:
        """The value of the request's key."""
        document: dict[str, Any] = {
            "origin": str(self.origin), "jobCreateRevision": self.job_create_revision, "planMs": self.plan_ms,
            "dispatchMs": self.dispatch_ms, "notBeforeMs": self.not_before_ms, "expiresMs": self.expires_ms,
            "trigger": str(self.trigger), "by": self.by,
        }  # fmt: skip
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, run_id: RunId, revision: int = 0) -> Self:
        """Read a request; ValueError where it is none."""
        try:
            document = json.loads(value)
            expires_ms, by = document.get("expiresMs"), document.get("by")
            return cls(
                run_id=run_id, revision=revision, origin=Origin(document["origin"]),
                job_create_revision=int(document["jobCreateRevision"]), plan_ms=int(document["planMs"]),
                dispatch_ms=int(document["dispatchMs"]), not_before_ms=int(document["notBeforeMs"]),
                expires_ms=None if expires_ms is None else int(expires_ms),
                trigger=Trigger(document["trigger"]), by=None if by is None else str(by),
            )  # fmt: skip
        except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
            raise ValueError(f"not a request: {error}") from error
