"""1,000, 10,000 and 100,000 jobs, 1 in 1,000 due each minute: start-up, memory and idle CPU of a worker; a manager's.

The jobs are put directly into etcd, as if saved more than a year ago and decided until now; most fire once a year. A
worker's start-up lasts from its start as a process to its first claim: of a job that is due already, once the marks of
all have been looked at. Idle is between two minutes; the worker is the steward, too, and has looked at each job once by
then. CPU seconds are told beside the time, which depends on what else goes on.

What being known costs a call: one manager with the smallest size answers its owner, who needs no login, a session and a
token in turn; the medians of its CPU time for a call are compared.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp

from bench.asking import ask, times_ms, until_listed
from bench.figures import Figure, Goal, WrongError, at_most, ratio
from bench.filling import save_directly
from bench.sampling import cpu_ms, cpu_s, peak_resident, resident_mib
from common.etcd import EtcdClient
from common.jobs.job import JobSpec
from common.protocol.keys import Keys
from tests.support.cluster import Cluster, Process, running_cluster
from tests.support.etcd_server import free_port
from worker.lead.stuck_fires import FIRST_LOOKS

SIZES: Final = (1_000, 10_000, 100_000)
SAVED_DAYS_AGO: Final = 400
"""So each job has had a fire, and its mark is looked at by those whose turn that was."""
_PROBE: Final = "is-planned"
_ONE_IN: Final = 1_000
_IDLE_S: Final = 20
_SETTLES_S: Final = 3
_LIMIT_S: Final = 900
_LOOK_S: Final = 0.02
_GOALS: Final = {
    "worker: start-up": at_most(8),
    "worker: memory": at_most(400),
    "worker: idle CPU": at_most(2),
    "manager: a page of jobs": at_most(50),
}
_LOOKS: Final = {"a page of jobs": "/api/v1/jobs", "GET /job/list": "/job/list"}
_IN_TURN: Final = 40
"""Times that each caller has a turn, in which it asks so often:"""
_A_TURN: Final = 10
_LOGIN_MS: Final = at_most(0.2)
_PASSWORD: Final = "three words in a row"
_GROWTH: Final = (
    "worker: start-up",
    "worker: CPU of the start-up",
    "worker: memory",
    "worker: idle CPU",
    "manager: start-up",
    "manager: memory",
)


def one_round(share: float) -> list[Figure]:
    """One size after the other; the goals are for the largest, and for the growth."""
    sizes = [max(1, round(size * share)) for size in SIZES]
    figures: list[Figure] = []
    found: list[dict[str, tuple[float, str]]] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            found.append(asyncio.run(_size(Path(folder), size)))
        for name, (value, unit) in found[-1].items():
            goal: Goal | None = _GOALS.get(name) if size == sizes[-1] else None
            figures.append(Figure(name=f"{size:,} jobs, {name}", value=value, unit=unit, goal=goal))
    growth = sizes[-1] / sizes[-2]
    for name in _GROWTH:
        label = f"{name}, {sizes[-1]:,} to {sizes[-2]:,} jobs"
        figures.append(ratio(label, found[-1][name][0], found[-2][name][0], at_most(growth)))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return figures + asyncio.run(_logged_in(Path(folder), sizes[0], share))


def specs(size: int) -> Iterator[JobSpec]:
    """So many jobs: of 1,000 one is due each minute, the others at some minute of the year."""
    yield JobSpec(name=_PROBE, command="true", cron_exprs=("* * * * * * *",))
    for number in range(size - 1):
        yearly = f"{number % 60} {number // 7 % 60} {number % 24} {1 + number % 28} {1 + number // 28 % 12} * *"
        expr = "0 * * * * * *" if number % _ONE_IN == 1 else yearly
        yield JobSpec(name=f"team-{number % 50}.job-{number:06d}", command=f"true {number}", cron_exprs=(expr,))


async def _size(folder: Path, size: int) -> dict[str, tuple[float, str]]:
    async with running_cluster(folder, workers=0, managers=0, is_cold=True) as cluster:
        await save_directly(cluster.etcd.endpoint, specs(size), days_ago=SAVED_DAYS_AGO)
        async with EtcdClient([cluster.etcd.endpoint]) as etcd:
            worker = await worker_with(cluster, etcd, size)
            await cluster.workers[0].end()
            return {**worker, **await manager_with(cluster, size - 1)}


async def worker_with(cluster: Cluster, etcd: EtcdClient, jobs: int) -> dict[str, tuple[float, str]]:
    """Figures of one worker with so many jobs; it runs on, and has looked at all of them."""
    mark, keys = await etcd.get(Keys().mark(_PROBE)), Keys()
    assert mark is not None
    worker = cluster.add_worker("worker-1")
    began = time.monotonic()
    worker.start()
    assert worker.popen is not None
    pid = worker.popen.pid
    with peak_resident(pid) as peak:
        while (now := await etcd.get(keys.mark(_PROBE))) is None or now.mod_revision == mark.mod_revision:
            if time.monotonic() > began + _LIMIT_S or worker.popen.poll() is not None:
                raise WrongError(f"the worker plans nothing: {worker.log[-500:]}")
            await asyncio.sleep(_LOOK_S)
        started_s, started_cpu_s = time.monotonic() - began, cpu_s([pid])
        # As a manager deletes a job, but that its mark may go: nobody is to make it again.
        await etcd.delete(keys.job(_PROBE))
        await asyncio.sleep(_SETTLES_S + jobs / FIRST_LOOKS)
    await _until_after_the_minute()
    used, since = cpu_s([pid]), time.monotonic()
    await asyncio.sleep(_IDLE_S)
    idle = (cpu_s([pid]) - used) / (time.monotonic() - since)
    return {
        "worker: start-up": (started_s, "s"),
        "worker: CPU of the start-up": (started_cpu_s, "s"),
        "worker: memory": (resident_mib(pid), "MiB"),
        "worker: memory at most": (peak.mib, "MiB"),
        "worker: idle CPU": (idle * 100, "% of a core"),
    }


async def _until_after_the_minute() -> None:
    """So that no minute begins while the worker is to be idle."""
    second = time.time() % 60
    if second < _SETTLES_S or second > 60 - _IDLE_S - 1:
        await asyncio.sleep((60 + _SETTLES_S - second) % 60)


async def manager_with(cluster: Cluster, jobs: int) -> dict[str, tuple[float, str]]:
    """Figures of a manager with so many jobs."""
    url, pid = _manager(cluster, "--auth", "off")
    async with aiohttp.ClientSession(url) as http:
        started_s = await until_listed(http, jobs)
        memory = resident_mib(pid)
        page_ms = await times_ms(lambda: ask(http, "/api/v1/jobs"))
        began = time.monotonic()
        with peak_resident(pid) as peak:
            length = await _streamed(http)
        streamed_s = time.monotonic() - began
    return {
        "manager: start-up": (started_s, "s"),
        "manager: memory": (memory, "MiB"),
        "manager: a page of jobs": (statistics.median(page_ms), "ms"),
        "manager: GET /job/list": (streamed_s, "s"),
        "manager: memory more meanwhile": (max(0.0, peak.mib - memory), "MiB"),
        "manager: length of the list": (length / 2**20, "MiB"),
    }


def _manager(cluster: Cluster, *flags: str) -> tuple[str, int]:
    """A manager that starts: where it will serve, and its process."""
    port = free_port()
    flags = (*cluster.shared, *flags, "--api-port", str(port))
    manager = Process("manager", "manager-1", cluster.directory / "manager-1", flags, is_cold=True)
    cluster.managers.append(manager)
    manager.start()
    assert manager.popen is not None
    return f"http://127.0.0.1:{port}", manager.popen.pid


async def _logged_in(folder: Path, size: int, share: float) -> list[Figure]:
    """What a session and a token cost a call."""
    async with running_cluster(folder, workers=0, managers=0, is_cold=True) as cluster, AsyncExitStack() as stack:
        await save_directly(cluster.etcd.endpoint, specs(size), days_ago=SAVED_DAYS_AGO)
        url, pid = _manager(cluster, "--auth", "required", "--trust-owner", "true")
        owner = await stack.enter_async_context(aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()))
        await until_listed(owner, size)
        everything = {"labels": "all", "runAs": "all", "workers": "all"}  # and no variable to mask
        await _sent(owner, "users", {"name": "alice", "password": _PASSWORD})
        await _sent(owner, "bindings", {"subject": "user:alice", "role": "editor", **everything})
        browser = await stack.enter_async_context(aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()))
        async with browser.post("/api/v1/login", json={"name": "alice", "password": _PASSWORD}) as answer:
            cookies = {name: cookie.value for name, cookie in answer.cookies.items()}
            second = (await answer.json())["csrf"]
        # As headers: what a client does about cookies is not what is measured.
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        browser.headers.update({"Cookie": cookie, "X-Etcron": "1", "X-Etcron-Session": second})
        bearer = {"Authorization": f"Bearer {(await _sent(browser, 'tokens', {'name': 'bench'}))['token']}"}
        script = await stack.enter_async_context(aiohttp.ClientSession(url, headers=bearer))
        figures = []
        for what, path in _LOOKS.items():
            took_ms = await _in_turn((owner, browser, script), path, pid, turns=max(5, round(_IN_TURN * share)))
            name = f"{size:,} jobs, manager: {what}"
            figures.append(Figure(name=f"{name}, CPU without a login", value=took_ms[0], unit="ms"))
            for who, more in zip(("a session", "a token"), took_ms[1:], strict=True):
                cost = Figure(name=f"{name}, more with {who}", value=more - took_ms[0], unit="ms", goal=_LOGIN_MS)
                figures.append(cost)
        return figures


async def _sent(http: aiohttp.ClientSession, what: str, body: dict[str, str]) -> dict[str, str]:
    async with http.post(f"/api/v1/{what}", json=body) as answer:
        if answer.status not in (200, 201):
            raise WrongError(f"{what}: {answer.status} {await answer.text()}")
        document: dict[str, str] = await answer.json()
        return document


async def _in_turn(callers: Sequence[aiohttp.ClientSession], path: str, pid: int, *, turns: int) -> list[float]:
    """The manager's CPU time in ms for a call of each caller."""
    took_ms: list[list[float]] = [[] for _ in callers]
    for number in range(turns):
        for turn in range(len(callers)):
            which = (number + turn) % len(callers)  # none always follows the same one
            began_ms = cpu_ms(pid)
            for _ in range(_A_TURN):
                await ask(callers[which], path)
            took_ms[which].append((cpu_ms(pid) - began_ms) / _A_TURN)
    return [statistics.median(took) for took in took_ms]


async def _streamed(http: aiohttp.ClientSession) -> int:
    """Bytes of the whole list, read as they come."""
    length = 0
    async with http.get("/job/list") as answer:
        async for chunk in answer.content.iter_any():
            length += len(chunk)
    return length
