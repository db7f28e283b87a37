"""A job as it lies in etcd: the spec, and what its save wrote beside it.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from common.errors import InvalidInputError, Problem
from common.job import JobSpec
from common.job_reader import load_object, parse_job
from common.keys import MAX_MARK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedJob:
    """A job as it lies in etcd: the spec, and what its save wrote beside it."""

    spec: JobSpec
    anchor_ms: int
    """The mark that the save wrote: no fire of this spec is planned at or before it."""
    saved_ms: int = 0
    saved_by: str | None = None

    def to_json(self) -> bytes:
        """The value of ``jobs/<job>``: compact JSON, defaults left out."""
        document = self.spec.to_stored() | {"anchorMs": self.anchor_ms, "savedMs": self.saved_ms}
        if self.saved_by is not None:
            document["savedBy"] = self.saved_by
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, value: bytes, *, name: str) -> Self:
        """Read the value of ``jobs/<name>``; InvalidInputError where it is none of ours."""
        document = load_object(value)
        anchor_ms, saved_ms = document.pop("anchorMs", None), document.pop("savedMs", 0)
        saved_by = document.pop("savedBy", None)
        problems = []
        if not isinstance(anchor_ms, int) or isinstance(anchor_ms, bool) or not 0 <= anchor_ms <= MAX_MARK_MS:
            problems.append(Problem(field="anchorMs", message="is missing or no mark", remedy="save the job through a manager"))
        if document.get("name") != name:
            problems.append(Problem(field="name", message="is not the key's", remedy=f"save it as {name!r}"))
        if problems:
            raise InvalidInputError(problems)
        assert isinstance(anchor_ms, int)
        return cls(
            spec=parse_job(document), anchor_ms=anchor_ms,
            saved_ms=saved_ms if isinstance(saved_ms, int) else 0,
            saved_by=saved_by if isinstance(saved_by, str) else None,
        )  # fmt: skip
