"""The conditions of transactions, as typed values; etcd evaluates all of one transaction's at one revision.

Only the protocol names them (``make lint`` sees to it): managers and workers have transactions built, and send them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from msgspec import Struct


class Relation(IntEnum):
    """How a compare relates what etcd holds to what is given (etcd's numbers)."""

    EQUAL = 0
    GREATER = 1
    LESS = 2


class Target(IntEnum):
    """What of a key is compared (etcd's numbers)."""

    CREATE_REVISION = 1
    MOD_REVISION = 2
    VALUE = 3
    LEASE = 4


class Compare(Struct, frozen=True, gc=False):
    """One condition of a transaction; made by the functions below. All numbers of a missing key are 0."""

    key: str
    target: Target
    relation: Relation
    operand: int | bytes
    prefix: bool = False
    """Whether the condition is on every key that starts with `key`."""


def mod_revision_is(key: str, revision: int) -> Compare:
    """True when the newest write to the key was at this revision (0: the key does not exist)."""
    return Compare(key, Target.MOD_REVISION, Relation.EQUAL, revision)


def at_revision(key: str, revision: int) -> Compare:
    """True while the key is as it was read at this mod revision; 0: while it does not exist."""
    return mod_revision_is(key, revision) if revision else absent(key)


class _AsRead(Protocol):
    @property
    def mod_revision(self) -> int: ...


def unchanged(key: str, there: _AsRead | None) -> Compare:
    """True while the key is as it was read; None: while it does not exist."""
    return at_revision(key, 0 if there is None else there.mod_revision)


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
