"""``GET /api/v1/runs``: what is going stands ahead of the records, within one list."""

from __future__ import annotations

import pytest

from common.protocol.keys import RunId
from common.protocol.run import EntryState
from common.verdicts import Verdict
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms, record_of, settle
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
RUNS = "/api/v1/runs"


async def going(manager: Managed, *runs: RunId) -> None:
    """The manager has seen these runs, and no others."""
    seen = manager.parts.watching.open_runs
    await wait_until(
        lambda: len(seen) == len(runs) and all(seen.has(run) for run in runs), description="the runs to be seen"
    )


async def pages(manager: Managed, **query: str) -> list[list[str]]:
    """The ids of every page."""
    found: list[list[str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await manager.get(RUNS, **query, **cursor)
        found.append([run["id"] for run in page["items"]])
        if page["nextCursor"] is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


async def test_a_long_run_stands_ahead_of_what_ended_since(manager: Managed) -> None:
    now = now_ms()
    await manager.write([record_of(RunId.planned("often", now - HOUR_MS * n // 2)) for n in range(1, 4)])
    long = await claim(manager, "long", now - 9 * HOUR_MS)
    ahead = await claim(manager, "soon", now + HOUR_MS)
    await going(manager, long, ahead)
    page = await manager.get(RUNS)
    assert [(run["jobName"], run["state"]) for run in page["items"][:3]] == [
        ("soon", "claimed"), ("long", "running"), ("often", "finished"),
    ]  # fmt: skip
    first, second = page["items"][:2]
    assert (first["startTime"], second["startTime"]) == (None, now - 9 * HOUR_MS)
    assert second == {
        "id": str(long), "state": "running", "jobName": "long", "attempt": 1, "planTime": now - 9 * HOUR_MS,
        "claimTime": now - 9 * HOUR_MS - 100, "scheduleTime": now - 9 * HOUR_MS, "startTime": now - 9 * HOUR_MS,
        "worker": "w1", "trigger": "schedule",
    }  # fmt: skip
    assert page["warnings"] == []


async def test_status_running_is_what_is_going_now(manager: Managed) -> None:
    now = now_ms()
    await manager.write([record_of(RunId.planned("a", 1000)), record_of(RunId.planned("a", 2000), Verdict.FAILED)])
    run = await claim(manager, "b", now - HOUR_MS)
    await going(manager, run)
    assert await pages(manager, status="running") == [[str(run)]]
    assert await pages(manager, status="failed") == [["a@2000#1"]]
    assert await pages(manager, status="failed,running") == [[str(run), "a@2000#1"]]
    await settle(manager, run)
    await going(manager)
    assert await pages(manager, status="running") == [[]]
    assert [run["state"] for run in (await manager.get(RUNS, job="b"))["items"]] == ["finished"]


async def test_what_is_going_is_narrowed_as_records_are(manager: Managed) -> None:
    now = now_ms()
    old, new = [await claim(manager, "a", now - hours * HOUR_MS) for hours in (5, 1)]
    other = await claim(manager, "b", now - 3 * HOUR_MS)
    ended = await claim(manager, "c", now - 2 * HOUR_MS, state=EntryState.ENDED)
    await going(manager, old, new, other)
    for query, found in (
        ({}, [new, other, old]),
        ({"job": "a"}, [new, old]),
        ({"job": "none"}, []),
        ({"worker": "w1"}, [new, other, old]),
        ({"worker": "w2"}, []),
        ({"from": str(other.plan_ms)}, [new, other]),
        ({"to": str(other.plan_ms)}, [old]),
    ):
        ids = [str(run) for run in found]
        assert await pages(manager, **query) == [ids], query
        assert await pages(manager, status="running", **query) == [ids], query
    assert str(ended) not in str(await manager.get(RUNS))


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6])
async def test_pages_go_from_what_is_going_to_the_records(manager: Managed, limit: int) -> None:
    now = now_ms()
    open_ones = [await claim(manager, "go", now - hours * HOUR_MS) for hours in (1, 2, 3)]
    ended = [RunId.planned("end", now - hours * HOUR_MS // 2) for hours in (1, 2)]
    await manager.write([record_of(run) for run in ended])
    await going(manager, *open_ones)
    found = await pages(manager, limit=str(limit))
    assert [run for page in found for run in page] == [str(run) for run in (*open_ones, *ended)]
    assert max(len(page) for page in found) <= limit
    found = await pages(manager, limit=str(limit), status="running")
    assert [run for page in found for run in page] == [str(run) for run in open_ones]


async def test_a_run_whose_record_is_there_is_shown_once(manager: Managed) -> None:
    run = await claim(manager, "j", now_ms() - HOUR_MS)
    await going(manager, run)
    await manager.write([record_of(run)])
    (item,) = (await manager.get(RUNS))["items"]
    assert (item["id"], item["state"], item["status"]) == (str(run), "finished", "success")


@pytest.mark.parametrize("status", [{}, {"status": "running"}])
async def test_a_cursor_of_neither_is_refused(manager: Managed, status: dict[str, str]) -> None:
    for cursor in ("x", "bzEyMw", "%%%"):
        problem = await problem_of(await manager.http.get(RUNS, params={"cursor": cursor, **status}), 400)
        assert [error["field"] for error in problem["errors"]] == ["cursor"]


async def test_a_cursor_among_those_going_is_none_of_a_list_of_records(manager: Managed) -> None:
    runs = [await claim(manager, "go", now_ms() - hours * HOUR_MS) for hours in (1, 2)]
    await going(manager, *runs)
    cursor = (await manager.get(RUNS, limit="1"))["nextCursor"]
    problem = await problem_of(await manager.http.get(RUNS, params={"cursor": cursor, "status": "failed"}), 400)
    assert [error["field"] for error in problem["errors"]] == ["cursor"]


async def test_no_status_beside_these(manager: Managed) -> None:
    problem = await problem_of(await manager.http.get(RUNS, params={"status": "runing"}), 400)
    assert problem["errors"][0]["remedy"].startswith("one of: running, success, failed")


async def test_without_etcd_the_records_are_shown_and_it_is_said(place: Place) -> None:
    async with Proxy(place.etcd) as proxy:
        proxy.set(Mode.SWALLOW)
        async with managing(place, etcd=proxy.endpoint) as manager:
            await manager.write([record_of(RunId.planned("j", 1000))])
            page = await manager.get(RUNS)
            assert [run["id"] for run in page["items"]] == ["j@1000#1"]
            assert page["warnings"] == [
                "etcd has not been reached since this manager started: runs that are going are not shown"
            ]
            await problem_of(await manager.http.get(RUNS, params={"status": "running"}), 503)
            proxy.set(Mode.PASS)
            proxy.reset()


async def test_without_the_log_store_what_is_going_is_still_told(place: Place) -> None:
    async with managing(place, mongodbUri="mongodb://127.0.0.1:1", apiWriteTimeout=1000) as manager:
        run = await claim(manager, "j", now_ms() - HOUR_MS)
        await going(manager, run)
        await problem_of(await manager.http.get(RUNS), 503)
        page = await manager.get(RUNS, status="running")
        assert [run["id"] for run in page["items"]] == [str(run)]
