"""A page of one job's log and of all logs, with 10,000 and with 1,000,000 records: it should take as long.

One manager on a log store that is filled directly; 100 jobs, so that every page is full. One question after the other.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench import console_data
from bench.asking import ask, times_ms
from bench.figures import Figure, WrongError, at_most, ratio
from common.keys import Keys
from tests.support.cluster import running_cluster

SIZES: Final = (10_000, 1_000_000)
_JOBS: Final = 100
_DATABASE: Final = "cron"
_PAGE: Final = 20


def one_round(share: float) -> list[Figure]:
    """The few records, then the many."""
    sizes = [max(_JOBS * 2 * _PAGE, round(size * share)) for size in SIZES]
    found: list[dict[str, float]] = []
    figures: list[Figure] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found.append(asyncio.run(_pages(Path(folder), size)))
        figures += [Figure(name=f"{size:,} records, {name}", value=ms, unit="ms") for name, ms in found[-1].items()]
    few, many = found
    figures += [ratio(f"{name}, {sizes[1]:,} to {sizes[0]:,}", many[name], few[name], at_most(1.5)) for name in few]
    return figures


async def _pages(folder: Path, records: int) -> dict[str, float]:
    """The median of each question, in ms."""
    async with running_cluster(folder, workers=0, managers=1) as cluster:
        now_ms = time.time_ns() // 1_000_000
        await console_data.fill_etcd(cluster.etcd.endpoint, Keys().prefix.rstrip("/"), _JOBS, now_ms)
        await console_data.fill_log_store(cluster.log_store.uri, _DATABASE, _JOBS, records, now_ms)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{cluster.ports[0]}") as http:
            questions = await _questions(http)
            return {name: statistics.median(await times_ms(question)) for name, question in questions.items()}


async def _questions(http: aiohttp.ClientSession) -> dict[str, Callable[[], Awaitable[Any]]]:
    job = console_data.job_name(_JOBS // 2)
    later = (await ask(http, "/api/v1/runs", limit="50"))["nextCursor"]
    if later is None or len((await ask(http, "/job/log", name=job))["data"]) != _PAGE:
        raise WrongError("the pages are not full")
    return {
        "GET /job/log": lambda: ask(http, "/job/log", name=job),
        "a job's runs": lambda: ask(http, "/api/v1/runs", job=job),
        "a job's successful runs": lambda: ask(http, "/api/v1/runs", job=job, status="success"),
        "all runs": lambda: ask(http, "/api/v1/runs"),
        "all runs, a later page": lambda: ask(http, "/api/v1/runs", cursor=later),
    }
