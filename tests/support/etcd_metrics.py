"""What an etcd has done since it started, by its own count: mutations and requests."""

from __future__ import annotations

import asyncio
import re
import urllib.request
from dataclasses import dataclass
from typing import Final

from common.etcd import EtcdClient, _rpc
from common.etcd.types import range_of
from common.protocol.keys import Keys
from common.protocol.txn import Put, Txn

_MUTATIONS: Final = re.compile(r"^etcd_mvcc_(?:put|delete)_total (\S+)$", re.MULTILINE)
_RECEIVED: Final = re.compile(r"^grpc_server_msg_received_total\{(?=[^}]*etcdserverpb)[^}]*\} (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EtcdCounts:
    """Counts since the server's start; or, as a difference, between two moments."""

    mutations: int
    """Puts and deletes, each by itself also where many are in one transaction."""
    requests: int
    """Messages from clients: calls, and what they say on streams (watches, keep-alives)."""

    def __sub__(self, before: EtcdCounts) -> EtcdCounts:
        return EtcdCounts(mutations=self.mutations - before.mutations, requests=self.requests - before.requests)


async def etcd_counts(endpoint: str) -> EtcdCounts:
    """The counts of the etcd at `host:port`. Asking for them is not a request that counts."""
    text = await asyncio.to_thread(_metrics, endpoint)
    mutations, received = _MUTATIONS.findall(text), _RECEIVED.findall(text)
    assert len(mutations) == 2, "this etcd counts its puts and deletes under other names"
    assert received, "this etcd counts no requests"
    return EtcdCounts(
        mutations=sum(int(float(count)) for count in mutations), requests=sum(int(float(count)) for count in received)
    )


async def writes_for_no_fire(etcd: EtcdClient) -> int:
    """How often the keys of beats, sessions, clocks, the roster and the elections were written, by their versions."""
    keys, writes = Keys(), 0
    for prefix in (keys.beats, keys.workers, keys.clocks, keys.roster, keys.steward, keys.notifier):
        async for page in etcd.read_prefix(prefix):
            writes += sum(kv.version for kv in page.kvs)
    return writes


async def transactions_since(client: EtcdClient, prefix: str, revision: int) -> int:
    """How many transactions after this revision have changed keys below this prefix.

    What ends by itself meanwhile, as the leases of other tests do, is not among them: etcd's own revision counts it.
    """
    sentinel = f"{prefix}-counted-up-to-here"
    last = (await client.txn(Txn([], [Put(sentinel, b"")]))).revision
    first, end = range_of(prefix)
    create = {"key": first, "range_end": end, "start_revision": revision + 1, "fragment": True}
    stream, changed = await client.watch_stream(), set[int]()
    try:
        await stream.write(_rpc.messages.WatchRequest(create_request=create))
        while last not in changed:
            answer = await stream.read()
            assert not answer.canceled, answer.cancel_reason
            changed.update(event.kv.mod_revision for event in answer.events)
    finally:
        stream.close()
    return len(changed) - 1


def _metrics(endpoint: str) -> str:
    with urllib.request.urlopen(f"http://{endpoint}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
        return text
