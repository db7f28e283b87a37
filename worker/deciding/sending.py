"""Batches on their way to etcd, until every proposal in them has its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from common.clock import Clock
from common.errors import EtcdError, EtcdInDoubtError, UnavailableError
from common.etcd import EtcdClient, Session
from common.process import failpoints
from common.protocol.fire_claims import Batch, Claims
from common.protocol.proposals import Answer, Proposal, Result
from common.protocol.txn import TxnResult
from worker.deciding.doubts import Doubts, Told
from worker.refusals import Refusals, is_for_good

_BACKOFF_S = 0.25
_LARGE = 10
"""Proposals from which on a batch does not ask at first why it may be refused. Below it, a refusal that takes a second
request would cost more than that saves, and a fire that meets a held lock more time."""


class Listener(Told, Protocol):
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
        listener: Listener,
        clock: Clock,
    ) -> None:
        self._client = client
        self._refusals = refusals
        self._claims = claims
        self._doubts = doubts
        self._listener = listener
        self._clock = clock
        self.in_flight = self.slots_in_flight = 0
        """Runs that are being claimed, and the slots that they would take; those in doubt are not counted."""

    async def send(self, batch: Batch[Session]) -> None:
        """Ends when every proposal of the batch has been answered; those in doubt, when they are settled."""
        self._count(batch.proposals, 1)
        rest = await self._answered_rest(batch)
        while rest is not None and rest.parts:
            rest = await self._answered_rest(rest)

    async def _answered_rest(self, batch: Batch[Session]) -> Batch[Session] | None:
        """One transaction, and its answers told; what it leaves to be sent again."""
        sent = self._clock.boottime()
        if failpoints.armed and batch.claims:
            failpoints.hit("before_claim")
        try:
            answer = await self._answer(batch)
        except EtcdInDoubtError as error:
            self._count(batch.proposals, -1)
            self._listener.outage(error)
            await self._doubts.settle(batch, self._listener)
            return None
        except (EtcdError, UnavailableError) as error:  # certainly not carried out
            if is_for_good(error):
                await self._refused(batch, error)
                return None
            self._listener.outage(error)
            await asyncio.sleep(_BACKOFF_S)
            for proposal in batch.proposals:
                self._tell(Result(proposal=proposal, answer=Answer.NOT_DONE), batch)
            return None
        if failpoints.armed and batch.claims and answer.succeeded:
            failpoints.hit("after_claim")
        results, again = self._claims.read(batch, answer, sent=sent)
        for result in results:
            self._tell(result, batch)
        if results or not again:
            return batch.of(again)
        # Nobody is ruled out, and yet it was refused: one of them has a run key in its way. Each alone tells which.
        self._count(batch.proposals, -1)
        await asyncio.gather(*(self.send(batch.of([part])) for part in again))
        return None

    async def _answer(self, batch: Batch[Session]) -> TxnResult:
        """Of one transaction, or, where that is refused without a reason, of the same that asks for it."""
        if len(batch.parts) >= _LARGE:
            answer = await self._client.txn(self._claims.transaction(batch, asks_why=False))
            if answer.succeeded:
                return answer
        return await self._client.txn(self._claims.transaction(batch))

    async def _refused(self, batch: Batch[Session], error: Exception) -> None:
        """etcd is there and will not: in halves, down to the one that it refuses; the others are decided."""
        middle = len(batch.parts) // 2
        if middle:
            self._count(batch.proposals, -1)
            await asyncio.gather(*(self.send(batch.of(half)) for half in (batch.parts[:middle], batch.parts[middle:])))
            return
        [proposal] = batch.proposals
        self._refusals.note(proposal.job.sequence, error)
        self._tell(Result(proposal=proposal, answer=Answer.REFUSED), batch)

    def _tell(self, result: Result, batch: Batch[Session]) -> None:
        self._count([result.proposal], -1)
        self._listener.answered(result, batch.session)

    def _count(self, proposals: Iterable[Proposal], by: int) -> None:
        for proposal in proposals:
            self.in_flight += by * proposal.claims
            self.slots_in_flight += by * proposal.slots
