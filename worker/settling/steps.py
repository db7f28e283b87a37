"""Conditional writes for many runs, in as few transactions as etcd's limits allow; each does once what it does.

A step is carried out, or refused because one of its own compares is false. Where no answer came it is sent again, the
same: whether the first sending was carried out then shows in its compares. One that etcd itself refuses, for want of a
permission, say, is put aside, holds up no other, and is tried again with those that come a second later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from common.clock import Clock
from common.errors import EtcdRefusedError
from common.etcd import EtcdClient
from common.etcd.pack import Step, together
from common.etcd.settle import AGAIN_S
from common.protocol.txn import packed
from worker.refusals import PATIENT, Refusals

MAX_STEPS: Final = 120
"""In one transaction, of such as compare and write one key each: within etcd's 128."""


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
        await self._carry_out(steps)
        while self._aside and self._clock.monotonic() >= self._again_at:
            before = len(self._aside)
            await self._carry_out([self._aside.popleft() for _ in range(min(before, MAX_STEPS))])
            if len(self._aside) == before:
                break  # not one of them: the others wait for their turn

    async def _carry_out(self, steps: Iterable[Step]) -> None:
        for batch in packed(steps, lambda step: step.share, most=MAX_STEPS):
            self.busy += len(batch)
            try:
                await together(self._client, batch, PATIENT, self._put_aside)
            finally:
                self.busy -= len(batch)

    def _put_aside(self, step: Step, error: EtcdRefusedError) -> None:
        self._refusals.note(step.of, error)
        self._aside.append(step)
        self._again_at = self._clock.monotonic() + AGAIN_S
