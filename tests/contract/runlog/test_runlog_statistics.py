"""The counts of days: from the records, by the hour, also when these are gone; on a real log store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from common.errors import UnavailableError
from common.runlog import RunLog
from common.runlog.statistics import HOUR_MS, ROLLED_UP_DAYS, Statistics
from common.verdicts import Verdict
from tests.support.counting import count_records
from tests.support.fake_clock import FakeClock
from tests.support.records import PLAN_0_MS, record
from worker.lead import statistics

DAY_MS = 24 * HOUR_MS
DAY = PLAN_0_MS // DAY_MS


async def counted(
    runlog: RunLog, job: str | None = "backup", day: int = DAY, *, at_ms: int = PLAN_0_MS
) -> dict[str, int]:
    """What is not 0, by verdict, once the steward has counted at that time."""
    await count_records(runlog, FakeClock(at_ms))
    return await told(runlog, job, day)


async def told(runlog: RunLog, job: str | None = "backup", day: int = DAY) -> dict[str, int]:
    """What is not 0, by verdict."""
    days = await runlog.statistics(job, [day])
    return {str(status): number for one in days for status, number in one.by_status.items() if number}


async def documents(runlog: RunLog) -> dict[str, Any]:
    """All counts, as they lie there."""
    found = runlog._statistics._collection.find({"_id": {"$ne": "counted"}}, sort=[("_id", 1)])
    return {one["_id"]: one["counts"] for one in await found.to_list()}


async def test_days_count_runs_by_verdict_and_say_how_long_they_took(runlog: RunLog) -> None:
    await runlog.write([
        record(0), record(1, end_ms=PLAN_0_MS + 3000), record(2, status=Verdict.FAILED),
        record(3, status=Verdict.SKIPPED), record(4, status=Verdict.MISSED, count=20), record(5, status=Verdict.LOST),
        record(0, job="other"), record(0, plan_ms=PLAN_0_MS - DAY_MS), record(6, status=Verdict.TIMEOUT, end_ms=0),
        record(7, plan_ms=PLAN_0_MS - 2 * HOUR_MS),
    ])  # fmt: skip
    assert await runlog.statistics("backup", [DAY]) == []  # not counted yet
    counts = {"success": 3, "failed": 1, "timeout": 1, "skipped": 1, "missed": 20, "lost": 1}
    assert await counted(runlog) == counts
    assert await told(runlog, None) == {**counts, "success": 4}
    first, second = await runlog.statistics("backup", [DAY, DAY - 1])
    assert (first.number, first.by_status[Verdict.SUCCESS], first.timed) == (DAY - 1, 1, 1)
    # One clock was set back while its run went on: that one took no time.
    assert (second.number, second.timed, second.duration_ms, second.max_duration_ms) == (DAY, 5, 3 * 5 + 1998, 1998)
    assert await runlog.statistics("nobody", [DAY]) == []
    hours = await runlog.statistics("backup", range(DAY * 24 - 24, DAY * 24 + 24), HOUR_MS)
    assert [(one.number // 24, one.timed) for one in hours] == [(DAY - 1, 1), (DAY, 1), (DAY, 4)]
    assert await runlog.statistics("nobody", [DAY * 24], HOUR_MS) == []


async def test_newest_hour_that_has_records_is_found_from_any_hour(runlog: RunLog) -> None:
    hour = PLAN_0_MS // HOUR_MS
    assert await runlog.newest_hour(hour) is None
    await runlog.write([record(0), record(1, plan_ms=PLAN_0_MS - 5 * HOUR_MS)])
    assert await runlog.newest_hour(hour + 100) == hour
    assert await runlog.newest_hour(hour) == hour - 5
    assert await runlog.newest_hour(hour - 5) is None


async def test_jobs_are_counted_whatever_they_are_called(runlog: RunLog) -> None:
    names = ["007", "2024-01-01-backup", "a.b", "$set", "all", "Ω mega"]
    await runlog.write([record(1, job=name) for name in names])
    assert await counted(runlog, None) == {"success": 6}
    for name in names:
        assert await told(runlog, name) == {"success": 1}


async def test_an_hour_of_many_records_is_counted_in_pages(runlog: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "STEP", 7)
    await runlog.write([record(number, job=f"job-{number % 5}") for number in range(60)])
    assert await counted(runlog, None) == {"success": 60}
    assert await told(runlog, "job-3") == {"success": 12}


async def test_an_hour_that_is_counted_again_or_by_two_at_once_says_the_same(runlog: RunLog) -> None:
    await runlog.write([record(number, job=f"job-{number % 50}") for number in range(100)])
    await counted(runlog)
    once = await documents(runlog)
    await asyncio.gather(*(count_records(runlog, FakeClock(PLAN_0_MS + number)) for number in range(1, 4)))
    assert await documents(runlog) == once
    assert len([one for one in once if one.endswith(f"/all/{PLAN_0_MS % DAY_MS // HOUR_MS:02d}")]) == 1


async def test_a_record_that_comes_late_is_counted_and_takes_the_place_of_lost(runlog: RunLog) -> None:
    await runlog.write([record(0, status=Verdict.LOST), record(1, status=Verdict.LOST)])
    assert await counted(runlog) == {"lost": 2}
    await runlog.write([record(0), record(2)])
    assert await counted(runlog, at_ms=PLAN_0_MS + 2 * HOUR_MS) == {"lost": 1, "success": 2}
    await runlog.write([record(1)])
    at_ms = PLAN_0_MS + 5 * DAY_MS
    assert await counted(runlog, at_ms=at_ms) == await told(runlog, None) == {"success": 3}
    await runlog.write([record(3)])
    assert await counted(runlog, at_ms=at_ms + DAY_MS - 1) == {"success": 3}
    assert await counted(runlog, at_ms=at_ms + DAY_MS) == {"success": 4}


async def test_a_record_that_comes_more_than_a_week_late_is_not_counted(runlog: RunLog) -> None:
    await runlog.write([record(0)])
    assert await counted(runlog, at_ms=(DAY + ROLLED_UP_DAYS + 1) * DAY_MS) == {}


async def test_records_that_go_leave_the_counts(runlog: RunLog) -> None:
    await runlog.write([record(number, job=job) for number in range(3) for job in ("backup", "other")])
    assert await counted(runlog) == {"success": 3}
    await runlog.remove([str(record(number).run_id) for number in range(3)])
    await runlog.write([record(3), record(3, job="other")])
    assert await counted(runlog, at_ms=PLAN_0_MS + 2 * HOUR_MS) == {"success": 3}
    assert await told(runlog, "other") == {"success": 4}


async def test_all_jobs_together_are_the_sum_of_each_also_where_records_of_some_are_gone(runlog: RunLog) -> None:
    """A long run's record comes when those of other jobs have gone by number."""
    await runlog.write([record(number, job=job) for number in range(5) for job in ("backup", "other")])
    await counted(runlog)
    await runlog.remove([str(record(number, job=job).run_id) for number in range(5) for job in ("backup", "other")])
    await runlog.write([record(number, job="long") for number in range(3)])
    assert await counted(runlog, "long", at_ms=PLAN_0_MS + 2 * HOUR_MS) == {"success": 3}
    assert await told(runlog, None) == {"success": 13}


