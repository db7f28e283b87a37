"""What a read of keys alone tells: 3.7 answers it from its index, without the lease, which 3.4 to 3.6 still send."""

from __future__ import annotations

import pytest

from common.etcd import EtcdClient
from common.etcd._rpc import Channel, messages
from common.protocol.compares import absent
from common.protocol.txn import Get, GetKey, KeyRevisions, Put, Txn
from tests.support.deciding import MINUTE, NOON, planning
from tests.support.etcd_server import EtcdServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd


async def test_a_key_read_alone_has_its_revisions_and_on_some_versions_its_lease(
    client: EtcdClient, shared_etcd: EtcdServer, prefix: str
) -> None:
    lease = await client.lease_grant(60)
    await client.put(prefix + "a", b"one")
    await client.put(prefix + "a", b"two", lease.id)
    whole = await client.get(prefix + "a")
    assert whole is not None
    request = messages.RangeRequest(key=(prefix + "a").encode(), keys_only=True)
    transaction = messages.TxnRequest()
    transaction.success.add().request_range.CopyFrom(request)
    channel = Channel(shared_etcd.endpoint)
    alone = (await channel.range(request)).kvs[0]
    inside = (await channel.txn(transaction)).responses[0].response_range.kvs[0]
    await channel.close()
    version = tuple(map(int, (await client.status()).version.split(".")))
    for kv in (alone, inside):
        assert (kv.create_revision, kv.mod_revision, kv.version) == (whole.create_revision, whole.mod_revision, 2)
        assert kv.value == b""
        assert kv.lease == (lease.id if version < (3, 7) else 0)


async def test_what_is_taken_from_it_is_the_same_on_every_version(client: EtcdClient, prefix: str) -> None:
    lease = await client.lease_grant(60)
    key = prefix + "a"
    made = await client.put(key, b"one")
    changed = await client.put(key, b"two", lease.id)
    expected = KeyRevisions(key=key, create_revision=made, mod_revision=changed, version=2)
    alone = await client.txn(Txn([], [GetKey(key)]))
    inside = await client.txn(Txn([absent(key)], [Put(key, b"three")], [Get(key), GetKey(key), GetKey(prefix + "b")]))
    assert alone.key(0) == inside.key(1) == expected
    assert await client.get_keys([key, prefix + "b"]) == {key: expected}
    assert inside.key(2) is None


async def test_a_claim_that_one_lock_refuses_is_carried_out_without_it(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=20) as world:
        names = [f"job-{number}" for number in range(12)]
        for name in names:
            await world.save(name, cronExpr="0 * * * * * *")
        await world.lock(name=names[0])
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) == 11, description="all others are claimed")
