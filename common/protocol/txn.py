"""Transactions: compares, operations and their result, as typed values; all or nothing, decided by etcd alone.

    txn = Txn(
        compares=[session.alive, value_is(mark, b"0000000000000001"), absent(run)],
        then=[Put(mark, b"0000000000000002"), Put(run, record)],
        otherwise=[Get(mark)],
    )
    result = await client.txn(txn)
    if not result.succeeded:
        print(result.one(0))

etcd evaluates all compares at one revision, then runs one of the two branches; the writes of a branch share one
revision. A value compare on a missing key is false. A put with a dead lease fails the whole transaction, and a put
that does not name the lease of a leased key detaches the key. A caller's transactions do not nest: etcd leaves their
order open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from common.protocol.compares import Compare

MAX_COMPARES = 128
"""etcd's own limit (`--max-txn-ops`) on the compares of a transaction."""
MAX_OPS = 128
"""etcd's own limit on the operations of a branch."""
MAX_READS = MAX_OPS - 1
"""The most operations of `then` where neither branch writes: one place is etcron's own."""
MAX_BYTES: Final = 1_000_000
"""Of the values that a transaction of several shares puts, well within etcd's 1.5 MiB for a request."""


class KeyRevisions(Struct, frozen=True, kw_only=True, gc=False):
    """What etcd tells of a key without its value, whatever its version: 3.7 answers such a read from its index, which
    does not know the lease."""

    key: str
    create_revision: int
    """The revision of the write that made the key; it changes when a key is deleted and made again."""
    mod_revision: int
    """The revision of the newest write to the key."""
    version: int
    """How often the key was written since it was made, from 1."""


class KeyValue(KeyRevisions, frozen=True, kw_only=True, gc=False):
    """A key as etcd held it at some revision."""

    value: bytes
    lease: int
    """The lease that it is attached to, or 0."""


Guards: TypeAlias = Sequence[Compare]
"""Who may write: what a session, or a term of office, puts into each of its transactions."""


class Owner(Protocol):
    """A session: it holds a lease and a key under it."""

    key: str
    lease_id: int
    id: str
    """The lease's id in hex, as in the key's name."""

    @property
    def alive(self) -> Compare:
        """True in etcd exactly while the session lasts; belongs into every transaction of its owner."""


OwnerT = TypeVar("OwnerT", bound=Owner)


class Put(Struct, frozen=True, gc=False):
    """Writes the key; attached to `lease`, or detached from any where it is 0. Its result is None."""

    key: str
    value: bytes
    lease: int = 0
    writes: ClassVar[bool] = True


class Delete(Struct, frozen=True, gc=False):
    """Deletes the key if it exists. Its result is the number of keys deleted, 0 or 1."""

    key: str
    writes: ClassVar[bool] = True


class Get(Struct, frozen=True, gc=False):
    """Reads the key. Its result is a tuple of one `KeyValue`, or of none."""

    key: str
    writes: ClassVar[bool] = False


class KeyRead(Struct, frozen=True, gc=False):
    """What a `GetKey` has found. It is no tuple of `KeyValue`, so that no reader takes a value or a lease out of it."""

    key: KeyRevisions | None


class GetKey(Struct, frozen=True, gc=False):
    """Reads whether the key exists, and its revisions; neither its value nor its lease. Its result is a `KeyRead`."""

    key: str
    writes: ClassVar[bool] = False


class GetPrefix(Struct, frozen=True):
    """Reads the first `limit` keys that start with the prefix, in order. Its result is a tuple of `KeyValue`."""

    prefix: str
    limit: int = 1_000
    writes: ClassVar[bool] = False


Read = Get | GetKey | GetPrefix
Operation = Put | Delete | Read
Result = tuple[KeyValue, ...] | KeyRead | int | None


class Txn(Struct, frozen=True):
    """`then` where every compare is true, else `otherwise`: one of them, whole, at one revision."""

    compares: Sequence[Compare]
    then: Sequence[Operation]
    otherwise: Sequence[Operation] = ()

    @property
    def writes(self) -> bool:
        """Whether one of its branches may change something."""
        return any(operation.writes for branch in (self.then, self.otherwise) for operation in branch)

    def has_put(self, kv: KeyValue | None) -> bool:
        """Whether the key is as this transaction would have put it."""
        return kv is not None and Put(kv.key, kv.value, kv.lease) in self.then


class Fate(Enum):
    """What a refusal tells of an earlier sending of the same transaction, of which no answer came."""

    NEVER = auto()
    """It was not carried out, and never will be: what it compares does not come back."""
    OPEN = auto()
    """It was not carried out so far, and still may be."""
    UNKNOWN = auto()
    """It cannot be known any more: what it would have put may have been put, and changed or deleted since."""


Earlier: TypeAlias = int | Fate
"""What became of an earlier sending; a number: it was carried out, at this revision (0: that is not known)."""


class HasShare(Protocol):
    """What needs a share of a transaction."""

    @property
    def compares(self) -> Sequence[Compare]: ...
    @property
    def then(self) -> Sequence[Operation]: ...
    @property
    def otherwise(self) -> Sequence[Operation]: ...


class Share(Struct, frozen=True):
    """What a chain adds to the edit of its job, and a session's name to the beginning of the session."""

    compares: Sequence[Compare]
    then: Sequence[Operation]


_ItemT = TypeVar("_ItemT")


def packed(
    items: Iterable[_ItemT], share_of: Callable[[_ItemT], HasShare], *, most: int, beside: int = 0
) -> Iterator[list[_ItemT]]:
    """The items in their order, in as few transactions as etcd's limits allow, at most so many in each.

    One that is too large even alone goes alone. ``beside``: the compares, and the operations of each branch, that every
    transaction has of its own.
    """
    batch: list[_ItemT] = []
    compares = then = otherwise = beside
    size = 0
    for item in items:
        share = share_of(item)
        own = sum(len(operation.value) for operation in share.then if isinstance(operation, Put))
        compares, then, size = compares + len(share.compares), then + len(share.then), size + own
        otherwise += len(share.otherwise)
        fits = compares <= MAX_COMPARES and max(then, otherwise) <= MAX_OPS and size <= MAX_BYTES
        if batch and not (fits and len(batch) < most):
            yield batch
            batch, compares, then, size = [], beside + len(share.compares), beside + len(share.then), own
            otherwise = beside + len(share.otherwise)
        batch.append(item)
    if batch:
        yield batch


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
