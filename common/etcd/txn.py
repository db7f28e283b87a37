"""Transactions: compares, operations and their result, as typed values; all or nothing, decided by etcd alone.

    result = await client.txn(
        compares=[session.alive, value_is(mark, b"0000000000000001"), absent(run)],
        then=[Put(mark, b"0000000000000002"), Put(run, record)],
        otherwise=[Get(mark)],
    )
    if not result.succeeded:
        print(result.one(0))

etcd evaluates all compares at one revision, then runs one of the two branches; the writes of a branch share one
revision. A value compare on a missing key is false. A put with a dead lease fails the whole transaction, and a put
that does not name the lease of a leased key detaches the key. A caller's transactions do not nest: etcd leaves their
order open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, ClassVar

from msgspec import Struct

from common.etcd import _rpc
from common.etcd.types import KeyRevisions, KeyValue, key_revisions, key_value, range_end, to_bytes

MAX_COMPARES = 128
"""etcd's own limit (`--max-txn-ops`) on the compares of a transaction."""
MAX_OPS = 128
"""etcd's own limit on the operations of a branch."""
MAX_READS = MAX_OPS - 1
"""The most operations of `then` where neither branch writes: see `reading_request`."""


class Relation(IntEnum):
    """How a compare relates what etcd holds to what is given (etcd's numbers)."""

    EQUAL = 0
    GREATER = 1
    LESS = 2
    NOT_EQUAL = 3


class Target(IntEnum):
    """What of a key is compared (etcd's numbers)."""

    VERSION = 0
    CREATE_REVISION = 1
    MOD_REVISION = 2
    VALUE = 3
    LEASE = 4


_FIELD_OF = {
    Target.VERSION: "version",
    Target.CREATE_REVISION: "create_revision",
    Target.MOD_REVISION: "mod_revision",
    Target.LEASE: "lease",
}


class Compare(Struct, frozen=True, gc=False):
    """One condition of a transaction; made by the functions below. All numbers of a missing key are 0."""

    key: str
    target: Target
    relation: Relation
    operand: int | bytes
    prefix: bool = False
    """Whether the condition is on every key that starts with `key`."""

    def add_to(self, compares: Any) -> None:
        key = to_bytes(self.key)
        operand = self.operand
        message = compares.add(result=self.relation, target=self.target, key=key)
        match self.target:
            case Target.MOD_REVISION:
                message.mod_revision = operand
            case Target.CREATE_REVISION:
                message.create_revision = operand
            case Target.VALUE:
                message.value = operand
            case target:
                setattr(message, _FIELD_OF[target], operand)
        if self.prefix:
            message.key, message.range_end = key or b"\0", range_end(key)


def mod_revision_is(key: str, revision: int) -> Compare:
    """True when the newest write to the key was at this revision (0: the key does not exist)."""
    return Compare(key, Target.MOD_REVISION, Relation.EQUAL, revision)


def mod_revision_below(key: str, revision: int) -> Compare:
    """True when the newest write to the key was before this revision, or the key does not exist."""
    return Compare(key, Target.MOD_REVISION, Relation.LESS, revision)


def create_revision_is(key: str, revision: int) -> Compare:
    """True when the key was made at this revision (0: it does not exist)."""
    return Compare(key, Target.CREATE_REVISION, Relation.EQUAL, revision)


def value_is(key: str, value: bytes) -> Compare:
    """True when the key exists and has exactly this value."""
    return Compare(key, Target.VALUE, Relation.EQUAL, value)


def lease_is(key: str, lease: int) -> Compare:
    """True when the key exists and is attached to this lease (a missing or a detached key has lease 0)."""
    return Compare(key, Target.LEASE, Relation.EQUAL, lease)


def absent(key: str) -> Compare:
    """True when the key does not exist."""
    return Compare(key, Target.CREATE_REVISION, Relation.EQUAL, 0)


def present(key: str) -> Compare:
    """True when the key exists."""
    return Compare(key, Target.CREATE_REVISION, Relation.GREATER, 0)


def none_under(prefix: str) -> Compare:
    """True when no key starts with the prefix."""
    return Compare(prefix, Target.CREATE_REVISION, Relation.EQUAL, 0, prefix=True)


def none_under_since(prefix: str, revision: int) -> Compare:
    """True when no key that starts with the prefix was written after this revision."""
    return Compare(prefix, Target.MOD_REVISION, Relation.LESS, revision + 1, prefix=True)


