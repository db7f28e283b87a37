"""The session: what its owner may rely on while leases, keys, servers and connections come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from common.clock import SystemClock
from common.errors import UnavailableError
from common.etcd import EtcdClient, Session, SessionEnd, SessionRefusedError
from common.protocol.compares import Compare, mod_revision_is, none_under
from common.protocol.txn import Delete, Operation, Put, Txn
from tests.support.background import running
from tests.support.etcd_server import EtcdServer
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd

TTL = 6
"""Short enough to wait for a third of it, and longer than a busy machine keeps anybody waiting."""


async def opened(
    client: EtcdClient,
    prefix: str,
    *,
    ttl: int = TTL,
    compares: list[Compare] | None = None,
    operations: list[Operation] | None = None,
) -> Session:
    """A session of the worker `w`."""
    return await Session.open(
        client,
        key_of=lambda lease: f"{prefix}w/{lease}",
        value=b"hello",
        ttl=ttl,
        clock=SystemClock(),
        compares=compares or [],
        operations=operations or [],
    )


async def holds(client: EtcdClient, session: Session) -> bool:
    """Whether etcd takes the session's word."""
    return (await client.txn(Txn([session.alive], []))).succeeded


def confirmed_again(session: Session) -> Callable[[], bool]:
    """Whether a keep-alive that was sent after this call has been confirmed."""
    before = session.confirmed_boottime
    return lambda: session.confirmed_boottime > before


async def test_its_key_is_there_under_its_lease_and_named_after_it(client: EtcdClient, prefix: str) -> None:
    before = SystemClock().boottime()
    session = await opened(client, prefix, ttl=30)
    kv = await client.get(session.key)
    assert kv is not None
    assert session.key == f"{prefix}w/{session.id}"
    assert int(session.id, 16) == session.lease_id == kv.lease
    assert (kv.value, kv.create_revision) == (b"hello", session.incarnation)
    assert before <= session.confirmed_boottime <= SystemClock().boottime()
    assert await holds(client, session)
    assert session.healthy
    await session.close()


