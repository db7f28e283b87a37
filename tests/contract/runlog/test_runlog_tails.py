"""Chunks of live output: there once however often they are put, in their order, until they are deleted."""

from __future__ import annotations

import pytest

from common.protocol.keys import RunId
from common.runlog import Chunk, RunLog

RUN = RunId("每晚~w1", "1790000000000", 1)
OTHER = RunId("每晚~w1", "1790000000000", 10)


def chunk(start: int, text: str = "text\n", run: RunId = RUN) -> Chunk:
    return Chunk(run=str(run), start=start, size=len(text), text=text)


async def test_chunks_are_read_on_from_a_place(runlog: RunLog) -> None:
    chunks = [chunk(0, "2024-01-01"), chunk(10, "007"), chunk(9_999), chunk(10_000, "\N{REPLACEMENT CHARACTER}")]
    await runlog.tails.put([*reversed(chunks), chunk(0, "other", OTHER)], 1)
    assert await runlog.tails.read(RUN, 0, limit=100) == chunks
    assert await runlog.tails.read(RUN, 11, limit=1) == [chunk(9_999)]
    assert await runlog.tails.read(RUN, 10_001) == []
    assert await runlog.tails.read(OTHER, 0) == [chunk(0, "other", OTHER)]


async def test_chunk_that_is_put_again_is_there_once_and_the_empty_first_one_gives_way(runlog: RunLog) -> None:
    for one in (chunk(0, ""), chunk(0, "said"), chunk(0, "said")):
        await runlog.tails.put([one], 1)
        assert await runlog.tails.read(RUN, 0) == [one]


@pytest.mark.parametrize("size", [99_999, 1_000_000])
async def test_attack_chunk_with_more_text_than_it_says_or_than_workers_send_fills_a_managers_memory(
    runlog: RunLog, size: int
) -> None:
    await runlog.tails.put([Chunk(run=str(RUN), start=0, size=size, text="x" * 100_000), chunk(size, "good")], 1)
    assert await runlog.tails.read(RUN, 0) == [chunk(size, "good")]


@pytest.mark.parametrize("again", [1, 2])
async def test_what_is_deleted_or_old_is_gone(runlog: RunLog, again: int) -> None:
    await runlog.tails.put([chunk(0), chunk(5)], 1_000)
    await runlog.tails.put([chunk(10)], 2_000)
    for _ in range(again):
        await runlog.tails.delete([chunk(0).id])
    assert await runlog.tails.read(RUN, 0) == [chunk(5), chunk(10)]
    for _ in range(again):
        await runlog.tails.forget(1_500)
    assert await runlog.tails.read(RUN, 0) == [chunk(10)]
