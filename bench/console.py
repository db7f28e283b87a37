"""100,000 jobs, 1,000,000 records, 500 runs going, 50 browsers: how soon pages are drawn, what it costs a manager.

An etcd without a worker, an nx-27017, both filled by `bench.console_data`, and two managers: ours, and that of a former
commit where OLD names a clone of it with a virtual environment and the console's assets. Ten runs come and go each
second. A browser is a stream of events, with the calls of its page: the overview asks again at most every two seconds,
and every other second for the last line of a run; the list is changed by the events themselves. Pages are drawn by
Chromium, each with an empty cache, in turn. Filling takes two minutes of processor: STORES=FOLDER keeps what was filled
for the next time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from asyncio import TaskGroup
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from playwright.async_api import Browser, async_playwright

from bench import asking, console_data
from bench.figures import Figure, WrongError, at_most, ratio
from bench.sampling import cpu_s, resident_mib
from cli.processes.ports import free_loopback_port
from common.etcd import EtcdClient
from common.protocol.keys import Keys, RunId
from common.protocol.run import EntryState, RunEntry
from tests.console.console import CHROMIUM
from tests.support.etcd_server import EtcdServer, usual_etcd
from tests.support.log_store import LogStoreServer

JOBS: Final = 100_000
RECORDS: Final = 1_000_000
GOING: Final = 500
BROWSERS: Final = 50
_FEWEST_JOBS: Final = 1_000
_ROOT: Final = Path(__file__).parents[1]
_ETCD, _LOG_STORE, _FILLED = "etcd", "log-store", "filled"
_EVERY_S: Final = 0.1
"""As often a run comes, and one goes."""
_ASKS_EVERY_S: Final = 2.0
_WATCHED_S: Final = 20
_LIMIT_S: Final = 60
_STOPS_WITHIN_S: Final = 30
_TIMES: Final = 7
_DRAWN: Final = {
    "list": "#jobs tbody tr", "overview": "#all-well[aria-busy=false]", "timeline": "#lanes svg.chart",
}  # fmt: skip
_WHEN_DRAWN: Final = """selector => new Promise((resolve) => {
  const drawn = () => resolve(performance.now());
  const look = () => requestAnimationFrame(document.querySelector(selector) ? drawn : look);
  look();
})"""


def one_round(share: float) -> list[Figure]:
    """Ours, and theirs where it is named."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = asyncio.run(_measured(Path(folder), share))
    figures = [
        Figure(name=f"{who}: {name}", value=value, unit=unit)
        for who, of_manager in found.items() for name, (value, unit) in of_manager.items()
    ]  # fmt: skip
    ours = found["etcron"]
    theirs = found.get("OLD", {}).get("list drawn", (None, ""))[0]
    for page in ("overview", "timeline"):
        drawn = ours.get(f"{page} drawn", (None, ""))[0]
        figures.append(ratio(f"{page} drawn, to the list of OLD", drawn, theirs, at_most(1.5)))
    return figures


_Found = dict[str, tuple[float, str]]


async def _measured(folder: Path, share: float) -> dict[str, _Found]:
    jobs, records = max(_FEWEST_JOBS, round(JOBS * share)), max(_FEWEST_JOBS, round(RECORDS * share))
    clones = {"etcron": (_ROOT, sys.executable)}
    if old := os.environ.get("OLD"):
        clones["OLD"] = (Path(old).absolute(), str(Path(old).absolute() / ".venv/bin/python"))
    async with AsyncExitStack() as stack:
        if kept := os.environ.get("STORES"):
            if not (Path(kept) / _FILLED).exists():
                await _fill(Path(kept), jobs, records)
            await asyncio.to_thread(shutil.copytree, kept, folder, dirs_exist_ok=True)
        else:
            await _fill(folder, jobs, records)
        etcd = await stack.enter_async_context(EtcdServer(usual_etcd(), folder / _ETCD))
        log_store = await stack.enter_async_context(LogStoreServer(folder / _LOG_STORE))
        client = await stack.enter_async_context(EtcdClient([etcd.endpoint]))
        going = asyncio.create_task(_runs_come_and_go(client, jobs))
        stack.callback(going.cancel)
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=_chromium(), args=CHROMIUM)
        stack.push_async_callback(browser.close)
        managers = {
            who: await stack.enter_async_context(
                _manager(place, python, folder / f"{who}-audit", etcd.endpoint, log_store.uri)
            )
            for who, (place, python) in clones.items()
        }
        found = {who: await _of_manager(url, pid, jobs) for who, (url, pid) in managers.items()}
        pages = {who: await _pages_of(url) for who, (url, _) in managers.items()}
        drawn: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(_TIMES):  # in turn: the machine's speed changes
            for who, (url, _) in managers.items():
                async with _browsers(url, "overview" if "overview" in pages[who] else "list"):
                    for page, path in pages[who].items():
                        drawn[who, page].append(await _drawn_ms(browser, url + path, _DRAWN[page]))
        for (who, page), took in drawn.items():
            found[who][f"{page} drawn"] = (statistics.median(took), "ms")
        return found