async def test_a_steward_that_writes_late_brings_no_lost_run_back(runlog: RunLog) -> None:
    hour, before, after = PLAN_0_MS // HOUR_MS, dict[str, Any](), dict[str, Any]()
    await runlog.write([record(0, status=Verdict.LOST), record(1)])
    await runlog.count_hour(hour, after="", limit=10, to=before)
    await runlog.write([record(0)])
    await runlog.count_hour(hour, after="", limit=10, to=after)
    for found in (after, before):
        await runlog.put_hour(hour, found)
        assert await told(runlog) == await told(runlog, None) == {"success": 2}


async def test_a_day_is_rolled_up_once_it_is_a_week_old(runlog: RunLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies(*_: object) -> None:
        raise UnavailableError("told to be away")

    jobs = ("backup", "other", "third")
    await runlog.write([record(job=job, plan_ms=PLAN_0_MS + hour * HOUR_MS) for job in jobs for hour in (0, 1, 5)])
    counts = await counted(runlog, at_ms=PLAN_0_MS + 6 * HOUR_MS)
    over_ms = (DAY + ROLLED_UP_DAYS + 1) * DAY_MS
    assert await counted(runlog, at_ms=over_ms - 1) == counts
    assert not [one for one in await documents(runlog) if one.startswith("day/")]
    with monkeypatch.context() as broken:
        broken.setattr(Statistics, "_remove", dies)
        with pytest.raises(UnavailableError):
            await count_records(runlog, FakeClock(over_ms))
    assert await counted(runlog, at_ms=over_ms) == counts
    assert await told(runlog, None) == {"success": 9}
    assert {one.split("/")[0] for one in await documents(runlog)} == {"day"}


async def test_days_that_a_former_version_has_counted_are_read_where_no_more_is_found(runlog: RunLog) -> None:
    text = '{"backup":{"success":3,"lost":-1,"timed":3,"durationMs":9,"maxDurationMs":4}}'
    await runlog.write([record(0)])
    await counted(runlog)
    (bucket,) = {one.split("/")[2] for one in await documents(runlog)} - {"all"}
    day = f"day/2026-09-21/{bucket}"
    await runlog._statistics._collection.insert_one({"_id": day, "writes": 1, "folded": "{}", "counts": text})
    assert await told(runlog) == {"success": 3}
    await runlog.write([record(number) for number in range(1, 5)])
    assert await counted(runlog, at_ms=PLAN_0_MS + 1) == {"success": 5}
    assert await counted(runlog, at_ms=PLAN_0_MS + (ROLLED_UP_DAYS + 2) * DAY_MS) == {"success": 5}


async def test_counts_of_old_days_go_and_others_stay(runlog: RunLog) -> None:
    days = [PLAN_0_MS + number * DAY_MS for number in range(4)]
    await runlog.write([record(job=job, plan_ms=plan_ms) for job in ("backup", "other") for plan_ms in days])
    for plan_ms in days:
        await counted(runlog, at_ms=plan_ms)
    await counted(runlog, at_ms=days[-1] + (ROLLED_UP_DAYS + 1) * DAY_MS)
    while await runlog.forget_statistics(DAY + 2, limit=2):
        pass
    for job in ("backup", None):
        assert [one.number for one in await runlog.statistics(job, range(DAY, DAY + 4))] == [DAY + 2, DAY + 3]


ODD: Sequence[object] = (
    None, "7", "soon", -1, True, 1.5, 10**18, [], {}, "[]", '{"x":{}}', '{"backup":5}', '{"backup":{"success":"one"}}',
    "[" * 9999,
)  # fmt: skip


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:30])
async def test_what_is_nearly_ours_keeps_no_others_from_being_counted(runlog: RunLog, odd: object) -> None:
    records: list[dict[str, Any]] = [
        {**record(number).to_document(), "pageKey": f"{PLAN_0_MS:016d}/{number}", field: odd}
        for number, field in enumerate(("jobName", "status", "count", "startTime", "endTime"))
    ]
    await runlog._log.insert_many(records)
    await runlog._statistics._collection.insert_many([
        {"_id": "counted", "hours": odd}, {"_id": "hour/1", "counts": odd}, {"_id": "hour/1/2/3/4"},
        {"_id": "day/2026-09-21/172", "counts": odd}, {"_id": "day/2026-09-21/all", "counts": odd},
    ])  # fmt: skip
    await runlog.write([record(7), record(8, job="other")])
    assert await counted(runlog, "other") == {"success": 1}
    assert (await told(runlog))["success"] >= 4
    assert await counted(runlog, "other", at_ms=PLAN_0_MS + 9 * DAY_MS) == {"success": 1}
    assert all(isinstance(day.duration_ms, int) for day in await runlog.statistics(None, [DAY]))
