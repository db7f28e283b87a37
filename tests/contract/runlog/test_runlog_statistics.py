"""The counts of days: each record once, whoever writes it how often and dies when; on a real log store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from common.errors import UnavailableError
from common.protocol.run import RunRecord, Verdict
from common.runlog import OwedCounts, RunLog, WriteResult, Written
from common.runlog.client import bulk
from common.runlog.counting import LAST_DAY, LifeCounts, day_of
from common.runlog.results import WriteFaults
from common.runlog.statistics import Statistics
from tests.support.log_store import LogStore
from tests.support.records import PLAN_0_MS, record

DAY_MS = 86_400_000
DAY = day_of(PLAN_0_MS)


class Writer:
    """A spool's delivery: records have positions, and are sent again from where the writer knows of."""

    def __init__(self, runlog: RunLog, name: str) -> None:
        self.runlog = runlog
        self.owed = OwedCounts(name)

    async def write(self, records: Sequence[RunRecord], *, at: int = 1) -> WriteResult:
        """The records are in the log, and not counted yet."""
        source = self.owed.source(range(at, at + len(records)))
        result = await self.runlog.write(records, source=source, advance_last=False)
        self.owed.add(result.written)
        return result

    async def deliver(self, records: Sequence[RunRecord], *, at: int = 1) -> None:
        await self.write(records, at=at)
        await self.runlog.put_counts(self.owed)


async def counted(runlog: RunLog, job: str | None = "backup", day: int = DAY) -> dict[str, int]:
    """What is not 0, by verdict, once all is folded."""
    while await runlog.fold_statistics(limit=2):
        pass
    days = await runlog.statistics(job, [day])
    return {str(status): number for one in days for status, number in one.by_status.items() if number}


async def test_days_count_runs_by_verdict_and_say_how_long_they_took(runlog: RunLog) -> None:
    writer = Writer(runlog, "a")
    await writer.deliver([
        record(0), record(1, end_ms=PLAN_0_MS + 3000), record(2, status=Verdict.FAILED),
        record(3, status=Verdict.SKIPPED), record(4, status=Verdict.MISSED, count=20), record(5, status=Verdict.LOST),
        record(0, job="other"), record(0, plan_ms=PLAN_0_MS + DAY_MS), record(6, status=Verdict.TIMEOUT, end_ms=0),
    ])  # fmt: skip
    assert await runlog.statistics("backup", [DAY]) == []  # not folded yet
    counts = {"success": 2, "failed": 1, "timeout": 1, "skipped": 1, "missed": 20, "lost": 1}
    assert await counted(runlog) == counts
    assert await counted(runlog, None) == {**counts, "success": 3}
    first, second = await runlog.statistics("backup", [DAY + 1, DAY])
    # One clock was set back while its run went on: that one took no time.
    assert (first.day, first.timed, first.duration_ms, first.max_duration_ms) == (DAY, 4, 5 + 1998 + 5, 1998)
    assert (second.day, second.by_status[Verdict.SUCCESS], second.timed) == (DAY + 1, 1, 1)
    await writer.deliver([record(7)], at=10)
    assert await counted(runlog) == {**counts, "success": 3}
    for job, timed in (("backup", 5), (None, 6)):
        [day] = await runlog.statistics(job, [DAY])
        assert (day.timed, day.duration_ms, day.max_duration_ms) == (timed, 1998 + 5 * (timed - 2), 1998)
    assert await runlog.statistics("nobody", [DAY]) == []


def test_every_instant_has_a_day() -> None:
    assert [day_of(ms) for ms in (-5, 0, DAY_MS - 1, DAY_MS, 10**18)] == [0, 0, 0, 1, LAST_DAY]


async def test_jobs_are_counted_whatever_they_are_called(runlog: RunLog) -> None:
    names = ["007", "2024-01-01-backup", "a.b", "$set", "all", "Ω mega"]
    await runlog.write([record(1, job=name) for name in names])
    for name in names:
        assert await counted(runlog, name) == {"success": 1}
    assert await counted(runlog, None) == {"success": 6}


