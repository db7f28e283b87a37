"""The schedule in words, in the language of whoever asks; and pages that are packed for the way."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

from manager.console.pages import COOKIE
from tests.support.managing import Managed

JOB = '{"name":"j","command":"true","cronExpr":"0 30 2 * * MON-FRI *"}'
ENGLISH, CHINESE = "At 02:30, Monday through Friday", "在 02:30，星期一到星期五"
ASKED = [
    ({}, ENGLISH),
    ({"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}, CHINESE),
    ({"Accept-Language": "fr,en"}, ENGLISH),
    ({"Cookie": f"{COOKIE}=zh-CN", "Accept-Language": "en"}, CHINESE),
    ({"Cookie": f"{COOKIE}=en", "Accept-Language": "zh"}, ENGLISH),
    ({"Cookie": f"{COOKIE}=xx", "Accept-Language": "zh"}, CHINESE),
]


@pytest.mark.parametrize(("headers", "words"), ASKED)
async def test_words_are_in_the_language_of_the_request(manager: Managed, headers: dict[str, str], words: str) -> None:
    await manager.save(JOB)
    document = {"command": "true", "cronExpr": "0 30 2 * * MON-FRI *"}

    async def call(method: str, path: str, body: object = None) -> Any:
        return await manager.call(method, f"/api/v1{path}", body, **headers)

    assert (await call("PUT", "/jobs/j", document))["job"]["words"] == words
    assert (await call("POST", "/jobs/j/pause", {}))["job"]["words"] == words
    assert (await call("GET", "/jobs/j"))["words"] == words
    assert [row["words"] for row in (await call("GET", "/jobs"))["items"]] == [words]
    assert (await call("POST", "/schedule/preview", {"cronExpr": document["cronExpr"]}))["words"] == words
    stale = await manager.http.put("/api/v1/jobs/j", json=document, headers={**headers, "If-Match": '"1"'})
    assert (await stale.json())["current"]["words"] == words


async def test_page_is_packed_where_the_browser_takes_it(manager: Managed) -> None:
    plain = await manager.http.get("/", headers={"Accept-Encoding": "identity"})
    packed = await manager.http.get("/", headers={"Accept-Encoding": "gzip"}, auto_decompress=False)
    if plain.status == 503:
        pytest.skip("the browser's assets are not built: make assets")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    body = await packed.read()
    assert gzip.decompress(body) == await plain.read()
    assert len(body) < 4_000
