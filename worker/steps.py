"""Conditional writes for many runs, in as few transactions as etcd's limits allow; each does once what it does.

A step is carried out, or refused because one of its own compares is false. Where no answer came it is sent again, the
same: whether the first sending was carried out then shows in its compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from common.errors import EtcdError, UnavailableError
from common.etcd import MAX_COMPARES, MAX_OPS, Compare, EtcdClient, Operation, Put, TxnResult

MAX_STEPS: Final = 60
MAX_BYTES: Final = 1_000_000
"""Of the values in one transaction, well within etcd's 1.5 MiB for a request."""
RETRY_S: Final = 0.3


@dataclass(slots=True, eq=False)
class Step:
    """A conditional write for one run, and what it means when it was carried out, or refused."""

    compares: Sequence[Compare]
    operations: Sequence[Operation]
    done: Callable[[int], None]
    """Told the revision."""
    refused: Callable[[], None]

    @property
    def size(self) -> int:
        """Bytes of the values that it puts."""
        return sum(len(operation.value) for operation in self.operations if isinstance(operation, Put))


class Steps:
    """Carries out steps; patient while etcd is away."""

    def __init__(self, client: EtcdClient) -> None:
        self._client = client
        self.busy = 0
        """Steps that are on their way."""

    async def carry_out(self, steps: Iterable[Step]) -> None:
        """All of them, told one by one what became of them."""
        for batch in _batches(steps):
            self.busy += len(batch)
            try:
                await self._together(batch)
            finally:
                self.busy -= len(batch)

    async def answer(
        self, compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation] = ()
    ) -> TxnResult:
        """etcd's answer to a conditional write, which does once what it does however often it is sent."""
        while True:
            try:
                return await self._client.txn(compares, then, otherwise)
            except (EtcdError, UnavailableError):
                await asyncio.sleep(RETRY_S)

    async def _together(self, steps: Sequence[Step]) -> None:
        """All in one transaction; in halves, down to one, where one of them stands in the way of the others."""
        result = await self.answer(
            [compare for step in steps for compare in step.compares],
            list(dict.fromkeys(operation for step in steps for operation in step.operations)),  # one sentinel for all
        )
        if result.succeeded:
            for step in steps:
                step.done(result.revision)
        elif len(steps) > 1:
            middle = len(steps) // 2
            await self._together(steps[:middle])
            await self._together(steps[middle:])
        else:
            steps[0].refused()


def _batches(steps: Iterable[Step]) -> Iterator[list[Step]]:
    batch: list[Step] = []
    compares = operations = size = 0
    for step in steps:
        compares, operations = compares + len(step.compares), operations + len(step.operations)
        size += step.size
        fits = compares <= MAX_COMPARES and operations <= MAX_OPS and size <= MAX_BYTES and len(batch) < MAX_STEPS
        if batch and not fits:
            yield batch
            batch, compares, operations, size = [], len(step.compares), len(step.operations), step.size
        batch.append(step)
    if batch:
        yield batch
