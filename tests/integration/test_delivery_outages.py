"""Delivery to a real log store that is killed, frozen and emptied: each record comes to it once."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.errors import UnavailableError
from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunFilter, RunLog
from common.verdicts import Verdict
from tests.support.background import running
from tests.support.log_store import PYMONGO_DROPS_A_SOCKET, LogStoreServer, has_log_store
from tests.support.records import NothingTold, last_results, logged, record
from tests.support.waiting import wait_until
from worker.record.delivery import Delivery
from worker.record.spool import Spool

pytestmark = [
    pytest.mark.logstore,
    pytest.mark.skipif(not has_log_store(), reason="no log store: pip install nx-27017"),
    pytest.mark.filterwarnings(PYMONGO_DROPS_A_SOCKET),
]


@pytest.fixture(autouse=True)
def no_garbage_for_the_next_test() -> Iterator[None]:
    """What pymongo has dropped goes while the filters of this test hold."""
    yield
    gc.collect()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LogStoreServer]:
    async with LogStoreServer(tmp_path / "store") as started:
        yield started


@pytest.fixture
async def runlog(server: LogStoreServer) -> AsyncIterator[RunLog]:
    async with RunLog(server.uri, connect_timeout_ms=300) as log:

        async def is_prepared() -> bool:
            try:
                await log.prepare()
            except UnavailableError:
                return False  # the first connection takes longer than that on a busy machine
            return True

        await wait_until(is_prepared, description="the log store is prepared")
        yield log


class Rig:
    """A spool that is delivered to the log store, and who was told of what."""

    def __init__(self, directory: Path, runlog: RunLog) -> None:
        self.spool = Spool.open(directory)
        self.told: list[RunId] = []
        self.delivery = Delivery(
            self.spool,
            runlog,
            NothingTold(),
            clock=SystemClock(),
            commit_timeout_ms=50,
            on_delivered=self.told.extend,
        )

    async def append(self, records: Sequence[RunRecord]) -> None:
        await asyncio.gather(*map(self.spool.append, records))

    async def all_settled(self) -> None:
        await wait_until(lambda: self.spool.pending == 0, description="all is delivered")


@asynccontextmanager
async def delivering(directory: Path, runlog: RunLog) -> AsyncIterator[Rig]:
    rig = Rig(directory, runlog)
    async with running(rig.delivery.run()):
        yield rig
    await rig.spool.close()


async def everything(runlog: RunLog) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await runlog.runs(RunFilter(), cursor=cursor, limit=1000, deadline_seconds=30)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


def newest_first(records: Sequence[RunRecord]) -> list[str]:
    return [str(one.run_id) for one in sorted(records, key=lambda one: one.plan_ms, reverse=True)]


async def test_a_log_store_that_dies_and_returns_under_load_has_each_record_once(
    tmp_path: Path, server: LogStoreServer, runlog: RunLog
) -> None:
    records = [record(number) for number in range(1200)]
    async with delivering(tmp_path / "spool", runlog) as rig:
        for start in range(0, 1200, 400):
            await rig.append(records[start : start + 200])
            await server.kill()
            await rig.append(records[start + 200 : start + 400])
            await server.start()
        await rig.all_settled()
        assert set(rig.told) == {one.run_id for one in records}
        assert rig.delivery.state.healthy
    assert [item["_id"] for item in await everything(runlog)] == newest_first(records)
    assert (await last_results(runlog, ["backup"]))["backup"]["runId"] == str(records[-1].run_id)


async def test_a_frozen_log_store_delays_records_and_loses_none(
    tmp_path: Path, server: LogStoreServer, runlog: RunLog
) -> None:
    records = [record(number) for number in range(300)]
    async with delivering(tmp_path / "spool", runlog) as rig:
        await rig.append(records[:1])
        await rig.all_settled()
        server.pause()
        await rig.append(records[1:])
        assert rig.spool.pending == 299
        server.resume()
        await rig.all_settled()
    assert [item["_id"] for item in await everything(runlog)] == newest_first(records)


async def test_a_log_store_that_comes_back_empty_gets_what_waits(
    tmp_path: Path, server: LogStoreServer, runlog: RunLog
) -> None:
    async with delivering(tmp_path / "spool", runlog) as rig:
        await rig.append([record(1)])
        await rig.all_settled()
        await server.kill()
        await rig.append([record(2)])
        await wait_until(lambda: not rig.delivery.state.healthy, description="the outage is seen")
        server.forget()
        await server.start()
        await rig.all_settled()
    assert [item["_id"] for item in await everything(runlog)] == [str(record(2).run_id)]


async def test_a_spool_that_is_delivered_twice_leaves_each_record_once(tmp_path: Path, runlog: RunLog) -> None:
    records = [record(number) for number in range(250)]
    for _ in range(2):
        async with delivering(tmp_path / "spool", runlog) as rig:
            if rig.spool.last == 0:
                await rig.append(records)
            await rig.all_settled()
        (tmp_path / "spool" / "cursor").unlink()
    assert [item["_id"] for item in await everything(runlog)] == newest_first(records)


async def test_a_record_that_was_given_up_as_lost_is_corrected(tmp_path: Path, runlog: RunLog) -> None:
    await runlog.write([record(1, status=Verdict.LOST)])
    async with delivering(tmp_path / "spool", runlog) as rig:
        await rig.append([record(1)])
        await rig.all_settled()
    (item,) = await everything(runlog)
    assert (item["status"], item["late"]) == ("success", True)


async def test_a_record_that_mongodb_cannot_hold_comes_without_its_output(tmp_path: Path, runlog: RunLog) -> None:
    too_big, odd = record(1, output="x" * (17 << 20)), record(2, output="\udc80")
    async with delivering(tmp_path / "spool", runlog) as rig:
        await rig.append([too_big, odd, record(3)])
        await rig.all_settled()
        assert rig.delivery.state.set_aside == 0
    outputs = {document["planTime"]: document["output"] for document in await logged(runlog, "backup")}
    assert outputs == {too_big.plan_ms: "", odd.plan_ms: "", record(3).plan_ms: record(3).output}


_DIE_BETWEEN_WRITE_AND_ACKNOWLEDGEMENT = """
import asyncio, os, signal, sys
from pathlib import Path
from common.clock import SystemClock
from common.runlog import RunLog
from tests.support.records import PLAN_0_MS, NothingTold, record
from worker.record.delivery import Delivery
from worker.record.spool import Spool

class Deadly(RunLog):
    async def {method}(self, *arguments, **options):
        await super().{method}(*arguments, **options)
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    spool = Spool.open(Path(sys.argv[1]))
    for number in range(150):
        await spool.append(record(number))
    async with Deadly(sys.argv[2]) as log:
        await Delivery(spool, log, NothingTold(), clock=SystemClock(), on_delivered=lambda runs: None).run()

asyncio.run(main())
"""


@pytest.mark.parametrize("method", ["write", "put_last"])
async def test_a_worker_that_dies_between_write_and_acknowledgement_leaves_each_record_once(
    tmp_path: Path, server: LogStoreServer, runlog: RunLog, method: str
) -> None:
    program = _DIE_BETWEEN_WRITE_AND_ACKNOWLEDGEMENT.format(method=method)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(tmp_path / "spool"), server.uri, cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -signal.SIGKILL
    assert await everything(runlog)
    async with delivering(tmp_path / "spool", runlog) as rig:
        assert rig.spool.pending == 150
        await rig.all_settled()
    assert [item["_id"] for item in await everything(runlog)] == newest_first([record(n) for n in range(150)])
