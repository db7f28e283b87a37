"""What a fire costs in etcd mutations, etcd requests and CPU, in a burst, with 1, 3 and 10 workers.

etcd counts for itself (its own metrics); CPU is that of the processes without the commands. Everything that happens
between the moment before the burst and the deletion of its last run key counts, but the writes of beats and sessions.
Among the requests are theirs, too: so what an idle cluster asks and uses is told beside it, and what a fire costs
beyond that. Requests as the protocol calls them (fires handed on from worker to worker) cost mutations of their own:
how many transactions there were for them is told.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bench.figures import Figure, WrongError, at_most, ratio
from bench.filling import save_directly, tell_all
from bench.reading import all_records, once_each
from bench.recorded import until_recorded
from bench.sampling import cpu_s
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.protocol.keys import Keys, Watched
from tests.support.cluster import Cluster, running_cluster
from tests.support.etcd_metrics import EtcdCounts, etcd_counts, writes_for_no_fire

FIRES: Final = 5_000
WORKERS: Final = (1, 3, 10)
_IDLE_S: Final = 10
_LEAD_S: Final = 5
_SETTLES_S: Final = 10
"""Until the workers have read the jobs, and the steward has looked at each: that is not idle."""
_SAVED_A_SECOND: Final = 1_500
_LIMIT_S: Final = 120
_LOOK_S: Final = 0.1
_BEFORE_S: Final = 3.0
_CLAIMED_AHEAD_S: Final = 0.5


def one_round(share: float) -> list[Figure]:
    """One cluster after the other."""
    fires = max(1, round(FIRES * share))
    costs: dict[int, Mapping[str, float]] = {}
    figures: list[Figure] = []
    for workers in WORKERS:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            costs[workers] = asyncio.run(cost_of(Path(folder), workers, fires))
        figures += _figures(workers, costs[workers])
    for what in ("mutations", "requests", "worker CPU"):
        name = f"{what} a fire, 10 workers to 3"
        figures.append(ratio(name, costs[10][what], costs[3][what], at_most(1.1)))
    for what in ("requests beyond idle", "worker beyond idle CPU"):
        figures.append(ratio(f"{what} a fire, 10 workers to 3", costs[10][what], costs[3][what]))
    return figures


def _figures(workers: int, cost: Mapping[str, float]) -> list[Figure]:
    goals = {"mutations": at_most(5), "requests": at_most(0.2)}
    of = f"{workers} worker{'s' if workers > 1 else ''}"
    return [
        Figure(name=f"{of}: {what}", value=value, unit=_unit(what), goal=goals.get(what))
        for what, value in cost.items()
    ]  # fmt: skip


def _unit(what: str) -> str:
    return "a second" if what.startswith("idle") else "ms a fire" if what.endswith("CPU") else "a fire"


async def cost_of(folder: Path, workers: int, fires: int, *, are_told: bool = False) -> Mapping[str, float]:
    """By what is spent. ``are_told``: a rule selects each job."""
    async with running_cluster(folder, workers=workers, managers=1, is_cold=True) as cluster:
        moment = cluster.second_from_now(_SETTLES_S + _IDLE_S + _LEAD_S + fires // _SAVED_A_SECOND)
        expr = f"{moment.second} {moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.year}"
        specs = [JobSpec(name=f"cost-{n:06d}", command="echo hello", cron_exprs=(expr,)) for n in range(fires)]
        if are_told:
            await tell_all(cluster.etcd.endpoint)
        await save_directly(cluster.etcd.endpoint, specs)
        await asyncio.sleep(_SETTLES_S)
        idle, idle_cpu_s = await _while_idle(cluster)
        await asyncio.sleep(moment.timestamp() - _BEFORE_S - time.time())
        async with EtcdClient([cluster.etcd.endpoint]) as etcd:
            beats, requests = await writes_for_no_fire(etcd), await _written(etcd, Watched.REQUESTS)
            counted, cpu, began = await etcd_counts(cluster.etcd.endpoint), _cpu(cluster), time.monotonic()
            if time.time() > moment.timestamp() - _CLAIMED_AHEAD_S:
                raise WrongError("this machine is too busy to count from before the burst")
            own = await _all_settled(cluster, etcd, fires, moment.timestamp() + _LIMIT_S)
            counted, spent = await etcd_counts(cluster.etcd.endpoint) - counted, _cpu(cluster)
            took_s = time.monotonic() - began
            beats = await writes_for_no_fire(etcd) - beats
            requests = await _written(etcd, Watched.REQUESTS) - requests
        assert cluster.http is not None
        once_each(await all_records(cluster.http, f"http://127.0.0.1:{cluster.ports[0]}"), fires)
    return {
        "mutations": (counted.mutations - beats) / fires,
        "requests": (counted.requests - own) / fires,
        **{f"{name} CPU": (spent[name] - cpu[name]) / fires * 1000 for name in spent},
        "transactions with requests": requests / fires,
        "idle mutations": idle.mutations / _IDLE_S,
        "idle requests": idle.requests / _IDLE_S,
        "requests beyond idle": (counted.requests - own - idle.requests / _IDLE_S * took_s) / fires,
        "worker beyond idle CPU": (spent["worker"] - cpu["worker"] - idle_cpu_s / _IDLE_S * took_s) / fires * 1000,
    }


async def _while_idle(cluster: Cluster) -> tuple[EtcdCounts, float]:
    """What is asked of etcd, and the workers' CPU, in so many seconds in which nothing fires."""
    before, used = await etcd_counts(cluster.etcd.endpoint), _cpu(cluster)["worker"]
    await asyncio.sleep(_IDLE_S)
    return await etcd_counts(cluster.etcd.endpoint) - before, _cpu(cluster)["worker"] - used


def _cpu(cluster: Cluster) -> dict[str, float]:
    """Seconds so far, by what uses them."""
    workers = [process.popen.pid for process in cluster.workers if process.popen is not None]
    return {"worker": cpu_s(workers), "etcd": cpu_s([cluster.etcd.pid]), "log store": cpu_s([cluster.log_store.pid])}


async def _written(etcd: EtcdClient, watched: Watched) -> int:
    """How often the sentinel of the prefix was: once for each transaction that changed something under it."""
    sentinel = await etcd.get(Keys().seen(watched))
    return 0 if sentinel is None else sentinel.version


async def _all_settled(cluster: Cluster, etcd: EtcdClient, fires: int, deadline_s: float) -> int:
    """Until the log store has every record, and then all run keys are gone; how often etcd was asked for that."""
    await until_recorded(cluster.log_store.uri, fires, deadline_s)
    asked = 1
    while await etcd.count(Keys().runs):
        if time.time() > deadline_s:
            raise WrongError("there are run keys left")
        await asyncio.sleep(_LOOK_S)
        asked += 1
    return asked
