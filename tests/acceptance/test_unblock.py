"""Jobs that a wrong clock keeps from firing fire again, on real processes, and none of their fires runs twice."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from common.etcd import EtcdClient
from common.protocol.keys import Keys, encode_mark
from tests.support.cluster import Cluster, running_cluster
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

NEAR_MS, FAR_MS = 3 * 3_600_000, 400 * 86_400_000
JOBS: dict[str, dict[str, Any]] = {
    "each-second": {"cronExpr": "* * * * * * *"},
    "everywhere": {"cronExpr": "* * * * * * *", "broadcast": True},
    "chain": {"after": "1s"},
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Each test has jobs of its own."""
    async with running_cluster(tmp_path_factory.mktemp("unblock"), workers=2, managers=1) as running:
        yield running


async def spoil(etcd: EtcdClient, name: str, ahead_ms: int) -> None:
    """As a manager and workers with a clock that is ahead would have left it."""
    keys, far_ms = Keys("/etcron"), int(time.time() * 1000) + ahead_ms
    kv = await etcd.get(keys.job(name))
    assert kv is not None
    await etcd.put(keys.job(name), json.dumps({**json.loads(kv.value), "anchorMs": far_ms}).encode())
    async for page in etcd.read_prefix(keys.mark(name)):
        for mark in page.kvs:
            await etcd.put(mark.key, encode_mark(far_ms))


async def shows_its_fault(cluster: Cluster, name: str) -> None:
    async def is_faulty() -> bool:
        return "unblock" in str((await cluster.get(f"/api/v1/jobs/{name}"))["problem"])

    await wait_until(is_faulty, description=f"{name} shows its fault")


async def begun(cluster: Cluster, name: str) -> Counter[str]:
    return Counter(run["id"] for run in await cluster.runs(job=name) if run.get("startTime"))


async def fires_after(cluster: Cluster, name: str, workers: int) -> None:
    """It has run since now: a broadcast job on each worker."""
    now_ms = int(time.time() * 1000)

    async def has_run() -> bool:
        runs = await cluster.runs(job=name)
        return len({run["worker"] for run in runs if run["planTime"] > now_ms and "startTime" in run}) >= workers

    await wait_until(has_run, description=f"{name} fires")


async def unblock(cluster: Cluster, name: str) -> None:
    """Asked once more where a busy etcd gave no answer in time, it may say that it has done so already."""
    status, answer = await cluster._asked("POST", f"/api/v1/jobs/{name}/unblock", json={"force": True})
    assert status == 200 or answer.get("detailCode", "").startswith("not-blocked"), answer


@pytest.mark.parametrize("ahead_ms", [NEAR_MS, FAR_MS])
async def test_each_kind_of_job_fires_again(cluster: Cluster, ahead_ms: int) -> None:
    jobs = {f"{kind}-{ahead_ms}": trigger for kind, trigger in JOBS.items()}
    each_second, everywhere, chain = jobs
    async with EtcdClient([cluster.etcd.endpoint]) as etcd:
        for name, trigger in jobs.items():
            await cluster.post("/job/save", job=json.dumps({"name": name, "command": "true", **trigger}))
        for name in jobs:
            await fires_after(cluster, name, 2 if name == everywhere else 1)
        for name in (each_second, everywhere):
            await spoil(etcd, name, ahead_ms)
            await shows_its_fault(cluster, name)
            await unblock(cluster, name)
        await spoil(etcd, chain, ahead_ms)
        await unblock(cluster, chain)
        for name in jobs:
            await fires_after(cluster, name, 2 if name == everywhere else 1)
            assert set((await begun(cluster, name)).values()) == {1}
            await cluster.post("/job/delete", name=name)
