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
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from bench import asking, console_data
from bench.sampling import resident_mib
from cli.processes.ports import free_loopback_port
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.log_store import LogStoreServer

_ROOT: Final = Path(__file__).parents[1]


async def measure(url: str, pid: int, jobs: int) -> dict[str, Any]:
    """The median and the longest time of each question, in ms, and the manager's resident memory in MiB."""
    middle = console_data.job_name(jobs // 2)
    figures: dict[str, Any] = {}
    async with aiohttp.ClientSession(url) as http:
        ask = partial(asking.ask, http)
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
            "log (the legacy API's)": lambda: ask("/job/log", name=middle),
            "all runs": lambda: ask("/api/v1/runs"),
            "run with output": lambda: ask(f"/api/v1/runs/{quote(run, safe='')}"),
            "system": lambda: ask("/api/v1/system"),
        }
        memory = [round(resident_mib(pid), 1)]
        for name, question in asked.items():
            figures[name] = await _timed(question)
        memory.append(round(resident_mib(pid), 1))
        for _ in range(20):
            await asyncio.gather(*(question() for question in asked.values()))
        memory.append(round(resident_mib(pid), 1))
    return {"ms (median, longest)": figures, "manager, MiB (start, after, after 20 x all at once)": memory}


async def _timed(question: Callable[[], Awaitable[Any]]) -> tuple[float, float]:
    took = await asking.times_ms(question)
    return round(statistics.median(took), 1), round(max(took), 1)


async def _run(folder: Path, jobs: int, records: int) -> dict[str, Any]:
    async with EtcdServer(usual_etcd(), folder / "etcd") as etcd, LogStoreServer(folder / "log-store") as log_store:
        arguments = ["--etcd", etcd.endpoint, "--log-store", log_store.uri]
        arguments += ["--jobs", str(jobs), "--records", str(records)]
        filled = await asyncio.to_thread(console_data.main, arguments)
        port = free_loopback_port()
        command = [sys.executable, "-m", "manager", "--api-port", str(port), "--etcd-endpoints", etcd.endpoint]
        command += [
            "--mongodb-uri",
            log_store.uri,
            "--auth",
            "off",
            "--log-level",
            "warning",
            "--audit-dir",
            str(folder / "audit"),
        ]
        manager = await asyncio.to_thread(subprocess.Popen, command, cwd=_ROOT)
        try:
            url = f"http://127.0.0.1:{port}"
            async with aiohttp.ClientSession(url) as http:
                ready_s = round(await asking.until_listed(http, jobs), 2)
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
