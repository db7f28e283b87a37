"""A burst: many jobs due in the same second, on `etcron up --workers 2`, against the rate at which the machine spawns.

    python -m bench.burst [jobs]

Everything runs on this machine: etcd, log store, manager, two workers. Measured from the plan time to the last start,
and to the last record that a manager shows. Before and after it, the same command is spawned by a loop in C, eight at a
time, on as many cores as there are; the ratio is of the burst's rate to the median of those.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import aiohttp

from bench.spawn import COMMAND, Rate, compile_c_loop, python_rate
from cli.ports import free_loopback_port

JOBS: Final = 1000
_SAVES_AT_ONCE: Final = 16
_START_LIMIT_S: Final = 60
_END_LIMIT_S: Final = 120
_SPAWN_S: Final = 1.5


class FailedError(RuntimeError):
    """The burst did not do what it has to do: its figures would mean nothing."""


def spawn_rate(loop: Callable[[float], Rate]) -> float:
    """Commands a second with one loop on each core."""
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cores) as pool:
        return sum(rate.per_second for rate in pool.map(loop, [_SPAWN_S] * cores))


async def burst(url: str, jobs: int) -> dict[str, Any]:
    """Save the jobs, wait for all of their records, read what the records say."""
    async with aiohttp.ClientSession(url) as http:
        lead_s = 5 + jobs / 150
        moment = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=int(lead_s))
        await _save_all(http, jobs, moment)
        saved_at = datetime.now(UTC)
        if saved_at > moment - timedelta(seconds=1):
            raise FailedError(f"saving took until {saved_at}, the burst was due at {moment}")
        plan = moment.timestamp()
        await asyncio.sleep(max(0.0, plan - time.time()))
        readable_s = await _last_readable(http, jobs, plan)
        return _figures(await _records(http), jobs) | {"last_readable_s": round(readable_s, 3)}


async def _save_all(http: aiohttp.ClientSession, jobs: int, moment: datetime) -> None:
    expr = f"{moment.second} {moment.minute} {moment.hour} {moment.day} {moment.month} * {moment.year}"
    limit = asyncio.Semaphore(_SAVES_AT_ONCE)

    async def save(number: int) -> None:
        job = {"name": f"burst-{number:05d}", "command": COMMAND, "cronExpr": expr}
        async with limit, http.post("/job/save", data={"job": json.dumps(job)}) as answer:
            if answer.status != 200:
                raise FailedError(await answer.text())

    await asyncio.gather(*(save(number) for number in range(jobs)))


async def _last_readable(http: aiohttp.ClientSession, jobs: int, plan: float) -> float:
    """Seconds from the plan time until every record can be read."""
    while time.time() < plan + _END_LIMIT_S:
        if len(await _records(http)) >= jobs:
            return time.time() - plan
        await asyncio.sleep(0.25 + jobs / 20_000)
    raise FailedError(f"after {_END_LIMIT_S} s only {len(await _records(http))} of {jobs} records can be read")


async def _records(http: aiohttp.ClientSession) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    query: dict[str, str] = {"limit": "500"}
    while True:
        async with http.get("/api/v1/runs", params=query) as answer:
            if answer.status == 503:
                return []  # the log store has its hands full: asked again
            page = await answer.json()
        items += page["items"]
        if page["nextCursor"] is None:
            return items
        query["cursor"] = page["nextCursor"]


def _figures(records: list[dict[str, Any]], jobs: int) -> dict[str, Any]:
    ran = [record for record in records if record["status"] == "success"]
    if len(ran) != jobs or len({record["jobName"] for record in ran}) != jobs:
        raise FailedError(f"{len(ran)} of {jobs} ran, of {len({record['jobName'] for record in ran})} jobs")
    late = sorted((record["startTime"] - record["planTime"]) / 1000 for record in ran)
    return {
        "jobs": jobs, "last_start_s": late[-1], "median_start_s": late[jobs // 2],
        "rate": round(jobs / late[-1], 1),
    }  # fmt: skip


def run_up(jobs: int) -> dict[str, Any]:
    """One burst on an `etcron up` of its own."""
    port = free_loopback_port(())
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", "-m", "cli", "up", "--data-dir", folder + "/data", "--port", str(port)]
        root = str(Path(__file__).parents[1])
        with open(folder + "/printed", "wb") as printed:
            up = subprocess.Popen(
                [*command, "--workers", "2"], env={**os.environ, "PYTHONPATH": root}, stdout=printed, stderr=printed
            )
        try:
            _wait_until_up(Path(folder) / "printed", up)
            return asyncio.run(burst(f"http://127.0.0.1:{port}", jobs))
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(60)


def _wait_until_up(printed: Path, up: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_LIMIT_S
    while "etcron is up" not in printed.read_text():
        if up.poll() is not None or time.monotonic() > deadline:
            raise FailedError(f"etcron did not come up: {printed.read_text()}")
        time.sleep(0.05)


def main() -> dict[str, Any]:
    """Measure and print."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else JOBS
    with tempfile.TemporaryDirectory() as folder:
        loop = compile_c_loop(Path(folder)) or python_rate
        before = spawn_rate(loop)
        figures = run_up(jobs)
        after = spawn_rate(loop)
    spawns = statistics.median((before, after))
    figures |= {"spawn_rate": round(spawns, 1), "ratio": round(figures["rate"] / spawns, 3)}
    print(f"{jobs:,} jobs due in one second, all run once: the last started after {figures['last_start_s']:.3f} s,")
    print(f"  the middle one after {figures['median_start_s']:.3f} s, every record readable after "
          f"{figures['last_readable_s']:.2f} s")  # fmt: skip
    print(f"{figures['rate']:,.0f} starts/s against {spawns:,.0f} spawns/s ({before:,.0f} before, {after:,.0f} after): "
          f"ratio {figures['ratio']:.2f}")  # fmt: skip
    return figures


if __name__ == "__main__":
    main()
