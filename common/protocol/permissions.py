"""What managers and workers need of etcd, so that each has a role with nothing more. Pure: no clock, no I/O.

A worker reads the jobs, the drains, the rules of notices and who looks at its runs, and writes none of them; it has no
access to former specs, which managers restore, to channels and silences, nor to what says who may do what
(``<prefix>-auth/``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from common.protocol.access_keys import AccessKeys
from common.protocol.compares import create_revision_is
from common.protocol.keys import Keys
from common.protocol.txn import GetPrefix, Operation, Put, Txn

_NO_REVISION = -1
"""Of no key."""


class May(StrEnum):
    """As etcdctl spells it."""

    READ = "read"
    READ_AND_WRITE = "readwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """What may be done with every key that begins like this."""

    prefix: str
    may: May
    is_needed: bool = True
    """Whether a process does not start without it."""

    @property
    def command(self) -> str:
        """Which gives it to a role; the role's name comes after it."""
        return f"etcdctl role grant-permission {{role}} {self.may} --prefix=true {self.prefix}"


def of_manager(key_prefix: str) -> tuple[Permission, ...]:
    """Everything, the rights of people included."""
    prefixes = (Keys(key_prefix).prefix, AccessKeys(key_prefix).prefix)
    return tuple(Permission(prefix=prefix, may=May.READ_AND_WRITE) for prefix in prefixes)


def of_worker(key_prefix: str) -> tuple[Permission, ...]:
    """What its transactions touch, and the steward's, which any worker may become."""
    keys = Keys(key_prefix)
    written = (
        keys.marks, keys.runs, keys.locks, keys.requests, keys.kills, keys.give_ups, keys.workers, keys.beats,
        keys.roster, keys.dedupe, keys.clocks, keys.steward, keys.seen_prefix,
    )  # fmt: skip
    return (
        *(Permission(prefix=prefix, may=May.READ) for prefix in (keys.jobs, keys.drains)),
        # Without it the worker does not tell what rules alone ask for: so a role of an older version will do.
        Permission(prefix=keys.rules, may=May.READ, is_needed=False),
        # And without this one no user sees what its runs print before they have ended.
        Permission(prefix=keys.tails, may=May.READ, is_needed=False),
        *(Permission(prefix=prefix, may=May.READ_AND_WRITE) for prefix in written),
    )


def probe(*permissions: Permission) -> Txn:
    """Asks for these permissions, and neither reads nor writes: etcd looks at a branch that does not run, too."""
    then: list[Operation] = []
    for one in permissions:
        if one.may is May.READ_AND_WRITE:
            then.append(Put(one.prefix, b""))
        then.append(GetPrefix(one.prefix, limit=1))
    return Txn([create_revision_is(permissions[0].prefix, _NO_REVISION)], then)