async def _fill(folder: Path, jobs: int, records: int) -> None:
    """The folder has a stopped etcd and a stopped log store with so much in them."""
    folder.mkdir(parents=True, exist_ok=True)
    etcd, log_store = EtcdServer(usual_etcd(), folder / _ETCD), LogStoreServer(folder / _LOG_STORE)
    for server in (etcd, log_store):
        await server.start()
    stores = ["--etcd", etcd.endpoint, "--log-store", log_store.uri]
    await asyncio.to_thread(console_data.main, [*stores, "--jobs", str(jobs), "--records", str(records)])
    for server in (etcd, log_store):
        await server.stop()
    (folder / _FILLED).touch()


def _chromium() -> str:
    found = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if found is None:
        raise WrongError("there is no Chromium: make chromium")
    return found


@asynccontextmanager
async def _manager(
    place: Path, python: str, audit: Path, etcd: str, log_store: str
) -> AsyncIterator[tuple[str, int]]:  # fmt: skip
    port = free_loopback_port()
    command = [python, "-m", "manager", "--api-port", str(port), "--etcd-endpoints", etcd, "--mongodb-uri", log_store]
    known = await asyncio.to_thread(subprocess.run, [*command, "--help"], cwd=place, capture_output=True, text=True)
    if "--auth " in known.stdout:  # older managers have no login
        command += ["--auth", "off", "--audit-dir", str(audit)]
    process = await asyncio.to_thread(subprocess.Popen, command, cwd=place)
    try:
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, _STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            if place == _ROOT:
                raise WrongError("the manager does not stop") from None


async def _pages_of(url: str) -> dict[str, str]:
    """Those that there are, and where; former versions have the list at the first place."""
    pages = {"list": "/jobs", "overview": "/", "timeline": "/timeline"}
    async with aiohttp.ClientSession(url) as http:
        for page, path in list(pages.items()):
            async with http.get(path) as answer:
                if answer.status != 200:
                    del pages[page]
    return pages if "list" in pages else {"list": "/"}


async def _of_manager(url: str, pid: int, jobs: int) -> _Found:
    found: _Found = {}
    async with aiohttp.ClientSession(url) as http:
        found["start"] = (await asking.until_listed(http, jobs), "s")
        found["memory"] = (resident_mib(pid), "MiB")
        for name, question in _questions(http, jobs).items():
            with suppress(WrongError):  # an older version has fewer calls
                found[name] = (await _asked_ms(question), "ms")
    for page in await _pages_of(url):
        if page != "timeline":
            async with _browsers(url, page):
                before, began = cpu_s([pid]), time.monotonic()
                await asyncio.sleep(_WATCHED_S)
                share = (cpu_s([pid]) - before) / (time.monotonic() - began)
            found[f"CPU under {BROWSERS} of the {page}"] = (share * 100, "% of a core")
            found[f"memory under {BROWSERS} of the {page}"] = (resident_mib(pid), "MiB")
    return found


