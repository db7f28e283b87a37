"""``GET /metrics``: the cluster for Prometheus, always answered: what is away is told as such, or left out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from aiohttp import web
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from common.errors import EtcdError, UnavailableError
from common.runlog import DayCounts
from manager.cluster.metrics import Measured, families
from manager.parts import PARTS, Parts

T = TypeVar("T")

MAX_FAILING: Final = 1_000
"""Beyond so many they are not counted: their names have to be read for it, at each scrape."""
_ANSWER_S: Final = 2.0
"""However long other calls may take (``apiWriteTimeout``): whoever scrapes gives up soon, and has nothing then."""
_DAY_MS: Final = 86_400_000


def add_routes(app: web.Application) -> None:
    """The call."""
    app.router.add_get("/metrics", show_metrics)


async def show_metrics(request: web.Request) -> web.Response:
    """Everything at this moment, in the text format that the caller asks for."""
    seen = await _measured(request.app[PARTS])
    encode, content_type = _encoder(request.headers.get("Accept", ""))
    response = web.Response(body=encode(_Once(families(seen))), headers={"Content-Type": content_type})
    response.enable_compression()
    return response


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # the version asked for is none: the plainest format is read by all
        return choose_encoder("")


class _Once(Collector):
    """What was measured, in the place of a registry that lives on."""

    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


async def _measured(parts: Parts) -> Measured:
    watching, store_is_away = parts.watching, parts.health.log_store_away  # then nobody waits to find it away again
    report, failing, today, workers, clocks = await asyncio.gather(
        parts.health.look(),
        _known(parts.history.count_failing(watching.catalog, MAX_FAILING), unless=store_is_away),
        _known(_today(parts), unless=store_is_away),
        _known(parts.inventory.workers()),
        _known(parts.inventory.clocks()),
    )
    is_old = watching.stale_since_ms is not None  # then it is what was, and not what is
    jobs_known = watching.jobs_read.is_set() and not is_old
    runs_known = watching.runs_read.is_set() and not is_old
    return Measured(
        report=report,
        jobs=watching.catalog.states if jobs_known else None,
        failing=failing if jobs_known else None,
        open_runs=len(watching.open_runs) if runs_known else None,
        oldest_run_s=watching.open_runs.oldest_ms(parts.clock.wall_ms()) / 1000 if runs_known else None,
        today=today,
        workers=workers,
        clocks=clocks,
    )


async def _today(parts: Parts) -> DayCounts | None:
    day = parts.clock.wall_ms() // _DAY_MS
    found = await parts.history.statistics(None, [day])
    return found[0] if found else DayCounts.nothing(day)


async def _known(question: Coroutine[Any, Any, T], *, unless: bool = False) -> T | None:
    """The answer; None where whoever is to be asked is away, which may be known before, or too slow."""
    if unless:
        question.close()
        return None
    try:
        async with asyncio.timeout(_ANSWER_S):
            return await question
    except (EtcdError, UnavailableError, TimeoutError):
        return None
