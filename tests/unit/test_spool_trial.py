"""Whether the spool would take more is found out by trying, and nothing stays of the trial."""

from __future__ import annotations

import resource
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.background import running
from tests.support.disks import full_disk
from tests.support.records import record
from tests.support.waiting import wait_until
from worker.record.spool import Spool, SpoolError
from worker.record.spool_watch import SpoolWatch


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


async def test_as_much_is_tried_as_was_refused_last(tmp_path: Path) -> None:
    spool, large = Spool.open(tmp_path), record(1, output="x" * 3_000_000)
    with full_disk(2_000_000):
        with pytest.raises(SpoolError):
            await spool.append(large)
        with pytest.raises(SpoolError):
            await spool.try_out()
    await spool.try_out()
    with full_disk(2_000_000):
        await spool.try_out()
    await spool.close()


async def test_it_is_tried_where_the_next_record_would_go(tmp_path: Path) -> None:
    """Where files may not grow further, that is what counts."""
    for segment_bytes, takes in ((4_000_000, False), (2_000_000, True)):
        spool = Spool.open(tmp_path / str(segment_bytes), segment_bytes=segment_bytes)
        await spool.append(record(1, output="x" * 1_500_000))
        with full_disk(1_600_000), nullcontext() if takes else pytest.raises(SpoolError):
            await spool.try_out()
        await spool.close()


def test_what_a_process_that_died_in_a_trial_has_left_goes(tmp_path: Path) -> None:
    (tmp_path / "trial").touch()
    Spool.open(tmp_path)
    assert not (tmp_path / "trial").exists()


async def test_refusing_and_taking_are_told_once_each_and_in_order() -> None:
    told: list[str | None] = []
    takes = False

    async def try_out() -> None:
        if not takes:
            raise SpoolError("full")

    async def tell(fault: str | None) -> None:
        told.append(fault)

    watch = SpoolWatch(try_out=try_out, announce=tell, every_s=0.01)
    async with running(watch.run()):
        for fault in ("full", "full", "fuller"):
            watch.note(fault)
        await wait_until(lambda: told == ["full"], description="it is told")
        takes = True
        await wait_until(lambda: told == ["full", None], description="it is over")
        takes = False
        watch.note("again")
        await wait_until(lambda: told == ["full", None, "again"], description="it is told again")
