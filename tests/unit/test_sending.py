"""What is on its way to etcd is counted until it is answered, however often it is sent in the meantime."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from common.errors import EtcdRefusedError
from common.protocol.fire_claims import Batch
from common.protocol.proposals import Answer, Result
from tests.support.fake_clock import FakeClock
from worker.plan.sending import Sending
from worker.refusals import Refusals
from worker.runs import RunTable


class Etcd:
    """Will not write for the job "no", and refuses each claim together with that of "locked"."""

    async def txn(self, names: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        if "no" in names:
            raise EtcdRefusedError("no permission")
        return SimpleNamespace(succeeded="locked" not in names)


class Claims:
    """A transaction is the names of its jobs."""

    def transaction(self, batch: Any) -> list[str]:
        return [one.job.sequence for one in batch.proposals]

    def read(self, batch: Any, answer: Any, *, sent: float) -> Any:
        if answer.succeeded:
            return [Result(proposal=one, answer=Answer.DONE) for one in batch.proposals], []
        stuck = [one for one in batch.proposals if one.job.sequence == "locked"]
        return (
            [Result(proposal=one, answer=Answer.LOCKED) for one in stuck],
            [one for one in batch.proposals if one not in stuck],
        )


class Listener:
    """Remembers the answers."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}

    def answered(self, result: Result, session: object) -> None:
        self.answers[result.proposal.job.sequence] = result.answer


@pytest.mark.parametrize("first", ["locked", "no"])
async def test_what_is_sent_again_is_on_its_way_all_the_time(first: str) -> None:
    listener, clock, table = Listener(), FakeClock(), RunTable(4)
    proposals: Any = [
        SimpleNamespace(job=SimpleNamespace(sequence=name), claims=1, slots=1) for name in (first, "a", "b", "c")
    ]
    sending = Sending(
        client=cast(Any, Etcd()), claims=cast(Any, Claims()), doubts=cast(Any, None), refusals=Refusals(clock),
        table=table, listener=cast(Any, listener), clock=clock,
    )  # fmt: skip
    sent = asyncio.create_task(sending.send(Batch(session=cast(Any, None), proposals=proposals)))
    await asyncio.sleep(0)  # it begins
    while not sent.done():
        assert sending.in_flight == table.claiming_slots == 4 - len(listener.answers)
        await asyncio.sleep(0)
    await sent
    refused = Answer.LOCKED if first == "locked" else Answer.REFUSED
    assert listener.answers == {first: refused, "a": Answer.DONE, "b": Answer.DONE, "c": Answer.DONE}
    assert sending.in_flight == table.claiming_slots == 0
