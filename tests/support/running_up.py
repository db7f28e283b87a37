"""`etcron up` as a user starts it: a process of its own, in a directory that is not the checkout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import psutil

from tests.support.etcd_server import chosen_etcd, free_port, usual_etcd
from tests.support.forked import COPY
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.warm import WARM, WarmProcess

ROOT = Path(__file__).parents[2]
_FROM_THE_CHECKOUT = (sys.executable, "-P", "-m", "cli")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningUp:
    """One `etcron up`."""

    process: subprocess.Popen[bytes] | WarmProcess
    printed: Path
    url: str
    http: aiohttp.ClientSession

    @property
    def out(self) -> str:
        """What it has printed so far."""
        return self.printed.read_text()

    async def get(self, path: str) -> list[dict[str, object]]:
        """The `data` of an answer."""
        async with self.http.get(self.url + path) as answer:
            assert answer.status == 200
            data: list[dict[str, object]] = (await answer.json())["data"]
            return data

    async def ends(self) -> int:
        """Its exit status, once it has ended."""
        await wait_until(lambda: self.process.poll() is not None, description=f"up has ended: {self.out}")
        return self.process.wait()

    def children(self) -> list[psutil.Process]:
        """What it has started."""
        return [one for one in psutil.Process(self.process.pid).children() if one.name() != COPY]


@asynccontextmanager
async def running_up(
    directory: Path,
    *options: str,
    command: Sequence[str] = _FROM_THE_CHECKOUT,
    etcd: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> AsyncIterator[RunningUp]:
    """`etcron up` with its data in the directory; ready inside the block, killed after it.

    From the checkout it finds ``etcd``, or that of all tests, on its PATH; elsewhere only what ETCD names.
    """
    port, printed = free_port(), directory / "printed"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(directory), **(environ or {})}
    if (etcd := etcd or (usual_etcd() if command is _FROM_THE_CHECKOUT else chosen_etcd())) is not None:
        (directory / "bin").mkdir(exist_ok=True)
        (directory / "bin" / "etcd").unlink(missing_ok=True)
        (directory / "bin" / "etcd").symlink_to(etcd)
        environ["PATH"] = f"{directory / 'bin'}:{environ['PATH']}"
    if command is _FROM_THE_CHECKOUT:
        environ["PYTHONPATH"] = str(ROOT)
    flags = ("up", "--data-dir", str(directory / "data"), "--port", str(port), *options)
    process: subprocess.Popen[bytes] | WarmProcess
    with printed.open("wb") as output:
        if command is _FROM_THE_CHECKOUT:
            process = WARM.start("cli", flags, directory=directory, environ=environ, log=output.fileno())
        else:
            process = subprocess.Popen([*command, *flags], cwd=directory, env=environ, stdout=output, stderr=output)
    try:
        async with aiohttp.ClientSession() as http:
            running = RunningUp(process=process, printed=printed, url=f"http://127.0.0.1:{port}", http=http)
            # It may fetch an etcd first (30 s), and gives each of what it starts 30 s.
            await wait_until(
                lambda: "etcron is up" in running.out or process.poll() is not None,
                description="etcron is up",
                timeout=3 * PATIENCE_S,
            )
            assert process.poll() is None, running.out
            yield running
    finally:
        process.kill()
        process.wait()
