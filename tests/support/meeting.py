"""Something that happens between a look at etcd and the write that follows from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from common.etcd import EtcdClient
from common.protocol.txn import Operation, Txn, TxnResult


class Meeting(EtcdClient):
    """Before its next conditional write is sent, this happens; once."""

    def __init__(self, endpoint: str, event: Callable[[], Awaitable[Any]] | None = None) -> None:
        super().__init__([endpoint])
        self.event = event

    async def txn(self, transaction: Txn) -> TxnResult:
        if transaction.compares and (event := self.event) is not None:
            self.event = None
            await event()
        return await super().txn(transaction)

    async def writes_nothing(
        self, prefix: str, look: Callable[[], Awaitable[Any]], *, after: Sequence[Sequence[Operation]]
    ) -> None:
        """Has it look, and somebody else do these things before its next write, and each after it: it writes nothing.

        Call it only where it would write if nobody came before it.
        """
        steps = list(after)
        there: dict[str, int] = {}

        async def meet() -> None:
            nonlocal there
            for operation in steps.pop(0):
                await super(Meeting, self).txn(Txn([], [operation]))
            there = await self._revisions(prefix)
            self.event = meet if steps else None

        self.event = meet
        await look()
        assert not steps, "it was about to write"
        assert await self._revisions(prefix) == there

    async def _revisions(self, prefix: str) -> dict[str, int]:
        return {kv.key: kv.mod_revision async for page in self.read_prefix(prefix + "/") for kv in page.kvs}
