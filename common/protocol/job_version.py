"""A former spec of a job: what it was, from when until when, and what took its place.

It lies under ``versions/<job>/<revision>`` in etcd, put by the very transaction that replaced it, until the log store
has it. Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from common.compact_json import to_json
from common.protocol.values import MALFORMED, brief, instant, tree, whole, words_or_none


class Change(StrEnum):
    """What made one version of a job into the next."""

    SAVE = "save"
    PAUSE = "pause"
    RESUME = "resume"
    RESTORE = "restore"
    UNBLOCK = "unblock"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobVersion:
    """One former spec. Times in ms since the epoch."""

    job: str
    revision: int
    """The mod revision that the job's key had under it."""
    spec: Mapping[str, Any]
    """As stored: what differs from the defaults."""
    saved_ms: int
    saved_by: str | None
    ended_ms: int
    ended_by: str | None
    ended_with: Change

    def to_document(self) -> dict[str, Any]:
        """Its JSON, but for the job's name and revision, which stand in the key."""
        return {
            "spec": dict(self.spec), "savedMs": self.saved_ms, "savedBy": self.saved_by, "endedMs": self.ended_ms,
            "endedBy": self.ended_by, "endedWith": str(self.ended_with),
        }  # fmt: skip

    def to_json(self) -> bytes:
        """The value of its key."""
        return to_json(self.to_document())

    @classmethod
    def from_json(cls, value: bytes, *, job: str, revision: int) -> Self:
        """Read the value of a key; ValueError where it is none of ours."""
        try:
            document = json.loads(value)
        except MALFORMED as error:
            raise ValueError(f"not a version of a job: {brief(error)}") from error
        return cls.from_document(document, job=job, revision=revision)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], *, job: str, revision: int) -> Self:
        """Read a document; ValueError where it is none of ours."""
        try:
            return cls(
                job=job, revision=whole(revision), spec=tree(document["spec"]), saved_ms=instant(document["savedMs"]),
                saved_by=words_or_none(document["savedBy"]), ended_ms=instant(document["endedMs"]),
                ended_by=words_or_none(document["endedBy"]), ended_with=Change(document["endedWith"]),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a version of a job: {brief(error)}") from error


def changed_fields(older: Mapping[str, Any], newer: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the fields that differ between two stored specs, in order."""
    names = dict.fromkeys((*newer, *older))
    absent = object()
    return tuple(name for name in names if older.get(name, absent) != newer.get(name, absent))
