"""A disk that hangs: records are refused in time, what waits for it is bounded, and nobody waits to the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from tests.support.records import record, waiting_in
from tests.support.waiting import PATIENCE_S, wait_until
from worker.record.spool import Spool, SpoolError

_SOON_S = 0.1
"""In place of the five seconds."""


@pytest.fixture
def thaw(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Until it is set, whoever forces something to the disk waits."""
    goes_on, real = Event(), os.fdatasync

    def force(descriptor: int) -> None:
        goes_on.wait()
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", force)
    yield goes_on
    goes_on.set()


def answers(spool: Spool, thaw: Event) -> None:
    """The disk does, and may take its time: on a busy machine that is more than what is soon here."""
    spool._safe_within_s = PATIENCE_S
    thaw.set()


async def test_what_is_not_safe_in_time_is_refused_with_all_that_waits_behind_it(tmp_path: Path, thaw: Event) -> None:
    spool = Spool.open(tmp_path, safe_within_s=_SOON_S)
    results = await asyncio.gather(*(spool.append(record(number)) for number in range(3)), return_exceptions=True)
    assert [type(result) for result in results] == [SpoolError] * 3
    assert str(tmp_path) in str(results[0])
    at_once = asyncio.ensure_future(spool.append(record(3)))
    for _ in range(3):
        await asyncio.sleep(0)
    assert isinstance(at_once.exception(), SpoolError)
    answers(spool, thaw)
    await wait_until(lambda: spool.pending > 0, description="what was being written is there")
    assert await spool.append(record(4)) == 2
    assert await waiting_in(spool) == [record(0), record(4)], "of what was refused nothing else is there"
    await spool.close()


async def test_a_disk_that_is_slow_and_in_time_is_no_fault(tmp_path: Path, thaw: Event) -> None:
    spool = Spool.open(tmp_path, safe_within_s=60)
    coming = [asyncio.ensure_future(spool.append(record(number))) for number in range(3)]
    await asyncio.sleep(0)
    thaw.set()
    assert await asyncio.gather(*coming) == [1, 2, 3]
    await spool.close()


async def test_what_waits_for_the_disk_is_bounded_and_outputs_go_first(tmp_path: Path, thaw: Event) -> None:
    spool = Spool.open(tmp_path, arriving_bytes=40_000, safe_within_s=60)
    coming = [asyncio.ensure_future(spool.append(record(number, output="x" * 5000))) for number in range(200)]
    await wait_until(lambda: coming[-1].done(), description="there is no more room")
    refused = [one for one in coming if one.done()]
    assert {type(one.exception()) for one in refused} == {SpoolError}
    thaw.set()
    await asyncio.wait(coming)
    kept = [one.output for one in await waiting_in(spool)]
    assert len(kept) == len(coming) - len(refused)
    assert kept[:3] == ["x" * 5000] * 3
    assert set(kept[-3:]) == {""}
    assert await spool.append(record(999, output="x" * 5000)), "there is room again"
    await spool.close()


async def test_a_trial_that_takes_too_long_does_not_count(tmp_path: Path, thaw: Event) -> None:
    spool = Spool.open(tmp_path, safe_within_s=_SOON_S)
    trial = asyncio.ensure_future(spool.try_out())
    await asyncio.wait([trial], timeout=2 * _SOON_S)
    assert not trial.done()
    thaw.set()
    with pytest.raises(SpoolError, match="hangs"):
        await trial
    answers(spool, thaw)
    await spool.try_out()
    await spool.close()


async def test_a_disk_that_hangs_keeps_no_spool_from_being_closed(tmp_path: Path, thaw: Event) -> None:
    spool = Spool.open(tmp_path, safe_within_s=_SOON_S)
    coming = asyncio.ensure_future(spool.append(record(1)))
    await asyncio.sleep(0)
    await spool.close()
    with pytest.raises(SpoolError, match="hangs"):
        await coming
