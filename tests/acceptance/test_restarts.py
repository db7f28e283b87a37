"""A worker that starts again ends what was going when it was killed, and only that."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster, processes_with, running_cluster, sleep_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow


async def record_of(cluster: Cluster, job: str, status: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        found[:] = await cluster.runs(job=job, status=status)
        return bool(found)

    await wait_until(there, description=f"{job} has a record: {status}")
    return found[-1]


async def test_what_was_going_is_ended_and_lost_what_had_ended_well_keeps_its_daemon(tmp_path: Path) -> None:
    daemon, command = sleep_of(304), sleep_of(305)
    async with running_cluster(tmp_path, workers=1, managers=1) as cluster:
        worker = cluster.workers[0]
        try:
            await cluster.save("service", f"setsid -f {daemon}; echo started", "*/2 * * * * * *")
            await record_of(cluster, "service", "success")
            await cluster.post("/job/delete", name="service")
            await cluster.save("going", command, "*/2 * * * * * *")
            await wait_until(lambda: bool(processes_with(command)), description="a command is going")
            await cluster.post("/job/delete", name="going")
            daemons = {process.pid for process in processes_with(daemon)}
            await worker.end(signal.SIGKILL)
            await wait_until(lambda: not processes_with(command), description="its guardian has ended it")
            worker.start()
            record = await record_of(cluster, "going", "lost")
            assert record["reason"] == "worker restarted"
            assert not processes_with(command)
            assert {process.pid for process in processes_with(daemon)} == daemons
        finally:
            for process in processes_with(daemon):
                process.kill()


async def test_worker_stops_promptly_while_etcd_is_frozen(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=2, managers=1) as cluster:
        await cluster.etcd.pause()
        statuses = await asyncio.gather(*(worker.end(signal.SIGTERM) for worker in cluster.workers))
        assert statuses == [0, 0], [worker.log[-2000:] for worker in cluster.workers]
        cluster.etcd.resume()
