"""etcd for etcron: a client that never hides a doubt, and sessions, mirrors and elections built on it.

It knows nothing of jobs. Its rule: *ownership is a comparison that goes into the owner's own transaction*.

What is guaranteed
    client      A read is linearizable. A write is sent once; its error says whether it was certainly not carried out
                (UnavailableError, EtcdRefusedError) or is in doubt (EtcdInDoubtError): then send it again, identical.
    session     While `session.alive` is true in etcd, the session's key has existed without interruption since
                `session.incarnation`, and no other session has had either.
    mirror      A consumer is given, in the order of revisions, every state of a key that lasted, whatever happens to
                the watch; never an older state after a newer one.
    election    At no revision do two candidates hold the key; `election.leads_compare` is true for one of them at most.
    settle      What may have been done is never reported as not done: a write in doubt is sent again, identical, until
                it is known what became of it, or UnsettledError says that it is not.
    pack        One write that is refused holds up none of those that share its transaction.

What is not
    No clock here proves anything to anybody else. A process that believes in its session or its leadership may be
    wrong for as long as it was frozen, or etcd silent; only the transaction tells. A mirror may lag, and skips the
    states of a key that did not last. After an election inside etcd a dead session may last one TTL longer.

A session's states
                    confirmed: keep-alive answered, key read under its lease (put again if it was detached)
                   +-----------+
                   v           |
    open() --> healthy --------+        a TTL without     +-------------+
                   |  ^---------------------------------- | unconfirmed |  decides nothing; etcd is asked on
                   |        confirmed again               +-------------+
                   |  -----------------------------------------^  |
                   v                                              v
                 ended  <------------------- etcd says: no such lease, no such key, made again by another client
                        <------------------- close()

    Silence alone never ends a session: the lease may still live, and a transaction that is on its way may succeed.

The files
    client.py types.py          the calls, and what etcd answers to them
    session.py election.py mirror.py settle.py pack.py
                                what stands on them: see above
    access.py                   the first questions, which say whether the configuration can work at all
    calls.py endpoints.py       how a call reaches a member, and which member
    auth.py certificates.py     the user's token; the certificates of this side
    failures.py                 what a failed call means
    paging.py txn_messages.py   how a prefix is read in pages; transactions as etcd's messages
    _rpc.py                     the only one that touches the etcd library
"""

from __future__ import annotations

from common.etcd.access import FIRST_USER, ask_for_password, check_access
from common.etcd.auth import EtcdUser
from common.etcd.client import EtcdClient
from common.etcd.election import Election
from common.etcd.mirror import Change, Mirror, MirrorTimings
from common.etcd.session import Session, SessionEnd, SessionRefusedError
from common.etcd.types import Lease, Page, Status

__all__ = [
    "FIRST_USER",
    "Change",
    "Election",
    "EtcdClient",
    "EtcdUser",
    "Lease",
    "Mirror",
    "MirrorTimings",
    "Page",
    "Session",
    "SessionEnd",
    "SessionRefusedError",
    "Status",
    "ask_for_password",
    "check_access",
]
