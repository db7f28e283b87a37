"""`etcron up`: everything on one machine, started in order, kept running, stopped in order.

etcd -> log store -> manager, workers        and back:  workers -> manager -> log store -> etcd
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

import cli
import common
from cli.errors import CommandError, ExitStatus
from cli.processes.children import answers, manager_spec, store_specs, worker_spec
from cli.processes.data_dir import DataDir
from cli.processes.embedded import fetch, place_of
from cli.processes.login_link import GOOD_FOR_S, login_link
from cli.processes.plan import Options, Plan, lacks_etcd, make_plan
from cli.processes.ports import PortClaims
from cli.processes.supervisor import Child, reaping, trim_log
from cli.processes.worker import left_behind
from common.access.callers import AuthMode
from common.process.lifecycle import Stop, all_ended, run_loops
from common.tls import pinned_context

_ALARMING = re.compile(rb'\S+ (?:WARNING|ERROR|CRITICAL) |\{.*"level": "(?:warning|error|critical)"')
"""Begins such a line, be it text or JSON."""
_AT_MOST = 20


def up(options: Options) -> Callable[[Stop], Coroutine[Any, Any, None]]:
    """The main of `etcron up`. Raises CommandError or ConfigError where it cannot start."""

    async def main(stop: Stop) -> None:
        _check_neighbours()
        data = DataDir(options.data_dir)
        with data.held(), PortClaims() as ports:
            if lacks_etcd(options, os.environ):
                place = place_of(os.environ)
                say(f"etcd:      fetching Debian's into {place} (once, within 30 s; nothing is installed) ...")
                if why := await fetch(place, stop.requested):
                    say(f"           it could not be fetched: {why}")
            plan = make_plan(options, data, ports)
            say(f"data:      {data.path}")
            for line in plan.lines:
                say(line)
            for told in await asyncio.to_thread(_left_behind, data, options.workers):
                say(f"note:      {told}")
            cert = plan.manager.tls_cert
            connector = aiohttp.TCPConnector(ssl=pinned_context(cert) if cert is not None else True)
            limit = aiohttp.ClientTimeout(total=5)
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit) as http,
                _way_in(plan, http, limit) as way_in,
            ):
                await _Machine(options, plan, data, http, way_in, stop).run()

    return main


def _left_behind(data: DataDir, workers: int) -> list[str]:
    return [
        told for told, _ in left_behind(data.path, prefix="worker-", count=workers, remedy="start once with --workers")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _WayIn:
    """How `up` itself calls its manager."""

    http: aiohttp.ClientSession
    url: str


@contextlib.asynccontextmanager
async def _way_in(plan: Plan, http: aiohttp.ClientSession, limit: aiohttp.ClientTimeout) -> AsyncIterator[_WayIn]:
    """Through the Unix socket, where it is the owner wherever the manager listens."""
    if plan.manager.socket is None:
        yield _WayIn(http=http, url=plan.url)
        return
    connector = aiohttp.UnixConnector(str(plan.manager.socket))
    async with aiohttp.ClientSession(connector=connector, timeout=limit) as through:
        yield _WayIn(http=through, url="http://localhost")


def say(line: str) -> None:
    """One line to the user, at once; a full disk or a terminal that is gone ends nothing."""
    with contextlib.suppress(OSError):
        print(line, flush=True)


class _Machine:
    """The children of one `up`."""

    def __init__(
        self, options: Options, plan: Plan, data: DataDir, http: aiohttp.ClientSession, way_in: _WayIn, stop: Stop
    ) -> None:
        self._options = options
        self._plan = plan
        self._data = data
        self._http = http
        self._way_in = way_in
        self._stop = stop
        self._stores = [Child(spec, say) for spec in store_specs(plan, data, http)]
        self._manager = Child(manager_spec(plan, data, http), say)
        self._workers = [Child(worker_spec(plan, data, index), say) for index in range(len(plan.workers))]
        self._echoes = {
            child.spec.name: LogEcho(log) for child in (self._manager, *self._workers) if (log := child.spec.log)
        }

    async def run(self) -> None:
        """Start, keep running, and stop in order, also where the start fails."""
        children = [*self._stores, self._manager, *self._workers]
        try:
            if await self._unless_stopped(self._start()):
                loops = {f"keep {child.spec.name}": child.keep_running for child in children}
                loops |= {"logs": self._mind_logs, "greet": self._greet}
                await run_loops(self._stop, {**loops, **reaping(children)})
        finally:
            await self._stop_in_order()

    async def _start(self) -> None:
        for store in self._stores:
            await store.start()
        async with asyncio.TaskGroup() as group:
            for child in (self._manager, *self._workers):
                group.create_task(child.start())

    async def _unless_stopped(self, work: Awaitable[None]) -> bool:
        """Whether the work was done before a stop was requested (which cancels it)."""
        doing = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop.requested.wait())
        await asyncio.wait((doing, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
            return False
        doing.result()
        return True

    async def _stop_in_order(self) -> None:
        hurry = self._stop.hurry
        if any(worker.pid for worker in self._workers):
            say("stopping (what runs may take a while to end; Ctrl-C again to hurry) ...")
        await all_ended(worker.stop(hurry) for worker in self._workers)
        for child in (self._manager, *reversed(self._stores)):
            await child.stop(hurry)
        say("stopped")

    async def _greet(self) -> None:
        """Wait until it works, save the examples, say where it is; then there is nothing left to do but to wait."""
        url = self._plan.url
        await self._until(self._is_ready, "the manager is not ready yet: see /readyz?verbose and its log")
        await self._until(self._workers_there, "the workers have not registered yet: see their logs")
        if self._options.example:
            say(f"examples:  {await save_examples(self._way_in.http, self._way_in.url)}")
        count = len(self._plan.workers)
        workers = "1 worker" if count == 1 else f"{count} workers"
        say(f"etcron is up: {url} (1 manager, {workers}; what they print is in {self._data.path}/log)")
        await self._offer_link()
        await self._stop.requested.wait()

    async def _offer_link(self) -> None:
        """A login for another browser; shown to a terminal alone, for logs and journals are read by others."""
        if not sys.stdout.isatty() or self._plan.manager.auth is not AuthMode.REQUIRED:
            return
        link = await login_link(self._data.path / "config" / "manager.json", self._data.login_link)
        if link is not None:
            say(f"for another browser (works once, within {GOOD_FOR_S // 60} minutes): {link}")

    async def _until(self, condition: Callable[[], Awaitable[bool]], complaint: str) -> None:
        waited = 0
        while not await condition():
            waited += 1
            if waited % 50 == 0:
                say(complaint)
            await asyncio.sleep(0.2)

    async def _is_ready(self) -> bool:
        return await answers(self._http, f"{self._plan.url}/readyz")

    async def _workers_there(self) -> bool:
        """Whether each of ours has registered, whichever others are there."""
        ours = {worker.worker_name for worker in self._plan.workers}
        try:
            async with self._way_in.http.get(f"{self._way_in.url}/api/v1/workers") as answer:
                if answer.status in (401, 403):
                    return True  # the configuration leaves `up` no way in
                if answer.status != 200:
                    return False
                return ours <= {item.get("name") for item in (await answer.json())["items"] if item.get("session")}
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    async def _mind_logs(self) -> None:
        """Show what is alarming, keep the logs small."""
        while True:
            await asyncio.sleep(1)
            for name, echo in self._echoes.items():
                for line in echo.alarming_lines():
                    say(f"{name}: {line}")
            for child in (*self._stores, self._manager, *self._workers):
                if child.spec.log is not None:
                    trim_log(child.spec.log)


def _check_neighbours() -> None:
    """`common` is a common name: be sure that it is ours, not that of another package."""
    home = Path(cli.__file__).parent.parent
    if Path(common.__file__).parent.parent != home:
        raise CommandError(
            f"the package `common` comes from {common.__file__}, not from {home}: another package of that name is in "
            "the way; install etcron into an environment of its own",
            ExitStatus.REFUSED,
        )


class LogEcho:
    """Follows the log of a child from where it is now: its warnings and errors are shown on the terminal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = path.stat().st_size if path.exists() else 0

    def alarming_lines(self) -> list[str]:
        """The warnings and errors written since the last call; of many only the last ones, which says so."""
        lines = [line.decode(errors="replace") for line in self._new_lines() if _ALARMING.match(line)]
        if len(lines) <= _AT_MOST:
            return lines
        return [f"({len(lines) - _AT_MOST} more in {self._path})", *lines[-_AT_MOST:]]

    def _new_lines(self) -> list[bytes]:
        """The complete lines since the last call; a log that became shorter was trimmed, and is read from its start."""
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                text = file.read()
        except OSError:
            return []
        complete = text[: text.rfind(b"\n") + 1]
        self._offset += len(complete)
        return complete.splitlines()


