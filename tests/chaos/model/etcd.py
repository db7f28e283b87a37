"""A linearizable etcd in memory, with leases; it tells every revision."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from common.protocol.txn import Delete, Put, Txn, TxnResult
from tests.support.memory_etcd import MemoryEtcd


class Commit(NamedTuple):
    """One revision: what it put and deleted; ``who``: the sender."""

    time: int
    rev: int
    who: str
    puts: tuple[Put, ...]
    deletes: tuple[str, ...]


class Etcd(MemoryEtcd):
    """The store; ``clock`` gives the true time, ``on_commit`` hears of every revision."""

    def __init__(self, clock: Callable[[], int], on_commit: Callable[[Commit], None], ttl: int) -> None:
        super().__init__()
        self._clock = clock
        self._on_commit = on_commit
        self._ttl = ttl
        self.leases: dict[int, int] = {}
        """When each ends."""
        self.up = True

    def txn(self, txn: Txn, who: str = "hand") -> TxnResult:
        """As etcd decides it; a put with a dead lease fails it."""
        result = super().txn(txn)
        if self.written:
            puts = tuple([one for one in self.written if isinstance(one, Put)])
            deletes = tuple([one.key for one in self.written if isinstance(one, Delete)])
            self._on_commit(Commit(self._clock(), self.revision, who, puts, deletes))
        return result

    def holds(self, txn: Txn) -> bool:
        leases = [one.lease for one in txn.then if isinstance(one, Put) and one.lease]
        return super().holds(txn) and self.leases.keys() >= {*leases}

    def grant(self) -> int:
        """A new lease."""
        self.revision += 1
        self.leases[self.revision] = self._clock() + self._ttl
        return self.revision

    def keep_alive(self, lease: int) -> bool:
        if lease in self.leases:
            self.leases[lease] = self._clock() + self._ttl
        return lease in self.leases

    def revoke(self, lease: int) -> None:
        self.leases.pop(lease, None)
        if gone := [Delete(key) for key, kv in self.keys.items() if lease and kv.lease == lease]:
            self.txn(Txn((), gone), "etcd")

    def expire(self) -> None:
        """What is over by now goes; etcd does it about once a second."""
        now = self._clock()
        for lease in [lease for lease, ends in self.leases.items() if ends <= now]:
            self.revoke(lease)

    def elect(self) -> None:
        """A new leader: every lease has its full TTL again."""
        self.leases = dict.fromkeys(self.leases, self._clock() + self._ttl)
