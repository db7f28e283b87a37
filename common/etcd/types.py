"""What etcd answers, as values: key-value pairs, pages, leases, a member's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from common.protocol.txn import KeyRevisions, KeyValue


class Page(Struct, frozen=True, kw_only=True):
    """A part of a prefix as it was at `revision`, the same for all pages of one reading."""

    revision: int
    kvs: tuple[KeyValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease as etcd granted it."""

    id: int
    ttl_s: int
    """What etcd granted, which can be more than was asked for (it raises 1 to 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One member of the cluster, as it describes itself."""

    endpoint: str
    version: str
    db_size_bytes: int
    db_size_in_use_bytes: int
    """What a defragmentation would leave."""
    member: int
    leader: int
    """The member that this one takes for the leader, or 0."""
    revision: int
    alarms: tuple[str, ...]
    """Alarms of the whole cluster, e.g. `NOSPACE`."""


def to_bytes(key: str) -> bytes:
    """The key as etcd stores it; gives back the very bytes that `to_text` was given."""
    return key.encode(errors="surrogateescape")


def to_text(key: bytes) -> str:
    """The key as text; bytes that are not UTF-8 survive as surrogates, so that no key is unreadable."""
    return key.decode(errors="surrogateescape")


def range_end(prefix: bytes) -> bytes:
    """The first key after all those that start with `prefix`; `\\0` (the end of all keys) where there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b"\0"


def range_of(prefix: str) -> tuple[bytes, bytes]:
    """The first and the end of all keys that start with `prefix`, as etcd's requests name a range."""
    stem = to_bytes(prefix)
    return stem or b"\0", range_end(stem)


def key_revisions(kv: Any) -> KeyRevisions:
    """A `KeyRevisions` from etcd's message, with nothing that only some versions send."""
    return KeyRevisions(
        key=to_text(kv.key), create_revision=kv.create_revision, mod_revision=kv.mod_revision, version=kv.version
    )


def key_value(kv: Any) -> KeyValue:
    """A `KeyValue` from etcd's message."""
    return KeyValue(
        key=kv.key.decode(errors="surrogateescape"),
        value=kv.value,
        create_revision=kv.create_revision,
        mod_revision=kv.mod_revision,
        version=kv.version,
        lease=kv.lease,
    )
