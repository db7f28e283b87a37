"""What a write leaves in the log store: each record once, whatever is repeated, late or impossible."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo.errors import BulkWriteError

from common.protocol.run import RunRecord
from common.runlog import Rejection, RunLog, WriteResult
from common.verdicts import Verdict
from tests.support.records import record


async def stored(runlog: RunLog, one: RunRecord) -> RunRecord:
    document = await runlog.run(str(one.run_id))
    assert document is not None
    return RunRecord.from_document(document)


async def test_a_record_reads_back_as_it_was_written(runlog: RunLog) -> None:
    one = record(1, labels={"team": "ops", "a.b": "c", "$d": "e"}, signal=9, reason="because: of it", by="console ::1")
    assert await runlog.write([one]) == WriteResult(inserted=1)
    assert await stored(runlog, one) == one


async def test_a_record_of_a_former_version_is_read_and_shown_without_who_wrote_it(runlog: RunLog) -> None:
    await runlog._log.insert_one({**record(1).to_document(), "pageKey": "0/x", "writtenBy": "w0123456789abcdef:7"})
    assert await stored(runlog, record(1)) == record(1)
    assert "writtenBy" not in (await runlog.run(str(record(1).run_id)) or {})


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


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Verdict.SUCCESS, Verdict.LOST), (Verdict.SUCCESS, Verdict.FAILED), (Verdict.SUCCESS, Verdict.SKIPPED),
        (Verdict.LOST, Verdict.LOST),
    ],
)  # fmt: skip
async def test_a_verdict_stays_whatever_comes_after_it(runlog: RunLog, first: Verdict, second: Verdict) -> None:
    await runlog.write([record(1, status=first)])
    assert await runlog.write([record(1, status=second)]) == WriteResult(already_there=1)
    assert await stored(runlog, record(1)) == record(1, status=first)


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


REFUSAL = {"code": 121, "errmsg": "Document failed validation"}


async def test_a_record_that_the_store_refuses_is_rejected_and_counts_for_nothing(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = runlog._log.insert_many

    async def refusing(documents: list[Any], **options: Any) -> None:
        await insert([documents[0], documents[2]], **options)
        raise BulkWriteError({"writeErrors": [{"index": 1, **REFUSAL}]})

    monkeypatch.setattr(runlog._log, "insert_many", refusing)
    bad = record(2)
    rejection = Rejection(run_id=bad.run_id, reason="Document failed validation (code 121)")
    assert await runlog.write([record(0), bad, record(1)]) == WriteResult(inserted=2, rejected=(rejection,))
    last = (await runlog.job_results(["backup"]))["backup"].last or {}
    assert last["runId"] == str(record(1).run_id)


async def test_a_late_record_that_the_store_refuses_leaves_lost_in_its_place(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(*_: object, **__: object) -> None:
        raise BulkWriteError({"nMatched": 0, "writeErrors": [{"index": 0, **REFUSAL}]})

    lost = record(1, status=Verdict.LOST)
    await runlog.write([lost])
    monkeypatch.setattr(runlog._log, "bulk_write", refusing)
    rejection = Rejection(run_id=lost.run_id, reason="Document failed validation (code 121)")
    assert await runlog.write([record(1)]) == WriteResult(rejected=(rejection,))
    assert await stored(runlog, lost) == lost
    last = (await runlog.job_results(["backup"]))["backup"].last
    assert last is not None
    assert last["status"] == "lost"


async def test_a_record_that_is_too_large_with_the_mark_of_being_late_is_rejected(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rejection = Rejection(run_id=record(1).run_id, reason="too large")
    await runlog.write([record(1, status=Verdict.LOST)])
    monkeypatch.setattr("common.runlog.store.encode_late", lambda *_: rejection)
    assert await runlog.write([record(1)]) == WriteResult(rejected=(rejection,))


async def test_nothing_is_taken_for_written_that_a_majority_has_not_on_its_disks(runlog: RunLog) -> None:
    written = (
        runlog._log, runlog._jobs, runlog._statistics._collection, runlog.versions._collection,
        runlog._removal._log, runlog._removal._last, runlog._removal._state,
    )  # fmt: skip
    assert [one.write_concern.document for one in written] == [{"w": "majority", "j": True}] * len(written)
    assert runlog._settled.read_concern.level == "majority", "what ends a run must not be rolled back"


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
    there = [0, *range(995, 1005), 2499]
    await runlog.write([record(number) for number in there])
    found = await runlog.find(record(number).run_id for number in range(2500))
    assert sorted(found) == sorted(str(record(number).run_id) for number in there)


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