async def _asked_ms(question: Callable[[], Awaitable[Any]]) -> float:
    took = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        await question()
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def _questions(http: aiohttp.ClientSession, jobs: int) -> Mapping[str, Callable[[], Awaitable[Any]]]:
    middle = console_data.job_name(jobs // 2)
    ask = partial(asking.ask, http)
    return {
        "GET overview": lambda: ask("/api/v1/overview"),
        "GET a page of jobs": lambda: ask("/api/v1/jobs"),
        "GET failing jobs": lambda: ask("/api/v1/jobs", state="failing"),
        "GET a search without a hit": lambda: ask("/api/v1/jobs", q="there is no such job"),
        "GET a job": lambda: ask(f"/api/v1/jobs/{middle}"),
        "GET its fires": lambda: ask(f"/api/v1/jobs/{middle}/fires"),
        "GET its runs": lambda: ask("/api/v1/runs", job=middle),
        "GET all runs": lambda: ask("/api/v1/runs"),
        "GET 24 hours": lambda: ask("/api/v1/statistics", hours="24"),
        "GET system": lambda: ask("/api/v1/system"),
    }


async def _drawn_ms(browser: Browser, url: str, selector: str) -> float:
    """From the navigation to the frame after it is there; nothing is in the cache."""
    context = await browser.new_context()
    try:
        async with asyncio.timeout(_LIMIT_S):
            page = await context.new_page()
            await page.goto(url, wait_until="commit")
            took: float = await page.evaluate(_WHEN_DRAWN, selector)
            return took
    except TimeoutError:
        raise WrongError(f"{url} is not drawn within {_LIMIT_S} s") from None
    finally:
        await context.close()


@asynccontextmanager
async def _browsers(url: str, page: str) -> AsyncIterator[None]:
    """So many are connected inside the block."""
    own = aiohttp.TCPConnector(limit=2 * BROWSERS)  # a manager takes 128 of an address
    async with aiohttp.ClientSession(url, connector=own, timeout=aiohttp.ClientTimeout()) as http, TaskGroup() as tasks:
        all_of_them = [tasks.create_task(_browse(http, page, number)) for number in range(BROWSERS)]
        await asyncio.sleep(2 * _ASKS_EVERY_S)
        yield
        for one in all_of_them:
            one.cancel()


async def _browse(http: aiohttp.ClientSession, page: str, number: int) -> None:
    """Reads its stream all the time, and asks when something has changed; people do not all come in the same moment."""
    await asyncio.sleep(number * _ASKS_EVERY_S / BROWSERS)
    path = "/api/v1/overview" if page == "overview" else "/api/v1/jobs"
    causes = {"hello", "jobs"} | ({"runs", "workers", "health", "failing", "ping"} if page == "overview" else set())
    changed, going = asyncio.Event(), list[str]()

    async def ask() -> None:
        while True:
            await changed.wait()
            changed.clear()
            found = await asking.ask(http, path)
            going[:] = [run["id"] for run in found.get("longest", ())]
            await asyncio.sleep(_ASKS_EVERY_S)

    async def ask_for_last_lines() -> None:
        for turn in itertools.count():
            await asyncio.sleep(_ASKS_EVERY_S)
            if going:
                with suppress(WrongError):  # it has ended meanwhile
                    await asking.ask(http, f"/api/v1/runs/{quote(going[turn % len(going)], safe='')}/output", tail="1")

    headers = {"Accept": "text/event-stream"}
    async with TaskGroup() as tasks, http.get("/api/v1/events", headers=headers) as stream:
        for one in (ask, ask_for_last_lines):
            tasks.create_task(one())
        async for line in stream.content:
            if line.startswith(b"event: ") and line[7:].strip().decode() in causes:
                changed.set()


async def _runs_come_and_go(etcd: EtcdClient, jobs: int) -> None:
    """So many go at any time; no worker is there that would look after them."""
    keys, going = Keys(), list[str]()
    number = 0
    while True:
        now_ms = time.time_ns() // 1_000_000
        run = RunId.planned(console_data.job_name(number * 7 % jobs), now_ms)
        entry = RunEntry(
            state=EntryState.OPEN, worker=f"w{number % 5}", session="1", instance="bench", plan_ms=now_ms,
            dispatch_ms=now_ms, claim_ms=now_ms, revision=1,
        )  # fmt: skip
        await etcd.put(keys.run(run), entry.to_json())
        going.append(keys.run(run))
        number += 1
        if len(going) > GOING:
            await etcd.delete(going.pop(0))
            await asyncio.sleep(_EVERY_S)
