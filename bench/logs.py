"""A page of one job's log and of all logs, with 10,000 and with 1,000,000 records: it should take as long.

A manager for each, on a log store that is filled directly; 100 jobs, so that every page is full. One question after
the other, to both in turn.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench import console_data
from bench.asking import ask, times_ms
from bench.figures import Figure, WrongError, at_most, ratio
from common.protocol.keys import Keys
from tests.support.cluster import running_cluster

SIZES: Final = (10_000, 1_000_000)
_JOBS: Final = 100
_DATABASE: Final = "cron"
_PAGE: Final = 20
_TURNS: Final = 5


def one_round(share: float) -> list[Figure]:
    """The few records and the many, asked in turn: the machine's speed changes between a minute and the next."""
    sizes = [max(_JOBS * 2 * _PAGE, round(size * share)) for size in SIZES]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        few, many = asyncio.run(_pages(Path(folder), sizes))
    figures = [
        Figure(name=f"{size:,} records, {name}", value=ms, unit="ms")
        for size, found in zip(sizes, (few, many), strict=True) for name, ms in found.items()
    ]  # fmt: skip
    figures += [ratio(f"{name}, {sizes[1]:,} to {sizes[0]:,}", many[name], few[name], at_most(1.5)) for name in few]
    return figures


async def _pages(folder: Path, sizes: Sequence[int]) -> list[dict[str, float]]:
    """The median of each question in ms, for each size; each size has a manager and a log store of its own."""
    async with AsyncExitStack() as stack:
        questions = [await _filled(stack, folder / f"{size}", size) for size in sizes]
        took: list[dict[str, list[float]]] = [{name: [] for name in some} for some in questions]
        for _ in range(_TURNS):
            for name in questions[0]:
                for found, some in zip(took, questions, strict=True):
                    found[name] += await times_ms(some[name])
        return [{name: statistics.median(times) for name, times in found.items()} for found in took]


async def _filled(stack: AsyncExitStack, folder: Path, records: int) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Questions to a manager whose log store has so many records; ended with the stack."""
    folder.mkdir()
    cluster = await stack.enter_async_context(running_cluster(folder, workers=0, managers=1, is_cold=True))
    now_ms = time.time_ns() // 1_000_000
    await console_data.fill_etcd(cluster.etcd.endpoint, Keys().prefix.rstrip("/"), _JOBS, now_ms)
    await console_data.fill_log_store(cluster.log_store.uri, _DATABASE, _JOBS, records, now_ms)
    url = f"http://127.0.0.1:{cluster.ports[0]}"
    return await _questions(await stack.enter_async_context(aiohttp.ClientSession(url)))


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
