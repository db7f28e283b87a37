"""What reaches the manager before any handler: encodings, headers that are given twice, what is no HTTP at all."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import re
import tracemalloc
import zlib
from typing import Any

import pytest

from tests.support.managing import Managed, problem_of, refusal_of
from tests.support.requests import every_call

_BOMB = gzip.compress(b'{"reason":"' + b" " * 30_000_000 + b'"}')
_HEADERS = ("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy",
            "Cross-Origin-Resource-Policy", "Cache-Control")  # fmt: skip


async def raw(manager: Managed, sent: bytes) -> bytes:
    """The whole answer to these bytes, up to the end of the connection."""
    reader, writer = await asyncio.open_connection(manager.http.host, manager.http.port)
    writer.write(sent)
    answer = await reader.read()
    writer.close()
    return answer


@pytest.fixture
def inflations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names whatever is inflated from here on, in this process."""
    seen: list[str] = []
    make = zlib.decompressobj

    def watched(*arguments: Any, **more: Any) -> object:
        seen.append("decompressobj")
        return make(*arguments, **more)

    monkeypatch.setattr(zlib, "decompressobj", watched)
    return seen


_ENCODINGS = ("deflate", "br", "zstd", "x-gzip", "GZIP", "identity, gzip", "nonsense")


async def test_an_encoded_body_is_refused_and_nothing_is_inflated(manager: Managed, inflations: list[str]) -> None:
    """Each call is sent gzip, and one of the others: what refuses them does not know yet which call it is."""
    calls = every_call(manager)
    tried = [("gzip", call) for call in calls] + [*zip(itertools.cycle(_ENCODINGS), calls, strict=False)]
    for encoding, (method, path) in tried:
        headers = {"Content-Encoding": encoding, "Content-Type": "application/json"}
        response = await manager.http.request(method, path, data=_BOMB, headers=headers)
        assert response.status == 415, (encoding, path)
        if method != "HEAD":
            is_parents = path.startswith(("/job/", "/worker/"))
            told = await refusal_of(response, 415) if is_parents else (await problem_of(response, 415))["detail"]
            assert told.startswith("Content-Encoding: is "), path
    assert inflations == []


async def test_a_bomb_costs_no_memory(manager: Managed) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    tracemalloc.start()
    try:
        for _ in range(5):
            await problem_of(await manager.http.post("/api/v1/jobs/j/pause", data=_BOMB, headers=headers), 415)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_a_body_that_says_that_it_is_as_it_is_is_taken(manager: Managed) -> None:
    response = await manager.http.post("/api/v1/jobs/bulk", json={}, headers={"Content-Encoding": "identity"})
    await problem_of(response, 400)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01 no HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
        b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n",
        b"POST /api/v1/jobs/j/pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: nonsense\r\nConnection: close\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused_with_the_headers_of_all_answers(manager: Managed, sent: bytes) -> None:
    head, _, body = (await raw(manager, sent)).partition(b"\r\n\r\n")
    assert re.match(rb"HTTP/1\.[01] 4\d\d ", head)
    names = {line.split(b":")[0].decode() for line in head.split(b"\r\n")[1:]}
    assert names >= set(_HEADERS)
    assert b"\r\nServer: etcron\r\n" in head + b"\r\n"
    assert b"\r\nContent-Type: application/problem+json" in head
    assert not re.search(rb"(?i)python|aiohttp|traceback", head + body)


@pytest.mark.parametrize("name", ["Host", "Origin", "Sec-Fetch-Site"])
@pytest.mark.parametrize("path", ["/", "/livez", "/api/v1/jobs", "/api/v1/events"])
async def test_of_headers_that_are_given_twice_none_is_believed(manager: Managed, name: str, path: str) -> None:
    ours = {"Host": f"127.0.0.1:{manager.http.port}", "Origin": f"http://127.0.0.1:{manager.http.port}",
            "Sec-Fetch-Site": "same-origin"}  # fmt: skip
    lines = [f"{one}: {value}" for one, value in ours.items()] + [f"{name}: {ours[name]}", "Connection: close"]
    answer = await raw(manager, "\r\n".join([f"GET {path} HTTP/1.1", *lines, "", ""]).encode())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_no_foreign_page_listens(manager: Managed, headers: dict[str, str]) -> None:
    response = await manager.http.get("/api/v1/events", headers=headers)
    assert (await problem_of(response, 403))["code"] == "foreign-origin"


async def test_a_verbose_probe_answers_under_our_own_names_alone(manager: Managed) -> None:
    for path in ("/readyz?verbose", "/readyz?verbose=1", "/readyz?a=b&verbose"):
        response = await manager.http.get(path, headers={"Host": "probe.internal"})
        assert (await problem_of(response, 403))["code"] == "foreign-host"
        assert (await manager.http.get(path)).status == 200