class Put(Struct, frozen=True, gc=False):
    """Writes the key; attached to `lease`, or detached from any where it is 0. Its result is None."""

    key: str
    value: bytes
    lease: int = 0
    writes: ClassVar[bool] = True

    def add_to(self, operations: Any) -> None:
        put = operations.add().request_put
        put.key = to_bytes(self.key)
        put.value = self.value
        if self.lease:
            put.lease = self.lease

    def result_of(self, response: Any) -> None:
        return None


class Delete(Struct, frozen=True, gc=False):
    """Deletes the key if it exists. Its result is the number of keys deleted, 0 or 1."""

    key: str
    writes: ClassVar[bool] = True

    def add_to(self, operations: Any) -> None:
        operations.add().request_delete_range.key = to_bytes(self.key)

    def result_of(self, response: Any) -> int:
        return int(response.response_delete_range.deleted)


class DeletePrefix(Struct, frozen=True):
    """Deletes every key that starts with the prefix. Its result is their number."""

    prefix: str
    writes: ClassVar[bool] = True

    def add_to(self, operations: Any) -> None:
        prefix = to_bytes(self.prefix)
        operations.add(request_delete_range={"key": prefix or b"\0", "range_end": range_end(prefix)})

    def result_of(self, response: Any) -> int:
        return int(response.response_delete_range.deleted)


class Get(Struct, frozen=True, gc=False):
    """Reads the key. Its result is a tuple of one `KeyValue`, or of none."""

    key: str
    writes: ClassVar[bool] = False

    def request(self) -> Any:
        """etcd's message for this read alone."""
        return _rpc.messages.RangeRequest(key=to_bytes(self.key))

    def add_to(self, operations: Any) -> None:
        operations.add().request_range.key = to_bytes(self.key)

    def found(self, answer: Any) -> tuple[KeyValue, ...]:
        """The result, from etcd's answer to this read alone."""
        return tuple(map(key_value, answer.kvs))

    def result_of(self, response: Any) -> tuple[KeyValue, ...]:
        return self.found(response.response_range)


class KeyRead(Struct, frozen=True, gc=False):
    """What a `GetKey` has found. It is no tuple of `KeyValue`, so that nobody takes a value or a lease out of it."""

    key: KeyRevisions | None


class GetKey(Struct, frozen=True, gc=False):
    """Reads whether the key exists, and its revisions; neither its value nor its lease. Its result is a `KeyRead`."""

    key: str
    writes: ClassVar[bool] = False

    def request(self) -> Any:
        """etcd's message for this read alone."""
        return _rpc.messages.RangeRequest(key=to_bytes(self.key), keys_only=True)

    def add_to(self, operations: Any) -> None:
        read = operations.add().request_range
        read.key = to_bytes(self.key)
        read.keys_only = True

    def found(self, answer: Any) -> KeyRead:
        """The result, from etcd's answer to this read alone."""
        return KeyRead(key_revisions(answer.kvs[0]) if answer.kvs else None)

    def result_of(self, response: Any) -> KeyRead:
        return self.found(response.response_range)


class GetPrefix(Struct, frozen=True):
    """Reads the first `limit` keys that start with the prefix, in order. Its result is a tuple of `KeyValue`."""

    prefix: str
    limit: int = 1_000
    writes: ClassVar[bool] = False

    def request(self) -> Any:
        """etcd's message for this read alone."""
        prefix = to_bytes(self.prefix)
        return _rpc.messages.RangeRequest(key=prefix or b"\0", range_end=range_end(prefix), limit=self.limit)

    def add_to(self, operations: Any) -> None:
        operations.add(request_range=self.request())

    def found(self, answer: Any) -> tuple[KeyValue, ...]:
        """The result, from etcd's answer to this read alone."""
        return tuple(map(key_value, answer.kvs))

    def result_of(self, response: Any) -> tuple[KeyValue, ...]:
        return self.found(response.response_range)


Read = Get | GetKey | GetPrefix
Operation = Put | Delete | DeletePrefix | Read
Result = tuple[KeyValue, ...] | KeyRead | int | None


