"""Every failure is told at least once, as the same event, whoever is killed or away. A worker's own process."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from common.etcd import EtcdClient
from common.notices.events import Event
from common.protocol.keys import RunId, decode_mark
from common.protocol.run import last_order
from common.runlog import RunLog
from tests.support.etcd_server import EtcdServer
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStoreServer
from tests.support.waiting import PATIENCE_S, wait_until
from tests.support.warm import WARM, WarmProcess
from tests.support.working import Place, World

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET)]

ROOT = Path(__file__).parents[3]
EACH_SECOND = "* * * * * * *"


@pytest.fixture
async def own_store(tmp_path: Path) -> AsyncIterator[LogStoreServer]:
    async with LogStoreServer(tmp_path / "log-store") as server:
        yield server


@pytest.fixture
def place(etcd_server: EtcdServer, own_store: LogStoreServer, tmp_path: Path) -> Place:
    return Place.new(tmp_path, etcd=etcd_server.endpoint, log_store=own_store.uri)


@pytest.fixture
async def world(place: Place) -> AsyncIterator[World]:
    async with (
        EtcdClient([place.etcd]) as etcd,
        RunLog(place.log_store, database=place.database, connect_timeout_ms=round(1000 * PATIENCE_S)) as runlog,
    ):
        yield World(place=place, etcd=etcd, runlog=runlog)


@contextmanager
def worker(place: Place, failpoint: str = "") -> Iterator[WarmProcess]:
    flags = [
        "--etcd-endpoints", place.etcd, "--mongodb-uri", place.log_store, "--mongodb-database", place.database,
        "--key-prefix", place.prefix, "--data-dir", str(place.directory / "w1"), "--worker-name", "w1",
        "--lease-ttl-seconds", "2", "--job-log-commit-timeout", "50",
    ]  # fmt: skip
    with (place.directory / "out").open("ab") as out:
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "ETCRON_FAILPOINT": failpoint}
        command = ("start", "worker", *flags)
        process = WARM.start("cli", command, directory=place.directory, environ=environ, log=out.fileno())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def save_jobs(world: World) -> None:
    """One that fails, one whose retry succeeds, and one that is fine; each second."""
    await world.save("bad", "exit 3", EACH_SECOND, overlap="allow")
    retry = {"limit": 1, "delaySeconds": 0}
    await world.save("flaky", "test $ETCRON_ATTEMPT = 2", EACH_SECOND, overlap="allow", retry=retry)
    await world.save("good", "true", EACH_SECOND, overlap="allow")


async def all_are_told(world: World, *, least: int) -> dict[str, list[Event]]:
    """By run, once each failure in the log is told; no further one comes."""
    for name in ("bad", "flaky", "good"):
        await world.etcd.delete(world.keys.job(name))
    events: dict[str, list[Event]] = {}

    async def told() -> bool:
        events.clear()
        for document in await world.runlog.outbox.read(1_000):
            for event in document.events:
                events.setdefault(event.run, []).append(event)
        failed = {one["_id"] for one in await world.records("bad") if one["status"] in ("failed", "lost")}
        return not await world.entries() and len(failed) >= least and failed <= events.keys()

    await wait_until(told, description="all failures are told")
    return events


async def the_same_and_no_others(world: World, events: dict[str, list[Event]]) -> None:
    """Each run's event has one identity, that of its record; nothing is told of what was fine in the end."""
    for told in events.values():
        assert len({(one.order, one.kind) for one in told}) == 1
    records = await world.runlog.find(map(RunId.parse, events))
    for run, told in events.items():
        assert told[0].order == last_order(records[run])
    flaky = {one["_id"]: one["status"] for one in await world.records("flaky")}
    of_flaky = [RunId.parse(run) for run in events if run in flaky]
    assert [run for run in of_flaky if "success" in (flaky[str(run)], flaky.get(str(run.next_attempt)))] == []
    assert not any(run.startswith("good@") for run, told in events.items() if told[0].kind == "failed")


async def mark(world: World) -> int:
    kv = await world.etcd.get(world.keys.mark("bad"))
    return decode_mark(kv.value) if kv is not None else 0


async def test_worker_killed_before_and_after_it_has_told(place: Place, world: World) -> None:
    await save_jobs(world)
    for failpoint in ("before_outbox:kill:2", "after_outbox:kill:3", "after_ack:kill:3"):
        with worker(place, failpoint) as process:
            await wait_until(lambda: process.poll() is not None, description=f"killed: {failpoint}")
            assert process.returncode == -signal.SIGKILL, (place.directory / "out").read_text()[-2_000:]
    with worker(place):
        events = await all_are_told(world, least=3)
    await the_same_and_no_others(world, events)


async def test_log_store_killed_and_away_for_a_while(place: Place, world: World, own_store: LogStoreServer) -> None:
    await save_jobs(world)
    with worker(place):
        for seen in (2, 4, 6):

            async def more(seen: int = seen) -> bool:
                return len(await world.records("bad")) >= seen

            await wait_until(more, description=f"{seen} runs have failed")
            await own_store.kill()
            then = await mark(world)

            async def goes_on(then: int = then) -> bool:
                return await mark(world) >= then + 2_000

            await wait_until(goes_on, description="fires go on without a log store")
            await own_store.start()
        events = await all_are_told(world, least=6)
    await the_same_and_no_others(world, events)
