"""A user's wish to give up one run, under ``giveups/<job>/<plan>/<attempt>``: its lock is to pass on.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from common.protocol.compares import absent, create_revision_is, mod_revision_is
from common.protocol.keys import Keys, RunId
from common.protocol.txn import Delete, Earlier, Fate, Get, GetKey, Guards, KeyValue, Put, Txn, TxnResult
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

    def reaches(self, fence: int) -> bool:
        """Whether it applies to a run with this fence: one that is older than itself."""
        return fence < self.revision

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


def ask(keys: Keys, wish: GiveUp, run: KeyValue, allowed: Guards) -> Txn:
    """While the run key is as it was read, and what allows it holds: see `while_gone` and `while_pending`. Refused, it
    reads the wish."""
    key = keys.give_up(wish.run_id)
    return Txn([mod_revision_is(run.key, run.mod_revision), *allowed], [Put(key, wish.to_json())], [Get(key)])


def earlier(txn: Txn, refusal: TxnResult) -> Earlier:
    """What became of an earlier sending. The steward deletes a wish that it has carried out, or that does not apply."""
    wish = refusal.one(0)
    return wish.mod_revision if wish is not None and txn.has_put(wish) else Fate.UNKNOWN


def while_gone(session: str) -> Guards:
    """The run's session has no key: none ever has the same again."""
    return [absent(session)]


def while_pending(kill: KeyValue) -> Guards:
    """The run is asked to end, by this kill."""
    return [create_revision_is(kill.key, kill.create_revision)]


def while_wished(keys: Keys, wish: GiveUp) -> Guards:
    """The wish is still there."""
    return [create_revision_is(keys.give_up(wish.run_id), wish.revision)]


def look(keys: Keys, wish: GiveUp) -> Txn:
    """The run key, a kill, and the lock of its job."""
    return Txn((), [Get(keys.run(wish.run_id)), Get(keys.kill(wish.run_id)), GetKey(keys.lock(wish.run_id.job))])


def sweep(keys: Keys, wish: GiveUp, *, guards: Guards) -> Txn:
    """A wish that applies to nothing any more."""
    return Txn([*guards, *while_wished(keys, wish)], [Delete(keys.give_up(wish.run_id))])