JOBS: tuple[dict[str, object], ...] = (
    {
        "name": "hello",
        "command": 'echo "hello from $ETCRON_WORKER, planned for $ETCRON_PLAN_TIME"',
        "cronExpr": "*/5 * * * * * *",
    },
    {
        "name": "disk-space",
        "command": "df -h / | tail -1",
        "cronExpr": "*/20 * * * * * *",
        "timeoutSeconds": 10,
    },
    {
        "name": "fails-now-and-then",
        "command": 'if [ $((ETCRON_PLAN_MS / 15000 % 3)) = 0 ]; then echo "something broke" >&2; exit 3; fi; echo fine',
        "cronExpr": "*/15 * * * * * *",
    },
    {
        "name": "nightly-report",
        "command": "echo 'the report would be made here'",
        "cronExpr": "0 30 2 * * * *",
        "timezone": "Europe/Berlin",
        "misfire": {"policy": "latest"},
    },
)


async def save_examples(http: aiohttp.ClientSession, url: str) -> str:
    """Save the examples where there is no job yet; what came of that, in words."""
    saved: list[str] = []
    try:
        async with http.get(f"{url}/job/list") as answer:
            answer.raise_for_status()
            if (await answer.json())["data"]:
                return "there are jobs already, none saved"
        for job in JOBS:
            async with http.post(f"{url}/job/save", data={"job": json.dumps(job)}) as answer:
                answer.raise_for_status()
            saved.append(str(job["name"]))
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f"saved {', '.join(saved) or 'none'}; the manager did not take more: {str(error) or 'no answer in time'}"
    return f"saved {', '.join(saved)}"
