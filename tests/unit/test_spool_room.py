"""As the spool fills, outputs are cut, then dropped; records never are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import record, waiting_in
from worker.record.spool import Spool
from worker.record.spool_room import Room
from worker.record.spool_segments import frame

LIMIT = 10_000_000
LONG = record(1, output="head " + "x" * 100_000 + " tail", output_bytes=250_010)
"""The command has printed more than was kept of it."""


@pytest.mark.parametrize(
    ("used", "most"),
    [(0, 100_010), (4_999_999, 100_010), (5_000_000, 5000), (8_000_000, 2000), (9_700_000, 300)],
)
def test_of_an_output_less_is_kept_the_fuller_the_spool_is(used: int, most: int) -> None:
    fitted = Room(LIMIT).fitted(LONG, used)
    assert most - 100 < len(fitted.output) <= most
    assert fitted.output.startswith("head ")
    assert fitted.output.endswith(" tail")
    assert fitted.output_bytes == 250_010
    assert fitted.output_truncated == (most < 100_010)
    assert ("bytes cut: the worker's spool was nearly full" in fitted.output) == (most < 100_010)


@pytest.mark.parametrize("used", [9_800_000, LIMIT, LIMIT * 3])
def test_without_room_the_record_says_what_was_dropped(used: int) -> None:
    fitted = Room(LIMIT).fitted(LONG, used)
    assert (fitted.output, fitted.output_truncated, fitted.output_bytes) == ("", True, 250_010)
    assert fitted.err == "output of 250,010 bytes dropped: the worker's spool was full"
    assert (fitted.status, fitted.run_id, fitted.exit_code) == (LONG.status, LONG.run_id, LONG.exit_code)


def test_without_a_limit_and_without_an_output_nothing_changes() -> None:
    silent = record(1, output="")
    assert Room(None).fitted(LONG, 1 << 50) is LONG
    assert Room(LIMIT).fitted(silent, LIMIT) is silent


@given(text=st.text(min_size=1), times=st.integers(1, 3000), used=st.integers(0, 12_000_000))
def test_no_output_takes_more_than_its_share_of_what_is_left(text: str, times: int, used: int) -> None:
    one = record(1, output=text * times)
    fitted = Room(LIMIT).fitted(one, used)
    if used >= LIMIT // 2:
        bare = record(1, output="", output_truncated=fitted.output_truncated, err=fitted.err)
        assert len(frame(fitted)) - len(frame(bare)) <= max(0, LIMIT - used) // 1000 + 1


async def test_beyond_its_limit_the_spool_takes_every_record_and_hardly_grows(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, limit_bytes=1_000_000, segment_bytes=100_000)
    for first in range(0, 500, 10):
        some = (record(number, output="x" * 10_000, output_bytes=10_000) for number in range(first, first + 10))
        await asyncio.gather(*map(spool.append, some))
    assert spool.is_scarce
    bare = len(frame(record(1, output="", output_bytes=10_000)))
    assert 500_000 < spool.size_bytes < 1_000_000 + 500 * (bare + 100)
    found = await waiting_in(spool)
    assert [one.run_id for one in found] == [record(number).run_id for number in range(500)]
    lengths = [len(one.output) for one in found]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1] < 1000) == (10_000, True)
    await spool.acknowledge(spool.last)
    assert not spool.is_scarce
    await spool.append(record(999, output="x" * 10_000))
    assert len((await waiting_in(spool))[0].output) == 10_000
    await spool.close()


async def test_outputs_that_arrive_together_count_before_they_are_written(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path, limit_bytes=1_000_000)
    await asyncio.gather(*(spool.append(record(number, output="x" * 50_000)) for number in range(100)))
    assert spool.size_bytes < 600_000 + 100 * 1500
    assert spool.pending == 100
    await spool.close()
