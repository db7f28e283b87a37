"""Whether the spool would take more is found out by trying, and nothing stays of the trial."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.support.background import running
from tests.support.records import record
from tests.support.waiting import wait_until
from worker.spooling.spool import Spool, SpoolError
from worker.spooling.spool_watch import SpoolWatch


async def test_a_trial_leaves_the_records_alone(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    await spool.append(record(1))
    await spool.try_out()
    await spool.append(record(2))
    assert [one.plan_ms for _, one in await spool.read(10)] == [record(1).plan_ms, record(2).plan_ms]
    await spool.close()
    assert not (tmp_path / "trial").exists()


async def test_a_limit_on_the_size_of_files_is_found(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
    try:
        with pytest.raises(SpoolError):
            await spool.try_out()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await spool.try_out()
    await spool.close()
    assert not (tmp_path / "trial").exists()


async def test_refusing_and_taking_are_told_once_each_and_in_order() -> None:
    told: list[str | None] = []
    takes = False

    async def try_out() -> None:
        if not takes:
            raise SpoolError("full")

    async def tell(fault: str | None) -> None:
        told.append(fault)

    watch = SpoolWatch(try_out=try_out, tell=tell, every_s=0.01)
    async with running(watch.run()):
        for fault in ("full", "full", None, "fuller"):
            watch.note(fault)
        await wait_until(lambda: told == ["full"], description="it is told")
        takes = True
        await wait_until(lambda: told == ["full", None], description="it is over")
        takes = False
        watch.note("again")
        await wait_until(lambda: told == ["full", None, "again"], description="it is told again")
