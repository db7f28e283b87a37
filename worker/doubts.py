"""Claims whose answer did not come: settled by sending the identical transaction again, never forgotten.

A transaction in doubt may still be carried out at any later time, as long as all of its compares can come true. So
a proposal leaves this place only when it is known to have been carried out, or when it never can be any more: the
mark has left P (it never comes back), the job has changed (its revision neither), or the session has ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from common.clock import Clock
from common.errors import EtcdError, UnavailableError
from common.etcd import EtcdClient, KeyValue
from common.keys import Keys, RunId
from common.run import EntryState, RunEntry
from worker.claims import Answer, Batch, Claims, Proposal, Result
from worker.identity import Identity

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 2.0
_FIRST_LOOK_S = 0.1
_NEVER_AGAIN = frozenset({Answer.MARK_MOVED, Answer.JOB_CHANGED, Answer.NO_SESSION, Answer.RUN_EXISTS})


class Doubts:
    """Settles batches in doubt; each settled proposal is told once."""

    def __init__(self, client: EtcdClient, claims: Claims, keys: Keys, identity: Identity, clock: Clock) -> None:
        self._client = client
        self._claims = claims
        self._keys = keys
        self._identity = identity
        self._clock = clock
        self.count = 0
        """Proposals in doubt now."""

    async def settle(self, batch: Batch, tell: Callable[[Result], None]) -> None:
        """Ends when every proposal of the batch is settled; `tell` is called for each as soon as it is."""
        open_proposals = {id(proposal): proposal for proposal in batch.proposals}
        self.count += len(open_proposals)
        extra = {"action": "claim.in_doubt", "fires": len(open_proposals)}
        _log.warning("%d decisions are in doubt: etcd gave no answer", len(open_proposals), extra=extra)
        pause_s = _FIRST_LOOK_S
        try:
            while open_proposals:
                await asyncio.sleep(pause_s)
                for result in await self._look(batch):
                    if open_proposals.pop(id(result.proposal), None) is not None:
                        self.count -= 1
                        tell(result)
                pause_s = LOOK_AGAIN_S
        finally:
            self.count -= len(open_proposals)

    async def _look(self, batch: Batch) -> list[Result]:
        sent = self._clock.monotonic()
        try:
            answer = await self._client.txn(*self._claims.transaction(batch))
            results, _ = self._claims.read(batch, answer, sent=sent)
            if answer.succeeded:
                return results
            found = await self._client.get_many(
                [self._keys.run(run_id) for p in batch.proposals if (run_id := claimed_run(p)) is not None]
            )
        except (EtcdError, UnavailableError):
            return []
        return self._judge(batch, results, found)

    def _judge(self, batch: Batch, results: list[Result], found: dict[str, KeyValue]) -> list[Result]:
        by_proposal = {id(result.proposal): result for result in results}
        settled: list[Result] = []
        for proposal in batch.proposals:
            run_id = claimed_run(proposal)
            kv = None if run_id is None else found.get(self._keys.run(run_id))
            refusal = by_proposal.get(id(proposal))
            if kv is not None and self._is_mine(batch, kv):
                settled.append(_carried_out(proposal, kv, batch))
            elif refusal is not None and refusal.answer in _NEVER_AGAIN:
                settled.append(refusal)
        return settled

    def _is_mine(self, batch: Batch, kv: KeyValue) -> bool:
        try:
            entry = RunEntry.from_json(kv.value)
        except ValueError:
            return False
        return (
            entry.state is EntryState.OPEN
            and entry.session == batch.session.id
            and entry.instance == self._identity.instance
            and entry.claim_ms == batch.claim_ms
        )


def claimed_run(proposal: Proposal) -> RunId | None:
    """The run that a proposal would claim."""
    if not proposal.claims:
        return None
    assert proposal.decision.claim_ms is not None
    return RunId.planned(proposal.job.name, proposal.decision.claim_ms)


def _carried_out(proposal: Proposal, kv: KeyValue, batch: Batch) -> Result:
    return Result(
        proposal=proposal, answer=Answer.DONE, revision=kv.create_revision, sent=float("-inf"), claim_ms=batch.claim_ms
    )
