"""A bad key, under whatever prefix, takes nothing from a manager: it lists, saves, runs and kills as before."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.managing import Managed
from tests.support.poison import PREFIXES, poison

SPEC = {"command": "echo 1", "cronExpr": "0 0 0 1 1 * 2199"}
LISTS = (
    "/api/v1/jobs", "/api/v1/jobs/j", "/api/v1/jobs/j/fires", "/api/v1/jobs/j/versions", "/api/v1/workers",
    "/api/v1/runs", "/api/v1/system", "/job/list", "/worker/list", "/livez", "/api/v1/channels", "/api/v1/rules",
    "/api/v1/silences", "/api/v1/jobs/j/notifications",
)  # fmt: skip


async def test_poison_under_every_prefix_takes_nothing_away(manager: Managed, caplog: pytest.LogCaptureFixture) -> None:
    root = manager.keys.prefix.rstrip("/")
    await asyncio.gather(*(poison(manager.etcd, root, prefix) for prefix in PREFIXES))
    await manager.call("PUT", "/api/v1/jobs/j", SPEC)
    for path in LISTS:
        answer = await manager.http.get(path)
        assert answer.status == 200, (path, answer.status, (await answer.text())[:500])
    assert (await manager.http.get("/")).status in (200, 503), "503: the browser's assets are not built"
    answer = await manager.http.get("/readyz")
    assert answer.status in (200, 503), "in this world there are no workers"
    body = await answer.text()
    assert "internal-error" not in body
    asked = await manager.http.post("/api/v1/jobs/j/run", json={})
    assert asked.status == 202, await asked.text()
    killed = await manager.http.post("/api/v1/jobs/j/kill", json={})
    assert killed.status in (200, 202), await killed.text()
    await manager.call("POST", "/api/v1/jobs/j/pause", {})
    await manager.call("DELETE", "/api/v1/jobs/j")
    assert not [one.getMessage() for one in caplog.records if one.exc_info], "each is foreseen: no traceback"
