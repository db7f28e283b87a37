"""How many runs of each verdict each day had, through the API."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from common.instants import iso
from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.support.counting import count_records
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import now_ms, record_of

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def ran(manager: Managed, job: str, status: Verdict = Verdict.SUCCESS, *, days_ago: int = 0) -> None:
    plan_ms = (now_ms() // DAY_MS - days_ago) * DAY_MS
    await manager.write([record_of(RunId(job, f"r-{status}-{days_ago}"), status, plan_ms=plan_ms)])


def day(days_ago: int) -> str:
    return datetime.fromtimestamp(now_ms() / 1000 - days_ago * 86_400, UTC).date().isoformat()


async def test_each_of_the_last_days_is_there_newest_first(manager: Managed) -> None:
    await ran(manager, "a")
    await ran(manager, "a", Verdict.FAILED, days_ago=2)
    await ran(manager, "a", Verdict.SKIPPED, days_ago=2)
    await ran(manager, "b", days_ago=2)
    await count_records(manager.runlog)
    of_one: dict[str, Any] = await manager.get("/api/v1/statistics", job="a", days="3")
    assert (of_one["job"], of_one["from"], of_one["to"]) == ("a", day(2), day(0))
    assert [(one["day"], one["runs"]) for one in of_one["items"]] == [(day(0), 1), (day(1), 0), (day(2), 1)]
    today, none, first = of_one["items"]
    assert (today["success"], today["timed"], today["totalDurationMs"], today["averageDurationMs"]) == (1, 1, 5, 5)
    assert (none["success"], none["averageDurationMs"], none["maxDurationMs"]) == (0, None, None)
    assert (first["failed"], first["skipped"], first["maxDurationMs"]) == (1, 1, 5)
    assert {name: of_one["total"][name] for name in ("runs", "success", "skipped")} == {
        "runs": 2, "success": 1, "skipped": 1,
    }  # fmt: skip
    of_all = await manager.get("/api/v1/statistics")
    assert (of_all["job"], len(of_all["items"]), of_all["total"]["runs"]) == (None, 30, 3)


async def test_each_of_the_last_hours_is_there_newest_first(manager: Managed) -> None:
    hour = now_ms() // HOUR_MS
    for ago, status in ((0, Verdict.SUCCESS), (2, Verdict.FAILED), (9, Verdict.FAILED)):
        await manager.write([record_of(RunId("a", f"r-{ago}"), status, plan_ms=(hour - ago) * HOUR_MS)])
    await count_records(manager.runlog)
    found: dict[str, Any] = await manager.get("/api/v1/statistics", hours="3")
    assert [one["hour"] for one in found["items"]] == [iso((hour - ago) * HOUR_MS) for ago in range(3)]
    assert [(one["runs"], one["failed"]) for one in found["items"]] == [(1, 0), (0, 0), (1, 1)]
    assert (found["from"], found["to"]) == (found["items"][2]["hour"], found["items"][0]["hour"])
    assert found["total"]["runs"] == 2


async def test_job_without_a_fire_has_nothing_and_one_that_nobody_knows_is_not_found(manager: Managed) -> None:
    await manager.call("PUT", "/api/v1/jobs/j", {"command": "a", "cronExpr": "@yearly"})
    assert (await manager.get("/api/v1/statistics", job="j"))["total"]["runs"] == 0
    await ran(manager, "deleted")
    await count_records(manager.runlog)
    assert (await manager.get("/api/v1/statistics", job="deleted"))["total"]["runs"] == 1
    problem = await problem_of(await manager.http.get("/api/v1/statistics?job=nobody&days=7"), 404)
    assert problem["detail"] == "there is no job nobody, and none of that name has had a fire in the last 7 days"


@pytest.mark.parametrize(
    ("query", "field", "remedy"),
    [
        ("days=0", "days", "a whole number from 1 to 400; 30 when left out"),
        ("days=401", "days", "a whole number from 1 to 400; 30 when left out"),
        ("jbo=a", "jbo", "did you mean job?"),
    ],
)
async def test_what_is_wrong_is_named(manager: Managed, query: str, field: str, remedy: str) -> None:
    problem = await problem_of(await manager.http.get(f"/api/v1/statistics?{query}"), 400)
    assert [(error["field"], error["remedy"]) for error in problem["errors"]] == [(field, remedy)]
