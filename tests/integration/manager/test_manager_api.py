"""``/api/v1``: lists by cursor, runs finished and open, previews, problem documents."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from common.clock import SystemClock
from common.protocol.keys import RunId
from common.protocol.member import Beat, Member
from common.protocol.run import EntryState, RunEntry, RunRecord, final_entry
from common.verdicts import Verdict
from tests.support.managing import Managed, problem_of

HOUR_MS = 3_600_000


async def save_many(manager: Managed, count: int) -> list[str]:
    names = [f"job-{number:03d}" for number in range(count)]
    for number, name in enumerate(names):
        document = {
            "name": name, "command": f"echo Number {number}", "cronExpr": "@hourly", "enabled": number % 3 != 0,
            "labels": {"team": "ab"[number % 2]},
        }  # fmt: skip
        await manager.save(json.dumps(document))
    return names


async def all_pages(manager: Managed, path: str, **query: str) -> list[Any]:
    items: list[Any] = []
    answer = await manager.get(path, **query)
    items += answer["items"]
    while answer["nextCursor"] is not None:
        answer = await manager.get(path, cursor=answer["nextCursor"], **query)
        items += answer["items"]
    return items


# Jobs


@pytest.mark.parametrize("limit", [1, 7, 8, 9, 500])
async def test_pages_of_jobs_hold_each_job_once_in_order(manager: Managed, limit: int) -> None:
    names = await save_many(manager, 8)
    items = await all_pages(manager, "/api/v1/jobs", limit=str(limit))
    assert [item["name"] for item in items] == names


async def test_page_goes_on_where_it_left_off_although_jobs_come_and_go(manager: Managed) -> None:
    names = await save_many(manager, 6)
    first = await manager.get("/api/v1/jobs", limit="3")
    await manager.post("/job/delete", name=names[2])
    await manager.save('{"name":"job-000a","command":"a","cronExpr":"@daily"}')
    second = await manager.get("/api/v1/jobs", limit="3", cursor=first["nextCursor"])
    assert [item["name"] for item in second["items"]] == names[3:]


async def test_job_carries_its_etag_next_fire_and_last_result(manager: Managed) -> None:
    revision = (await manager.save('{"name":"j","command":"a","cronExpr":"@hourly"}'))["revision"]
    await manager.write([_record("j", HOUR_MS, Verdict.FAILED), _record("j", 2 * HOUR_MS, Verdict.SUCCESS)])
    (item,) = (await manager.get("/api/v1/jobs"))["items"]
    assert (item["revision"], item["etag"], item["state"]) == (revision, f'"{revision}"', "enabled")
    assert item["spec"]["cronExpr"] == "@hourly"
    assert item["nextFire"]["ms"] % HOUR_MS == 0
    assert item["nextFire"]["local"].endswith("+00:00")
    assert (item["lastResult"]["status"], item["lastResult"]["planTime"]) == ("success", 2 * HOUR_MS)


async def test_jobs_are_narrowed_by_state_label_and_text(manager: Managed) -> None:
    await save_many(manager, 8)

    async def names(**query: str) -> list[int]:
        return [int(item["name"][-3:]) for item in await all_pages(manager, "/api/v1/jobs", limit="2", **query)]

    assert await names(state="paused") == [0, 3, 6]
    assert await names(label="team=b") == [1, 3, 5, 7]
    assert await names(label="team") == list(range(8))
    assert await names(label="teem") == []
    assert await names(q="NUMBER 4") == [4]
    assert await names(q="job-005") == [5]
    assert await names(state="enabled", label="team=a") == [2, 4]


@pytest.mark.parametrize(
    ("query", "field", "remedy"),
    [
        ({"limit": "0"}, "limit", "a whole number from 1 to 500"),
        ({"limit": "501"}, "limit", "a whole number from 1 to 500"),
        ({"state": "on"}, "state", "one of: enabled, paused, broken"),
        ({"cursor": "x"}, "cursor", "give the nextCursor of the page before"),
        ({"cursor": "ä"}, "cursor", "give the nextCursor of the page before"),
        ({"lable": "a"}, "lable", "did you mean label?"),
    ],
)
async def test_bad_query_is_a_problem_document(
    manager: Managed, query: dict[str, str], field: str, remedy: str
) -> None:
    problem = await problem_of(await manager.http.get("/api/v1/jobs", params=query), 400)
    assert problem["code"] == "invalid-input"
    (error,) = problem["errors"]
    assert error.keys() >= {"field", "message", "remedy"}
    assert error["field"] == field
    assert remedy in error["remedy"]


# Runs


async def test_runs_are_narrowed_and_paged(manager: Managed) -> None:
    await manager.write([_record("a", number * HOUR_MS, Verdict.SUCCESS) for number in range(1, 6)])
    await manager.write([_record("b", HOUR_MS, Verdict.FAILED), _record("b", 2 * HOUR_MS, Verdict.TIMEOUT)])
    items = await all_pages(manager, "/api/v1/runs", limit="2", job="a")
    assert [item["planTime"] // HOUR_MS for item in items] == [5, 4, 3, 2, 1]
    items = await all_pages(manager, "/api/v1/runs", status="failed,timeout")
    assert [(item["jobName"], item["status"]) for item in items] == [("b", "timeout"), ("b", "failed")]
    bounds = {"from": "1970-01-01T03:00:00+01:00", "to": str(4 * HOUR_MS)}
    items = await all_pages(manager, "/api/v1/runs", job="a", **bounds)
    assert [item["planTime"] // HOUR_MS for item in items] == [3, 2]
    assert "output" not in items[0]
    assert items[0]["id"] == f"a@{3 * HOUR_MS}#1"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"status": "ok"}, "status"),
        ({"from": "yesterday"}, "from"),
        ({"to": "2026-01-01T00:00:00"}, "to"),
        ({"from": "9" * 30}, "from"),
        ({"cursor": "%%%"}, "cursor"),
    ],
)
async def test_bad_query_for_runs_is_named(manager: Managed, query: dict[str, str], field: str) -> None:
    problem = await problem_of(await manager.http.get("/api/v1/runs", params=query), 400)
    assert [error["field"] for error in problem["errors"]] == [field]


async def test_finished_run_is_shown_with_its_output(manager: Managed) -> None:
    await manager.write([_record("a", HOUR_MS, Verdict.SUCCESS)])
    run = await show(manager, f"a@{HOUR_MS}#1")
    assert (run["state"], run["status"], run["output"]) == ("finished", "success", "out")


async def test_run_that_is_still_open_is_shown_from_etcd(manager: Managed) -> None:
    now_ms = SystemClock().wall_ms()
    running, claimed, ended = (RunId.planned("a", number) for number in (1, 2, 3))
    for run, dispatch_ms, state in (
        (running, now_ms - 1000, EntryState.OPEN),
        (claimed, now_ms + 60_000, EntryState.OPEN),
        (ended, now_ms - 1000, EntryState.ENDED),
    ):
        entry = RunEntry(state=state, worker="w1", plan_ms=dispatch_ms, dispatch_ms=dispatch_ms, claim_ms=5)
        await manager.etcd.put(manager.keys.run(run), entry.to_json())
    shown = {run: await show(manager, str(run)) for run in (running, claimed, ended)}
    assert {run: view["state"] for run, view in shown.items()} == {
        running: "running", claimed: "claimed", ended: "ended",
    }  # fmt: skip
    assert shown[running]["claimTime"] == 5
    assert shown[running]["fence"] > 0


async def test_fire_that_did_not_run_is_shown_before_its_record_is_delivered(manager: Managed) -> None:
    record = RunRecord(run_id=RunId.planned("a", 7), status=Verdict.SKIPPED, reason="overlap", plan_ms=7)
    await manager.etcd.put(manager.keys.run(record.run_id), final_entry(record).to_json())
    run = await show(manager, "a@7#1")
    assert (run["state"], run["status"], run["reason"]) == ("finished", "skipped", "overlap")


async def test_record_counts_more_than_a_key_that_is_about_to_go(manager: Managed) -> None:
    await manager.write([_record("a", HOUR_MS, Verdict.SUCCESS)])
    entry = RunEntry(state=EntryState.OPEN, plan_ms=HOUR_MS)
    await manager.etcd.put(manager.keys.run(RunId.planned("a", HOUR_MS)), entry.to_json())
    assert (await show(manager, f"a@{HOUR_MS}#1"))["state"] == "finished"


async def test_unknown_run_is_not_found_and_a_bad_id_is_explained(manager: Managed) -> None:
    missing = await manager.http.get("/api/v1/runs/a@1%231")
    assert (await problem_of(missing, 404))["code"] == "not-found"
    cut = await manager.http.get("/api/v1/runs/a@1")
    assert "%23" in (await problem_of(cut, 400))["errors"][0]["remedy"]


# Workers


async def test_worker_is_shown_with_its_beat(manager: Managed) -> None:
    lease = await manager.etcd.lease_grant(60)
    member = Member(
        worker="w1", session="", instance="i", host="h", address="10.0.0.1", slots=8, labels={"zone": "eu"},
        not_accepting="draining",
    )  # fmt: skip
    await manager.etcd.put(manager.keys.worker("w1", f"{lease.id:x}"), member.to_json(), lease.id)
    beat = Beat(kind="worker", wall_ms=5, free_slots=3, running=2)
    await manager.etcd.put(manager.keys.beat("w1"), beat.to_json(), lease.id)
    (item,) = (await manager.get("/api/v1/workers"))["items"]
    assert (item["name"], item["state"], item["problem"]) == ("w1", "not accepting", "draining")
    assert (item["labels"], item["beat"]["freeSlots"]) == ({"zone": "eu"}, 3)


# Previews


async def test_preview_shows_the_next_fires_in_the_zone(manager: Managed) -> None:
    answer = await preview(manager, cronExpr="0 30 9 * * MON-FRI *", timezone="Europe/Berlin")
    assert len(answer["fires"]) == 5
    assert all("T09:30:00+0" in fire["local"] for fire in answer["fires"])
    assert answer["words"] == "At 09:30, Monday through Friday"
    assert answer["warnings"] == []


async def test_preview_of_a_spread_expression_takes_the_name(manager: Managed) -> None:
    expr = "H H H * * * *"
    first, again, other = [await preview(manager, cronExpr=expr, n=1, name=name) for name in ("a", "a", "b")]
    assert first["fires"] == again["fires"] != other["fires"]


async def test_preview_ends_with_the_schedule(manager: Managed) -> None:
    answer = await preview(manager, cronExpr="0 0 0 1 1 * 2190,2191", n=100)
    assert [fire["utc"][:4] for fire in answer["fires"]] == ["2190", "2191"]


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ({}, ["cronExpr"]),
        ({"cronExpr": ""}, ["cronExpr"]),
        ({"cronExpr": 5}, ["cronExpr"]),
        ({"cronExpr": "61 * * * * * *"}, ["cronExpr"]),
        ({"cronExpr": "1 " * 20_000}, ["cronExpr"]),
        ({"cronExpr": "@daily", "timezone": "Mars"}, ["timezone"]),
        ({"cronExpr": "@daily", "timezone": 5, "n": 101}, ["timezone", "n"]),
        ({"cronExpr": "@daily", "n": True}, ["n"]),
        ({"cronexpr": "@daily"}, ["cronexpr", "cronExpr"]),
    ],
)
async def test_bad_preview_is_refused(manager: Managed, document: dict[str, Any], fields: list[str]) -> None:
    response = await manager.http.post("/api/v1/schedule/preview", json=document)
    problem = await problem_of(response, 400)
    assert [error["field"] for error in problem["errors"]] == fields


async def test_offending_text_is_in_the_message(manager: Managed) -> None:
    response = await manager.http.post("/api/v1/schedule/preview", json={"cronExpr": "@daily", "timezone": "Mars"})
    assert "'Mars'" in (await problem_of(response, 400))["errors"][0]["message"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
async def test_body_that_is_no_object_is_refused(manager: Managed, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response = await manager.http.post("/api/v1/schedule/preview", data=body, headers=headers)
    assert (await problem_of(response, 400))["errors"][0]["field"] == "body"


async def test_form_is_no_json(manager: Managed) -> None:
    response = await manager.http.post("/api/v1/schedule/preview", data={"cronExpr": "@daily"})
    assert (await problem_of(response, 415))["code"] == "unsupported-media-type"


async def preview(manager: Managed, **document: Any) -> Any:
    response = await manager.http.post("/api/v1/schedule/preview", json=document)
    assert response.status == 200, await response.text()
    return await response.json()


async def show(manager: Managed, run: str) -> Any:
    return await manager.get("/api/v1/runs/" + run.replace("#", "%23"))


def _record(job: str, plan_ms: int, status: Verdict) -> RunRecord:
    return RunRecord(
        run_id=RunId.planned(job, plan_ms), status=status, command="echo", output="out", plan_ms=plan_ms,
        start_ms=plan_ms, end_ms=plan_ms + 1, worker="w1",
    )  # fmt: skip


async def test_answers_while_a_long_list_is_being_sent(manager: Managed) -> None:
    await save_many(manager, 3)
    listed, alive = await asyncio.gather(manager.get("/job/list"), manager.get("/livez"))
    assert len(listed["data"]) == 3
    assert alive == {"status": "alive"}


_ACCEPTS: Final[tuple[tuple[list[str], bool], ...]] = (
    ([], False), (["gzip"], True), (["gzip, deflate, br;q=0.9"], True), (["br", "GZIP"], True), (["x-gzip"], True),
    (["*"], True), (["gzip;q=0"], False), (["gzip; q=0.000, *"], False), (["*;q=0"], False), (["deflate"], False),
    (["identity;q=0, gzip;q=0.1"], True), (["identity, gzip;q=0.5"], False), (["identity;q=0"], False),
    (["gzip;q=much"], False),
)  # fmt: skip
"""(what the client takes, whether the answer is packed)."""


async def test_answer_is_packed_where_the_client_takes_it(manager: Managed) -> None:
    for accepts, packed in _ACCEPTS:
        headers = [("Accept-Encoding", accepted) for accepted in accepts]
        for path in ("/api/v1/jobs", "/metrics"):
            asked = manager.http.get(
                path, headers=headers, skip_auto_headers=["Accept-Encoding"], auto_decompress=False
            )
            async with asked as answer:
                assert answer.headers.get("Content-Encoding") == ("gzip" if packed else None), (path, accepts)
                assert (await answer.read()).startswith(b"\x1f\x8b") == packed, (path, accepts)
