"""An etcd in memory that decides real transactions and counts: requests, mutations, and events by who watches them.

Pure: no clock, no network. It knows what the claims of a fire use: compares and operations on single keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from common.protocol.compares import Compare, Relation, Target
from common.protocol.txn import (
    MAX_READS,
    Delete,
    Get,
    GetKey,
    KeyRead,
    KeyValue,
    Operation,
    Put,
    Result,
    Txn,
    TxnResult,
)


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


class CountingEtcd:
    """Keys with their revisions, and the counts of all that was done to them."""

    def __init__(self, *, workers: Mapping[str, int], managers: Mapping[str, int]) -> None:
        """For each prefix, how many workers and how many managers watch it."""
        self._workers = workers
        self._managers = managers
        self._keys: dict[str, KeyValue] = {}
        self._revision = 1
        self.counts = Counts()

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._keys)

    def get(self, key: str) -> KeyValue | None:
        """The key as it is; counts as nothing."""
        return self._keys.get(key)

    def get_many(self, keys: Sequence[str]) -> dict[str, KeyValue]:
        """As the client reads many keys: one request for each 127."""
        self.counts.requests += -(-len(keys) // MAX_READS)
        return {key: self._keys[key] for key in keys if key in self._keys}

    def txn(self, transaction: Txn) -> TxnResult:
        """One request, decided as etcd decides it."""
        self.counts.requests += 1
        succeeded = all(self._holds(compare) for compare in transaction.compares)
        branch = transaction.then if succeeded else transaction.otherwise
        if any(operation.writes for operation in branch):
            self._revision += 1
        results = tuple(self._carry_out(operation) for operation in branch)
        return TxnResult(succeeded=succeeded, revision=self._revision, results=results)

    def _holds(self, compare: Compare) -> bool:
        if compare.relation is not Relation.EQUAL or compare.prefix:
            raise NotImplementedError(f"no claim compares like this: {compare}")
        kv = self._keys.get(compare.key)
        match compare.target:
            case Target.VALUE:
                return kv is not None and kv.value == compare.operand
            case Target.CREATE_REVISION:
                return (kv.create_revision if kv else 0) == compare.operand
            case Target.MOD_REVISION:
                return (kv.mod_revision if kv else 0) == compare.operand
            case Target.LEASE:
                return (kv.lease if kv else 0) == compare.operand
            case Target.VERSION:
                return (kv.version if kv else 0) == compare.operand

    def _carry_out(self, operation: Operation) -> Result:
        match operation:
            case Get():
                kv = self._keys.get(operation.key)
                return () if kv is None else (kv,)
            case GetKey():
                return KeyRead(self._keys.get(operation.key))
            case Put():
                self._put(operation)
                return None
            case Delete():
                there = self._keys.pop(operation.key, None) is not None
                if there:
                    self._count(operation.key)
                return int(there)
            case _:
                raise NotImplementedError(f"no claim does this: {operation}")

    def _put(self, put: Put) -> None:
        old = self._keys.get(put.key)
        self._keys[put.key] = KeyValue(
            key=put.key, value=put.value, lease=put.lease, mod_revision=self._revision,
            create_revision=old.create_revision if old else self._revision, version=old.version + 1 if old else 1,
        )  # fmt: skip
        self.counts.put_bytes += len(put.key) + len(put.value)
        self._count(put.key)

    def _count(self, key: str) -> None:
        self.counts.mutations += 1
        self.counts.to_workers += sum(number for prefix, number in self._workers.items() if key.startswith(prefix))
        self.counts.to_managers += sum(number for prefix, number in self._managers.items() if key.startswith(prefix))
