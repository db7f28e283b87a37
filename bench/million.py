"""1,000,000 jobs: what one worker and one manager take, and what a worker or an etcd that comes or goes costs the rest.

As `scale`, with ten times its jobs, and longer than all the others together: so it runs only when it is named. A second
worker comes, and goes; then etcd is killed and is there again at once. Each time the first worker looks at all jobs, or
reads all of them: told is what CPU that takes it, until it is as idle as before.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.figures import Figure, WrongError
from bench.filling import save_directly
from bench.sampling import cpu_s, resident_mib
from bench.scale import SAVED_DAYS_AGO, manager_with, specs, worker_with
from common.etcd import EtcdClient
from common.protocol.keys import Keys
from tests.support.cluster import Cluster, Process, running_cluster

JOBS: Final = 1_000_000
_QUIET: Final = 0.25
"""Below this part of a core nothing is read any more."""
_QUIET_FOR: Final = 5
"""Seconds, one after the other, in which it has to be so."""
_LIMIT_S: Final = 900


def one_round(share: float) -> list[Figure]:
    """One after the other, with one etcd."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = asyncio.run(_all(Path(folder), max(1, round(JOBS * share))))
    return [Figure(name=name, value=value, unit=unit) for name, (value, unit) in found.items()]


async def _all(folder: Path, jobs: int) -> dict[str, tuple[float, str]]:
    async with running_cluster(folder, workers=0, managers=0, is_cold=True) as cluster:
        await save_directly(cluster.etcd.endpoint, specs(jobs), days_ago=SAVED_DAYS_AGO)
        async with EtcdClient([cluster.etcd.endpoint], timeout=30) as etcd:
            found = await worker_with(cluster, etcd, jobs)
            found["etcd: memory"] = resident_mib(cluster.etcd.pid), "MiB"
            found["etcd: database"] = (await etcd.status()).db_size_bytes / 2**20, "MiB"
            found |= await _comings_and_goings(cluster, etcd)
        for worker in cluster.workers:
            if worker.popen is not None:
                await worker.end()
        return found | await manager_with(cluster, jobs - 1)


async def _comings_and_goings(cluster: Cluster, etcd: EtcdClient) -> dict[str, tuple[float, str]]:
    found: dict[str, tuple[float, str]] = {}
    first, second = cluster.workers[0], cluster.add_worker("worker-2")
    assert first.popen is not None
    pid = first.popen.pid

    async def costs(what: str, used: float, began: float) -> None:
        took_s = await _until_quiet(pid, began)
        found[f"{what}: CPU of another worker"] = cpu_s([pid]) - used, "s"
        found[f"{what}: until it is idle"] = took_s, "s"

    used, began = cpu_s([pid]), time.monotonic()
    second.start()
    await _until_there(etcd, Keys().worker_sessions(second.name))
    await costs("a worker comes", used, began)
    used, began = cpu_s([pid]), time.monotonic()
    await second.end()
    await costs("a worker goes", used, began)
    used, began = cpu_s([pid]), time.monotonic()
    await cluster.etcd.restart()
    await _until_read_again(first)
    await costs("etcd restarts", used, began)
    return found


async def _until_there(etcd: EtcdClient, prefix: str) -> None:
    until = time.monotonic() + _LIMIT_S
    while not await etcd.count(prefix):
        if time.monotonic() > until:
            raise WrongError("the second worker does not come")
        await asyncio.sleep(0.1)


async def _until_read_again(worker: Process) -> None:
    until = time.monotonic() + _LIMIT_S
    while worker.log.count(f"mirror of {Keys().jobs} is in step") < 2:
        if time.monotonic() > until:
            raise WrongError("the worker does not read the jobs again")
        await asyncio.sleep(0.1)


async def _until_quiet(pid: int, began: float) -> float:
    """Seconds from then until the process began to be idle."""
    quiet, used = 0, cpu_s([pid])
    while quiet < _QUIET_FOR:
        if time.monotonic() > began + _LIMIT_S:
            raise WrongError("the worker does not become idle")
        await asyncio.sleep(1)
        now = cpu_s([pid])
        quiet, used = quiet + 1 if now - used < _QUIET else 0, now
    return time.monotonic() - began - _QUIET_FOR
