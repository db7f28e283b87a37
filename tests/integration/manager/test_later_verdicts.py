"""A verdict of a later version, which its workers write already: nobody knows what it says, and no page fails by it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pymongo import AsyncMongoClient

from common.protocol.keys import RunId
from common.verdicts import Verdict
from tests.support.joining import join
from tests.support.managing import Managed, Place
from tests.support.open_runs import now_ms, record_of

HOUR_MS = 3_600_000
JOB = "/api/v1/jobs/j"
PAGES = (
    "/api/v1/jobs", "/api/v1/jobs?state=failing", "/api/v1/jobs?sort=-failure", JOB, f"{JOB}/fires",
    f"{JOB}/durations", f"{JOB}/calendar", f"{JOB}/notifications", "/api/v1/runs", "/api/v1/runs?group=error",
    "/api/v1/statistics?job=j", "/api/v1/overview", "/api/v1/forecast", "/api/v1/workers/w1/history", "/api/v1/alerts",
    "/metrics", "/job/log?name=j",
)  # fmt: skip


async def test_a_verdict_of_a_later_version_is_shown_as_it_is_called(manager: Managed, place: Place) -> None:
    await join(manager, "w1")
    await manager.call("PUT", JOB, {"command": "true", "cronExpr": "@yearly"})
    begun_ms = now_ms() - HOUR_MS
    runs = [RunId.planned("j", begun_ms + number) for number in range(3)]
    await manager.write([record_of(run, status) for run, status in zip(runs, Verdict, strict=False)])
    async with AsyncMongoClient[dict[str, Any]](place.log_store) as client:
        await client[place.database]["log"].update_one({"_id": str(runs[1])}, {"$set": {"status": "postponed"}})
        await client[place.database]["last"].update_many({}, {"$set": {"result.status": "postponed"}})
    span = f"from={begun_ms}&to={begun_ms + 2 * HOUR_MS}"
    run = f"/api/v1/runs/{quote(str(runs[1]))}"
    failed = []
    for path in (*PAGES, f"{JOB}/fires?{span}", f"/api/v1/timeline?by=job&{span}", f"/api/v1/timeline?by=worker&{span}",
                 run, f"{run}/output"):  # fmt: skip
        answer = await manager.http.get(path)
        if answer.status != 200:
            failed.append((path, answer.status, (await answer.text())[:200]))
    assert not failed
    ((mark,),) = [lane["runs"] for lane in (await manager.get(f"/api/v1/timeline?by=job&{span}"))["items"]]
    assert mark["counts"] == {"success": 1, "postponed": 1, "timeout": 1}
    assert mark["status"] == "timeout"
    assert (await manager.get(run))["status"] == "postponed"
