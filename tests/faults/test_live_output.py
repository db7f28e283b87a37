"""Whoever carries live output dies and comes back: who looks goes on where they were, and the record has all of it."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.cluster import ROOT, Cluster, running_cluster
from tests.support.proxy import Mode, Proxy

pytestmark = pytest.mark.slow


class Printing:
    """A run that prints what the test says, and a command line that follows it."""

    def __init__(self, cluster: Cluster, run: str, said: int, process: Process) -> None:
        self.cluster = cluster
        self.run = run
        self._said = said
        self._process = process
        self.shown = ""

    def say(self, text: str) -> None:
        os.write(self._said, text.encode())

    def end(self) -> None:
        os.close(self._said)

    async def shows(self, text: str) -> None:
        """It comes on stdout, a while after it was said."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while text not in self.shown:
                piece = await self._process.stdout.read(65_536)
                assert piece, f"it has ended with {self.shown!r}"
                self.shown += piece.decode()

    async def over(self) -> int:
        """It has shown the rest; its exit status."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            self.shown += (await self._process.stdout.read()).decode()
            return await self._process.wait()

    async def record(self) -> Any:
        return await self.cluster.get(f"/api/v1/runs/{quote(self.run, safe='')}")


@asynccontextmanager
async def printing(cluster: Cluster, servers: str | None = None) -> AsyncIterator[Printing]:
    fifo = cluster.directory / "said"
    os.mkfifo(fifo)
    said = os.open(fifo, os.O_RDWR)
    await cluster.save("prints", f"exec cat < {fifo}", "0 0 0 1 1 * 2199")
    run = (await cluster.call("POST", "/api/v1/jobs/prints/run", {}))["runId"]
    servers = servers or ",".join(f"http://127.0.0.1:{port}" for port in cluster.ports)
    environ = {"PATH": os.environ["PATH"], "HOME": str(cluster.directory), "PYTHONUNBUFFERED": "1"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "cli", "run", "log", "-f", run, "--server", servers, cwd=ROOT, env=environ, stdout=PIPE
    )
    try:
        yield Printing(cluster, run, said, process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_managers_log_store_and_etcd_die_and_nothing_is_missing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=1, managers=2) as cluster, printing(cluster) as run:
        run.say("one\n")
        await run.shows("one\n")
        for manager in cluster.managers:
            manager.destroy()
            run.say(f"without {manager.name}\n")
            await run.shows(f"without {manager.name}\n")
            manager.start()
            await cluster.ready()
        await cluster.log_store.kill()
        run.say("without a log store\n")
        await cluster.log_store.start()
        await run.shows("without a log store\n")
        await cluster.etcd.kill()
        run.say("without etcd\n")
        await cluster.etcd.start()
        await run.shows("without etcd\n")
        await cluster.log_store.kill()
        run.say("the end\n")
        run.end()
        await cluster.log_store.start()
        assert await run.over() == 0
        record = await run.record()
        assert (record["status"], record["output"]) == ("success", run.shown)


async def test_connection_is_cut_again_and_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(running_cluster(tmp_path, workers=1, managers=1))
        way = await stack.enter_async_context(Proxy(f"127.0.0.1:{cluster.ports[0]}", http2=False))
        run = await stack.enter_async_context(printing(cluster, f"http://{way.endpoint}"))
        for number in range(3):
            run.say(f"{number}\n")
            await run.shows(f"{number}\n")
            way.set(Mode.RESET)
            run.say(f"cut {number}\n")
            way.set(Mode.PASS)
            await run.shows(f"cut {number}\n")
        run.end()
        assert await run.over() == 0
        assert (await run.record())["output"] == run.shown


async def test_worker_dies_and_the_end_is_told(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, workers=1, managers=1) as cluster, printing(cluster) as run:
        run.say("one\n")
        await run.shows("one\n")
        (worker,) = cluster.workers
        worker.destroy()
        worker.start()
        assert await run.over() == 1
        assert (run.shown, (await run.record())["status"]) == ("one\n", "lost")
        run.end()
