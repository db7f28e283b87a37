"""The last result of each job: it moves forward, and only forward."""

from __future__ import annotations

import asyncio
from typing import Any

from common.protocol.keys import RunId
from common.protocol.run import RunRecord
from common.runlog import RunLog
from common.verdicts import Verdict
from tests.support.records import PLAN_0_MS, last_results, record


async def last_run(runlog: RunLog, job: str = "backup") -> str:
    return str((await last_results(runlog, [job]))[job]["runId"])


async def test_says_how_the_newest_fire_ended(runlog: RunLog) -> None:
    await runlog.write([record(1, status=Verdict.FAILED, exit_code=3, err="exit status 3"), record(0)])
    last = (await last_results(runlog, ["backup"]))["backup"]
    expected = {"runId": str(record(1).run_id), "status": "failed", "exitCode": 3, "err": "exit status 3",
                "planTime": record(1).plan_ms, "worker": "w1"}  # fmt: skip
    assert {name: last[name] for name in expected} == expected
    assert "output" not in last
    assert "_id" not in last


async def test_an_older_record_never_overwrites_a_newer_one(runlog: RunLog) -> None:
    for number in (3, 1, 2):
        await runlog.write([record(number)])
        assert await last_run(runlog) == str(record(3).run_id)


async def test_one_job_whose_record_is_old_keeps_no_other_of_the_batch_back(runlog: RunLog) -> None:
    await runlog.write([record(5, job=job) for job in ("a", "b", "c")])
    await runlog.write([record(1, job="a"), record(6, job="b"), record(2, job="c"), record(1, job="d")])
    assert [await last_run(runlog, job) for job in "abcd"] == [
        str(record(number, job=job).run_id) for job, number in (("a", 5), ("b", 6), ("c", 5), ("d", 1))
    ]


async def test_a_later_attempt_of_the_same_fire_is_newer(runlog: RunLog) -> None:
    attempts = [record(1, run_id=RunId.planned("backup", record(1).plan_ms, attempt)) for attempt in (2, 10, 9)]
    for attempt in attempts:
        await runlog.write([attempt])
    assert await last_run(runlog) == str(attempts[1].run_id)


async def test_a_later_attempt_that_never_started_leaves_the_verdict_of_the_one_before(runlog: RunLog) -> None:
    def attempt(number: int, status: Verdict, **changes: Any) -> RunRecord:
        return record(1, run_id=RunId.planned("backup", record(1).plan_ms, number), status=status, **changes)

    failed = attempt(1, Verdict.FAILED)
    for never_started in (attempt(2, Verdict.SKIPPED, reason="overlap"), attempt(3, Verdict.KILLED, start_ms=None)):
        await runlog.write([failed])
        await runlog.write([never_started])
        assert await last_run(runlog) == str(failed.run_id)
    await runlog.write([attempt(4, Verdict.LOST, start_ms=None)])
    last = (await runlog.job_results(["backup"]))["backup"]
    assert last.last is not None
    assert (last.last["status"], last.last["attempt"]) == ("lost", 4)
    assert [(one["status"], one["runId"]) for one in last.recent] == [("lost", f"backup@{failed.plan_ms}#4")]


async def test_the_late_verdict_takes_the_place_of_lost_and_not_the_other_way(runlog: RunLog) -> None:
    for status in (Verdict.LOST, Verdict.SUCCESS, Verdict.LOST):
        await runlog.write([record(1, status=status)])
    assert (await last_results(runlog, ["backup"]))["backup"]["status"] == "success"


async def test_a_range_counts_by_its_end(runlog: RunLog) -> None:
    of_the_range: dict[str, Any] = {"range_end_ms": PLAN_0_MS + 60_000, "count": 1000, "count_is_minimum": True}
    await runlog.write([record(0, status=Verdict.MISSED, reason="worker away", **of_the_range)])
    await runlog.write([record(30)])
    last = (await last_results(runlog, ["backup"]))["backup"]
    told = {"status": "missed", "count": 1000, "countIsMinimum": True, "reason": "worker away"}
    assert {name: last[name] for name in told} == told


async def test_names_that_look_like_numbers_are_different_jobs(runlog: RunLog) -> None:
    await runlog.write([record(number, job=job) for number, job in enumerate(["7", "007", "7e0"])])
    last = await last_results(runlog, ["7", "007", "7e0", "07"])
    assert {job: document["runId"] for job, document in last.items()} == {
        job: str(record(number, job=job).run_id) for number, job in enumerate(["7", "007", "7e0"])
    }


async def test_writers_at_the_same_time_leave_the_newest(runlog: RunLog) -> None:
    async def write(one: RunRecord) -> None:
        await runlog.write([one])

    await asyncio.gather(*(write(record(number)) for number in (4, 0, 9, 2, 7, 1)))
    assert await last_run(runlog) == str(record(9).run_id)


async def test_is_written_later_where_the_caller_takes_it_on(runlog: RunLog) -> None:
    batch = [record(number, job=f"job-{number}") for number in range(450)]
    await runlog.write(batch, advance_last=False)
    assert await last_results(runlog, ["job-7"]) == {}
    await runlog.advance_last(batch)
    assert len(await last_results(runlog, [f"job-{number}" for number in range(450)])) == 450
