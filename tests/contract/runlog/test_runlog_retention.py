"""What the run log forgets: the oldest by age, the oldest of one job, what is left of jobs; on a real log store."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import AsyncMongoClient

from common.runlog import RetentionState, RunFilter, RunLog
from tests.support.log_store import LogStore
from tests.support.records import PLAN_0_MS, last_results, record

SECOND = 1000


async def numbers_of(runlog: RunLog, job: str = "backup") -> list[int]:
    """Which records of the job are there, oldest first."""
    page = await runlog.runs(RunFilter(job=job), limit=100)
    return [(item["planTime"] - PLAN_0_MS) // SECOND for item in reversed(page.items)]


async def test_old_records_are_those_planned_before_an_instant_oldest_first(runlog: RunLog) -> None:
    await runlog.write([record(number, job=job) for number in (3, 1, 0, 2) for job in ("a", "b")])
    before_ms = PLAN_0_MS + 2 * SECOND
    first = await runlog.old_records(before_ms, limit=3)
    rest = await runlog.old_records(before_ms, after=first[-1].page_key, limit=3)
    found = [one.run_id for one in (*first, *rest)]
    assert found == [str(record(number, job=job).run_id) for number in (0, 1) for job in ("a", "b")]


async def test_records_beyond_the_newest_of_a_job_leave_other_jobs_alone(runlog: RunLog) -> None:
    await runlog.write([record(number, job=job) for number in range(5) for job in ("backup", "other")])
    await runlog._log.insert_one({"jobName": "backup", "planTime": 1})  # the legacy system's stay, and do not count
    assert await runlog.records_beyond("backup", 5, PLAN_0_MS + 9 * SECOND, limit=10) == []
    beyond = await runlog.records_beyond("backup", 3, PLAN_0_MS + 9 * SECOND, limit=10)
    assert [one.run_id for one in beyond] == [str(record(number).run_id) for number in (0, 1)]
    assert await runlog.records_beyond("backup", 3, PLAN_0_MS + SECOND, limit=10) == beyond[:1]
    await runlog.remove([one.run_id for one in beyond])
    assert await runlog.records_beyond("backup", 3, PLAN_0_MS + 9 * SECOND, limit=10) == []
    assert await numbers_of(runlog) == [2, 3, 4]
    assert await numbers_of(runlog, "other") == [0, 1, 2, 3, 4]


async def test_tenth_attempt_is_not_older_than_the_first(runlog: RunLog) -> None:
    run = record(0).run_id
    first, tenth = record(0), record(0, run_id=type(run)(run.job, run.fire, 10))
    await runlog.write([first, tenth])
    assert [one.run_id for one in await runlog.records_beyond("backup", 1, PLAN_0_MS + 9 * SECOND, limit=10)] == [
        str(first.run_id)
    ]


async def test_what_a_job_came_to_stays_when_its_records_go(runlog: RunLog) -> None:
    await runlog.write([record(1)])
    await runlog.remove([str(record(1).run_id)])
    assert (await last_results(runlog, ["backup"]))["backup"]["runId"] == str(record(1).run_id)


async def test_all_jobs_are_found_by_pages_whatever_they_are_called(runlog: RunLog) -> None:
    names = ["007", "2024-01-01-backup", "a", "Ω mega", "备份"]
    await runlog.write([record(1, job=name) for name in names])
    found: list[str] = []
    while page := await runlog.kept_jobs(after=found[-1] if found else "", limit=2):
        found += [job.name for job in page]
        assert {job.newest_ms for job in page} == {PLAN_0_MS + SECOND}
    assert found == names


async def test_job_that_has_run_since_is_not_forgotten(runlog: RunLog) -> None:
    await runlog.write([record(1), record(1, job="gone")])
    jobs = await runlog.kept_jobs(after="", limit=10)
    await runlog.write([record(2)])
    for _ in range(2):
        await runlog.forget_jobs(jobs)
    assert [job.name for job in await runlog.kept_jobs(after="", limit=10)] == ["backup"]


async def test_what_is_kept_is_said_until_all_is_kept(runlog: RunLog) -> None:
    assert await runlog.retention() is None
    state = RetentionState(days=30, per_job=0, worker="w1", at_ms=PLAN_0_MS, removed=7)
    for _ in range(2):
        await runlog.put_retention(state)
    assert await runlog.retention() == state
    await runlog.put_retention(None)
    assert await runlog.retention() is None


@pytest.mark.parametrize("odd", [{}, {"days": "many", "perJob": 0}, {"days": None}])
async def test_what_somebody_else_says_is_kept_is_passed_over_and_replaced(
    runlog: RunLog, shared_store: LogStore, database: str, odd: dict[str, Any]
) -> None:
    async with AsyncMongoClient[dict[str, Any]](shared_store.uri) as client:
        await client[database]["retention"].insert_one({"_id": "retention/current", **odd})
    assert await runlog.retention() is None
    state = RetentionState(days=30, per_job=0, worker="w1", at_ms=PLAN_0_MS, removed=7)
    await runlog.put_retention(state)
    assert await runlog.retention() == state
