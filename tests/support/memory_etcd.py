"""An etcd in memory: it decides transactions as etcd does. No clock, no network, no history, no leases."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from common.protocol.compares import Compare, Relation, Target
from common.protocol.txn import (
    Delete,
    Get,
    GetKey,
    GetPrefix,
    KeyRead,
    KeyValue,
    Operation,
    Put,
    Result,
    Txn,
    TxnResult,
)

_RELATIONS: Final[Mapping[Relation, Callable[[Any, Any], bool]]] = {
    Relation.EQUAL: operator.eq, Relation.GREATER: operator.gt, Relation.LESS: operator.lt,
}  # fmt: skip
_TARGETS: Final[Mapping[Target, Callable[[KeyValue], Any]]] = {
    Target.CREATE_REVISION: operator.attrgetter("create_revision"),
    Target.MOD_REVISION: operator.attrgetter("mod_revision"),
    Target.VALUE: operator.attrgetter("value"), Target.LEASE: operator.attrgetter("lease"),
}  # fmt: skip


class MemoryEtcd:
    """Keys with their revisions."""

    def __init__(self) -> None:
        self.keys: dict[str, KeyValue] = {}
        self.revision = 1
        self.written: list[Put | Delete] = []
        """What the newest transaction has put and deleted; of deletions, each key that there was."""

    def get(self, key: str) -> KeyValue | None:
        """The key as it is."""
        return self.keys.get(key)

    def under(self, prefix: str) -> tuple[KeyValue, ...]:
        """The keys that start with the prefix, in order."""
        return tuple(self.keys[key] for key in sorted(self.keys) if key.startswith(prefix))

    def txn(self, txn: Txn) -> TxnResult:
        """All or nothing, at one revision."""
        succeeded = self.holds(txn)
        self.written = []
        results = tuple([self._carry_out(one) for one in (txn.then if succeeded else txn.otherwise)])
        self.revision += bool(self.written)
        return TxnResult(succeeded=succeeded, revision=self.revision, results=results)

    def holds(self, txn: Txn) -> bool:
        """Whether its first branch would run."""
        return all(map(self._is_true, txn.compares))

    def _is_true(self, compare: Compare) -> bool:
        kv, relates = self.keys.get(compare.key), _RELATIONS[compare.relation]
        found = self.under(compare.key) if compare.prefix else () if kv is None else (kv,)
        if not found:
            return compare.target is not Target.VALUE and relates(0, compare.operand)
        return all(relates(_TARGETS[compare.target](one), compare.operand) for one in found)

    def _carry_out(self, operation: Operation) -> Result:
        match operation:
            case Get():
                kv = self.keys.get(operation.key)
                return () if kv is None else (kv,)
            case GetKey():
                return KeyRead(self.keys.get(operation.key))
            case GetPrefix():
                return self.under(operation.prefix)[: operation.limit]
            case Put():
                self._put(operation)
                return None
            case Delete():
                return self._delete(operation.key)

    def _put(self, put: Put) -> None:
        old, revision = self.keys.get(put.key), self.revision + 1
        assert old is None or old.mod_revision < revision, f"etcd refuses to write {put.key!r} twice at a revision"
        self.keys[put.key] = KeyValue(
            key=put.key, value=put.value, lease=put.lease, mod_revision=revision,
            create_revision=old.create_revision if old else revision, version=old.version + 1 if old else 1,
        )  # fmt: skip
        self.written.append(put)

    def _delete(self, key: str) -> int:
        if self.keys.pop(key, None) is None:
            return 0
        self.written.append(Delete(key))
        return 1
