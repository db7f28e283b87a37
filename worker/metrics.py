"""What a worker counts, and the port that tells it (`metricsPort`): ``/metrics``, ``/livez`` and ``/readyz``.

Without the port nothing is counted, and the libraries for it are not loaded. A record costs two dictionary entries and
a few comparisons, once it goes to the spool. Labels are the verdicts and the triggers: their number does not grow.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from common.etcd import EtcdClient
from common.protocol.run import RunRecord, Trigger
from common.verdicts import Verdict
from common.version import VERSION

if TYPE_CHECKING:
    from aiohttp import web
    from prometheus_client.metrics_core import Metric

LATENESS_S: Final = (0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 30.0, 300.0)
_MOST_CONNECTIONS: Final = 16
DURATION_S: Final = (0.1, 1.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 43_200.0)


class Histogram:
    """How many values lie below each bound, and all of them together."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, int]]:
        """(bound, how many are at most that), as Prometheus takes them."""
        found, total = [], 0
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            found.append((bound, total))
        return found


class Counts:
    """Since this process began."""

    def __init__(self) -> None:
        # From 0 on, as Prometheus takes a counter that appears with its first value for one that has not grown.
        self.records = Counter({(status, Trigger.SCHEDULE): 0 for status in (Verdict.MISSED, Verdict.LOST)})
        self.retries = 0
        self.lateness: defaultdict[Trigger, Histogram] = defaultdict(lambda: Histogram(LATENESS_S))
        self.durations: defaultdict[Verdict, Histogram] = defaultdict(lambda: Histogram(DURATION_S))

    def recorded(self, record: RunRecord) -> None:
        """This worker has made a record: of a run, or of fires that did not run."""
        self.records[record.status, record.trigger] += record.count or 1
        self.retries += record.run_id.attempt > 1
        if record.start_ms is None:
            return
        due_ms = record.due_ms if record.due_ms is not None else record.plan_ms
        self.lateness[record.trigger].add(max(0, record.start_ms - due_ms) / 1000)
        if record.end_ms is not None:
            self.durations[record.status].add(max(0, record.end_ms - record.start_ms) / 1000)


class _Refused(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class MetricsPort:
    """Answers on a port of its own; use as an async context manager. OSError: the port is taken."""

    def __init__(
        self, counts: Counts, client: EtcdClient, *, host: str, port: int, why_not: Callable[[], str | None],
        claims_lost: Callable[[], int],
    ) -> None:  # fmt: skip
        """``why_not``: why the worker takes no fires; None: it takes them."""
        self._counts = counts
        self._client = client
        self._host = host
        self._port = port
        self._why_not = why_not
        self._claims_lost = claims_lost
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    async def __aenter__(self) -> MetricsPort:
        from aiohttp import web

        app = web.Application(client_max_size=1024)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, keepalive_timeout=30)
        await self._runner.setup()
        server = self._runner.server
        assert server is not None, "it is set up"

        def accept() -> asyncio.Protocol:
            """Commands need the worker's descriptors more than its readers do."""
            return server() if len(server.connections) < _MOST_CONNECTIONS else _Refused()

        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(accept, self._host, self._port, backlog=_MOST_CONNECTIONS)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        from aiohttp import web

        why = self._why_not()
        return web.json_response(
            {"status": "ready" if why is None else "unready", "problem": why}, status=200 if why is None else 503
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        from aiohttp import web
        from prometheus_client.exposition import choose_encoder
        from prometheus_client.registry import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (TypeError, ValueError):  # the version asked for is none
            encode, content_type = choose_encoder("")
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    def collect(self) -> Sequence[Metric]:
        """As a collector of prometheus_client: what has been counted."""
        from prometheus_client.metrics_core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        counts = self._counts
        records = CounterMetricFamily(
            "etcron_records", "Records that this worker has made: runs, and fires that did not run.",
            labels=["status", "trigger"],
        )  # fmt: skip
        for (status, trigger), count in counts.records.items():
            records.add_metric([status, trigger], count)
        lateness = HistogramMetricFamily(
            "etcron_start_lateness_seconds", "From the time that a run was due to its start.", labels=["trigger"]
        )
        for trigger, histogram in counts.lateness.items():
            lateness.add_metric([trigger], histogram.buckets(), histogram.sum)
        durations = HistogramMetricFamily(
            "etcron_run_duration_seconds", "From the start of a run to its end.", labels=["status"]
        )
        for status, histogram in counts.durations.items():
            durations.add_metric([status], histogram.buckets(), histogram.sum)
        return (
            InfoMetricFamily("etcron_worker_build", "The version.", value={"version": VERSION}),
            GaugeMetricFamily("etcron_accepting", "1 if it takes fires.", value=self._why_not() is None),
            records,
            CounterMetricFamily(
                "etcron_retries", "Of the records, those of a second or later attempt.", counts.retries
            ),
            CounterMetricFamily(
                "etcron_claims_lost", "Its claims that came after another worker's.", self._claims_lost()
            ),
            CounterMetricFamily(
                "etcron_etcd_mutations", "Keys that it has put or deleted in etcd.", self._client.mutations
            ),
            lateness,
            durations,
        )
