"""Draining workers and taking them back, through a manager; and what a manager tells of where jobs may run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from yarl import URL

from common.clock import SystemClock
from common.protocol.drain import Drain
from common.protocol.keys import RunId
from common.protocol.member import Beat
from common.protocol.roster import Left, RosterEntry
from common.protocol.run import EntryState, RunEntry
from tests.support.joining import join
from tests.support.managing import Managed, problem_of
from tests.support.open_runs import record_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

WORKERS = "/api/v1/workers"
BEAT = Beat(kind="worker", wall_ms=5, running=1)


async def listed(manager: Managed) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in (await manager.get(WORKERS))["items"]}


async def test_a_drain_says_who_why_and_since_when(manager: Managed) -> None:
    await join(manager, "w1", beat=BEAT)
    before_ms = SystemClock().wall_ms()
    done = await manager.call("POST", f"{WORKERS}/w1/drain", {"reason": "new kernel"})
    assert (done["name"], done["changed"]) == ("w1", True)
    drained = done["drained"]
    assert drained["by"].startswith("api ")
    assert drained["reason"] == "new kernel"
    assert before_ms <= drained["sinceMs"] <= SystemClock().wall_ms()
    worker = (await listed(manager))["w1"]
    assert (worker["state"], worker["drained"], worker["beat"]["running"]) == ("draining", drained, 1)
    kv = await manager.etcd.get(manager.keys.drain("w1"))
    assert kv is not None
    assert kv.lease == 0, "it survives every process"


@pytest.mark.parametrize(
    ("not_accepting", "running", "state"),
    [
        (None, 0, "draining"), ("drained by me", 2, "draining"), ("drained by me", None, "draining"),
        ("drained by me", 0, "drained"),
    ],
)  # fmt: skip
async def test_it_is_drained_once_it_knows_and_nothing_runs_there(
    manager: Managed, not_accepting: str | None, running: int | None, state: str
) -> None:
    beat = None if running is None else replace(BEAT, running=running)
    await join(manager, "w1", not_accepting=not_accepting, beat=beat)
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="me", since_ms=1).to_json())
    assert (await listed(manager))["w1"]["state"] == state


async def test_a_drained_worker_that_is_not_live_is_listed(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.drain("gone"), Drain(by="me", since_ms=1, reason="disk").to_json())
    worker = (await listed(manager))["gone"]
    assert (worker["state"], worker["drained"]["reason"], worker["beat"]) == ("drained", "disk", None)
    assert "not live" in worker["problem"]
    assert (await manager.get("/worker/list"))["data"] == [], "the legacy API's call lists healthy ones"
    done = await manager.call("POST", f"{WORKERS}/gone/drain", {})
    assert (done["changed"], done["drained"]["by"]) == (False, "me")
    assert (await manager.call("POST", f"{WORKERS}/gone/undrain", {}))["changed"]
    assert await listed(manager) == {}


async def test_a_worker_that_has_gone_is_listed_until_it_is_forgotten(manager: Managed) -> None:
    entry = RosterEntry(worker="gone", host="h", seen_ms=7, labels={"host": "h"}, left=Left.GONE)
    await manager.etcd.put(manager.keys.roster_entry("gone"), entry.to_json())
    await join(manager, "w1")
    live = RosterEntry(worker="w1", host="h", seen_ms=7)
    await manager.etcd.put(manager.keys.roster_entry("w1"), live.to_json())
    drained = RosterEntry(worker="w2", host="h", seen_ms=7, left=Left.DRAINED)
    await manager.etcd.put(manager.keys.roster_entry("w2"), drained.to_json())
    workers = await listed(manager)
    assert (workers["w2"]["state"], workers["w2"]["left"]) == ("stopped", "drained")
    await manager.call("DELETE", f"{WORKERS}/w2")
    assert (workers["gone"]["state"], workers["gone"]["seenMs"], workers["gone"]["labels"]) == (
        "gone",
        7,
        {"host": "h"},
    )
    assert workers["w1"]["state"] == "accepting"
    assert 'etcron_workers{state="gone"} 1.0' in await (await manager.http.get("/metrics")).text()
    await problem_of(await manager.http.delete(f"{WORKERS}/w1"), 409)
    await problem_of(await manager.http.delete(f"{WORKERS}/nobody"), 404)
    assert "forgotten" in (await manager.call("DELETE", f"{WORKERS}/gone"))["message"]
    assert list(await listed(manager)) == ["w1"]


async def test_another_reason_takes_the_place_of_the_old_one(manager: Managed) -> None:
    await manager.etcd.put(manager.keys.drain("w1"), Drain(by="me", since_ms=1, reason="disk").to_json())
    done = await manager.call("POST", f"{WORKERS}/w1/drain", {"reason": "kernel"})
    assert done["changed"]
    assert (done["drained"]["reason"], done["drained"]["sinceMs"]) == ("kernel", 1)
    assert done["drained"]["by"].startswith("api ")
    same = await manager.call("POST", f"{WORKERS}/w1/drain", {"reason": "kernel"})
    assert not same["changed"]
    assert "already" in same["message"]


async def test_undraining_what_is_not_drained_is_said(manager: Managed) -> None:
    await join(manager, "w1")
    done = await manager.call("POST", f"{WORKERS}/w1/undrain", {})
    assert (done["changed"], done["drained"], done["message"]) == (False, None, "w1 was not drained")


@pytest.mark.parametrize("name", ["nobody", "a%2Fb", "%20", "x" * 65])
async def test_a_worker_that_nobody_knows_is_not_drained(manager: Managed, name: str) -> None:
    url = URL(f"{WORKERS}/{name}/drain", encoded=True)
    problem = await problem_of(await manager.http.post(url, json={}), 404)
    assert problem["code"] == "not-found"
    assert await manager.etcd.count(manager.keys.drains) == 0


async def test_bad_bodies_are_refused(manager: Managed) -> None:
    await join(manager, "w1")
    for body in ({"reason": 5}, {"why": "x"}, {"reason": "x" * 501}):
        await problem_of(await manager.http.post(f"{WORKERS}/w1/drain", json=body), 400)


async def test_of_many_drains_at_once_one_is_there(manager: Managed) -> None:
    await join(manager, "w1")
    calls = [manager.call("POST", f"{WORKERS}/w1/drain", {"reason": f"reason {number}"}) for number in range(8)]
    done = await asyncio.gather(*calls)
    assert len({one["drained"]["sinceMs"] for one in done}) == 1, "drained since the first of them"
    (kv,) = [kv async for page in manager.etcd.read_prefix(manager.keys.drains) for kv in page.kvs]
    assert Drain.from_json(kv.value).reason in {one["drained"]["reason"] for one in done}


# Where jobs may run


async def put(manager: Managed, **fields: object) -> dict[str, Any]:
    body = {"command": "true", "cronExpr": "* * * * * * *"} | fields
    answer: dict[str, Any] = await manager.call("PUT", "/api/v1/jobs/j", body)
    return answer


async def test_a_save_warns_where_no_live_worker_fits(manager: Managed) -> None:
    assert not (await put(manager, slots=9))["warnings"], "none is live: nothing is known of those to come"
    await join(manager, "w1", labels={"zone": "eu"})
    (warning_of_slots,) = (await put(manager, slots=3))["warnings"]
    assert "takes 3 slots" in warning_of_slots
    (warning,) = (await put(manager, workers={"zone": "us"}))["warnings"]
    assert "zone=us" in warning
    assert not (await put(manager, workers={"zone": ["us", "eu"]}, slots=2))["warnings"]
    checked = await manager.call(
        "POST", "/api/v1/jobs/check", {"name": "j", "command": "true", "every": "1h", "slots": 3}
    )
    assert [text for text in checked["warnings"] if text not in checked["skips"]] == [warning_of_slots]


async def test_what_waits_says_that_nobody_fits(manager: Managed) -> None:
    await join(manager, "w1", labels={"zone": "eu"})
    await put(manager, workers={"zone": "us"})
    now_ms = SystemClock().wall_ms()

    async def waits() -> bool:
        fires = (await manager.get("/api/v1/jobs/j/fires"))["recent"]
        return bool(fires) and fires[0]["verdict"] == "waiting" and "zone=us" in fires[0]["reason"]

    await wait_until(waits, description="a fire waits, and says why")
    assert now_ms


async def test_an_edit_of_a_broadcast_job_records_nothing_for_the_job_itself(manager: Managed) -> None:
    """Each worker records the end of its own sequence: the manager cannot know what they have decided."""
    await put(manager, broadcast=True)
    mark = await manager.mark("j")
    assert mark is not None
    wait_ms = mark + 2100
    await wait_until(lambda: SystemClock().wall_ms() > wait_ms, description="two fires are due")
    fires = await manager.get("/api/v1/jobs/j/fires")
    assert fires["recent"] == [], "of a broadcast job nothing waits here"
    await put(manager, broadcast=True, command="false")
    await manager.call("DELETE", "/api/v1/jobs/j")
    assert not await manager.has_run_keys()


async def open_run(manager: Managed, sequence: str, plan_ms: int) -> RunId:
    run = RunId.planned(sequence, plan_ms)
    entry = RunEntry(state=EntryState.OPEN, worker=run.of_worker or "w9", plan_ms=plan_ms, dispatch_ms=plan_ms)
    await manager.etcd.put(manager.keys.run(run), entry.to_json())
    await wait_until(lambda: manager.parts.watching.open_runs.has(run), description=f"{run} is seen")
    return run


@pytest.mark.parametrize("parents", [True, False], ids=["the legacy API's call", "ours"])
async def test_a_kill_of_the_job_reaches_the_runs_of_all_workers(manager: Managed, parents: bool) -> None:
    await put(manager, broadcast=True)
    now_ms = SystemClock().wall_ms()
    runs = {str(await open_run(manager, name, now_ms - 5)) for name in ("j~w1", "j~w2", "j")}
    await open_run(manager, "j2~w1", now_ms - 5)
    if parents:
        killed = (await manager.post("/job/kill", name="j"))["killed"]
    else:
        killed = (await manager.call("POST", "/api/v1/jobs/j/kill", {}))["killed"]
    assert set(killed) == runs
    row = await manager.get("/api/v1/jobs/j")
    assert {run["id"] for run in row["running"]} == runs


async def test_records_of_all_workers_are_found_by_the_job(manager: Managed) -> None:
    await put(manager, broadcast=True)
    plan_ms = 1_790_000_000_000
    await manager.write([record_of(RunId.planned(name, plan_ms)) for name in ("j~w1", "j~w2")])
    found = (await manager.get("/api/v1/runs", job="j"))["items"]
    assert {item["id"] for item in found} == {f"j~w1@{plan_ms}#1", f"j~w2@{plan_ms}#1"}
    assert {item["jobName"] for item in found} == {"j"}
    log = (await manager.get("/job/log", name="j"))["data"]
    assert len(log) == 2
    row = await manager.get("/api/v1/jobs/j")
    assert {one["runId"] for one in row["recent"]} == {item["id"] for item in found}
    assert row["lastResult"]["runId"] == f"j~w2@{plan_ms}#1"
    run = await open_run(manager, "j~w1", plan_ms + 1000)
    shown = await manager.get(f"/api/v1/runs/{str(run).replace('#', '%23')}")
    assert (shown["jobName"], shown["worker"]) == ("j", "w1")
