"""Wherever a crash cuts a segment, and whatever becomes of its last bytes: what came before is read, and it goes on."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from common.protocol.run import RunRecord
from tests.support.records import record, waiting_in
from worker.record.spool import Spool
from worker.record.spool_segments import frame, frames, record_of

RECORDS = [record(number, output=f"{number}: ünïcödé") for number in range(3)]
FRAMES = [frame(one) for one in RECORDS]
WHOLE = b"".join(FRAMES)
ENDS = list(accumulate(map(len, FRAMES)))
LAST = len(FRAMES[-1])
NEXT = record(99)


@pytest.fixture
def directory() -> Iterator[Path]:
    """In memory where the machine has such a place: there are thousands of files."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


async def after_a_crash(directory: Path, data: bytes) -> list[RunRecord]:
    """What a spool with this segment says, and says again once another record has come to it and it was closed."""
    for path in directory.iterdir():
        path.unlink()
    (directory / f"{1:020d}.spool").write_bytes(data)
    spool = Spool.open(directory)
    found = await waiting_in(spool)
    await spool.append(NEXT)
    await spool.close()
    again = Spool.open(directory)
    assert await waiting_in(again) == [*found, NEXT]
    await again.close()
    return found


async def test_cut_at_any_byte(directory: Path) -> None:
    for length in range(ENDS[1] + 1):  # the third record is cut as the second
        whole = bisect_right(ENDS, length)
        assert await after_a_crash(directory, WHOLE[:length]) == RECORDS[:whole], length
        torn = WHOLE[ENDS[whole - 1] if whole else 0 : length]
        there = (directory / "torn").read_bytes() if (directory / "torn").exists() else b""
        assert there == torn, "what was cut off is set aside"


async def test_any_byte_of_the_last_record_flipped(directory: Path) -> None:
    for offset in range(len(WHOLE) - LAST, len(WHOLE)):
        data = bytearray(WHOLE)
        data[offset] ^= 0xFF
        assert await after_a_crash(directory, bytes(data)) == RECORDS[:2], offset


@pytest.mark.parametrize("behind", [1, 8, LAST - 1, LAST, LAST + 1, 5000])
async def test_last_bytes_that_came_as_zeros(directory: Path, behind: int) -> None:
    """As a power cut leaves a file whose length was written, and whose blocks were not."""
    assert await after_a_crash(directory, WHOLE[: ENDS[1]] + bytes(behind)) == RECORDS[:2]


def test_any_bit_flipped_anywhere_is_noticed_and_what_is_before_it_is_read() -> None:
    """A payload that is damaged costs that record; a length that is, what comes behind it."""
    for offset in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[offset] ^= 0x10
        found = [None if payload is None else record_of(payload) for _, payload in frames(bytes(damaged))]
        hit = next(number for number, end in enumerate(ENDS) if offset < end)
        in_length = offset - (ENDS[hit - 1] if hit else 0) < 4
        if in_length or hit == 2:
            assert found == RECORDS[:hit], offset
        else:
            assert found == [*RECORDS[:hit], None, *RECORDS[hit + 1 :]], offset
