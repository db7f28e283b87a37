"""Who may call: no page of a foreign site, no rebound name; and what every answer carries."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import quote

import pytest

from common.protocol.keys import RunId
from tests.support.managing import Managed, Place, managing, refusal_of
from tests.support.open_runs import now_ms, record_of
from tests.support.waiting import wait_until

JOB = '{"name":"job1","command":"echo hello","cronExpr":"0 * * * * * *"}'


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "file://"},
        {"Origin": "http://[::1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost.evil.example:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost@evil.example"},
        {"Host": "[::1"},
        {"Host": ""},
    ],
)
async def test_foreign_caller_changes_nothing(manager: Managed, headers: dict[str, str]) -> None:
    filled = {name: text.replace("{port}", str(manager.http.port)) for name, text in headers.items()}
    response = await manager.http.post("/job/save", data={"job": JOB}, headers=filled)
    message = await refusal_of(response, 403)
    assert message.startswith(("Host: ", "Origin: "))
    assert await manager.stored() == {}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:{port}", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Host": "localhost:8070"},
        {"Host": "LOCALHOST"},
        {"Host": "console.localhost:8070"},
        {"Host": "[::1]:8070"},
        {"Host": "10.1.2.3:8070", "Origin": "http://10.1.2.3:8070"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_our_own_page_and_programs_may(manager: Managed, headers: dict[str, str]) -> None:
    filled = {name: text.replace("{port}", str(manager.http.port)) for name, text in headers.items()}
    await manager.save(JOB, **filled)


async def test_rebound_name_cannot_even_read(manager: Managed) -> None:
    for path in ("/", "/job/list", "/api/v1/jobs", "/static/etcron.css"):
        assert (await manager.http.get(path, headers={"Host": "evil.example"})).status == 403


async def test_probes_answer_under_any_name(manager: Managed) -> None:
    for path in ("/livez", "/readyz"):
        assert (await manager.http.get(path, headers={"Host": "probe.internal"})).status == 200


async def test_rebound_name_hears_the_status_alone(manager: Managed) -> None:
    """Problems and notes name jobs, workers and addresses."""
    assert set(await manager.get("/readyz")) == {"status", "problems", "notes"}
    answer = await manager.http.get("/readyz", headers={"Host": "evil.example"})
    assert set(await answer.json()) == {"status"}


async def test_browser_and_program_are_told_apart(manager: Managed) -> None:
    origin = f"http://127.0.0.1:{manager.http.port}"
    await manager.save(JOB, Origin=origin)
    (item,) = (await manager.get("/api/v1/jobs"))["items"]
    assert item["savedBy"] == "console 127.0.0.1"
    await manager.save(JOB.replace("hello", "bye"))
    (item,) = (await manager.get("/api/v1/jobs"))["items"]
    assert item["savedBy"] == "api 127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/job/list", "/api/v1/jobs", "/nothing", "/static/etcron.css", "/livez"])
async def test_every_answer_carries_the_headers(manager: Managed, path: str) -> None:
    headers = (await manager.http.get(path)).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"] == "etcron"


async def test_who_takes_nothing_of_a_long_answer_is_cut_off(place: Place) -> None:
    run = RunId.planned("job1", now_ms())
    async with managing(place, apiWriteTimeout=2000) as manager:
        await manager.write([record_of(run, output="x" * 2**20)])
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setblocking(False)
            address = (manager.http.host, manager.http.port)
            await asyncio.get_running_loop().sock_connect(connection, address)
            head = f"GET /api/v1/runs/{quote(str(run), safe='')}/output HTTP/1.1\r\nHost: localhost\r\n\r\n"
            await asyncio.get_running_loop().sock_sendall(connection, head.encode())
            # The head of the answer is there: it has begun.
            assert b" 200 " in await asyncio.get_running_loop().sock_recv(connection, 15)
            server = manager.http.server.handler
            await wait_until(lambda: not server.connections, description="the manager has let go")
