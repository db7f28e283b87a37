"""What the processes and etcd hold at a moment, in figures that should not grow."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from statistics import median

import grpc.aio  # type: ignore[import-untyped,unused-ignore]
import psutil
from aetcd import rpc

from common.etcd import EtcdClient
from common.protocol.keys import Keys
from tests.support.cluster import Cluster, Process

_LOOKS = 5
_BETWEEN_LOOKS_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What one process holds."""

    rss_bytes: int
    descriptors: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at everything; ``at_s``: seconds since the load began."""

    at_s: float
    processes: dict[str, Held]
    keys: int
    run_keys: int
    leases: int
    unsent: int
    """Records that the log store has not acknowledged."""
    load: float
    """The machine's, of the last minute: beyond its cores somebody waits, and the figures are of that, too."""
    figures: dict[str, float] = field(init=False)
    """All that is judged, by name."""

    def __post_init__(self) -> None:
        figures: dict[str, float] = {"etcd keys": self.keys, "etcd leases": self.leases}
        for name, held in self.processes.items():
            figures[f"{name} RSS MiB"] = held.rss_bytes / 2**20
            figures[f"{name} descriptors"] = held.descriptors
            figures[f"{name} threads"] = held.threads
        object.__setattr__(self, "figures", figures)


class Sampler:
    """Looks at a cluster."""

    def __init__(self, cluster: Cluster, client: EtcdClient) -> None:
        self._cluster = cluster
        self._client = client
        self._began_s = time.monotonic()

    async def sample(self) -> Sample:
        """Of what comes and goes with each run, the least of a few looks."""
        etcron = (*self._cluster.workers, *self._cluster.managers)
        looks = []
        for _ in range(_LOOKS):
            looks.append({process.name: held_by(process) for process in etcron})
            await asyncio.sleep(_BETWEEN_LOOKS_S)
        return Sample(
            at_s=time.monotonic() - self._began_s,
            processes={process.name: _least([look[process.name] for look in looks]) for process in etcron},
            keys=await self._client.count("/"), run_keys=await self._client.count(Keys().runs),
            leases=await self._leases(), unsent=await self.unsent(),
            load=psutil.getloadavg()[0],
        )  # fmt: skip

    async def unsent(self) -> int:
        """Records that wait in the spools, as the workers' beats say."""
        workers = (await self._cluster.get("/api/v1/workers"))["items"]
        return sum(worker["beat"]["unsentRecords"] for worker in workers if worker["beat"])

    async def _leases(self) -> int:
        """By a channel of its own: the worker's client has no use for the list."""
        async with grpc.aio.insecure_channel(self._cluster.etcd.endpoint) as channel:
            answer = await rpc.LeaseStub(channel).LeaseLeases(rpc.LeaseLeasesRequest())
            return len(answer.leases)


def held_by(process: Process) -> Held:
    """What a process holds; RuntimeError with the end of its log where it has ended."""
    if process.popen is None or process.popen.poll() is not None:
        raise RuntimeError(f"{process.name} has ended: {process.log[-3000:]}")
    looked_at = psutil.Process(process.popen.pid)
    with looked_at.oneshot():
        rss = looked_at.memory_info().rss
        return Held(rss_bytes=rss, descriptors=looked_at.num_fds(), threads=looked_at.num_threads())


def _least(looks: list[Held]) -> Held:
    return Held(
        rss_bytes=min(look.rss_bytes for look in looks), descriptors=min(look.descriptors for look in looks),
        threads=min(look.threads for look in looks),
    )  # fmt: skip


def growth(points: list[tuple[float, float]]) -> float:
    """By how much the figure has grown over the span of these (time, figure) points.

    The median of the slopes between all pairs (Theil and Sen), times the span: a few outliers do not move it.
    """
    slopes = [(b - a) / (t - s) for i, (s, a) in enumerate(points) for t, b in points[i + 1 :] if t > s]
    return median(slopes) * (points[-1][0] - points[0][0]) if slopes else 0.0