async def test_writer_that_dies_before_it_counts_counts_when_it_delivers_again(runlog: RunLog) -> None:
    await Writer(runlog, "a").write([record(0), record(1)])  # and dies
    again = Writer(runlog, "a")
    await again.deliver([record(0), record(1), record(2)])
    assert await counted(runlog) == {"success": 3}


@pytest.mark.parametrize("folded", [False, True])
async def test_writer_that_dies_after_it_counted_does_not_count_again(runlog: RunLog, folded: bool) -> None:
    writer = Writer(runlog, "a")
    for number in (0, 1):
        await writer.deliver([record(number)], at=number + 1)
    if folded:
        assert await counted(runlog) == {"success": 2}
    await Writer(runlog, "a").deliver([record(0), record(1), record(2)])
    assert await counted(runlog) == {"success": 3}
    assert await counted(runlog, None) == {"success": 3}


async def test_record_that_another_has_written_is_counted_once(runlog: RunLog) -> None:
    one, other = Writer(runlog, "a"), Writer(runlog, "b")
    await one.write([record(0)])
    await other.deliver([record(0), record(1)])
    await runlog.put_counts(one.owed)
    assert await counted(runlog) == {"success": 2}


async def test_record_that_comes_late_takes_the_place_of_lost_once(runlog: RunLog) -> None:
    await Writer(runlog, "steward").deliver([record(0, status=Verdict.LOST), record(1, status=Verdict.LOST)])
    assert await counted(runlog) == {"lost": 2}
    await Writer(runlog, "a").write([record(0)])  # and dies
    await Writer(runlog, "a").deliver([record(0)])
    await Writer(runlog, "a").deliver([record(0)])
    await Writer(runlog, "steward").deliver([record(0, status=Verdict.LOST)])
    assert await counted(runlog) == {"lost": 1, "success": 1}


async def test_record_in_the_place_of_a_lost_that_nobody_has_counted_takes_none_away(runlog: RunLog) -> None:
    await Writer(runlog, "steward").write([record(0, status=Verdict.LOST)])  # and dies
    await Writer(runlog, "a").deliver([record(0)])
    assert await counted(runlog) == {"success": 1}


