"""The log store is away for long: what waits in etcd is bounded, nothing is lost, what had ended is not run again."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.run import EntryState, RunRecord
from common.verdicts import Verdict
from tests.support.cluster import Process
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStore, to_disturb
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from tests.support.working import Place, World, working
from worker.record import settlement
from worker.record.spool import Spool

pytestmark = [pytest.mark.etcd, pytest.mark.logstore, pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET)]

KEYS, RUNS = 12, 40
LONG = "x" * 300
"""So long an output is kept by the spool alone."""


@pytest.fixture
async def away(log_store: LogStore) -> AsyncIterator[Proxy]:
    """The way to the log store: closed, until the test opens it."""
    async with Proxy(f"127.0.0.1:{to_disturb(log_store).port}", http2=False) as proxy:
        proxy.set(Mode.RESET)
        yield proxy


def uri(proxy: Proxy) -> str:
    return f"mongodb://{proxy.endpoint}/"


async def run_keys(world: World) -> int:
    return len(await world.entries())


@pytest.mark.parametrize("overlap", ["allow", "skip"])
async def test_run_keys_that_wait_are_bounded_and_every_record_comes_in_the_end(
    place: Place, world: World, away: Proxy, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settlement, "MAX_WAITING_KEYS", KEYS)
    async with working(place, mongodb_uri=uri(away)) as worker:
        await worker.deciding()
        spool, now_ms = worker.agent._spool, SystemClock().wall_ms()
        names = ["job"] if overlap == "allow" else [f"job-{number}" for number in range(RUNS)]
        jobs = {name: await world.save(name, f"echo {LONG}", overlap=overlap) for name in names}
        runs = [
            await world.ask(jobs[name], now_ms + number, name=name)
            for number, name in enumerate(names * (RUNS // len(names)))
        ]
        await wait_until(lambda: spool.pending == RUNS, description="all runs are in the spool")
        await wait_until(lambda: not worker.parts.settlement.unsettled, description="etcd is as it will be")
        assert await run_keys(world) == KEYS
        assert all(run.record is not None and not run.record.output for run in worker.parts.table)
        monkeypatch.setattr(worker.parts.settlement, "_live_workers", lambda: 3)
        worker.agent.membership_changed()
        await wait_until(lambda: not worker.parts.settlement.unsettled, description="etcd is as it will be")
        assert await run_keys(world) == KEYS // 3
        away.set(Mode.PASS)
        await wait_until(lambda: spool.pending == 0, description="all is delivered")

        async def nothing_left() -> bool:
            return await run_keys(world) == 0

        await wait_until(nothing_left, description="no run key is left")
        found = await asyncio.gather(*map(world.record, runs))
        assert {(one["status"], one["output"]) for one in found} == {("success", f"{LONG}\n")}
        assert not any([await world.has(world.keys.lock(name)) for name in names])


async def test_a_run_that_had_ended_before_its_worker_was_killed_is_not_run_again(
    place: Place, world: World, away: Proxy, tmp_path: Path
) -> None:
    evidence = tmp_path / "evidence"
    job = await world.save(command=f"echo once >> {evidence}", onWorkerLost="rerun", overlap="skip")
    flags = ("--etcd-endpoints", place.etcd, "--key-prefix", place.prefix, "--worker-name", "w1",
             "--mongodb-uri", uri(away), "--mongodb-database", place.database, "--mongodb-connect-timeout", "500",
             "--data-dir", str(tmp_path / "data"))  # fmt: skip
    process = Process("worker", "w1", tmp_path / "w1", flags)
    process.start()
    try:
        run_id = await world.ask(job, SystemClock().wall_ms())

        async def ended() -> bool:
            return evidence.exists() and not await world.has(world.keys.lock("job"))

        await wait_until(ended, description="the run has ended")
        await process.end(signal.SIGKILL)
        process.start()
        await wait_until(lambda: "settled 1 runs" in process.log, description="it is settled")
        entry = await world.entry(run_id)
        assert entry is not None
        assert (entry.state, await world.requests()) == (EntryState.OPEN, [])
        away.set(Mode.PASS)
        assert (await world.record(run_id))["status"] == "success"

        async def gone() -> bool:
            return await world.entry(run_id) is None

        await wait_until(gone, description="its key is deleted")
        assert evidence.read_text() == "once\n"
        assert len(await world.records()) == 1
    finally:
        process.destroy()


async def test_a_run_whose_worker_died_between_its_record_and_its_lock_is_not_run_again(
    place: Place, world: World, away: Proxy
) -> None:
    job = await world.save(onWorkerLost="rerun")
    (place.directory / "w1").mkdir()
    (place.directory / "w1" / "instance").write_text("inst")
    plan_ms = 1_790_000_000_000
    await world.open_run(plan_ms, worker="w1", instance="inst", revision=job.mod_revision)
    run_id = RunId.planned("job", plan_ms)
    spool = Spool.open(place.directory / "w1" / "spool")
    await spool.append(RunRecord(run_id=run_id, status=Verdict.SUCCESS, output="fine\n", exit_code=0))
    await spool.close()
    async with working(place, mongodb_uri=uri(away)) as worker:
        await worker.deciding()
        assert not await world.has(world.keys.lock("job"))
        assert await world.requests() == []
        assert await world.entry(run_id) is not None
        away.set(Mode.PASS)
        assert (await world.record(run_id))["output"] == "fine\n"
        await wait_until(lambda: not worker.parts.settlement.unsettled, description="it is settled")
    assert await world.entries() == {}