async def test_it_outlives_its_ttl_while_it_is_run(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    async with running(session.run()):
        first = session.confirmed_boottime
        await wait_until(
            lambda: session.confirmed_boottime > first + 1.5 * session.ttl_s,
            description="confirmed long after the first TTL was over",
        )
        assert await holds(client, session)
        assert session.healthy
        await session.close()


async def test_it_is_confirmed_at_once_where_that_is_asked_for(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix, ttl=300)
    async with running(session.run()):
        for _ in range(3):
            before = session.confirmed_boottime
            session.confirm_soon()
            await wait_until(lambda: session.confirmed_boottime > before, description="confirmed long before its time")  # noqa: B023
        await session.close()


async def test_closing_takes_the_key_away_at_once_and_ends_the_run(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix, ttl=30)
    async with asyncio.timeout(60), running(session.run()) as [run]:
        await session.close()
        await run
    assert session.how_ended is SessionEnd.CLOSED
    assert not session.healthy
    assert await client.get(session.key) is None


async def test_a_lease_revoked_from_outside_ends_it(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    async with asyncio.timeout(60), running(session.run()) as [run]:
        await client.lease_revoke(session.lease_id)
        assert not await holds(client, session)
        await session.ended.wait()
        await run
    assert session.how_ended in (SessionEnd.LEASE_GONE, SessionEnd.KEY_GONE)


async def test_a_deleted_key_ends_it_though_the_lease_lives(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    async with asyncio.timeout(60), running(session.run()):
        await client.delete(session.key)
        await session.ended.wait()
    assert session.how_ended is SessionEnd.KEY_GONE


async def test_a_key_that_somebody_made_again_ends_it(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    await client.delete(session.key)
    await client.put(session.key, b"impostor", session.lease_id)
    async with asyncio.timeout(60), running(session.run()):
        await session.ended.wait()
    assert session.how_ended is SessionEnd.KEY_TAKEN


async def test_a_detached_key_is_put_again_and_the_session_goes_on(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    await client.put(session.key, b"detached")
    assert not await holds(client, session)
    async with running(session.run()):
        await wait_until(lambda: holds(client, session), description="the key is under its lease again")
        kv = await client.get(session.key)
        assert kv is not None
        assert (kv.value, kv.create_revision) == (b"hello", session.incarnation)
        await wait_until(confirmed_again(session), description="it is confirmed again")
        assert not session.ended.is_set()
        await session.close()


async def test_a_detached_key_is_not_confirmed(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix)
    before = session.confirmed_boottime
    await client.put(session.key, b"detached")
    await client.lease_revoke(session.lease_id)
    async with asyncio.timeout(60), running(session.run()):
        await session.ended.wait()
    assert session.how_ended is SessionEnd.LEASE_GONE
    assert session.confirmed_boottime == before


async def test_a_new_value_stays_under_the_lease(client: EtcdClient, prefix: str) -> None:
    session = await opened(client, prefix, ttl=30)
    assert await session.update_value(b"changed")
    kv = await client.get(session.key)
    assert kv is not None
    assert (kv.value, kv.lease, kv.create_revision) == (b"changed", session.lease_id, session.incarnation)
    await session.close()
    assert not await session.update_value(b"too late")
    assert await client.get(session.key) is None


async def test_the_guard_that_fails_is_told_and_nothing_is_left(client: EtcdClient, prefix: str) -> None:
    first = await opened(client, prefix, ttl=30)
    with pytest.raises(SessionRefusedError, match=first.key) as refused:
        await opened(client, prefix, compares=[none_under(prefix + "w/")], operations=[Put(prefix + "x", b"")])
    assert [(kv.key, kv.value) for kv in refused.value.found] == [(first.key, b"hello")]
    assert await client.count(prefix) == 1
    await first.close()


async def test_a_new_session_replaces_the_old_key_in_the_same_transaction(client: EtcdClient, prefix: str) -> None:
    old = await opened(client, prefix, ttl=30)
    new = await opened(
        client,
        prefix,
        ttl=30,
        compares=[mod_revision_is(old.key, old.incarnation)],
        operations=[Delete(old.key)],
    )
    assert new.incarnation > old.incarnation
    assert await client.get(old.key) is None
    assert not await holds(client, old)
    assert await holds(client, new)
    await new.close()


async def test_it_survives_a_restart_of_the_server(own_etcd: EtcdServer, own_client: EtcdClient) -> None:
    session = await opened(own_client, "/s/", ttl=5)
    async with running(session.run()):
        await own_etcd.restart()
        await wait_until(confirmed_again(session), description="it is confirmed by the new server")
        assert session.healthy
        assert await holds(own_client, session)
        await session.close()


async def test_silence_makes_it_unhealthy_but_only_etcd_ends_it(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    async with (
        Proxy(shared_etcd.endpoint) as proxy,
        EtcdClient([proxy.endpoint], timeout=1, clock=SystemClock()) as behind,
    ):
        session = await opened(behind, prefix, ttl=1)
        async with running(session.run()):
            proxy.set(Mode.SWALLOW)
            await wait_until(lambda: not session.healthy, description="a TTL has passed in silence")
            await wait_until(lambda: gone(client, session), description="the lease has expired in etcd")
            assert not session.ended.is_set()  # nobody has said so
            proxy.set(Mode.PASS)
            await wait_until(session.ended.is_set, description="etcd has said that it is over")
        assert session.how_ended in (SessionEnd.LEASE_GONE, SessionEnd.KEY_GONE)


async def gone(client: EtcdClient, session: Session) -> bool:
    return await client.get(session.key) is None


async def test_a_short_silence_costs_nothing(shared_etcd: EtcdServer, prefix: str) -> None:
    async with (
        Proxy(shared_etcd.endpoint) as proxy,
        EtcdClient([proxy.endpoint], timeout=1, clock=SystemClock()) as behind,
    ):
        session = await opened(behind, prefix, ttl=10)
        async with running(session.run()):
            proxy.set(Mode.RESET)
            await wait_until(lambda: unreachable(behind), description="the connection is gone")
            proxy.set(Mode.PASS)
            await wait_until(confirmed_again(session), description="it is confirmed again")
            assert session.healthy
            await session.close()


async def test_its_lease_lives_on_while_etcd_does_not_show_its_key(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    async with EtcdClient([shared_etcd.endpoint], timeout=60, clock=SystemClock()) as patient:
        session = await opened(patient, prefix)
        get, may_read = patient.get, asyncio.Event()

        async def get_late(key: str, *, within_s: float = patient.timeout_s) -> object:
            try:
                async with asyncio.timeout(within_s):
                    await may_read.wait()
            except TimeoutError:
                raise UnavailableError("its members hang") from None
            return await get(key)

        patient.get = get_late  # type: ignore[assignment,method-assign]
        async with running(session.run()):
            long_s = 1.5 * session.ttl_s
            await wait_until(lambda: session.silent_s > long_s, description="longer than a TTL is not confirmed")
            assert not session.healthy
            assert await holds(client, session)
            may_read.set()
            await wait_until(lambda: session.healthy, description="it is confirmed again")
            await session.close()


async def test_it_is_confirmed_while_a_new_value_is_on_its_way(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    async with EtcdClient([shared_etcd.endpoint], timeout=60, clock=SystemClock()) as patient:
        session = await opened(patient, prefix)
        txn, may_write = patient.txn, asyncio.Event()

        async def txn_late(transaction: Txn) -> object:
            await may_write.wait()
            return await txn(transaction)

        patient.txn = txn_late  # type: ignore[assignment,method-assign]
        async with running(session.run(), session.update_value(b"changed")) as [_, update]:
            await wait_until(confirmed_again(session), description="it is confirmed")
            await wait_until(confirmed_again(session), description="and once more")
            may_write.set()
            assert await update
            await session.close()


async def unreachable(client: EtcdClient) -> bool:
    try:
        await client.get("a")
    except UnavailableError:
        return True
    return False


async def test_an_opening_in_doubt_is_settled(shared_etcd: EtcdServer, client: EtcdClient, prefix: str) -> None:
    async with (
        Proxy(shared_etcd.endpoint) as proxy,
        EtcdClient([proxy.endpoint], timeout=2, clock=SystemClock()) as behind,
    ):
        granting = behind.lease_grant

        async def grant_then_cut(ttl_s: int, *, lease_id: int = 0) -> object:
            lease = await granting(ttl_s, lease_id=lease_id)
            proxy.set(Mode.CUT_REPLY)
            return lease

        behind.lease_grant = grant_then_cut  # type: ignore[assignment,method-assign]
        session = await opened(behind, prefix, ttl=10, operations=[Put(prefix + "once", b"")])
        assert proxy.cuts == 1
        assert await holds(client, session)
        kv = await client.get(session.key)
        once = await client.get(prefix + "once")
        assert kv is not None
        assert once is not None
        assert kv.create_revision == session.incarnation
        assert (kv.version, once.version) == (1, 1)
