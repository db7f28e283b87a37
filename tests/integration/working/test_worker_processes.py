"""``etcron start worker --processes 2``: two workers, one that dies is replaced, all stop together. Real processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.waiting import wait_until
from tests.support.working import Place, World

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

ROOT = Path(__file__).parents[3]


@contextmanager
def supervised(place: Place) -> Iterator[psutil.Process]:
    """The supervisor."""
    flags = [
        "--etcd-endpoints", place.etcd, "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
        "--key-prefix", place.prefix, "--data-dir", str(place.directory / "big"), "--worker-name", "big",
        "--processes", "2", "--slots", "5",
    ]  # fmt: skip
    with (place.directory / "out").open("wb") as out:
        popen = subprocess.Popen(
            [sys.executable, "-P", "-m", "cli", "start", "worker", *flags],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}, cwd=place.directory, stdout=out, stderr=out,
        )  # fmt: skip
    process = psutil.Process(popen.pid)
    try:
        yield process
    finally:
        popen.kill()
        popen.wait()


async def there(world: World, count: int, *, but: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """What the live workers say of themselves, by name, once there are so many in other sessions than these."""
    found: dict[str, dict[str, Any]] = {}

    async def enough() -> bool:
        found.clear()
        async for page in world.etcd.read_prefix(world.keys.workers):
            for kv in page.kvs:
                *_, name, session = kv.key.split("/")
                if session not in but:
                    found[name] = {**json.loads(kv.value), "session": session}
        return len(found) == count

    await wait_until(enough, description=f"{count} workers are live")
    return found


def workers_of(supervisor: psutil.Process) -> set[int]:
    """Those that live."""
    found = set()
    for child in supervisor.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
    return found


async def gone(pids: set[int]) -> None:
    await wait_until(lambda: not any(map(psutil.pid_exists, pids)), description="all have ended")


async def test_a_machine_has_two_workers_until_both_stop_together(world: World) -> None:
    with supervised(world.place) as supervisor:
        members = await there(world, 2)
        assert {name: member["slots"] for name, member in members.items()} == {"big": 3, "big-2": 2}
        instances = {name: member["instance"] for name, member in members.items()}
        assert instances["big"] != instances["big-2"]

        (victim,) = (pid for pid in workers_of(supervisor) if "2.json" in psutil.Process(pid).cmdline()[-1])
        os.kill(victim, signal.SIGKILL)
        again = await there(world, 2, but={members["big-2"]["session"]})
        assert {name: member["instance"] for name, member in again.items()} == instances
        assert again["big"]["session"] == members["big"]["session"]

        everything = {supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))}
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(60) == 0
        await gone(everything - {supervisor.pid})
        assert await there(world, 0) == {}
