"""Disks fill under load: who has a full one stops claiming and says so, loses nothing, and goes on by itself."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import EVERY_SECOND, Cluster, running_cluster
from tests.support.disks import limit_files, small_disk
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = [f"job-{number}" for number in range(8)]
FILE_BYTES = 40_000
"""Of a worker whose files may not grow: what its spool reaches in seconds, and the evidence does not in this test."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def refusing(cluster: Cluster, name: str) -> bool:
    """Whether the manager says that this worker takes no fires because of its disk."""
    problems = (await cluster.get("/readyz"))["problems"]
    return any(one.startswith(f"the worker {name} takes no fires: ") and "disk is full" in one for one in problems)


async def shown(cluster: Cluster, name: str) -> dict[str, Any]:
    """The worker as the workers page has it."""
    items = (await cluster.get("/api/v1/workers"))["items"]
    return next(item for item in items if item["name"] == name)


def fires(cluster: Cluster, worker: str, since_ms: int) -> set[str]:
    return {one.job for one in cluster.starts() if one.worker == worker and one.plan_ms > since_ms}


async def stops_claiming(cluster: Cluster, name: str) -> int:
    """When, in ms, it was first seen to say that it takes none."""
    await wait_until(lambda: refusing(cluster, name), description=f"{name} says that its disk is full")
    return now_ms()


async def test_full_disks_stop_claiming_lose_nothing_and_need_no_restart(tmp_path: Path) -> None:
    with small_disk(tmp_path / "worker-1" / "data") as disk:
        async with running_cluster(tmp_path, workers=2, managers=1) as cluster:
            first, second = (worker.popen for worker in cluster.workers)
            assert first is not None
            assert second is not None
            noise = "printf '%02000d\\n' 0"
            for job in JOBS:
                await cluster.save(job, cluster.evidence_command(noise), EVERY_SECOND)
            slow = cluster.evidence_command(f"sleep 1.5; {noise}")
            await cluster.save("slow", slow, "*/3 * * * * * *")
            await wait_until(lambda: len(fires(cluster, "worker-1", 0)) > 4, description="it fires")

            assert not await refusing(cluster, "worker-1")
            filled_ms = now_ms()
            if disk is not None:
                disk.fill()
            else:
                limit_files(first.pid, FILE_BYTES)
            told_ms = await stops_claiming(cluster, "worker-1")
            page = await shown(cluster, "worker-1")
            assert page["state"] == "not accepting"
            assert f"make room where {tmp_path / 'worker-1'}" in page["problem"]
            full_ms = now_ms()
            await wait_until(
                lambda: fires(cluster, "worker-2", full_ms + 2000) >= {*JOBS}, description="the other one fires them"
            )
            assert fires(cluster, "worker-1", told_ms + 1000) == set(), "nothing is claimed there"

            limit_files(second.pid, FILE_BYTES)
            await stops_claiming(cluster, "worker-2")
            assert "no worker takes fires: nothing fires until one does" in (await cluster.get("/readyz"))["problems"]
            quiet_ms = now_ms() + 1000
            await wait_until(lambda: now_ms() > quiet_ms + 1500, description="fires pass")
            assert not [one for one in cluster.starts() if one.plan_ms > quiet_ms], "nobody claims"

            if disk is not None:
                disk.free()
            else:
                limit_files(first.pid, None)
            limit_files(second.pid, None)
            free_ms = now_ms()
            for name in ("worker-1", "worker-2"):
                await wait_until(
                    lambda name=name: len(fires(cluster, name, free_ms)) > 2,  # type: ignore[misc]
                    description=f"{name} goes on",
                )  # fmt: skip
            again_ms = max(one.plan_ms for one in cluster.starts())
            assert (first.poll(), second.poll()) == (None, None)
            print(f"said {told_ms - filled_ms} ms after it was filled")
            await check(cluster, again_ms - 1000)


async def check(cluster: Cluster, until_ms: int) -> None:
    """Every start has one record that says what happened; what has none did not run."""
    starts = [one for one in cluster.starts() if one.plan_ms <= until_ms]
    assert max(Counter((one.job, one.plan_ms) for one in starts).values()) == 1
    records: dict[tuple[str, int], dict[str, Any]] = {}

    async def all_recorded() -> bool:
        records.clear()
        records.update({(one["jobName"], one["planTime"]): one for one in await cluster.runs()})
        return all((one.job, one.plan_ms) in records for one in starts)

    await wait_until(all_recorded, description="every start has a record")
    started = {(one.job, one.plan_ms) for one in cluster.starts()}  # also what a worker has been late with meanwhile
    for run, record in records.items():
        if record["planTime"] > until_ms:
            continue
        if run in started:
            assert (record["status"], record["exitCode"]) == ("success", 0), record
        else:
            assert record["status"] in ("missed", "skipped"), record
    refused = [one for one in records.values() if "the spool refused its output" in one["err"]]
    assert refused, "what ended while a disk was full says why it has no output"
    assert all(one["outputTruncated"] and one["outputBytes"] == 2001 for one in refused)
    print(f"{len(starts)} starts, {len(refused)} without their output, {len(records) - len(started)} fires not run")
