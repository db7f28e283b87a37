"""Records that managers keep in etcd: read from there, and written in place of what was read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from common.clock import Clock
from common.errors import OvertakenError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, Settled, settle
from common.protocol import record_edits as edits
from common.protocol.txn import Guards, KeyValue

OVERTAKEN: Final = "nothing was done: others changed it all the time; try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """A record that is not one of ours: it grants nothing, and can be removed."""

    name: str
    problem: str


class Records:
    """Reads and writes; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, *, clock: Clock, patience_s: float, known: Callable[[int], Awaitable[object]]
    ) -> None:  # fmt: skip
        """``known``: waits, not for long, until this manager goes by what etcd has at a revision: what was just removed
        counts no more when the answer comes.
        """
        self.etcd = etcd
        self.clock = clock
        self.patience_s = patience_s
        self._known = known

    def deadline(self) -> float:
        return self.clock.monotonic() + self.patience_s

    async def page(self, prefix: str, after: str | None, limit: int) -> tuple[Sequence[KeyValue], bool]:
        """The first records whose names follow ``after``, and whether there are more."""
        first = prefix if after is None else f"{prefix}{after}\0"
        return await self.etcd.get_between(first, f"{prefix}\x7f", limit=limit)

    async def all_under(self, prefix: str) -> AsyncIterator[KeyValue]:
        async for page in self.etcd.read_prefix(prefix):
            for kv in page.kvs:
                yield kv

    async def write(
        self, what: str, key: str, there: KeyValue | None, value: bytes | None, deadline: float, guards: Guards = ()
    ) -> Settled:
        """Where it was not carried out, another call was faster, or a guard is false: look again.

        OvertakenError: the time for that is over. UnsettledError: it may have been done.
        """

        def in_doubt(error: Exception) -> str:
            return f"it is not known whether {what}: etcd gave no answer ({error}). Look before you go on."

        txn = edits.put(key, there, value, guards)
        patience = Patience.until(deadline, self.clock, in_doubt)
        settled = await settle(self.etcd, self.clock, txn, patience, partial(edits.earlier, txn, there, value))
        if not settled.done and self.clock.monotonic() > deadline:
            raise OvertakenError(OVERTAKEN)
        if settled.done and settled.revision:
            await self._known(settled.revision)
        return settled
