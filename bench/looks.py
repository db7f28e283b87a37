"""How many fires of the whole fleet one worker process can look at, each second, to see whether they are its own.

One worker among a hundred; the other ninety-nine are sessions of which nothing is heard. Each job is due each second,
and its mark says that it is decided already for the next hour: as if the others had been quick. So all that the worker
does for them is what no number of workers can take off it: to come to each fire, rank it and plan the next one. It is
the steward, too, whose looks at up to 2,000 jobs a second count with that. A job of its own that runs every second
tells how late all that makes what is its to do.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Final

from bench.figures import Figure, WrongError, quantile
from bench.filling import fill, saved
from bench.recorded import log_of
from bench.sampling import cpu_s
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.protocol.keys import Keys
from common.protocol.member import Member
from tests.support.cluster import EVERY_SECOND, Cluster, running_cluster

RATES: Final = (0, 1_000, 5_000, 10_000)
"""Fires a second, beside the worker's own one."""
_OTHERS: Final = 99
_OWN: Final = "own"
_LABEL: Final = "is"
_SECONDS: Final = 20
_SETTLES_S: Final = 15
_STARTS_WITHIN_S: Final = 60
_LEASE_S: Final = 600
_DECIDED_FOR_MS: Final = 3_600_000


def one_round(share: float) -> list[Figure]:
    """One rate after the other, each with an etcd of its own."""
    figures: list[Figure] = []
    share_of: dict[int, float] = {}
    for rate in dict.fromkeys(round(rate * share) for rate in RATES):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            share_of[rate], late_ms = asyncio.run(_looking(Path(folder), rate))
        name = f"{rate:,} fires a second"
        figures.append(Figure(name=f"{name}: CPU", value=share_of[rate] * 100, unit="% of a core"))
        figures.append(Figure(name=f"{name}: its own, 99 %", value=quantile(late_ms, 0.99), unit="ms late"))
    most = max(share_of)
    if share_of[most] <= share_of[0]:
        note = "too few fires to be told from none"
        return [*figures, Figure(name="a look", value=None, unit="ms", note=note)]
    each_ms = (share_of[most] - share_of[0]) / most * 1000
    figures.append(Figure(name="a look", value=each_ms, unit="ms"))
    figures.append(Figure(name="fires a second that fill a core", value=(1 - share_of[0]) / each_ms * 1000))
    return figures


async def _looking(folder: Path, rate: int) -> tuple[float, list[int]]:
    """The worker's CPU in parts of a core, and how late its own runs started."""
    async with running_cluster(folder, workers=0, managers=0, is_cold=True) as cluster:
        async with EtcdClient([cluster.etcd.endpoint], timeout=30) as etcd:
            await _fill(etcd, rate)
        worker = cluster.add_worker("worker-1", "--labels", f"{_LABEL}={_OWN}")
        worker.start()
        assert worker.popen is not None
        await _until_it_runs(cluster)
        await asyncio.sleep(_SETTLES_S)
        used, since, since_ms = cpu_s([worker.popen.pid]), time.monotonic(), time.time_ns() // 1_000_000
        await asyncio.sleep(_SECONDS)
        used, took_s = cpu_s([worker.popen.pid]) - used, time.monotonic() - since
        await worker.end()  # which delivers its records
        late_ms = [start - plan for plan, start in await _own_runs(cluster) if plan >= since_ms]
        if len(late_ms) < _SECONDS - 1:
            raise WrongError(f"only {len(late_ms)} own runs in {_SECONDS} s: {worker.log[-500:]}")
        return used / took_s, late_ms


async def _fill(etcd: EtcdClient, rate: int) -> None:
    """The jobs with their marks, and the other workers."""
    keys, now_ms = Keys(), time.time_ns() // 1_000_000
    names = [f"team-{number % 50}.job-{number:06d}" for number in range(rate)]
    jobs = [JobSpec(name=name, command="false", cron_exprs=(EVERY_SECOND,)) for name in names]
    own = JobSpec(name=_OWN, command="true", cron_exprs=(EVERY_SECOND,), workers={_LABEL: (_OWN,)})
    await fill(etcd, keys, (saved(job, now_ms) for job in jobs), mark_ms=now_ms + _DECIDED_FOR_MS)
    await fill(etcd, keys, [saved(own, now_ms)])
    for number in range(_OTHERS):
        lease, name = await etcd.lease_grant(_LEASE_S), f"other-{number:03d}"
        member = Member(
            worker=name, session=f"{lease.id:x}", instance=f"{number:032x}", host=name, address="", slots=16,
            since_ms=now_ms,
        )  # fmt: skip
        await etcd.put(keys.worker(name, f"{lease.id:x}"), member.to_json(), lease.id)


async def _until_it_runs(cluster: Cluster) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    while not await _own_runs(cluster):
        if time.monotonic() > until:
            raise WrongError(f"the worker runs nothing: {cluster.workers[0].log[-500:]}")
        await asyncio.sleep(0.5)


async def _own_runs(cluster: Cluster) -> list[tuple[int, int]]:
    """Plan time and start of each, as the log store has them; WrongError: there are records of others' fires."""
    async with log_of(cluster.log_store.uri) as log:
        found = [record async for record in log.find({"jobName": _OWN, "status": "success"})]
        if (other := await log.find_one({"jobName": {"$ne": _OWN}})) is not None:
            raise WrongError(f"it has decided what is decided already: {other['_id']}")
    return [(int(record["planTime"]), int(record["startTime"])) for record in found]
