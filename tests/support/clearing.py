"""Deletes what is under a prefix: the product never does."""

from __future__ import annotations

from common.etcd import EtcdClient


async def delete_prefix(client: EtcdClient, prefix: str) -> None:
    """Deletes every key that starts with the prefix, one after another."""
    async for page in client.read_prefix(prefix):
        for kv in page.kvs:
            await client.delete(kv.key)
