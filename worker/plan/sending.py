"""Batches on their way to etcd, until every proposal in them has its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from typing import Protocol

from common.clock import Clock
from common.errors import EtcdError, EtcdRefusedError, UnavailableError
from common.etcd import EtcdClient, Session
from common.etcd.pack import apart
from common.etcd.settle import is_for_good, is_in_doubt
from common.process import failpoints
from common.protocol.fire_claims import Batch, Claims
from common.protocol.proposals import Answer, Proposal, Result
from common.protocol.txn import TxnResult
from worker.pacing import LARGE_CLAIM
from worker.plan.doubts import DoubtListener, Doubts
from worker.refusals import Refusals
from worker.runs import RunTable

_BACKOFF_S = 0.25


class Listener(DoubtListener, Protocol):
    """Who hears what became of proposals, and whether etcd is there."""

    def outage(self, error: Exception) -> None:
        """etcd did not answer, or would not."""


class Sending:
    """Sends batches; each proposal is answered once."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        claims: Claims,
        doubts: Doubts,
        refusals: Refusals,
        table: RunTable,
        listener: Listener,
        clock: Clock,
    ) -> None:
        self._client = client
        self._refusals = refusals
        self._claims = claims
        self._doubts = doubts
        self._listener = listener
        self._clock = clock
        self._table = table
        self.in_flight = 0
        """Runs that are being claimed; those in doubt are not counted."""

    def send(self, batch: Batch[Session]) -> Coroutine[None, None, None]:
        """Ends when every proposal of the batch has been answered; those in doubt, when they are settled. Their slots
        are counted from now on, also before it begins."""
        self._count(batch.proposals, 1)
        return self._decide(batch, batch.proposals)

    async def _decide(self, batch: Batch[Session], proposals: Sequence[Proposal]) -> None:
        """These of the batch, which are counted. Where etcd is there and will not, the others are decided."""
        await apart(proposals, partial(self._send, batch), partial(self._refused, batch), at_once=True)

    async def _send(self, whole: Batch[Session], proposals: Sequence[Proposal]) -> bool:
        """Some of a batch in one transaction; EtcdRefusedError: for good, and none of them has been answered."""
        batch, sent = whole.only(proposals), self._clock.boottime()
        if failpoints.armed and batch.claim_count:
            failpoints.hit("before_claim")
        try:
            answer = await self._answer(batch)
        except (EtcdError, UnavailableError) as error:
            if is_for_good(error):
                raise
            self._listener.outage(error)
            if not is_in_doubt(error):
                await asyncio.sleep(_BACKOFF_S)
                for proposal in batch.proposals:
                    self._tell(Result(proposal=proposal, answer=Answer.NOT_DONE), batch)
                return True
            self._count(batch.proposals, -1)
            await self._doubts.settle(batch, self._listener)
            return True
        if failpoints.armed and batch.claim_count and answer.succeeded:
            failpoints.hit("after_claim")
        results, again = self._claims.read(batch, answer, sent=sent)
        for result in results:
            self._tell(result, batch)
        if again:
            # Where none is ruled out, and yet it was refused, one has a run key in its way: each alone tells which.
            left = [again] if results else [[proposal] for proposal in again]
            await asyncio.gather(*(self._decide(batch, some) for some in left))
        return True

    async def _answer(self, batch: Batch[Session]) -> TxnResult:
        """Of one transaction, or, where that is refused without a reason, of the same that asks for it."""
        if len(batch.proposals) >= LARGE_CLAIM:
            answer = await self._client.txn(self._claims.transaction(batch, asks_why=False))
            if answer.succeeded:
                return answer
        return await self._client.txn(self._claims.transaction(batch))

    def _refused(self, batch: Batch[Session], proposal: Proposal, error: EtcdRefusedError) -> None:
        self._refusals.note(proposal.job.sequence, error)
        self._tell(Result(proposal=proposal, answer=Answer.REFUSED), batch)

    def _tell(self, result: Result, batch: Batch[Session]) -> None:
        self._count([result.proposal], -1)
        self._listener.answered(result, batch.session)

    def _count(self, proposals: Iterable[Proposal], by: int) -> None:
        for proposal in proposals:
            if proposal.claims:
                self.in_flight += by
                self._table.claiming(by * proposal.slots)
