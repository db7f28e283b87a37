"""A user's wish to end one run, under ``kills/<job>/<plan>/<attempt>``, and how it is put there.

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from common.protocol.compares import create_revision_is, mod_revision_is, present
from common.protocol.keys import Keys, RunId, Watched
from common.protocol.signatures import SIGNATURE, Seal, Signature, Trust
from common.protocol.txn import Earlier, Fate, Get, KeyRevisions, KeyValue, Put, Txn, TxnResult
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
    signature: Signature | None = None
    """Of the manager that was asked for it; workers, which end a run for a newer fire, sign nothing."""
    revision: int = 0
    """The key's create revision: it applies only to a run whose fence is smaller."""

    @property
    def before_start(self) -> str:
        """What became of a run that it reached before there was a process, in words."""
        because = f": {self.reason}" if self.reason else ""
        return f"killed by {self.by} before start{because}"

    def reaches(self, fence: int) -> bool:
        """Whether it applies to a run with this fence: one that is older than itself."""
        return fence < self.revision

    def overdue_in_ms(self, now_ms: int, *, grace_s: float) -> int:
        """How long the run's worker still has to end it; 0 or less: it cannot, and the run may be given up."""
        return self.at_ms + round(grace_s * 1000) + OVERDUE_MS - now_ms

    def to_json(self) -> bytes:
        """The value of the kill's key."""
        document: dict[str, Any] = {"by": self.by, "atMs": self.at_ms, "reason": self.reason}
        if self.signature is not None:
            document[SIGNATURE] = self.signature.to_document()
        return json.dumps(document, separators=(",", ":")).encode()

    def sealed(self, seal: Seal) -> Self:
        """The same, signed."""
        return replace(self, signature=seal.kill(self.run_id.job, self.at_ms, self._signed))

    def fault(self, trust: Trust) -> str | None:
        """Why it is not believed for its signature; None: a manager has signed it."""
        return trust.kill_fault(self.run_id.job, self.signature, self._signed)

    @property
    def _signed(self) -> dict[str, Any]:
        reason = words_or_none(self.reason)
        return {"run": str(self.run_id), "by": words(self.by), "atMs": self.at_ms, "reason": reason}

    @classmethod
    def from_json(cls, value: bytes, *, run_id: RunId, revision: int) -> Self:
        """Read a kill; ValueError where it is none."""
        try:
            document = json.loads(value)
            return cls(
                run_id=run_id, revision=revision, by=words(document["by"]), at_ms=instant(document["atMs"]),
                reason=words_or_none(document.get("reason")), signature=Signature.read(document.get(SIGNATURE)),
            )  # fmt: skip
        except MALFORMED as error:
            raise ValueError(f"not a kill: {brief(error)}") from error


def is_reached(run: KeyRevisions, kill: KeyRevisions) -> bool:
    """The rule of `Kill.reaches`, for a kill that is not read: by its key, and the run's or the lock that it took."""
    return kill.create_revision > run.create_revision


def look(keys: Keys, run: RunId) -> Txn:
    """The run's key, its request, and the next link of its job, at one revision: a claim turns one into the other."""
    return Txn((), [Get(keys.run(run)), Get(keys.request(run)), Get(keys.chain(run.job))])


def ask(keys: Keys, kill: Kill, there: KeyValue | None = None, *, job_revision: int | None = None) -> Txn:
    """``there``: the run's key, or that of its request, which has to be what was read; None: the run has a key at all.

    ``job_revision``: at which the job has to be still, or not be there (0); None: however it is.

    A kill that is put twice is the same kill. Refused, it reads what `earlier` tells by.
    """
    run = kill.run_id
    if there is None:
        only_if = present(keys.run(run))
    elif there.key == keys.run(run):
        only_if = create_revision_is(there.key, there.create_revision)
    else:
        only_if = mod_revision_is(there.key, there.mod_revision)
    compares = [only_if]
    if job_revision is not None:
        compares.append(mod_revision_is(keys.job(run.job_name), job_revision))
    return Txn(
        compares,
        [Put(keys.kill(run), kill.to_json()), Put(keys.seen(Watched.KILLS), str(run).encode())],
        [Get(keys.kill(run)), Get(keys.run(run)), Get(keys.request(run))],
    )


def earlier(txn: Txn, there: KeyValue | None, refusal: TxnResult) -> Earlier:
    """What became of an earlier sending of the kill. It goes with the run, so where both are gone it is not known."""
    kill, run, request = refusal.one(0), refusal.one(1), refusal.one(2)
    if kill is not None:
        return kill.mod_revision if txn.has_put(kill) else Fate.UNKNOWN
    if run is None and request is None:
        return Fate.UNKNOWN
    return Fate.OPEN if there is None else Fate.NEVER  # handed on, it is claimed under the same key again
