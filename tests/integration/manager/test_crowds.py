"""Many clients at once: what they do not take is not held for each, and none has more connections than its share."""

from __future__ import annotations

import asyncio
import os
import socket
import tracemalloc
from collections import Counter
from contextlib import AsyncExitStack, ExitStack
from urllib.parse import quote

import pytest
from aiohttp import ClientSession, TCPConnector

from common.access.rights import Role
from common.protocol.keys import RunId
from tests.support.access import Accessing
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import now_ms, record_of
from tests.support.other_user import OtherUser
from tests.support.waiting import wait_until

MIB = 2**20


async def _asks_and_takes_nothing(manager: Managed, path: str, more: str = "") -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(connection, (manager.http.host, manager.http.port))
    await loop.sock_sendall(connection, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
    return connection


@pytest.mark.parametrize("path", ["/api/v1/runs/{run}/output", "/api/v1/runs/{run}", "/job/log?name=job1"])
async def test_what_28_clients_do_not_take_is_not_held_for_each(place: Place, path: str) -> None:
    run = RunId.planned("job1", now_ms())
    async with managing(place, apiReadTimeout=10_000, apiWriteTimeout=10_000) as manager:
        await manager.write([record_of(run, output="x" * 8 * MIB)])
        with ExitStack() as open_ones:
            tracemalloc.start()
            open_ones.callback(tracemalloc.stop)
            loop, answers = asyncio.get_running_loop(), Counter[bytes]()
            while not answers[b"200"]:  # where the machine is busy, the log store may tell it to none of them in time
                asked = [
                    _asks_and_takes_nothing(manager, path.replace("{run}", quote(str(run), safe=""))) for _ in range(28)
                ]
                clients = [open_ones.enter_context(one) for one in await asyncio.gather(*asked)]
                begun = await asyncio.gather(*(loop.sock_recv(client, 12) for client in clients))
                answers.update(head.split()[1] for head in begun)
                assert set(answers) <= {b"200", b"503"}
            _, most = tracemalloc.get_traced_memory()
        assert most < 215 * MIB  # one output for each is more
        server = manager.http.server.handler
        await wait_until(lambda: not server.connections, description="the manager has let go")


async def test_attack_logs_that_are_not_taken_keep_others_from_theirs(place: Place) -> None:
    async with managing(place, auth="required", apiReadTimeout=600_000, apiWriteTimeout=600_000) as manager:
        access = Accessing(manager)
        mallory = await access.user("mallory", Role.VIEWER, labels={"team": ["ours"]})
        alice = await access.user("alice", Role.VIEWER, labels={"team": ["theirs"]})
        await manager.write([
            record_of(RunId.planned("ours", now_ms()), output="x" * 15 * MIB, labels={"team": "ours"}),
            record_of(RunId.planned("theirs", now_ms()), output="hello", labels={"team": "theirs"}),
        ])  # fmt: skip
        header = f"Authorization: {mallory['Authorization']}\r\n"
        with ExitStack() as open_ones:
            asked = [_asks_and_takes_nothing(manager, "/job/log?name=ours", header) for _ in range(4)]
            clients = [open_ones.enter_context(one) for one in await asyncio.gather(*asked)]
            loop = asyncio.get_running_loop()
            begun = [asyncio.ensure_future(loop.sock_recv(client, 12)) for client in clients]
            await wait_until(lambda: sum(one.done() for one in begun) >= 2, description="two are told theirs")
            async with asyncio.timeout(60):
                answer = await manager.http.get("/job/log?name=theirs", headers=alice)
                assert (await answer.json())["data"][0]["output"] == "hello"
            for one in begun:
                one.cancel()


async def test_who_takes_it_gets_all_of_it(place: Place) -> None:
    run = RunId.planned("job1", now_ms())
    output = "".join(f"{number:07}\n" for number in range(MIB))
    async with managing(place) as manager:
        await manager.write([record_of(run, output=output)])
        path = f"/api/v1/runs/{quote(str(run), safe='')}/output"
        for headers in ({"Accept-Encoding": "identity"}, {"Accept-Encoding": "gzip"}):
            response = await manager.http.get(path, headers={"Accept": "text/plain", **headers})
            assert await response.text() == output
            assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
        head = await manager.http.head(path, headers={"Accept": "text/plain"})
        assert head.headers["Content-Length"] == str(8 * MIB)
        assert len((await manager.get("/job/log", name="job1"))["data"][0]["output"]) == 8 * MIB


async def test_an_address_has_a_bound_of_connections(place: Place) -> None:
    async with managing(place, connectionsPerAddress=3) as manager, AsyncExitStack() as listeners:
        for _ in range(3):
            await listeners.enter_async_context(manager.http.get("/api/v1/events"))
        problem = await problem_of(refused := await manager.http.get("/livez"), 429)
        assert "connectionsPerAddress" in problem["detail"]
        assert f"uid {os.getuid()} has 3 connections" in problem["detail"]
        assert refused.headers["Retry-After"] == "5"
        assert refused.headers["X-Content-Type-Options"] == "nosniff"
        assert refused.headers["Server"] == "etcron"
        await listeners.aclose()

        async def has_room() -> bool:
            return (await manager.http.get("/livez")).status == 200

        await wait_until(has_room, description="there is room again")


async def test_attack_connections_from_many_addresses_of_this_machine(place: Place) -> None:
    async with managing(place, connectionsPerAddress=3) as manager, AsyncExitStack() as opened:
        for number in range(2, 5):
            connector = TCPConnector(local_addr=(f"127.0.0.{number}", 0))
            http = await opened.enter_async_context(ClientSession(connector=connector))
            await opened.enter_async_context(http.get(manager.http.make_url("/api/v1/events")))
        problem = await problem_of(await manager.http.get("/livez"), 429)
        assert "connectionsPerAddress" in problem["detail"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can call as another user")
async def test_attack_another_user_of_this_machine_takes_the_connections_of_all(place: Place) -> None:
    async with managing(place, connectionsPerAddress=3) as manager, AsyncExitStack() as listeners:
        for _ in range(3):
            await listeners.enter_async_context(manager.http.get("/api/v1/events"))
        assert (await manager.http.get("/livez")).status == 429
        assert manager.http.port is not None
        assert (await OtherUser().get((manager.http.host, manager.http.port), "/livez"))[0] == 200


async def test_behind_a_proxy_each_caller_has_a_bound_of_calls(place: Place) -> None:
    async with managing(place, connectionsPerAddress=3, proxies=["127.0.0.1"]) as manager, AsyncExitStack() as all_of:
        mine, other = {"X-Forwarded-For": "1.1.1.1, 10.0.0.1"}, {"X-Forwarded-For": "1.1.1.1, 10.0.0.2"}
        for _ in range(3):
            await all_of.enter_async_context(manager.http.get("/api/v1/events", headers=mine))
        problem = await problem_of(await manager.http.get("/api/v1/jobs", headers=mine), 429)
        assert "10.0.0.1 has 3" in problem["detail"]
        job = {"command": "echo", "cronExpr": "@yearly"}
        saved = await manager.call("PUT", "/api/v1/jobs/j", job, **other)
        assert saved["job"]["savedBy"] == "api 10.0.0.2"


async def test_addresses_of_one_ipv6_network_have_one_share(place: Place) -> None:
    async with managing(place, connectionsPerAddress=3, proxies=["127.0.0.1"]) as manager, AsyncExitStack() as all_of:
        for number in range(1, 4):
            mine = {"X-Forwarded-For": f"2001:db8::{number}"}
            await all_of.enter_async_context(manager.http.get("/api/v1/events", headers=mine))
        for address, status in (("2001:db8::9", 429), ("2001:db8:0:1::1", 200)):
            answer = await manager.http.get("/api/v1/jobs", headers={"X-Forwarded-For": address})
            assert answer.status == status


async def test_behind_a_proxy_an_ipv4_address_written_as_ipv6_is_the_same_caller(place: Place) -> None:
    job = {"command": "echo", "cronExpr": "@yearly"}
    async with managing(place, proxies=["127.0.0.1"]) as manager:
        saved = await manager.call("PUT", "/api/v1/jobs/j", job, **{"X-Forwarded-For": "::ffff:10.0.0.2"})
    assert saved["job"]["savedBy"] == "api 10.0.0.2"


async def test_only_a_proxy_of_ours_may_say_who_calls(manager: Managed) -> None:
    job = {"command": "echo", "cronExpr": "@yearly"}
    saved = await manager.call("PUT", "/api/v1/jobs/j", job, **{"X-Forwarded-For": "10.0.0.2"})
    assert saved["job"]["savedBy"] == "api 127.0.0.1"
