"""One worker as its page shows it: what runs there, what only it can run, what its day came to, what happened to it."""

from __future__ import annotations

import pytest

from common.access.rights import Role
from common.notices.alerts import Alert, Standing
from common.notices.events import Event
from common.protocol.keys import RunId
from common.protocol.roster import Left, RosterEntry
from common.runlog.alerts import Bucket
from common.verdicts import EventKind, Verdict
from tests.support.access import Accessing
from tests.support.joining import join
from tests.support.managing import Managed, Place, managing, problem_of
from tests.support.open_runs import claim, now_ms, record_of, settle
from tests.support.records import record
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

W1 = "/api/v1/workers/w1"
JOB = {"command": "true", "cronExpr": "@yearly"}
MINUTE_MS = 60_000


async def put(manager: Managed, name: str, **fields: object) -> None:
    await manager.call("PUT", f"/api/v1/jobs/{name}", {**JOB, **fields})


async def test_shows_what_runs_there_and_what_no_other_can_run(manager: Managed) -> None:
    await join(manager, "w1", slots=4, labels={"disk": "fast"})
    await join(manager, "w2", slots=2, labels={"disk": "slow"})
    await put(manager, "only-by-label", workers={"disk": ["fast"]})
    await put(manager, "only-by-slots", slots=3)
    await put(manager, "paused", workers={"disk": ["fast"]}, enabled=False)
    await put(manager, "others-too", workers={"disk": ["fast", "slow"]})
    await put(manager, "anywhere")
    going = await claim(manager, "anywhere", now_ms())
    await manager.write([record(number, job="anywhere") for number in range(3)])
    await wait_until(lambda: manager.parts.watching.open_runs.has(going), description="the manager sees the run")
    worker = await manager.get(W1)
    assert (worker["name"], worker["state"], worker["isAlone"]) == ("w1", "accepting", False)
    assert worker["onlyThere"] == {"items": ["only-by-label", "only-by-slots"], "count": 2}
    (run,) = worker["running"]["items"]
    assert (run["id"], run["usualMs"], worker["running"]["count"]) == (str(going), 5, 1)
    assert (await manager.get("/api/v1/workers/w2"))["running"] == {"items": [], "count": 0}


async def test_one_that_is_gone_is_shown_as_it_was(manager: Managed) -> None:
    await join(manager, "w2", labels={"disk": "slow"})
    await put(manager, "only-there", workers={"disk": ["fast"]})
    entry = RosterEntry(worker="w1", host="h1", slots=2, labels={"disk": "fast"}, seen_ms=7_000, left=Left.STOPPED)
    await manager.etcd.put(manager.keys.roster_entry("w1"), entry.to_json())
    worker = await manager.get(W1)
    assert (worker["state"], worker["left"], worker["seenMs"]) == ("stopped", "stopped", 7_000)
    assert worker["onlyThere"]["items"] == ["only-there"]
    assert [one["kind"] for one in (await manager.get(f"{W1}/history"))["events"]] == ["stopped"]
    await problem_of(await manager.http.get("/api/v1/workers/w9"), 404)
    await problem_of(await manager.http.get("/api/v1/workers/w9/history"), 404)


async def test_the_day_is_what_its_runs_came_to_and_what_happened(working_manager: Managed) -> None:
    manager, now = working_manager, now_ms()
    await join(manager, "w1", slots=4, since_ms=now - 1000)
    await put(manager, "wide", slots=3)
    for number, status in enumerate((Verdict.SUCCESS, Verdict.SUCCESS, Verdict.FAILED), 1):
        run = await claim(manager, "wide", now - number * 60 * MINUTE_MS)
        await settle(manager, run, status, end_ms=(run.plan_ms or 0) + 15 * MINUTE_MS)
    down = Event(kind=EventKind.WORKER_DOWN, at_ms=now - 9000, subject="w1", reason="its session has ended")
    other = Event(kind=EventKind.CLOCK_OFF, at_ms=now - 9000, subject="w2", reason="it is 3 s ahead")
    ended = tuple(Alert(event=one, since_ms=one.at_ms, end_ms=now - 5000) for one in (down, other))
    refusing = Event(kind=EventKind.WORKER_REFUSING, at_ms=now - 500, subject="w1", reason="its disk is full")
    standing = Standing(alert=Alert(event=refusing, since_ms=refusing.at_ms))
    assert await manager.runlog.alerts.take(1 << 40)
    assert await manager.runlog.alerts.write({0: Bucket(ended=ended, standings={"one": standing})}, 1 << 40)
    await manager.call("POST", f"{W1}/drain", {"reason": "new disks"})
    await manager.call("POST", f"{W1}/drain", {"reason": "new disks"})  # changes nothing, and is no event
    await manager.call("POST", f"{W1}/undrain", {})

    async def events() -> list[dict[str, object]]:
        found: list[dict[str, object]] = (await manager.get(f"{W1}/history"))["events"]
        return found

    async def has_audit() -> bool:
        return len(await events()) == 5

    await wait_until(has_audit, description="the log store has the audit, and the alerts are read again")
    told = [(one["kind"], one["reason"]) for one in await events()]
    assert told == [
        ("undrained", None), ("drained", "new disks"), ("refusing", "its disk is full"), ("joined", None),
        ("down", "its session has ended"),
    ]  # fmt: skip
    assert [one["endMs"] for one in await events() if one["lasts"]] == [None, now - 5000]
    day = await manager.get(f"{W1}/history")
    assert day["verdicts"] == {"success": 2, "failed": 1}
    assert sum(one["used"] for one in day["slots"]) == pytest.approx(9, abs=0.1)  # three slots in three quarters
    assert len(day["slots"]) == 96


async def test_run_that_was_planned_before_the_day_holds_its_slots_in_it(manager: Managed) -> None:
    await join(manager, "w1")
    plan_ms = now_ms() - 30 * 3_600_000
    run = RunId.planned("long", plan_ms)
    await manager.write([record_of(run, worker="w1", start_ms=plan_ms, end_ms=plan_ms + 12 * 3_600_000)])
    day = await manager.get(f"{W1}/history")
    assert (sum(one["used"] for one in day["slots"]), day["verdicts"]) == (pytest.approx(24, abs=0.2), {})


async def test_events_of_the_system_are_for_who_sees_everything(place: Place) -> None:
    async with managing(place, auth="required") as manager:
        await join(manager, "w1")
        headers = await Accessing(manager).user("alice", Role.VIEWER, labels={"team": ["billing"]})
        answer = await manager.http.get(f"{W1}/history", headers=headers)
        assert (await answer.json())["events"] is None