class TxnResult(Struct, frozen=True, kw_only=True):
    """Which branch ran, at which revision, and what each of its operations gave, in their order."""

    succeeded: bool
    revision: int
    """etcd's revision after the transaction; that of its writes, where it wrote."""
    results: tuple[Result, ...]

    def kvs(self, index: int) -> tuple[KeyValue, ...]:
        """What the read at this place of the branch that ran has found."""
        found = self.results[index]
        if not isinstance(found, tuple):
            raise TypeError(f"operation {index} of this branch is not a read of values: it gave {found!r}")
        return found

    def one(self, index: int) -> KeyValue | None:
        """The first key that the read at this place has found, or None."""
        found = self.kvs(index)
        return found[0] if found else None

    def key(self, index: int) -> KeyRevisions | None:
        """What the `GetKey` at this place has found, or None."""
        found = self.results[index]
        if not isinstance(found, KeyRead):
            raise TypeError(f"operation {index} of this branch is not a read of a key alone: it gave {found!r}")
        return found.key

    def deleted(self, index: int) -> int:
        """How many keys the delete at this place has deleted."""
        count = self.results[index]
        if not isinstance(count, int):
            raise TypeError(f"operation {index} of this branch is not a delete: it gave {count!r}")
        return count


def txn_request(compares: Iterable[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]) -> Any:
    """etcd's message for a transaction. ValueError where etcd would refuse it whatever it holds."""
    _refuse_impossible(then)
    _refuse_impossible(otherwise)
    request = _rpc.messages.TxnRequest()
    messages = request.compare
    for compare in compares:
        compare.add_to(messages)
    if len(messages) > MAX_COMPARES:
        raise ValueError(f"{len(messages)} compares in one transaction; etcd takes {MAX_COMPARES}")
    for operations, branch in ((request.success, then), (request.failure, otherwise)):
        for operation in branch:
            operation.add_to(operations)
    return request


def reading_request(compares: Iterable[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]) -> Any:
    """etcd's message for a transaction that reads only, with an empty transaction inside.

    One of reads alone is carried out in the call's own context, and etcd before 3.5.5 dies ("panic: unexpected error
    during txn", its issue 14110) where the caller goes away in the middle of it: a worker that is killed could take the
    member with it. 3.5.5 and 3.5.6 die of another fault there (issue 14891). One with anything else in it goes through
    the log, where nobody cancels it. The empty one does nothing, needs no permission and makes no revision.
    """
    if len(then) > MAX_READS:
        raise ValueError(f"{len(then)} operations in a transaction that reads only; it takes {MAX_READS}")
    request = txn_request(compares, then, otherwise)
    if then or otherwise:
        request.success.add().request_txn.SetInParent()
    return request


def only_read(compares: Sequence[Compare], then: Sequence[Operation], otherwise: Sequence[Operation]) -> Read | None:
    """The read that is all of the transaction, where it is no more than that."""
    if compares or otherwise or len(then) != 1 or not isinstance(then[0], Read):
        return None
    return then[0]


def txn_result(response: Any, then: Sequence[Operation], otherwise: Sequence[Operation]) -> TxnResult:
    """The result of a transaction, from etcd's answer."""
    branch = then if response.succeeded else otherwise
    answers = response.responses[: len(branch)]  # one more where `reading_request` added one
    return TxnResult(
        succeeded=response.succeeded,
        revision=response.header.revision,
        results=tuple(operation.result_of(answer) for operation, answer in zip(branch, answers, strict=True)),
    )


def _refuse_impossible(branch: Sequence[Operation]) -> None:
    if len(branch) > MAX_OPS:
        raise ValueError(f"{len(branch)} operations in one branch of a transaction; etcd takes {MAX_OPS}")
    put = [operation.key for operation in branch if isinstance(operation, Put)]
    keys = set(put)
    if len(keys) != len(put):
        twice = sorted({key for key in put if put.count(key) > 1})
        raise ValueError(f"a transaction puts {', '.join(twice)} twice; etcd refuses that")
    if not 0 < len(put) < len(branch):
        return  # so it is with nearly all
    for operation in branch:
        if isinstance(operation, Delete) and operation.key in keys:
            raise ValueError(f"a transaction puts and deletes {operation.key}; etcd refuses that")
        if isinstance(operation, DeletePrefix) and any(key.startswith(operation.prefix) for key in keys):
            raise ValueError(f"a transaction puts and deletes under {operation.prefix}; etcd refuses that")
