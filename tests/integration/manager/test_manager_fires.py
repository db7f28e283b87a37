"""Every planned fire between two instants, with what became of it, or what will."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from common.access.rights import OWNER
from common.instants import iso, to_ms
from common.jobs.reader import parse_job
from common.protocol.keys import RunId, encode_mark, sequence_name
from common.protocol.member import Beat
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry, final_entry
from common.protocol.saved_job import EditKind, JobVersion
from common.verdicts import Verdict
from tests.support.golden import check
from tests.support.joining import join
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms, open_entry, record_of
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until

MINUTE_MS = 60_000
ANSWERS: Final = Path(__file__).parent / "fires"


async def save(manager: Managed, *, ago_minutes: int = 30, **changes: Any) -> int:
    """A job of every minute that was saved some minutes ago; the newest whole minute."""
    spec = {"command": "a", "cronExpr": "0 * * * * * *", **changes}
    await manager.call("PUT", "/api/v1/jobs/j", spec)
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    document = json.loads(kv.value) | {"anchorMs": minute - ago_minutes * MINUTE_MS - 1}
    await manager.etcd.put(manager.keys.job("j"), json.dumps(document).encode())
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(minute - 2 * MINUTE_MS))
    await wait_until(
        lambda: _anchor(manager) == document["anchorMs"], description="the manager knows the job as it is now"
    )
    return minute


def _anchor(manager: Managed) -> int | None:
    job = manager.parts.watching.catalog.get("j")
    return job.saved.anchor_ms if job is not None and job.saved is not None else None


async def fires(manager: Managed, from_ms: int, to_ms: int, **query: str) -> dict[str, Any]:
    answer: dict[str, Any] = await manager.get(
        "/api/v1/jobs/j/fires", **{"from": str(from_ms), "to": str(to_ms)}, **query
    )
    return answer


async def planned_in_pages(manager: Managed, from_ms: int, to_ms: int, *, limit: int) -> list[int]:
    """The plan times of all pages, one after the other."""
    found: list[int] = []
    query = {"limit": str(limit)}
    while True:
        page = await fires(manager, from_ms, to_ms, **query)
        found += [fire["planTime"] for fire in page["items"]]
        if page["nextCursor"] is None:
            return found
        query["cursor"] = page["nextCursor"]


def verdicts(document: dict[str, Any], minute: int) -> dict[int, str]:
    """Minutes before the newest one, and the verdict."""
    return {(minute - fire["planTime"]) // MINUTE_MS: fire["verdict"] for fire in document["items"]}


async def test_each_planned_fire_has_its_verdict_and_its_reason(manager: Managed) -> None:
    minute = await save(manager)
    at = [RunId.planned("j", minute - number * MINUTE_MS) for number in range(12)]
    await manager.write([
        record_of(at[3]), record_of(at[4], Verdict.FAILED, exit_code=3),
        record_of(at[5], Verdict.SKIPPED, reason="overlap: j@1#1 was going"),
        record_of(at[10], Verdict.MISSED, reason="late", range_end_ms=minute - 7 * MINUTE_MS, count=4),
    ])  # fmt: skip
    await claim(manager, "j", minute - 2 * MINUTE_MS)
    document = await fires(manager, minute - 9 * MINUTE_MS, minute)
    found = verdicts(document, minute)
    assert [found.get(number) for number in range(8)] == [
        "waiting" if now_ms() - minute > 2000 else found.get(0), "waiting", "running", "success", "failed", "skipped",
        "unknown", None,
    ]  # fmt: skip
    missed = document["items"][-1]
    assert (missed["verdict"], missed["count"], missed["reason"]) == ("missed", 4, "late")
    assert next(one for one in document["items"] if one["verdict"] == "skipped")["reason"].startswith("overlap: ")
    assert next(one for one in document["items"] if one["verdict"] == "waiting")["reason"] == "no worker is live"
    assert document["nextCursor"] is None


async def test_the_verdict_of_a_fire_is_that_of_its_last_attempt_that_started(manager: Managed) -> None:
    minute = await save(manager)
    plan_ms = minute - 3 * MINUTE_MS
    await manager.write([
        record_of(RunId.planned("j", plan_ms, 1), Verdict.FAILED), record_of(RunId.planned("j", plan_ms, 2)),
        record_of(RunId.planned("j", plan_ms, 3), Verdict.SKIPPED, reason="overlap"),
    ])  # fmt: skip
    (fire,) = (await fires(manager, plan_ms, plan_ms))["items"]
    assert (fire["verdict"], fire["attempt"], fire["attempts"]) == ("success", 2, 3)


async def test_a_lost_attempt_of_unknown_start_is_the_verdict_where_its_rerun_never_started(manager: Managed) -> None:
    minute = await save(manager)
    plan_ms = minute - 3 * MINUTE_MS
    await manager.write([
        record_of(RunId.planned("j", plan_ms, 1), Verdict.LOST, start_ms=None, reason="worker gone"),
        record_of(RunId.planned("j", plan_ms, 2), Verdict.SKIPPED, reason="deleted"),
    ])  # fmt: skip
    (fire,) = (await fires(manager, plan_ms, plan_ms))["items"]
    assert (fire["verdict"], fire["reason"], fire["attempts"]) == ("lost", "worker gone", 2)


@pytest.mark.parametrize("is_over", [True, False], ids=["recorded", "going"])
async def test_missed_fires_are_told_also_where_the_first_of_them_has_a_later_attempt(
    manager: Managed, is_over: bool
) -> None:
    """As after an unblock, which runs anew what a wrong clock had recorded as missed."""
    minute = await save(manager)
    first = RunId.planned("j", minute - 8 * MINUTE_MS)
    await manager.write([
        record_of(first, Verdict.MISSED, reason="late", range_end_ms=minute - 5 * MINUTE_MS, count=4),
        *([record_of(RunId.planned("j", minute - 8 * MINUTE_MS, 2))] if is_over else []),
    ])  # fmt: skip
    if not is_over:
        again = RunId.planned("j", minute - 8 * MINUTE_MS, 2)
        await manager.etcd.put(manager.keys.run(again), open_entry(minute - 8 * MINUTE_MS).to_json())
        await wait_until(lambda: bool(manager.parts.watching.open_runs.of("j", OWNER)), description="it is going")
    items = (await fires(manager, minute - 8 * MINUTE_MS, minute - 5 * MINUTE_MS))["items"]
    assert [(one["verdict"], one["attempt"], one["count"]) for one in items] == [
        ("missed", 1, 4), ("success" if is_over else "running", 2, None)
    ]  # fmt: skip
    assert items[0]["rangeEndTime"] == minute - 5 * MINUTE_MS


async def test_a_fire_to_come_says_who_would_take_it(manager: Managed) -> None:
    minute = await save(manager)
    await join(manager, "w1")
    await join(manager, "w2")
    items = (await fires(manager, minute + MINUTE_MS, minute + 60 * MINUTE_MS, limit="100"))["items"]
    assert len(items) == 60
    assert {fire["verdict"] for fire in items} == {"planned"}
    assert {fire["takers"][0] for fire in items} == {"w1", "w2"}


async def test_a_worker_whose_former_session_is_still_there_would_take_a_fire_once(manager: Managed) -> None:
    minute = await save(manager)
    for slots in (4, 2):
        await join(manager, "w1", slots=slots, since_ms=minute - slots)
    (fire,) = (await fires(manager, minute + MINUTE_MS, minute + MINUTE_MS))["items"]
    assert fire["takers"] == ["w1"]


async def test_a_fire_to_come_says_why_no_worker_could_take_it(manager: Managed) -> None:
    minute = await save(manager, workers={"zone": "eu"}, slots=2)

    async def reason() -> str:
        (fire,) = (await fires(manager, minute + MINUTE_MS, minute + MINUTE_MS))["items"]
        assert fire["takers"] == []
        return str(fire["reason"])

    assert await reason() == "no worker is live"
    await join(manager, "w1")
    assert await reason() == "no live worker has the labels zone=eu"
    await join(manager, "w2", labels={"zone": "eu"}, slots=1)
    assert await reason() == "it takes 2 slots, and no worker that fits has more than 1"
    await join(manager, "w3", labels={"zone": "eu"}, not_accepting="drained by ops")
    assert await reason() == "no worker that fits takes fires: w3: drained by ops"


async def test_fires_of_a_paused_job_and_of_a_closed_day(manager: Managed) -> None:
    minute = await save(manager, calendar={"exclude": ["1970-01-01/2199-12-30"]})
    (fire,) = (await fires(manager, minute + MINUTE_MS, minute + MINUTE_MS))["items"]
    assert (fire["verdict"], fire["reason"]) == ("planned", "calendar: it will be skipped")
    await manager.call("POST", "/api/v1/jobs/j/pause", {"reason": "the disk is full"})
    (fire,) = (await fires(manager, minute + MINUTE_MS, minute + MINUTE_MS))["items"]
    assert (fire["verdict"], fire["reason"]) == ("none", "paused: by api 127.0.0.1: the disk is full")


async def test_who_asks_for_a_time_before_the_job_was_so_is_told_since_when_it_is(manager: Managed) -> None:
    minute = await save(manager, ago_minutes=5)
    document = await fires(manager, minute - 60 * MINUTE_MS, minute)
    (warning,) = document["warnings"]
    before = f"of what this schedule would have had before, as at {iso(minute - 6 * MINUTE_MS)}, there is no record"
    assert warning.startswith("the job is as it is now since ")
    assert warning.endswith(before)
    await manager.write([record_of(RunId.planned("j", minute - 6 * MINUTE_MS))])
    assert (await fires(manager, minute - 60 * MINUTE_MS, minute))["warnings"] == []
    assert (await fires(manager, minute - 5 * MINUTE_MS, minute))["warnings"] == []


async def test_where_no_fire_is_planned_it_is_said_between_which_it_lies_and_what_the_clocks_did(
    manager: Managed,
) -> None:
    await save(manager, cronExpr="0 */30 2 * * * *", timezone="Europe/Berlin", startAt="2035-03-24T00:00:00")

    async def said_of(first: str, last: str) -> list[str]:
        query = {"from": first, "to": last}
        warnings: list[str] = (await manager.get("/api/v1/jobs/j/fires", **query))["warnings"]
        return warnings

    (in_the_gap,) = await said_of("2035-03-25T00:00:00Z", "2035-03-25T12:00:00Z")
    assert in_the_gap == (
        "no fire is planned from 2035-03-25T00:00:00.000Z to 2035-03-25T12:00:00.000Z: the last one before that is "
        "2035-03-24T01:30:00.000Z, the next one is 2035-03-26T00:00:00.000Z "
        "(02:00 to 02:30 do not exist on 2035-03-25 in Europe/Berlin; no fire then)"
    )
    (before_its_window,) = await said_of("2034-01-01T00:00:00Z", "2034-01-02T00:00:00Z")
    assert before_its_window.endswith("there is none before that, the next one is 2035-03-24T01:00:00.000Z")
    assert await said_of("2035-03-24T00:00:00Z", "2035-03-25T12:00:00Z") == []


async def test_times_in_the_wrong_order_are_said_to_be(manager: Managed) -> None:
    minute = await save(manager)
    (warning,) = (await fires(manager, minute + 5 * MINUTE_MS, minute))["warnings"]
    assert warning == f"nothing lies from {iso(minute + 5 * MINUTE_MS)} to {iso(minute)}, which is before; swap them"


async def test_pages_go_back_without_a_gap(manager: Managed) -> None:
    minute = await save(manager)
    await manager.write([record_of(RunId.planned("j", minute - number * MINUTE_MS)) for number in range(3, 25)])
    found = await planned_in_pages(manager, minute - 24 * MINUTE_MS, minute - 3 * MINUTE_MS, limit=7)
    assert found == [minute - number * MINUTE_MS for number in range(3, 25)]


@pytest.mark.parametrize("name", ["limit", "cursor"])
async def test_a_page_is_one_of_the_fires_between_two_times(manager: Managed, name: str) -> None:
    await save(manager)
    async with manager.http.get(f"/api/v1/jobs/j/fires?{name}=5") as response:
        problem = await problem_of(response, 400)
    assert [error["field"] for error in problem["errors"]] == [name]


async def test_fires_whose_records_are_too_many_for_a_page_are_on_the_next(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = await save(manager)
    plans = [minute - number * MINUTE_MS for number in range(5, 10)]
    asked = [RunId("j", f"r-{number}") for number in range(8)]
    await manager.write([record_of(RunId.planned("j", plan_ms)) for plan_ms in plans])
    await manager.write([record_of(one, plan_ms=plans[1] + 1 + number) for number, one in enumerate(asked)])
    monkeypatch.setattr("manager.views.fires._RECORDS", 4)
    monkeypatch.setattr("manager.views.fires._RECORDS_A_PAGE", 4)
    found: list[tuple[int, str]] = []
    query: dict[str, str] = {}
    while True:
        page = await fires(manager, plans[-1], plans[0], **query)
        found += [(fire["planTime"], fire["verdict"]) for fire in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    asked_ms = [plans[1] + 1 + number for number in range(len(asked))]
    assert found == [(plan_ms, "success") for plan_ms in sorted([*plans, *asked_ms], reverse=True)]


async def test_no_page_ends_among_the_fires_of_one_instant(manager: Managed) -> None:
    minute = await save(manager, broadcast=True)
    plans = [minute - number * MINUTE_MS for number in range(5, 8)]
    there = {RunId.planned(f"j~w{worker}", plan_ms) for worker in range(3) for plan_ms in plans}
    await manager.write([record_of(run_id) for run_id in there])
    found: list[str] = []
    query: dict[str, str] = {"limit": "4"}
    while True:
        page = await fires(manager, minute - 7 * MINUTE_MS, minute - 5 * MINUTE_MS, **query)
        found += [fire["runId"] for fire in page["items"]]
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
    assert sorted(found) == sorted(str(run_id) for run_id in there)


async def test_missed_fires_are_told_though_runs_were_asked_for_meanwhile(manager: Managed) -> None:
    minute = await save(manager)
    missed = RunId.planned("j", minute - 20 * MINUTE_MS)
    asked = {RunId("j", f"r-{number}"): minute - number * MINUTE_MS - 1 for number in range(10, 18)}
    await manager.write([
        record_of(missed, Verdict.MISSED, reason="late", range_end_ms=minute - 5 * MINUTE_MS, count=16),
        *(record_of(run, plan_ms=plan_ms) for run, plan_ms in asked.items()),
    ])  # fmt: skip
    items = (await fires(manager, minute - 9 * MINUTE_MS, minute - 6 * MINUTE_MS))["items"]
    assert [(one["verdict"], one["count"]) for one in items] == [("missed", 16)]


async def test_a_range_of_one_worker_hides_no_fire_of_another_on_the_pages(manager: Managed) -> None:
    minute = await save(manager, broadcast=True)
    skipped = RunId.planned("j~w1", minute - 12 * MINUTE_MS)
    there = [RunId.planned("j~w2", minute - number * MINUTE_MS) for number in range(9, 13)]
    await manager.write([
        record_of(skipped, Verdict.SKIPPED, reason="overlap", range_end_ms=minute - 3 * MINUTE_MS, count=10),
        *map(record_of, there),
    ])  # fmt: skip
    for limit in ("1", "3", "4", "20"):
        found: list[str] = []
        query: dict[str, str] = {"limit": limit}
        while True:
            page = await fires(manager, minute - 12 * MINUTE_MS, minute - 3 * MINUTE_MS, **query)
            found += [fire["runId"] for fire in page["items"]]
            if page["nextCursor"] is None:
                break
            query["cursor"] = page["nextCursor"]
        assert sorted(found) == sorted(map(str, [skipped, *there])), limit


async def test_broadcast_fire_for_which_no_worker_was_live_waits_for_none(manager: Managed) -> None:
    minute = await save(manager, broadcast=True)
    for sequence in ("j", sequence_name("j", "w9")):  # the job's own, of its save; and that of a worker that is gone
        await manager.etcd.put(manager.keys.mark(sequence), encode_mark(minute - 20 * MINUTE_MS))
    before = await fires(manager, minute - 6 * MINUTE_MS, minute - 3 * MINUTE_MS)
    assert set(verdicts(before, minute).values()) == {"unknown"}
    assert before["items"][0]["reason"].startswith("no record is there: no worker that fits was live then, or ")
    await join(manager, "w1")
    await manager.etcd.put(manager.keys.mark(sequence_name("j", "w1")), encode_mark(minute - 5 * MINUTE_MS))
    after = await fires(manager, minute - 6 * MINUTE_MS, minute - 3 * MINUTE_MS)
    assert verdicts(after, minute) == {3: "waiting", 4: "waiting", 5: "unknown", 6: "unknown"}


async def test_session_of_a_name_that_no_worker_has_is_nobody(manager: Managed) -> None:
    minute = await save(manager)
    for name in ("w1", "w2", "<b>w", "w\udcff"):
        await join(manager, name)
    document = await fires(manager, minute + MINUTE_MS, minute + 2 * MINUTE_MS)
    planned = [set(fire["takers"]) for fire in document["items"] if fire["verdict"] == "planned"]
    assert planned.count({"w1", "w2"}) == len(planned) > 0
    seen = (await manager.get("/api/v1/workers"))["items"]
    assert sum(worker["state"] == "broken" for worker in seen) == 2


async def was_before(manager: Managed, spec: dict[str, Any], *, from_ms: int, until_ms: int) -> None:
    """A former version of the job, which was in force in that time."""
    version = JobVersion(
        job="j", revision=2, spec={"name": "j", "command": "a", **spec}, saved_ms=from_ms, saved_by="ops",
        ended_ms=until_ms, ended_by="ops", ended_with=EditKind.RESUME,
    )  # fmt: skip
    await manager.etcd.put(manager.keys.version("j", 2), version.to_json())


async def test_fires_that_came_up_while_the_job_was_paused_say_so_after_it_was_resumed(manager: Managed) -> None:
    minute = await save(manager, ago_minutes=5)
    since_ms = minute - 9 * MINUTE_MS - MINUTE_MS // 2
    await was_before(
        manager,
        {"cronExpr": "0 */2 * * * * *", "enabled": False},
        from_ms=since_ms,
        until_ms=minute - 5 * MINUTE_MS - 1,
    )
    await manager.write([record_of(RunId.planned("j", minute - number * MINUTE_MS)) for number in range(2, 5)])
    document = await fires(manager, minute - 12 * MINUTE_MS, minute - 2 * MINUTE_MS)
    even = (minute // MINUTE_MS) % 2 == 0
    assert verdicts(document, minute) == {
        2: "success", 3: "success", 4: "success", 5: "unknown", **dict.fromkeys((6, 8) if even else (7, 9), "none"),
    }  # fmt: skip
    assert document["items"][-1]["reason"] == "paused"
    found = await planned_in_pages(manager, minute - 12 * MINUTE_MS, minute - 2 * MINUTE_MS, limit=1)
    assert found == [fire["planTime"] for fire in document["items"]], "in pages of one, too"


async def test_a_page_looks_at_no_more_paused_versions_than_it_tells_of(
    manager: Managed, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = await save(manager, ago_minutes=5)
    start_ms, looked_at = minute - 30 * MINUTE_MS - 1, list[Any]()
    for number in range(10):
        from_ms = start_ms + number * MINUTE_MS
        version = JobVersion(
            job="j", revision=2 + number, spec={"name": "j", "command": "a", "every": "1s", "enabled": False},
            saved_ms=from_ms, saved_by="ops", ended_ms=from_ms + MINUTE_MS, ended_by="ops", ended_with=EditKind.SAVE,
        )  # fmt: skip
        await manager.etcd.put(manager.keys.version("j", version.revision), version.to_json())

    def parse(spec: Any) -> Any:
        looked_at.append(spec)
        return parse_job(spec)

    monkeypatch.setattr("manager.views.fires.parse_job", parse)
    page = await fires(manager, start_ms, start_ms + 10 * MINUTE_MS, limit="70")
    assert [one["verdict"] for one in page["items"]] == ["none"] * 70
    assert len(looked_at) == 2
    found = await planned_in_pages(manager, start_ms, start_ms + 10 * MINUTE_MS, limit=70)
    assert found == [start_ms + 1 + number * 1000 for number in reversed(range(600))]


async def test_fires_of_a_former_version_without_a_record_are_unknown_and_never_left_out(manager: Managed) -> None:
    """As after a restore from a snapshot: the first fire of the range that a pause had skipped has another record."""
    minute = await save(manager, ago_minutes=5)
    await was_before(
        manager, {"cronExpr": "0 * * * * * *"}, from_ms=minute - 9 * MINUTE_MS, until_ms=minute - 5 * MINUTE_MS - 1
    )
    await manager.write([record_of(RunId.planned("j", minute - 8 * MINUTE_MS))])
    document = await fires(manager, minute - 12 * MINUTE_MS, minute - 6 * MINUTE_MS)
    assert verdicts(document, minute) == {8: "success", 7: "unknown", 6: "unknown"}
    assert "while etcd was restored from a backup" in document["items"][0]["reason"]
    assert document["warnings"] == [], "each is told of"


async def test_what_a_worker_has_decided_shows_before_its_record_is_there(manager: Managed) -> None:
    minute = await save(manager, broadcast=True)
    plan_ms = minute - 3 * MINUTE_MS
    there, on_its_way = (RunId.planned(sequence_name("j", worker), plan_ms) for worker in ("w1", "w2"))
    await manager.write([record_of(there)])
    entry = open_entry(plan_ms, state=EntryState.ENDED)
    for run_id in (there, on_its_way):  # the record of one has come, and its key has not gone yet
        await manager.etcd.put(manager.keys.run(run_id), entry.to_json())
    open_runs = manager.parts.watching.open_runs
    await wait_until(lambda: len(open_runs.unrecorded("j", OWNER)) == 2, description="the manager knows of both")
    found = {
        fire["runId"]: (fire["verdict"], fire["reason"]) for fire in (await fires(manager, plan_ms, plan_ms))["items"]
    }
    assert found == {
        str(there): ("success", None), str(on_its_way): ("unknown", "decided, and its record is on its way"),
    }  # fmt: skip


async def test_due_fire_says_that_it_waits_for_a_slot_where_no_worker_shows_one(manager: Managed) -> None:
    minute = await save(manager)
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(minute - 4 * MINUTE_MS))

    async def reasons() -> set[str]:
        between = (await fires(manager, minute - 3 * MINUTE_MS, minute - MINUTE_MS))["items"]
        (recent,) = (await manager.get("/api/v1/jobs/j/fires"))["recent"]
        return {fire["reason"] for fire in (*between, recent)}

    await join(manager, "w1", beat=Beat(kind="worker", wall_ms=0, free_slots=1))
    assert await reasons() == {"no worker has taken it yet"}
    await manager.etcd.put(manager.keys.beat("w1"), Beat(kind="worker", wall_ms=0, free_slots=0).to_json())
    await manager.etcd.put(manager.keys.beat("w2"), b"none of ours")
    assert await reasons() == {"waits for a free slot: no worker shows one"}


async def test_fire_that_is_to_be_made_up_for_waits_as_its_run_does(manager: Managed) -> None:
    minute = await save(manager)
    plans = [minute - number * MINUTE_MS for number in (3, 4)]
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    for plan_ms in plans:
        request = Request(
            run_id=RunId.planned("j", plan_ms), origin=Origin.CATCH_UP, job_create_revision=kv.create_revision,
            plan_ms=plan_ms, dispatch_ms=plan_ms, not_before_ms=plan_ms,
        )  # fmt: skip
        await manager.etcd.put(request.key(manager.keys), request.to_json())
    await manager.write([record_of(RunId.planned("j", plans[1]), Verdict.FAILED)])  # and its retry waits
    found = {fire["planTime"]: fire for fire in (await fires(manager, minute - 5 * MINUTE_MS, plans[0]))["items"]}
    told = {plan_ms: (fire["verdict"], fire["reason"]) for plan_ms, fire in found.items()}
    assert told[plans[0]] == ("waiting", "waits for a worker: no worker is live")
    assert (told[plans[1]][0], told[minute - 5 * MINUTE_MS][0]) == ("failed", "unknown")


async def test_while_etcd_is_away_it_is_said_and_no_fire_passes_for_one_that_waits(place: Place) -> None:
    async with Proxy(place.etcd) as proxy, managing(place, etcd=proxy.endpoint) as manager:
        minute = await save(manager)
        await join(manager, "w1")
        await manager.write([record_of(RunId.planned("j", minute - 3 * MINUTE_MS))])
        proxy.set(Mode.SWALLOW)
        await wait_until(lambda: manager.parts.watching.stale_since_ms is not None, description="silence")
        document = await fires(manager, minute - 3 * MINUTE_MS, minute - MINUTE_MS)
        assert verdicts(document, minute) == {1: "unknown", 2: "unknown", 3: "success"}
        assert document["items"][0]["reason"] == "this manager cannot reach etcd, which knows what became of it"
        recent = await manager.get("/api/v1/jobs/j/fires")
        for warnings in (document["warnings"], recent["warnings"]):
            assert warnings[0].startswith("etcd cannot be reached: jobs and runs are shown as they were at ")
        proxy.set(Mode.PASS)
        proxy.reset()


async def test_mark_that_a_claim_has_put_far_ahead_is_shown_as_what_keeps_fires_from_coming(manager: Managed) -> None:
    minute = await save(manager)
    assert (await manager.get("/api/v1/jobs/j"))["problem"] is None
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(minute + 3 * 24 * 60 * MINUTE_MS))
    problem = (await manager.get("/api/v1/jobs/j"))["problem"]
    assert problem.startswith("blocked until ")
    items = (await fires(manager, minute - 3 * MINUTE_MS, minute + 3 * MINUTE_MS))["items"]
    assert {(fire["verdict"], fire["reason"]) for fire in items} == {("unknown", problem)}


async def test_fires_of_what_is_no_job_any_more_say_so(manager: Managed) -> None:
    minute = await save(manager)
    plan_ms = minute - 3 * MINUTE_MS
    await manager.write([record_of(RunId.planned("j", plan_ms))])
    assert (await fires(manager, plan_ms, plan_ms))["warnings"] == []
    await manager.etcd.put(manager.keys.job("j"), b"none of ours")
    await wait_until(lambda: _anchor(manager) is None, description="the manager has seen it")
    (warning,) = (await fires(manager, plan_ms, plan_ms))["warnings"]
    assert warning.startswith("nothing fires, as the job cannot be read: ")
    await manager.call("DELETE", "/api/v1/jobs/j", None)
    document = await fires(manager, plan_ms, plan_ms)
    assert document["warnings"] == ["there is no job j any more: these fires are of its past"]
    assert [fire["verdict"] for fire in document["items"]] == ["success"]


async def test_without_the_log_store_what_is_known_from_elsewhere_is_shown(place: Place) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(away, apiWriteTimeout=1000, mongodbConnectTimeout=200) as manager:
        minute = await save(manager)
        missed = RunId.planned("j", minute - 5 * MINUTE_MS)
        record = record_of(missed, Verdict.MISSED, reason="late", range_end_ms=minute - 4 * MINUTE_MS, count=2)
        await manager.etcd.put(manager.keys.run(missed), final_entry(record).to_json())
        await claim(manager, "j", minute - 2 * MINUTE_MS)
        await wait_until(lambda: manager.parts.watching.open_runs.awaits_record("j"), description="the record is seen")
        await wait_until(lambda: bool(manager.parts.watching.open_runs.of("j", OWNER)), description="so is the run")
        document = await fires(manager, minute - 4 * MINUTE_MS, minute + 3 * MINUTE_MS)
        told = {(minute - fire["planTime"]) // MINUTE_MS: fire for fire in document["items"]}
        assert [told[number]["verdict"] for number in (-3, 1, 2, 3, 5)] == [
            "planned", "waiting", "running", "unknown", "missed",
        ]  # fmt: skip
        assert (told[1]["reason"], told[-3]["reason"]) == ("no worker is live", "no worker is live")
        assert (told[5]["reason"], told[5]["count"]) == ("late", 2)
        assert told[3]["reason"] == "the log store, which knows what became of it, cannot be reached"
        assert 4 not in told
        assert document["warnings"][0].startswith("the log store cannot be reached: ")
        document = await manager.get("/api/v1/jobs/j/fires")
        assert [fire["verdict"] for fire in document["recent"]] == ["waiting", "running", "missed"]
        assert len(document["upcoming"]) == 10
        assert document["warnings"][0].startswith("the log store cannot be reached: ")


async def test_of_the_time_before_its_save_a_page_has_the_records_and_does_not_go_on_without_any(
    manager: Managed,
) -> None:
    minute = await save(manager, ago_minutes=5)
    page = await fires(manager, minute - 24 * 60 * MINUTE_MS, minute, limit="10")
    assert page["nextCursor"] is None
    assert [fire["planTime"] for fire in page["items"]][-1] == minute - 5 * MINUTE_MS
    at = [RunId.planned("j", minute - number * MINUTE_MS) for number in range(10, 30)]
    await manager.write([record_of(run) for run in at])
    planned = await planned_in_pages(manager, minute - 24 * 60 * MINUTE_MS, minute, limit=7)
    assert planned == [minute - number * MINUTE_MS for number in (*range(6), *range(10, 30))]


async def test_what_an_edit_skips_says_by_whom_and_what_had_held_it_up(manager: Managed) -> None:
    minute = await save(manager)
    await join(manager, "w1", not_accepting="drained by me")
    await manager.call("PATCH", "/api/v1/jobs/j", {"jitterSeconds": 1})

    kv = await manager.etcd.get(manager.keys.run(RunId.planned("j", minute - MINUTE_MS)))
    assert kv is not None
    record = RunEntry.from_json(kv.value).record
    assert record is not None
    await manager.write([record])
    fire = (await fires(manager, minute - MINUTE_MS, minute))["items"][-1]
    assert (fire["verdict"], fire["by"]) == ("skipped", "api 127.0.0.1")
    assert fire["reason"] == "edited: until then no worker that fits takes fires: w1: drained by me"


async def test_the_answers_are_these_to_the_letter(manager: Managed) -> None:
    """Every kind of fire, in both lists: each field, in its order."""
    await wait_until(lambda: 3_000 < now_ms() % MINUTE_MS < 40_000, description="the minute is young")
    minute = await save(manager, retry={"limit": 3})
    at = [RunId.planned("j", minute - number * MINUTE_MS) for number in range(30)]
    again = [RunId.planned("j", minute - number * MINUTE_MS, 2) for number in range(30)]
    await manager.write([
        record_of(at[8]), record_of(at[9], Verdict.FAILED, exit_code=3, err="exit code 3"), record_of(again[9]),
        record_of(at[10], Verdict.SKIPPED, reason="overlap: j@1#1 was going", by="api me"),
        record_of(at[11], Verdict.LOST, start_ms=None, end_ms=None, reason="worker gone"),
        record_of(again[11], Verdict.SKIPPED, reason="deleted"),
        record_of(at[16], Verdict.MISSED, reason="late", range_end_ms=minute - 13 * MINUTE_MS, count=4),
        record_of(again[16], Verdict.TIMEOUT), record_of(at[17], Verdict.KILLED, reason="killed by me"),
        record_of(RunId("j", "r-1"), plan_ms=minute - 8 * MINUTE_MS + 1),
        record_of(at[29], Verdict.MISSED, range_end_ms=minute - 19 * MINUTE_MS, count=9, count_is_minimum=True),
    ])  # fmt: skip
    await was_before(
        manager, {"cronExpr": "0 * * * * * *", "enabled": False}, from_ms=minute - 34 * MINUTE_MS,
        until_ms=minute - 30 * MINUTE_MS - 1,
    )  # fmt: skip
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    request = Request(
        run_id=at[7], origin=Origin.CATCH_UP, job_create_revision=kv.create_revision, plan_ms=at[7].plan_ms or 0,
        dispatch_ms=at[7].plan_ms or 0, not_before_ms=at[7].plan_ms or 0,
    )  # fmt: skip
    await manager.etcd.put(request.key(manager.keys), request.to_json())
    await manager.etcd.put(manager.keys.mark("j"), encode_mark(minute - 3 * MINUTE_MS))
    await manager.etcd.put(
        manager.keys.run(at[5]), open_entry(minute - 5 * MINUTE_MS, state=EntryState.ENDED).to_json()
    )
    await claim(manager, "j", minute - 4 * MINUTE_MS)
    await claim(manager, "j", minute - 3 * MINUTE_MS, dispatch_ms=minute + MINUTE_MS)
    await claim(manager, "j", minute - 8 * MINUTE_MS + 2, fire="r-2")
    open_runs = manager.parts.watching.open_runs
    await wait_until(
        lambda: len(open_runs.of("j", OWNER)) == 3 and open_runs.awaits_record("j"), description="all is seen"
    )
    answers: dict[str, Any] = {}
    for who in ("without a worker", "with one"):
        answers[f"recent, {who}"] = {**await manager.get("/api/v1/jobs/j/fires"), "upcoming": "as previewed"}
        answers[f"between, {who}"] = await fires(manager, minute - 40 * MINUTE_MS, minute + 2 * MINUTE_MS)
        await join(manager, "w1")
    answers["a page"] = await fires(manager, minute - 16 * MINUTE_MS, minute - 9 * MINUTE_MS, limit="3")
    before = str(minute - 10 * MINUTE_MS)
    answers["recent before"] = {**await manager.get("/api/v1/jobs/j/fires", before=before), "upcoming": "as previewed"}
    check(ANSWERS / "answers.json", {who: brief(relative(answer, minute)) for who, answer in answers.items()})


def brief(answer: dict[str, Any]) -> dict[str, Any]:
    """Each fire without the fields that are null, and once all that it has."""
    found = answer.get("recent") or answer.get("items") or []
    (fields,) = {tuple(fire) for fire in found}
    given = [{name: value for name, value in fire.items() if value is not None} for fire in found]
    return {**answer, ("recent" if "recent" in answer else "items"): given, "fields": " ".join(fields)}


def relative(told: Any, minute: int) -> Any:
    """The same with every instant as the ms since this one."""
    match told:
        case dict():
            return {name: relative(value, minute) for name, value in told.items()}
        case list():
            return [relative(value, minute) for value in told]
        case int() if told > minute // 2:
            return f"<{told - minute:+d}>"
        case str():
            text = re.sub(r"\b\d{13}\b", lambda found: f"<{int(found[0]) - minute:+d}>", told)
            as_ms = lambda found: f"<{to_ms(datetime.fromisoformat(found[0])) - minute:+d}>"  # noqa: E731
            return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", as_ms, text)
        case _:
            return told
