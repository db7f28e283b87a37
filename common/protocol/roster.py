"""A worker that is or was here, as it is remembered under ``roster/<worker>`` when it has gone.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from common.protocol.compares import at_revision, none_under, present
from common.protocol.keys import Keys
from common.protocol.member import MOST_SLOTS, Member
from common.protocol.txn import Delete, Earlier, Fate, GetKey, Guards, Owner, Put, Txn, TxnResult
from common.protocol.values import MALFORMED, brief, instant, name, texts, whole

KEPT_MS: Final = 30 * 86_400_000
MOST_KEPT: Final = 1000


class Left(StrEnum):
    """How a worker left."""

    STOPPED = "stopped"
    """It was stopped, and has written so."""
    DRAINED = "drained"
    """It was stopped while it was drained."""
    GONE = "gone"
    """Its session ended without a word: the process, the machine or the network died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterEntry:
    """A worker as it was when it was seen last."""

    worker: str
    host: str
    seen_ms: int
    """When it left; while it is here, within the last hour or so."""
    slots: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    left: Left | None = None
    """None: it was here when this was written."""

    @classmethod
    def of(cls, member: Member, *, seen_ms: int, left: Left | None = None) -> Self:
        """What is remembered of a live worker."""
        return cls(
            worker=member.worker, host=member.host, slots=member.slots, labels=member.labels, seen_ms=seen_ms, left=left
        )

    def to_json(self) -> bytes:
        """The value of its key."""
        document: dict[str, Any] = {
            "host": self.host, "slots": self.slots, "labels": dict(self.labels), "seenMs": self.seen_ms,
        }  # fmt: skip
        if self.left is not None:
            document["left"] = str(self.left)
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def from_json(cls, value: bytes, *, worker: str) -> Self:
        """Read the value of a key; ValueError where it is none of ours."""
        try:
            document = json.loads(value)
            return cls(
                worker=worker, host=name(document["host"]), slots=whole(document["slots"], most=MOST_SLOTS),
                labels=texts(document["labels"]), seen_ms=instant(document["seenMs"]),
                left=Left(document["left"]) if "left" in document else None,
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a worker that was here: {brief(error)}") from error


def forget(keys: Keys, worker: str) -> Txn:
    """One that is not live; refused, it reads whether it is remembered at all."""
    key = keys.roster_entry(worker)
    return Txn([none_under(keys.worker_sessions(worker)), present(key)], [Delete(key)], [GetKey(key)])


def forgotten_earlier(refusal: TxnResult) -> Earlier:
    """What became of an earlier sending of `forget`. One that is there may have been, and have come again."""
    return 0 if refusal.key(0) is None else Fate.UNKNOWN


def came(keys: Keys, entry: RosterEntry, session: str, *, known_revision: int, guards: Guards) -> Txn:
    """A worker is here, under this session's key. ``known_revision``: of what is remembered of it; 0: nothing is."""
    key = keys.roster_entry(entry.worker)
    return Txn([*guards, present(session), at_revision(key, known_revision)], [Put(key, entry.to_json())])


def went(keys: Keys, worker: str, entry: RosterEntry | None, *, known_revision: int, guards: Guards) -> Txn:
    """A worker is here no more; None: it is remembered no longer."""
    key = keys.roster_entry(worker)
    away = none_under(keys.worker_sessions(worker))
    write = Delete(key) if entry is None else Put(key, entry.to_json())
    return Txn([*guards, away, at_revision(key, known_revision)], [write])


def take_leave(keys: Keys, entry: RosterEntry, session: Owner) -> Txn:
    """Together with its session's key, so that the steward does not take it for gone."""
    return Txn([session.alive], [Delete(session.key), Put(keys.roster_entry(entry.worker), entry.to_json())])
