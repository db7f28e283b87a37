"""What a caller learns when a server is gone, frozen, restarted, or its answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.errors import EtcdFullError, EtcdInDoubtError, UnavailableError
from common.etcd import EtcdClient, _rpc
from common.protocol.compares import absent
from common.protocol.txn import GetPrefix, Put, Txn
from tests.support.etcd_server import EtcdServer, cluster, fill, free_port
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.etcd

PINGS = ("grpc.keepalive_time_ms", "grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms")


async def works(client: EtcdClient) -> bool:
    """Whether a read is answered."""
    try:
        await client.get("works")
    except UnavailableError:
        return False
    return True


async def test_without_any_server_the_error_names_where_it_looked() -> None:
    endpoints = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    async with EtcdClient(endpoints, clock=SystemClock()) as client:
        with pytest.raises(UnavailableError, match="refused") as read:
            await client.get("a")
        with pytest.raises(UnavailableError, match="refused") as written:
            await client.put("a", b"")
    assert all(endpoint in str(caught.value) for endpoint in endpoints for caught in (read, written))


async def test_calls_go_on_after_a_restart(own_etcd: EtcdServer, own_client: EtcdClient) -> None:
    await own_client.put("a", b"one")
    await own_etcd.kill()
    with pytest.raises(UnavailableError):
        await own_client.get("a")
    await own_etcd.start()
    await wait_until(lambda: works(own_client), description="the client has found etcd again")
    kv = await own_client.get("a")
    assert kv is not None
    assert kv.value == b"one"


async def test_a_frozen_server_is_given_up_at_the_deadline(own_etcd: EtcdServer) -> None:
    async with EtcdClient([own_etcd.endpoint], timeout=0.5, clock=SystemClock()) as client:
        await wait_until(lambda: works(client), description="it is connected")
        await own_etcd.pause()
        async with asyncio.timeout(60):
            with pytest.raises(UnavailableError, match="DEADLINE_EXCEEDED"):
                await client.get("a")
            with pytest.raises(EtcdInDoubtError, match=own_etcd.endpoint):
                await client.put("a", b"two")
        own_etcd.resume()
        await wait_until(lambda: works(client), description="the thawed server is used again")


async def test_a_read_whose_caller_has_less_time_is_given_up_sooner(shared_etcd: EtcdServer) -> None:
    async with (
        Proxy(shared_etcd.endpoint) as proxy,
        EtcdClient([proxy.endpoint], timeout=3600, clock=SystemClock()) as patient,
    ):
        await patient.get("a")
        proxy.set(Mode.SWALLOW)
        async with asyncio.timeout(60):
            with pytest.raises(UnavailableError, match="DEADLINE_EXCEEDED"):
                await patient.get("a", within_s=0.2)


async def test_readers_that_go_away_do_not_take_etcd_with_them(own_etcd: EtcdServer, own_client: EtcdClient) -> None:
    """etcd before 3.5.5 panics when the caller of a transaction without a write goes away while it is carried out."""
    for start in range(0, 2_000, 100):
        await own_client.txn(Txn([], [Put(f"/k/{number:05}", b"x" * 100) for number in range(start, start + 100)]))
    for chance in range(20):
        reads = [GetPrefix("/k/", limit=1_000) for _ in range(20)]
        tasks = [asyncio.create_task(own_client.txn(Txn([], reads))) for _ in range(4)]
        await asyncio.wait(tasks, timeout=chance / 400)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not own_etcd.has_ended, own_etcd.log.read_text()[:300]
    assert await works(own_client)


async def test_a_write_whose_answer_is_lost_is_in_doubt_and_not_sent_again(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    async with Proxy(shared_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        await behind.get(prefix)
        proxy.set(Mode.CUT_REPLY)
        with pytest.raises(EtcdInDoubtError, match=proxy.endpoint):
            await behind.txn(Txn([absent(prefix + "a")], [Put(prefix + "a", b"")]))
        assert proxy.cuts == 1

        # It was carried out, once; the identical transaction settles it.
        await wait_until(lambda: works(behind), description="the connection is back")
        settled = await behind.txn(Txn([absent(prefix + "a")], [Put(prefix + "a", b"")]))
        assert not settled.succeeded
        kv = await client.get(prefix + "a")
        assert kv is not None
        assert kv.version == 1

        proxy.set(Mode.CUT_REPLY)
        with pytest.raises(EtcdInDoubtError):
            await behind.put(prefix + "a", b"again")
        kv = await client.get(prefix + "a")
        assert kv is not None
        assert kv.version == 2


async def test_an_answer_that_is_cut_is_that_to_a_call_that_begins_then(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    """Of the proxy: where another answer was cut, nothing would have been carried out."""
    async with Proxy(shared_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        await behind.get(prefix)
        proxy.set(Mode.ONE_WAY)
        before = proxy.newest_call
        reading = asyncio.create_task(behind.get(prefix))
        await wait_until(lambda: proxy.newest_call > before, description="the call has begun")
        proxy.set(Mode.CUT_REPLY)
        assert await reading is None
        assert proxy.cuts == 0
        with pytest.raises(EtcdInDoubtError):
            await behind.put(prefix + "a", b"")
        assert proxy.cuts == 1
        assert await client.get(prefix + "a") is not None


async def test_a_write_whose_answer_never_comes_is_in_doubt(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    async with (
        Proxy(shared_etcd.endpoint) as proxy,
        EtcdClient([proxy.endpoint], timeout=0.5, clock=SystemClock()) as behind,
    ):
        await behind.get(prefix)
        proxy.set(Mode.ONE_WAY)

        async def has_reached_etcd() -> bool:  # on a busy machine not each does within its half a second
            with pytest.raises(EtcdInDoubtError):
                await behind.put(prefix + "a", b"")
            return await client.get(prefix + "a") is not None

        await wait_until(has_reached_etcd, description="a write that is done, and in doubt")


async def test_a_read_whose_connection_breaks_is_answered_by_another_member(
    shared_etcd: EtcdServer, client: EtcdClient, prefix: str
) -> None:
    await client.put(prefix + "a", b"one")
    async with (
        Proxy(shared_etcd.endpoint) as bad,
        Proxy(shared_etcd.endpoint) as good,
        EtcdClient([bad.endpoint, good.endpoint], timeout=6, clock=SystemClock()) as behind,
    ):
        assert await behind.get(prefix + "a") is not None
        bad.set(Mode.CUT_REPLY)
        assert await behind.get(prefix + "a") is not None
        assert (bad.cuts, behind.endpoint) == (1, good.endpoint)

        good.set(Mode.SWALLOW)  # the other way: silence, then the first member again within the deadline
        assert await behind.get(prefix + "a") is not None
        assert behind.endpoint == bad.endpoint


async def test_a_dead_connection_is_found_by_pings(
    shared_etcd: EtcdServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dict(_rpc._OPTIONS)
    assert 5_000 < real["grpc.keepalive_time_ms"] < 10_000  # etcd closes connections that ping every 5 s
    hasty = {name: value // 20 if name in PINGS else value for name, value in real.items()}
    monkeypatch.setattr(_rpc, "_OPTIONS", tuple(hasty.items()))
    async with Proxy(shared_etcd.endpoint) as proxy, EtcdClient([proxy.endpoint], clock=SystemClock()) as behind:
        stream = await behind.watch_stream()
        await stream.write(_rpc.messages.WatchRequest(create_request={"key": prefix.encode()}))
        await stream.read()
        proxy.set(Mode.SWALLOW)
        async with asyncio.timeout(60):
            with pytest.raises(UnavailableError, match=r"(?i)ping"):
                await stream.read()


async def test_no_space_leaves_a_write_in_doubt_and_shows_in_the_status(etcd_binary: Path, tmp_path: Path) -> None:
    quota = ("--quota-backend-bytes", str(1024 * 1024))
    async with (
        EtcdServer(etcd_binary, tmp_path / "small", arguments=quota) as server,
        EtcdClient([server.endpoint], clock=SystemClock()) as client,
    ):
        with pytest.raises(EtcdFullError, match="space exceeded"):
            await fill(client)
        assert (await client.status()).alarms == ("NOSPACE",)
        assert await client.delete("nothing") is False
        assert client.is_full
        with pytest.raises(EtcdFullError):
            await client.lease_grant(60)
        assert await client.get("0") is not None


@pytest.fixture
async def members(etcd_binary: Path, tmp_path: Path) -> AsyncIterator[list[EtcdServer]]:
    """A cluster of three."""
    servers = cluster(etcd_binary, tmp_path)
    try:
        for server in servers:
            server.launch()
        for server in servers:
            await server.wait_ready()
        yield servers
    finally:
        for server in servers:
            server.destroy()


async def written(client: EtcdClient, key: str) -> bool:
    """Whether a write was acknowledged."""
    try:
        await client.put(key, b"")
    except (UnavailableError, EtcdInDoubtError):
        return False
    return True


async def test_a_cluster_goes_on_with_one_member_killed_and_refuses_without_a_majority(
    members: list[EtcdServer],
) -> None:
    endpoints = [server.endpoint for server in members]
    async with EtcdClient(endpoints, timeout=3, clock=SystemClock()) as client:
        assert (await client.status(endpoints[2])).endpoint == endpoints[2]
        await client.put("before", b"")
        assert client.endpoint == endpoints[0]

        await members[0].kill()
        await wait_until(lambda: written(client, "after"), description="a write is taken by the two that are left")
        assert client.endpoint != endpoints[0]
        assert await client.get("before") is not None

        # One of three: it knows that it has no leader, and turns calls away unread.
        await members[1].kill()
        await wait_until(lambda: turned_away(client), description="the last member says that it has no leader")

        members[0].launch()
        await wait_until(lambda: written(client, "majority"), description="the majority is back")


async def turned_away(client: EtcdClient) -> bool:
    """Whether a write certainly was not carried out, for want of a leader."""
    try:
        await client.put("alone", b"")
    except UnavailableError as error:
        return "no leader" in str(error)
    except EtcdInDoubtError:
        return False
    raise AssertionError("a member without a majority has taken a write")


async def test_a_read_goes_past_a_frozen_member_within_its_deadline_and_writes_follow(
    members: list[EtcdServer],
) -> None:
    async with EtcdClient([server.endpoint for server in members], clock=SystemClock()) as client:
        states = [await client.status(endpoint) for endpoint in client.endpoints]
    # A follower: without its leader a cluster answers no read before it has elected another one.
    endpoints = [state.endpoint for state in sorted(states, key=lambda one: one.member == one.leader)]
    [frozen] = [server for server in members if server.endpoint == endpoints[0]]
    async with EtcdClient(endpoints, timeout=5, clock=SystemClock()) as client:
        await client.put("a", b"one")
        await frozen.pause()
        kv = await client.get("a")
        assert kv is not None
        assert kv.value == b"one"
        assert client.endpoint != endpoints[0]
        await wait_until(lambda: written(client, "a"), description="a write is taken")
        frozen.resume()
