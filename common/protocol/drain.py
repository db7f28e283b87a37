"""An administrator's wish that a worker takes no new fires, under ``drains/<worker>``; it outlives every process.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from common.protocol.compares import absent, mod_revision_is
from common.protocol.keys import Keys
from common.protocol.txn import Delete, Earlier, Fate, Get, KeyValue, Put, Txn, TxnResult
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
        """Read a drain; one that cannot be read is a drain all the same, by nobody knows whom."""
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


def put(keys: Keys, worker: str, there: KeyValue | None, drain: Drain | None) -> Txn:
    """In place of what was read; None: it is taken back. Refused, it reads what is there instead."""
    key = keys.drain(worker)
    only_if = absent(key) if there is None else mod_revision_is(key, there.mod_revision)
    return Txn([only_if], [Delete(key) if drain is None else Put(key, drain.to_json())], [Get(key)])


def earlier(txn: Txn, there: KeyValue | None, drain: Drain | None, refusal: TxnResult) -> Earlier:
    """What became of an earlier sending. Whose drain lay there before that of somebody else, nobody can tell."""
    now = refusal.one(0)
    if drain is not None:
        return now.mod_revision if now is not None and txn.has_put(now) else Fate.UNKNOWN
    # Another since: the one that was read is taken back, and one deletion is as good as another.
    is_same = now is not None and there is not None and now.create_revision == there.create_revision
    return Fate.NEVER if is_same else 0