async def test_writer_without_a_spool_counts_what_a_call_that_failed_has_stored(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise UnavailableError("told to be away")

    with monkeypatch.context() as broken:
        broken.setattr(RunLog, "_replace_lost", away)  # the insert is done, the caller hears nothing of it
        with pytest.raises(UnavailableError):
            await runlog.write([record(0)])
    with monkeypatch.context() as broken:
        broken.setattr(Statistics, "put", away)
        with pytest.raises(UnavailableError):
            await runlog.write([record(0), record(1)])
    await runlog.write([record(0), record(1)])
    assert await counted(runlog) == {"success": 2}


async def test_record_of_a_call_that_failed_is_not_counted_by_the_same_process_with_a_spool(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise UnavailableError("told to be away")

    with monkeypatch.context() as broken:
        broken.setattr(RunLog, "_replace_lost", away)
        with pytest.raises(UnavailableError):
            await runlog.write([record(0)])
    await Writer(runlog, "a").deliver([record(0)])
    await runlog.write([record(0)])
    assert await counted(runlog) == {"success": 1}


async def test_writers_without_a_spool_put_their_counts_one_after_the_other(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, under_way = Statistics.put, 0

    async def alone(self: Statistics, owed: OwedCounts) -> None:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await put(self, owed)
        under_way -= 1

    monkeypatch.setattr(Statistics, "put", alone)
    await asyncio.gather(*(runlog.write([record(number)]) for number in range(5)))
    assert await counted(runlog) == {"success": 5}


async def test_call_that_ends_after_a_later_one_was_counted_is_counted_too(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert, answered = RunLog._insert, asyncio.Event()

    async def slow(self: RunLog, encoded: Any) -> Any:
        faults = await insert(self, encoded)
        if encoded[0].record == record(0):
            await answered.wait()
        return faults

    monkeypatch.setattr(RunLog, "_insert", slow)
    first = asyncio.ensure_future(runlog.write([record(0)]))
    await asyncio.sleep(0)
    await runlog.write([record(1)])
    assert await counted(runlog) == {"success": 1}
    answered.set()
    await first
    assert await counted(runlog) == {"success": 2}


def test_what_a_process_is_in_doubt_of_has_a_bound() -> None:
    life = LifeCounts()
    source = life.begin(10_001)
    assert [life.is_in_doubt(source.stamp(index)) for index in (0, 1, 10_000)] == [False, True, True]


async def test_each_record_of_a_big_batch_keeps_its_position(runlog: RunLog) -> None:
    batch = [record(number) for number in range(120)]
    for _ in range(2):  # the second time it finds its own
        result = await Writer(runlog, "a").write(batch, at=5)
        assert [(one.position, one.record) for one in result.written] == list(enumerate(batch, start=5))


async def test_counts_whose_answer_was_lost_are_not_added_again(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, insert = Writer(runlog, "a"), Statistics._insert

    async def unheard(self: Statistics, delta: Any) -> bool:
        await insert(self, delta)
        raise UnavailableError("told to be away")

    await writer.write([record(0)])
    with monkeypatch.context() as broken:
        broken.setattr(Statistics, "_insert", unheard)
        with pytest.raises(UnavailableError):
            await runlog.put_counts(writer.owed)
    await writer.deliver([record(1)], at=2)
    assert await counted(runlog) == {"success": 2}


async def test_counts_that_another_with_the_same_spool_has_put_meanwhile_are_looked_for(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(runlog, "a")
    await writer.deliver([record(0)])
    await writer.write([record(1), record(2)], at=2)
    await Writer(runlog, "a").deliver([record(1)], at=2)
    await runlog.put_counts(writer.owed)
    await writer.write([record(3)], at=4)
    await Writer(runlog, "a").deliver([record(3), record(4)], at=4)
    await runlog.put_counts(writer.owed)
    assert not writer.owed
    assert await counted(runlog) == {"success": 5}

    async def there_already(*_: object) -> bool:
        return False

    monkeypatch.setattr(Statistics, "_insert", there_already)
    await writer.write([record(5)], at=6)
    with pytest.raises(UnavailableError, match="same spool"):
        await runlog.put_counts(writer.owed)
    assert len(writer.owed) == 1


async def test_counts_that_arrive_long_after_their_sender_gave_up_add_nothing(runlog: RunLog) -> None:
    dying = Writer(runlog, "a")
    await dying.write([record(0), record(1)])
    under_way = dying.owed.delta()
    assert under_way is not None
    again = Writer(runlog, "a")
    await again.deliver([record(0)])
    assert await counted(runlog) == {"success": 1}
    for number in (1, 2):
        assert await runlog._statistics._insert(under_way)
        assert await counted(runlog) == {"success": number}
        await again.deliver([record(number)], at=number + 1)
        assert await counted(runlog) == {"success": number + 1}
    assert await runlog._statistics._insert(under_way)
    await Writer(runlog, "a").deliver([record(number) for number in range(4)])
    assert await counted(runlog) == {"success": 4}


async def test_many_records_are_counted_in_parts(runlog: RunLog) -> None:
    writer = Writer(runlog, "a")
    source = writer.owed.source(range(1, 2502))
    writer.owed.add(Written(position, record(position % 9), False) for position in reversed(source.positions))
    await runlog.put_counts(writer.owed)
    assert len(writer.owed) == 0
    assert await counted(runlog) == {"success": 2501}


async def test_one_that_dies_in_the_middle_of_a_fold_and_others_at_once_do_no_harm(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for writer in "abc":
        numbers = range(ord(writer) * 100, ord(writer) * 100 + 20)
        records = [record(plan_ms=PLAN_0_MS + number, job=f"job-{number % 5}") for number in numbers]
        writing = Writer(runlog, writer)
        await writing.deliver(records[:10])
        await writing.deliver(records[10:], at=11)

    async def dies(*_: object) -> None:
        raise UnavailableError("told to be away")

    for step in ("_remove", "_writers"):
        with monkeypatch.context() as broken:
            broken.setattr(Statistics, step, dies)
            with pytest.raises(UnavailableError):
                await runlog.fold_statistics(limit=2)
    await asyncio.gather(*(runlog.fold_statistics(limit=10) for _ in range(4)))
    assert await counted(runlog, None) == {"success": 60}
    assert await counted(runlog, "job-3") == {"success": 12}


async def test_many_days_are_folded_at_once(runlog: RunLog) -> None:
    days = range(DAY, DAY + 60)
    await Writer(runlog, "a").deliver([record(plan_ms=day * DAY_MS) for day in days])
    assert await runlog.fold_statistics(limit=10) == 1
    for job in ("backup", None):
        assert [one.day for one in await runlog.statistics(job, days)] == list(days)


def interrupted_before(call: int, what: Callable[[], Awaitable[object]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Something comes between the fold that follows and one of its writes."""
    calls = 0

    async def interrupted(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call:
            monkeypatch.setattr("common.runlog.statistics.bulk", bulk)
            await what()
        return await bulk(*arguments)

    monkeypatch.setattr("common.runlog.statistics.bulk", interrupted)


@pytest.mark.parametrize("before", [0, 1])
async def test_one_that_folds_by_what_it_has_read_before_another_undoes_nothing(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    async def another() -> None:
        await Writer(runlog, "b").deliver([record(1)])
        await runlog.fold_statistics(limit=10)

    for number in range(before):
        await Writer(runlog, "c").deliver([record(number + 2)])
        await runlog.fold_statistics(limit=10)
    await Writer(runlog, "a").deliver([record(0)])
    interrupted_before(1, another, monkeypatch)
    assert await counted(runlog) == {"success": 2 + before}


async def test_one_that_finds_its_day_written_meanwhile_adds_to_what_is_there_then(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def another() -> None:
        await runlog._statistics._collection.update_many({"_id": {"$regex": "^day/"}}, {"$inc": {"writes": 1}})

    await Writer(runlog, "a").deliver([record(0)])
    assert await counted(runlog) == {"success": 1}
    await Writer(runlog, "b").deliver([record(1)])
    interrupted_before(1, another, monkeypatch)
    assert await counted(runlog) == {"success": 2}


async def test_up_to_where_a_writers_records_are_folded_never_goes_back(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def another() -> None:
        await writer.deliver([record(1)], at=2)
        await runlog.fold_statistics(limit=10)

    writer = Writer(runlog, "a")
    await writer.deliver([record(0)])
    interrupted_before(2, another, monkeypatch)
    await runlog.fold_statistics(limit=10)
    await Writer(runlog, "a").deliver([record(0), record(1), record(2)])
    assert await counted(runlog) == {"success": 3}


@pytest.mark.parametrize(
    "faults", [WriteFaults(duplicates=(0, 1), refused={}), WriteFaults(refused={0: "no"})], ids=["others", "refused"]
)
async def test_counts_that_cannot_be_added_stay_where_they_are(
    runlog: RunLog, monkeypatch: pytest.MonkeyPatch, faults: WriteFaults
) -> None:
    async def in_vain(*_: object) -> tuple[int, WriteFaults]:
        return 0, faults

    await Writer(runlog, "a").deliver([record(0)])
    with monkeypatch.context() as broken:
        broken.setattr("common.runlog.statistics.bulk", in_vain)
        with pytest.raises(UnavailableError):
            await runlog.fold_statistics(limit=10)
    assert await counted(runlog) == {"success": 1}


async def test_counts_of_old_days_go_and_others_stay(runlog: RunLog) -> None:
    days = [record(0, plan_ms=PLAN_0_MS + number * DAY_MS) for number in range(4)]
    await runlog.write([*days, *(record(0, job="other", plan_ms=one.plan_ms) for one in days)])
    await counted(runlog)
    while await runlog.forget_statistics(DAY + 2, limit=2):
        pass
    left = await runlog.statistics("backup", range(DAY, DAY + 4))
    assert [one.day for one in left] == [DAY + 2, DAY + 3]
    assert [one.day for one in await runlog.statistics(None, range(DAY, DAY + 4))] == [DAY + 2, DAY + 3]


async def test_records_that_go_leave_the_counts(runlog: RunLog) -> None:
    await runlog.write([record(0)])
    await runlog.remove([str(record(0).run_id)])
    assert await counted(runlog) == {"success": 1}


async def test_what_somebody_else_has_put_there_holds_nothing_up(
    runlog: RunLog, shared_store: LogStore, database: str
) -> None:
    odd: list[dict[str, Any]] = [
        {"_id": "new/w0/x"}, {"_id": "new/w0/0000000000000001", "column": "w0", "last": 1, "counts": "[]"},
        {"_id": "day/2026-09-21/all", "counts": 7},
    ]  # fmt: skip
    async with AsyncMongoClient[dict[str, Any]](shared_store.uri) as client:
        await client[database]["statistics"].insert_many(odd)
    assert await runlog.statistics(None, [DAY]) == []
    await runlog.write([record(0)])
    assert await counted(runlog, None) == await counted(runlog) == {"success": 1}


ODD: tuple[object, ...] = (None, "7", "soon", -1, True, 1.5, 10**18, [], {})


@pytest.mark.parametrize("odd", ODD, ids=repr)
async def test_what_is_nearly_ours_keeps_no_writer_from_counting(runlog: RunLog, odd: object) -> None:
    writer = Writer(runlog, "a")
    column, there = writer.owed.column, runlog._statistics._collection
    await there.insert_many([
        {"_id": f"writer/{column}", "counted": odd}, {"_id": f"new/{column}/{7:016d}", "last": odd},
        {"_id": f"new/{column}/{1:016d}", "last": odd},
        {"_id": f"new/{column}/soon", "last": 5}, {"_id": "writer/nobody's"},
    ])  # fmt: skip
    await writer.deliver([record(1)])
    assert not writer.owed
    assert await counted(runlog) == {"success": 1}


@pytest.mark.parametrize("odd", [*ODD, "[]", '{"x":{}}', '{"backup":5}', '{"backup":{"success":"one"}}', "[" * 9999])
async def test_counts_that_are_nearly_ours_keep_no_others_from_being_folded(runlog: RunLog, odd: object) -> None:
    writer, there = Writer(runlog, "a"), runlog._statistics._collection
    await writer.deliver([record(1)])
    assert await counted(runlog) == {"success": 1}
    changed = {"counts": odd, "folded": odd, "writes": odd}
    await there.update_many({"_id": {"$regex": "^day/"}}, {"$set": changed})
    text = odd if isinstance(odd, str) else '{"x":{"backup":{"success":1}}}'
    for number, counts in enumerate((text, f'{{"{DAY}":{text}}}', f'{{"{10**9}":{{"backup":{{"success":1}}}}}}')):
        document = {"_id": f"new/w{number}/{1:016d}", "column": f"w{number}", "last": 1, "counts": counts}
        await there.insert_one(document)
    await writer.deliver([record(2)], at=2)
    for _ in range(3):
        await runlog.fold_statistics(limit=50)
    [day] = await runlog.statistics("backup", [DAY])
    assert day.by_status[Verdict.SUCCESS] == 1, "of what nobody can read nothing is left"
    assert all(isinstance(one, int) for one in (day.timed, day.duration_ms, day.max_duration_ms))
