"""A call that asks for a run beside the schedule: one transaction, whichever manager sends it, and however often.

    if   the job is as it was looked at
    and  the call's own key is as it was read: absent, or over
    and  the dedupe key is as it was read                        only where one was given
    then put the request, the call's own key, [the dedupe key]
    else read the job and both keys

The call's own key outlives the request and its run, so a call in doubt learns from it whether it was carried out: sent
again, the transaction finds its own key, and asks for nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from common.protocol.compares import Compare, mod_revision_is
from common.protocol.keys import Keys, Watched
from common.protocol.remembered import Remembered
from common.protocol.request import Request
from common.protocol.txn import Earlier, Fate, Get, KeyValue, Operation, Put, Txn, TxnResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKeys:
    """Where a call looks, and where it is remembered."""

    job: str
    own: str
    dedupe: str | None

    @property
    def reads(self) -> list[Operation]:
        return [Get(key) for key in (self.job, self.own, self.dedupe) if key is not None]

    @property
    def look(self) -> Txn:
        """Its answer, as that of a refused `ask`, is read by `found`."""
        return Txn((), self.reads)

    def found(self, answer: TxnResult) -> Found:
        """What the reads have found."""
        dedupe = answer.one(2) if self.dedupe is not None else None
        return Found(job=answer.one(0), own=answer.one(1), dedupe=dedupe)

    def earlier(self, txn: Txn, refusal: TxnResult) -> Earlier:
        """What became of an earlier sending of `ask` or `remember`: its own key outlives the call."""
        own = self.found(refusal).own
        return own.mod_revision if own is not None and txn.has_put(own) else Fate.NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What etcd holds, as far as a call depends on it."""

    job: KeyValue | None
    own: KeyValue | None
    dedupe: KeyValue | None


def remember(call: CallKeys, there: Found, own: Remembered) -> Txn:
    """The run was asked for before, under the dedupe key: this call is answered the same from now on."""
    return Txn(_as_read(call, there), [Put(call.own, own.to_json())], call.reads)


def ask(
    keys: Keys, call: CallKeys, there: Found, requests: Sequence[Request], own: Remembered, dedupe: Remembered | None
) -> Txn:
    """``dedupe``: what is remembered under the dedupe key."""
    assert there.job is not None, "there is a job to run"
    compares = [*_as_read(call, there), mod_revision_is(there.job.key, there.job.mod_revision)]
    then: list[Operation] = [Put(request.key(keys), request.to_json()) for request in requests]
    then += [Put(keys.seen(Watched.REQUESTS), b""), Put(call.own, own.to_json())]
    if call.dedupe is not None and dedupe is not None:
        then.append(Put(call.dedupe, dedupe.to_json()))
    return Txn(compares, then, call.reads)


def _as_read(call: CallKeys, there: Found) -> list[Compare]:
    compares = [mod_revision_is(call.own, there.own.mod_revision if there.own else 0)]
    if call.dedupe is not None:
        compares.append(mod_revision_is(call.dedupe, there.dedupe.mod_revision if there.dedupe else 0))
    return compares
