"""The head of each manager's audit chain, kept in etcd: what the entries in the log store are compared with.

A chain has one writer. A head is put in place of the one that its manager has read, so that two managers that go on
with the same chain (a copied machine) notice each other: one of them begins a chain of its own.
"""

from __future__ import annotations

from common.access.audit_chain import Head
from common.protocol.access_keys import AccessKeys
from common.protocol.compares import at_revision
from common.protocol.txn import Put, Txn


def put(keys: AccessKeys, head: Head, *, revision: int) -> Txn:
    """In place of the one at this revision; 0: there is none. Refused: read it again."""
    key = keys.audit_head(head.chain)
    return Txn([at_revision(key, revision)], [Put(key, head.to_json())])
