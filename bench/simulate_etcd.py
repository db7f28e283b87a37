"""An etcd in memory that counts: requests, mutations, and events by who watches them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from common.protocol.txn import MAX_READS, KeyValue, Put, Txn, TxnResult
from tests.support.memory_etcd import MemoryEtcd


@dataclass(slots=True)
class Counts:
    """What an etcd has been asked, and what it has told."""

    requests: int = 0
    """Transactions, whether they succeed or not, and batched reads."""
    mutations: int = 0
    """Puts and deletes of keys, each by itself."""
    put_bytes: int = 0
    """Keys and values of the puts: what the history grows by, without etcd's own share."""
    to_workers: int = 0
    """Events, each as often as there are workers that watch its key."""
    to_managers: int = 0

    def __sub__(self, before: Self) -> Counts:
        return Counts(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))

    def copy(self) -> Counts:
        """As it is now."""
        return self - Counts()


class CountingEtcd(MemoryEtcd):
    """Keys with their revisions, and the counts of all that was done to them."""

    def __init__(self, *, workers: Mapping[str, int], managers: Mapping[str, int]) -> None:
        """For each prefix, how many workers and how many managers watch it."""
        super().__init__()
        self._workers = workers
        self._managers = managers
        self.counts = Counts()

    def get_many(self, keys: Sequence[str]) -> dict[str, KeyValue]:
        """As the client reads many keys: one request for each 127."""
        self.counts.requests += -(-len(keys) // MAX_READS)
        return {key: self.keys[key] for key in keys if key in self.keys}

    def txn(self, txn: Txn) -> TxnResult:
        """One request."""
        result = super().txn(txn)
        self.counts.requests += 1
        self.counts.mutations += len(self.written)
        for write in self.written:
            self.counts.put_bytes += len(write.key) + len(write.value) if isinstance(write, Put) else 0
            self.counts.to_workers += _watching(self._workers, write.key)
            self.counts.to_managers += _watching(self._managers, write.key)
        return result


def _watching(prefixes: Mapping[str, int], key: str) -> int:
    return sum(number for prefix, number in prefixes.items() if key.startswith(prefix))
