"""A linearizable etcd in memory: revisions, leases, transactions; and how its answers are awaited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Key = tuple[Any, ...]
"""A prefix and its parts: ("run", job, fire, attempt)."""


class KV(NamedTuple):
    """A key's value, and etcd's own bookkeeping."""

    value: Any
    create: int
    mod: int
    lease: int = 0


NONE: Final = KV(None, 0, 0)


class Compare(NamedTuple):
    """One field of one key; create 0: it is absent."""

    field: str
    key: Key
    wanted: Any


class Put(NamedTuple):
    """A write."""

    key: Key
    value: Any
    lease: int = 0


class Delete(NamedTuple):
    """A deletion."""

    key: Key


class Commit(NamedTuple):
    """One revision: what it put and deleted; ``who``: the sender."""

    time: int
    rev: int
    who: str
    puts: tuple[Put, ...]
    deletes: tuple[Key, ...]


class Answer(NamedTuple):
    """Of a transaction; ``found``: the keys that it names, as they were before it."""

    ok: bool
    rev: int
    found: dict[Key, KV]


def absent(key: Key) -> Compare:
    return Compare("create", key, 0)


def mod_is(key: Key, revision: int) -> Compare:
    return Compare("mod", key, revision)


def create_is(key: Key, revision: int) -> Compare:
    return Compare("create", key, revision)


def value_is(key: Key, value: Any) -> Compare:
    return Compare("value", key, value)


def lease_is(key: Key, lease: int) -> Compare:
    return Compare("lease", key, lease)


@dataclass(frozen=True, slots=True)
class Txn:
    """A transaction; identical however often it is sent."""

    who: str
    compares: Sequence[Compare]
    then: Sequence[Put | Delete]
    reads: Sequence[Key] = ()

    def __call__(self, etcd: Etcd) -> Answer:
        return etcd.txn(self)


@dataclass(slots=True)
class Etcd:
    """The store; ``clock`` gives the true time, ``on_commit`` hears of every revision."""

    clock: Callable[[], int]
    on_commit: Callable[[Commit], None]
    ttl: int
    data: dict[Key, KV] = field(default_factory=dict)
    leases: dict[int, int] = field(default_factory=dict)
    rev: int = 1
    up: bool = True

    def get(self, key: Key) -> KV:
        return self.data.get(key, NONE)

    def prefix(self, *start: Any) -> dict[Key, KV]:
        size = len(start)
        return {key: kv for key, kv in self.data.items() if key[:size] == start}

    def txn(self, txn: Txn) -> Answer:
        names: Iterable[Key] = (*(c.key for c in txn.compares), *(o.key for o in txn.then), *txn.reads)
        found = {key: self.get(key) for key in names}
        ok = all(self._holds(compare) for compare in txn.compares)
        ok = ok and all(o.lease in self.leases for o in txn.then if isinstance(o, Put) and o.lease)
        if ok and txn.then:
            self._write(txn.who, txn.then)
        return Answer(ok, self.rev, found)

    def _holds(self, compare: Compare) -> bool:
        kv = self.get(compare.key)
        match compare.field:
            case "create":
                return bool(kv.create == compare.wanted)
            case "mod":
                return bool(kv.mod == compare.wanted)
            case "lease":
                return bool(kv.create) and bool(kv.lease == compare.wanted)
            case "there":
                return bool(kv.create)
            case _:
                return bool(kv.create) and bool(kv.value == compare.wanted)

    def _write(self, who: str, operations: Iterable[Put | Delete]) -> None:
        self.rev += 1
        puts, deletes = [], []
        for operation in operations:
            if isinstance(operation, Put):
                before = self.get(operation.key)
                self.data[operation.key] = KV(operation.value, before.create or self.rev, self.rev, operation.lease)
                puts.append(operation)
            elif self.data.pop(operation.key, None) is not None:
                deletes.append(operation.key)
        self.on_commit(Commit(self.clock(), self.rev, who, tuple(puts), tuple(deletes)))

    # Leases

    def grant(self) -> int:
        self.rev += 1
        self.leases[self.rev] = self.clock() + self.ttl
        return self.rev

    def keep_alive(self, lease: int) -> bool:
        if lease in self.leases:
            self.leases[lease] = self.clock() + self.ttl
        return lease in self.leases

    def revoke(self, lease: int) -> None:
        self.leases.pop(lease, None)
        gone = [Delete(key) for key, kv in self.data.items() if kv.lease == lease]
        if lease and gone:
            self._write("etcd", gone)

    def expire(self) -> None:
        """What is over by now goes; etcd does it about once a second."""
        now = self.clock()
        for lease in [lease for lease, ends in self.leases.items() if ends <= now]:
            self.revoke(lease)

    def elect(self) -> None:
        """A new leader: every lease has its full TTL again."""
        self.leases = dict.fromkeys(self.leases, self.clock() + self.ttl)
