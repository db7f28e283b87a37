"""What a write leaves in the log store: each record once, whatever is repeated, late or impossible."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from common.runlog import RunLog, WriteResult
from common.stored.run import RunRecord, Verdict
from tests.support.records import record


async def stored(runlog: RunLog, one: RunRecord) -> RunRecord:
    document = await runlog.run(str(one.run_id))
    assert document is not None
    return RunRecord.from_document(document)


async def test_a_record_reads_back_as_it_was_written(runlog: RunLog) -> None:
    one = record(1, labels={"team": "ops", "a.b": "c", "$d": "e"}, signal=9, reason="because: of it", by="console ::1")
    assert await runlog.write([one]) == WriteResult(inserted=1)
    assert await stored(runlog, one) == one


async def test_writing_again_changes_nothing(runlog: RunLog) -> None:
    batch = [record(number) for number in range(5)]
    await runlog.write(batch)
    again = [*batch, record(5)]
    assert await runlog.write(again) == WriteResult(inserted=1, already_there=5)
    assert await runlog.write(again) == WriteResult(already_there=6)


async def test_a_late_record_takes_the_place_of_lost_and_says_so(runlog: RunLog) -> None:
    lost = record(1, status=Verdict.LOST, output="", reason="worker gone")
    late = record(1)
    await runlog.write([lost])
    assert await runlog.write([record(0), late]) == WriteResult(inserted=1, late=1)
    assert await stored(runlog, late) == record(1, late=True)
    assert await runlog.write([late]) == WriteResult(already_there=1)


@pytest.mark.parametrize("second", [Verdict.LOST, Verdict.FAILED, Verdict.SKIPPED])
async def test_a_verdict_stays_whatever_comes_after_it(runlog: RunLog, second: Verdict) -> None:
    await runlog.write([record(1)])
    assert await runlog.write([record(1, status=second)]) == WriteResult(already_there=1)
    assert await stored(runlog, record(1)) == record(1)


async def test_lost_and_the_late_record_in_one_batch(runlog: RunLog) -> None:
    result = await runlog.write([record(1, status=Verdict.LOST), record(1)])
    assert result == WriteResult(inserted=1, late=1)
    assert (await stored(runlog, record(1))).status is Verdict.SUCCESS


async def test_several_writers_of_the_same_records_store_each_once(runlog: RunLog) -> None:
    batch = [record(number) for number in range(200)]
    results = await asyncio.gather(*(runlog.write(batch) for _ in range(4)))
    assert sum(result.inserted for result in results) == 200
    assert sum(result.inserted + result.already_there for result in results) == 800


@dataclass(frozen=True, kw_only=True)
class Impossible:
    why: str
    changes: dict[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    "case",
    [
        Impossible(why="not encodable", changes={"output": "half a pair: \ud83d"}),
        Impossible(why="not encodable", changes={"labels": {"a\0b": "c"}}),
        Impossible(why="not encodable", changes={"max_rss": 1 << 63}),
        Impossible(why="too large", changes={"output": "x" * (16 << 20)}),
    ],
    ids=["lone surrogate", "NUL in a key", "65 bits", "16 MiB"],
)
async def test_an_impossible_record_is_rejected_and_harms_no_other(runlog: RunLog, case: Impossible) -> None:
    bad = record(1, **case.changes)
    result = await runlog.write([record(0), bad, record(2)])
    assert (result.inserted, [rejection.run_id for rejection in result.rejected]) == (2, [bad.run_id])
    assert case.why in result.rejected[0].reason
    assert await runlog.run(str(bad.run_id)) is None


async def test_an_impossible_late_record_leaves_lost_in_its_place(runlog: RunLog) -> None:
    await runlog.write([record(1, status=Verdict.LOST)])
    result = await runlog.write([record(1, output="\ud800")])
    assert [rejection.run_id for rejection in result.rejected] == [record(1).run_id]
    assert (await stored(runlog, record(1))).status is Verdict.LOST


@pytest.mark.parametrize(
    "output", ["", "nul \0 inside", "ünïcödé \N{ROCKET}", "\x1b[31m\x07", '{"json": "\\u0000"}', "x" * (1 << 20)]
)
async def test_output_of_any_kind_reads_back(runlog: RunLog, output: str) -> None:
    await runlog.write([record(1, output=output)])
    assert (await stored(runlog, record(1))).output == output


async def test_nothing_to_write_is_no_error(runlog: RunLog) -> None:
    assert await runlog.write([]) == WriteResult()


async def test_find_gives_those_that_are_there_without_their_output(runlog: RunLog) -> None:
    await runlog.write([record(number) for number in range(3)])
    asked = [record(number).run_id for number in range(1, 6)]
    found = await runlog.find(asked, deadline_seconds=5)
    assert found == {str(record(number).run_id): record(number, output="") for number in (1, 2)}
    assert await runlog.find([]) == {}


async def test_find_of_many_runs(runlog: RunLog) -> None:
    await runlog.write([record(number) for number in range(500)])
    assert len(await runlog.find(record(number).run_id for number in range(2500))) == 500


async def test_there_is_no_run_by_a_name_that_is_none(runlog: RunLog) -> None:
    assert await runlog.run("no such run") is None


async def test_what_is_no_record_counts_as_not_there_and_is_told_of(
    runlog: RunLog, caplog: pytest.LogCaptureFixture
) -> None:
    good, odd = record(1), record(2)
    await runlog.write([good])
    await runlog._log.insert_one({**odd.to_document(), "status": "of a later version"})
    found = await runlog.find([good.run_id, odd.run_id])
    assert list(found) == [str(good.run_id)]
    assert [one.__dict__.get("run") for one in caplog.records] == [str(odd.run_id)]
