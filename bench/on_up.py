"""An `etcron up` of two workers, as a user starts it, with jobs put directly into its etcd."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from bench.filling import save_directly, tell_all
from cli.processes.data_dir import DataDir
from common.etcd import FIRST_USER, EtcdUser
from common.jobs.job import JobSpec
from tests.support.running_up import RunningUp, running_up

WORKERS: Final = 2


class Up:
    """One that runs."""

    def __init__(self, running: RunningUp, data: DataDir) -> None:
        self.http = running.http
        self.url = running.url
        remembered = data.remembered()
        self.etcd = f"127.0.0.1:{remembered['etcdPort']}"
        self.etcd_user = EtcdUser.with_password_file(FIRST_USER, data.etcd_password)
        self.log_store = f"mongodb://{quote(str(data.log_store_socket), safe='')}/"

    async def save(self, specs: Iterable[JobSpec]) -> None:
        """The jobs are in etcd, and the workers are being told."""
        await save_directly(self.etcd, specs, user=self.etcd_user)

    async def tell_all(self) -> None:
        """A rule selects every job."""
        await tell_all(self.etcd, user=self.etcd_user)


@asynccontextmanager
async def up(folder: Path, *, etcd: Path | None = None) -> AsyncIterator[Up]:
    """Ready inside the block, gone after it. Its data lie in the folder."""
    async with running_up(folder, "--workers", str(WORKERS), etcd=etcd) as running:
        yield Up(running, DataDir(folder / "data"))
