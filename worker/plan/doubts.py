"""Claims whose answer did not come: settled by sending the identical transaction again, never forgotten.

The rule is that of :mod:`common.etcd.settle`; its refusal of a batch tells more than one thing, so it is read here.

A transaction in doubt may still be carried out at any later time, as long as all of its compares can come true. So a
batch leaves this place only when it is known to have been carried out (its run keys are there, as it would put them,
where it puts any), or when it never can be any more: one of its marks is beyond P (it never comes back; one before P
may still come to it), one of its jobs has changed, or the lock that a skip compares has changed hands (their revisions
neither), or the session has ended. It is all or nothing, so one such compare is enough for all of it.

    in doubt --sent again--> carried out                          each proposal: DONE
                        \\--> refused, one compare false for ever  each proposal: its refusal, or NOT_DONE
                        \\--> refused, but may come true           each proposal alone, under the same identity: its run
                                                                    key. So a lock held for an hour holds up no other
    alone and LOCKED, or its mark before P: answered so, for the scheduler has to go on; what was sent is watched on,
    and should it be carried out late after all, the run is won late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

from common.clock import Clock
from common.errors import EtcdError, EtcdRefusedError, UnavailableError
from common.etcd import EtcdClient, Session
from common.etcd.settle import Bears, Patience, answered
from common.protocol.fire_claims import Batch, Claims, found_carried_out
from common.protocol.keys import Keys
from common.protocol.proposals import Answer, Result
from worker.plan.answers import pass_over

_log = logging.getLogger(__name__)

LOOK_AGAIN_S = 2.0
_FIRST_LOOK_S = 0.1
_PATIENT: Final = Patience(bears=Bears.ABSENCE, pause_s=lambda _: LOOK_AGAIN_S)


class DoubtListener(Protocol):
    """Who hears what became of proposals."""

    def answered(self, result: Result, session: Session) -> None:
        """What became of a proposal; once for each."""

    def won_late(self, result: Result, session: Session) -> None:
        """One that had been answered otherwise has been carried out after all."""


class Doubts:
    """Settles batches in doubt."""

    def __init__(self, client: EtcdClient, claims: Claims, keys: Keys, clock: Clock) -> None:
        self._client = client
        self._claims = claims
        self._keys = keys
        self._clock = clock
        self.count = 0
        """Proposals in doubt now."""

    async def settle(self, batch: Batch[Session], listener: DoubtListener) -> None:
        """Ends when nothing of the batch can be carried out any more that was not answered."""
        extra = {"action": "claim.in_doubt", "fires": len(batch.proposals)}
        _log.warning("%d decisions are in doubt: etcd gave no answer", len(batch.proposals), extra=extra)
        self.count += len(batch.proposals)
        try:
            await self._settle(batch, listener, _FIRST_LOOK_S)
        finally:
            self.count -= len(batch.proposals)

    async def _settle(self, batch: Batch[Session], listener: DoubtListener, pause_s: float) -> None:
        await asyncio.sleep(pause_s)
        results, is_over = await self._look(batch)
        if is_over:
            for result in results:
                listener.answered(result, batch.session)
        elif len(batch.proposals) > 1:
            await asyncio.gather(*(self._settle(batch.only([one]), listener, 0) for one in batch.proposals))
        else:
            await self._watch(batch, results, listener)

    async def _watch(self, batch: Batch[Session], results: Sequence[Result], listener: DoubtListener) -> None:
        """One proposal that may still come true: a lock is held, its mark is to come, or a run key is in its way."""
        is_answered = False
        while True:
            for result in results:
                if result.answer in (Answer.LOCKED, Answer.MARK_MOVED) and not is_answered:
                    is_answered = True
                    listener.answered(result, batch.session)
                elif result.answer is Answer.RUN_EXISTS:
                    with suppress(EtcdError, UnavailableError):  # looked at again soon
                        await pass_over(self._client, self._keys, result.proposal, batch.session)
            await asyncio.sleep(LOOK_AGAIN_S)
            results, is_over = await self._look(batch)
            if is_over:
                break
        for result in results:
            if not is_answered:
                listener.answered(result, batch.session)
            elif result.answer is Answer.DONE:
                listener.won_late(result, batch.session)

    async def _look(self, batch: Batch[Session]) -> tuple[Sequence[Result], bool]:
        """What became of the batch as far as it is known, and whether that is the last word."""
        try:
            return await answered(partial(self._sent_again, batch), _PATIENT)
        except EtcdRefusedError:
            # Refused now, and perhaps for one of them only: each alone. An earlier sending is in doubt as before.
            return [], False

    async def _sent_again(self, batch: Batch[Session]) -> tuple[Sequence[Result], bool]:
        sent = self._clock.boottime()
        answer = await self._client.txn(self._claims.transaction(batch))
        results, again = self._claims.read(batch, answer, sent=sent)
        if answer.succeeded:
            return results, True
        found = await self._client.get_many([one.witness.key for one in batch.proposals if one.witness is not None])
        is_over = any(result.is_for_ever for result in results)
        # Read in this order: a transaction that was refused for ever, and is carried out nevertheless, was so before.
        refusals = [*results, *(Result(proposal=proposal, answer=Answer.NOT_DONE) for proposal in again)]
        return [found_carried_out(refusal.proposal, found) or refusal for refusal in refusals], is_over
