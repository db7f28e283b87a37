"""Lists of jobs by the next fire, the newest failure and the newest duration: whole, page by page, for each caller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from bench.filling import fill, saved
from common.jobs.job import JobSpec
from common.protocol.run import RunRecord
from common.verdicts import Verdict
from manager.views.orders import FEW, Sort
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import now_ms
from tests.support.records import PLAN_0_MS, record
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def make(manager: Managed, specs: Iterable[JobSpec]) -> None:
    specs = list(specs)
    await fill(manager.etcd, manager.keys, (saved(spec, now_ms()) for spec in specs))
    catalog = manager.parts.watching.catalog
    await wait_until(lambda: all(spec.name in catalog for spec in specs), description="the manager knows them")


def spec(name: str, cron: str = "@yearly", **fields: Any) -> JobSpec:
    return JobSpec(name=name, command="true", cron_exprs=(cron,), **fields)


def ran(job: str, number: int, *, took_ms: int = 5, status: Verdict = Verdict.SUCCESS) -> RunRecord:
    start_ms = PLAN_0_MS + number * 1000
    return record(number, job=job, status=status, start_ms=start_ms, end_ms=start_ms + took_ms)


async def listed(manager: Managed, sort: str, *, limit: int = 2, **query: str) -> list[str]:
    """The names on all pages, one after the other."""
    names, cursor = list[str](), ""
    while cursor is not None:
        given = {"sort": sort, "limit": str(limit), **query, **({"cursor": cursor} if cursor else {})}
        page = await manager.get("/api/v1/jobs", **given)
        names += [row["name"] for row in page["items"]]
        cursor = page["nextCursor"]
    return names


async def test_jobs_are_listed_by_what_they_came_to(manager: Managed) -> None:
    await make(manager, (spec(name) for name in ("a", "b", "c", "never", "well")))
    await manager.write([
        ran("a", 1, status=Verdict.FAILED, took_ms=30), ran("a", 9, took_ms=900),
        ran("b", 5, status=Verdict.TIMEOUT, took_ms=7), ran("well", 2, took_ms=60_000),
        record(3, job="c", status=Verdict.MISSED), ran("deleted", 8, status=Verdict.FAILED, took_ms=1),
    ])  # fmt: skip
    assert await listed(manager, "-failure") == ["b", "c", "a", "never", "well"]
    assert await listed(manager, "failure") == ["a", "c", "b", "never", "well"]
    assert await listed(manager, "duration") == ["b", "a", "well", "c", "never"]
    assert await listed(manager, "-duration") == ["well", "a", "b", "c", "never"]
    assert await listed(manager, "-duration", q="ll") == ["well"]
    assert await listed(manager, "-name") == ["well", "never", "c", "b", "a"]
    (row,) = (await manager.get("/api/v1/jobs", q="a", limit="1"))["items"]
    assert row["lastFailureTime"] == PLAN_0_MS + 1030

    # What is delivered late changes nothing, and what is newer does.
    await manager.write([ran("a", 0, status=Verdict.FAILED, took_ms=1), ran("c", 20, status=Verdict.FAILED, took_ms=3)])
    assert await listed(manager, "-failure") == ["c", "b", "a", "never", "well"]
    assert await listed(manager, "duration") == ["c", "b", "a", "well", "never"]


async def test_jobs_are_listed_by_their_next_fires_as_they_change(manager: Managed) -> None:
    hours = {"late": 11, "early": 2, "middle": 7}
    await make(manager, (spec(name, f"0 0 {hour} 1 1 * 2099") for name, hour in hours.items()))
    await make(manager, [spec("paused", enabled=False), spec("past", "0 0 0 1 1 * 2020")])
    assert await listed(manager, "next") == ["early", "middle", "late", "past", "paused"]
    assert await listed(manager, "-next") == ["late", "middle", "early", "past", "paused"]
    await manager.call("DELETE", "/api/v1/jobs/middle")
    await manager.call("POST", "/api/v1/jobs/early/pause", {})
    await manager.call("PATCH", "/api/v1/jobs/past", {"cronExpr": "0 0 3 1 1 * 2099"})
    assert await listed(manager, "next") == ["past", "late", "early", "paused"]


async def test_pages_of_many_jobs_look_at_few_of_them(manager: Managed) -> None:
    """More than those of which the keys are read: the log store's own order is walked."""
    many = [spec(f"job-{number:04d}", labels={"half": str(number % 2)}) for number in range(2 * FEW + 10)]
    await make(manager, many)
    await manager.runlog.advance_last(ran(one.name, number, took_ms=number) for number, one in enumerate(many[:600]))
    await manager.runlog.advance_last(ran(f"gone-{number}", number, took_ms=number) for number in range(300))
    halves = [one.name for one in many if one.labels["half"] == "1"]
    timed = [name for name in halves if name < "job-0600"]
    expected = [*reversed(timed), *(name for name in halves if name not in timed)]
    assert await listed(manager, "-duration", limit=500, label="half=1") == expected
    assert (await listed(manager, "duration", limit=100))[:600] == [one.name for one in many[:600]]


@pytest.mark.parametrize("sort", [one for one in Sort if one is not Sort.NAME])
async def test_a_cursor_of_another_order_is_refused(manager: Managed, sort: Sort) -> None:
    await make(manager, (spec(name) for name in "abc"))
    page = await manager.get("/api/v1/jobs", sort=sort, limit="1")
    assert page["nextCursor"]
    other = "-next" if sort is not Sort.NEXT_DOWN else "next"
    for wrong in ({"sort": other}, {}):
        answer = await manager.http.get("/api/v1/jobs", params={"cursor": page["nextCursor"], **wrong})
        assert (await problem_of(answer, 400))["errors"][0]["field"] == "cursor"
