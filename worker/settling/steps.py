"""Conditional writes for many runs, in as few transactions as etcd's limits allow; each does once what it does.

A step is carried out, or refused because one of its own compares is false. Where no answer came it is sent again, the
same: whether the first sending was carried out then shows in its compares. One that etcd itself refuses, for want of a
permission, say, is put aside, holds up no other, and is tried again with those that come a second later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.errors import EtcdError, EtcdRefusedError, UnavailableError
from common.etcd import EtcdClient
from common.protocol.txn import MAX_COMPARES, MAX_OPS, Share, Txn, TxnResult
from worker.refusals import AGAIN_S, Refusals, apart, is_for_good

MAX_STEPS: Final = 120
"""In one transaction, of such as compare and write one key each: within etcd's 128."""
MAX_BYTES: Final = 1_000_000
"""Of the values in one transaction, well within etcd's 1.5 MiB for a request."""
RETRY_S: Final = 0.3


@dataclass(slots=True, eq=False)
class Step:
    """A conditional write for one run, and what it means when it was carried out, or refused."""

    share: Share
    done: Callable[[int], None]
    """Told the revision."""
    refused: Callable[[], None]
    """Because of one of its compares."""
    of: str
    """The run, for the log."""


class Steps:
    """Carries out steps; patient while etcd is away."""

    def __init__(self, client: EtcdClient, refusals: Refusals, clock: Clock) -> None:
        self._client = client
        self._refusals = refusals
        self._clock = clock
        self._aside: deque[Step] = deque()
        self._again_at = float("-inf")
        self.busy = 0
        """Steps that are on their way."""

    @property
    def aside(self) -> int:
        """Steps that etcd refuses; they are tried again as soon as `carry_out` is called, a second later."""
        return len(self._aside)

    async def carry_out(self, steps: Iterable[Step]) -> None:
        """All of them, told one by one what became of them; those that etcd refuses wait aside."""
        for batch in _batches(steps):
            await self._counted(batch)
        while self._aside and self._clock.monotonic() >= self._again_at:
            before = len(self._aside)
            again = [self._aside.popleft() for _ in range(min(before, MAX_STEPS))]
            for batch in _batches(again):
                await self._counted(batch)
            if len(self._aside) == before:
                break  # not one of them: the others wait for their turn

    async def _counted(self, batch: Sequence[Step]) -> None:
        self.busy += len(batch)
        try:
            await self._apart(batch)
        finally:
            self.busy -= len(batch)

    async def _apart(self, steps: Sequence[Step]) -> None:
        await apart(steps, self._together, self._put_aside)

    def _put_aside(self, step: Step, error: EtcdRefusedError) -> None:
        self._refusals.note(step.of, error)
        self._aside.append(step)
        self._again_at = self._clock.monotonic() + AGAIN_S

    async def answer(self, txn: Txn, *, of: str) -> TxnResult:
        """etcd's answer to a conditional write of a run, which does once what it does however often it is sent.

        While etcd refuses it, nobody else may wait for the answer.
        """
        while True:
            try:
                return await self._answer(txn)
            except EtcdRefusedError as error:
                self._refusals.note(of, error)
                await asyncio.sleep(AGAIN_S)

    async def _answer(self, txn: Txn) -> TxnResult:
        """The answer, once etcd is there; EtcdRefusedError: for good, and yet an earlier sending may be in doubt."""
        while True:
            try:
                return await self._client.txn(txn)
            except (EtcdError, UnavailableError) as error:
                if is_for_good(error):
                    raise
                await asyncio.sleep(RETRY_S)

    async def _together(self, steps: Sequence[Step]) -> None:
        """All in one transaction; in halves, down to one, where one of them stands in the way of the others."""
        result = await self._answer(Txn(
            [compare for step in steps for compare in step.share.compares],
            list(dict.fromkeys(operation for step in steps for operation in step.share.then)),  # one sentinel for all
        ))  # fmt: skip
        if result.succeeded:
            for step in steps:
                step.done(result.revision)
        elif len(steps) > 1:
            middle = len(steps) // 2
            await self._apart(steps[:middle])
            await self._apart(steps[middle:])
        else:
            steps[0].refused()


def _batches(steps: Iterable[Step]) -> Iterator[list[Step]]:
    batch: list[Step] = []
    compares = operations = size = 0
    for step in steps:
        share = step.share
        compares, operations, size = compares + len(share.compares), operations + len(share.then), size + share.size
        fits = compares <= MAX_COMPARES and operations <= MAX_OPS and size <= MAX_BYTES and len(batch) < MAX_STEPS
        if batch and not fits:
            yield batch
            batch, compares, operations, size = [], len(share.compares), len(share.then), share.size
        batch.append(step)
    if batch:
        yield batch
