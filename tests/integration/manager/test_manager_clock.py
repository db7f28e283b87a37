"""A manager whose clock is off saves nothing and says so; what the API and the probe tell of everybody's clocks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from common.access.rights import OWNER
from common.clock import SystemClock
from common.protocol.member import Beat
from common.protocol.txn import KeyValue
from tests.support.access import Accessing, token_id
from tests.support.clocks import OffClock, beat_beside, say_clocks
from tests.support.managing import Managed, Place, managing, problem_of, refusal_of
from tests.support.open_runs import claim
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

JOB = '{"name":"j","command":"a","cronExpr":"@daily"}'
SPEC = {"command": "a", "cronExpr": "@daily"}
BEHIND = (
    "this manager saves nothing: its clock is 30.0 s behind the others' (at most 250 ms): mend the clock (NTP), "
    "or ask another manager; nothing was changed"
)


@pytest.fixture
def clock() -> OffClock:
    return OffClock()


@pytest.fixture
async def off(place: Place, clock: OffClock) -> AsyncIterator[Managed]:
    """A manager with a clock that the test sets; its loops do not run, so that the test says when it looks."""
    async with managing(place, clock=clock, others=True, patient=False) as managed:
        yield managed


async def say(manager: Managed, offset_ms: int, count: int = 3, **others: int) -> None:
    """A steward has measured this manager's clock, and others'."""
    guard = manager.parts.clock_guard
    measured = {manager.parts.name: (guard.watch, offset_ms)} | {name: (guard.watch, ms) for name, ms in others.items()}
    await say_clocks(manager.etcd, manager.keys, measured, count=count)
    await guard.check.look()


async def test_every_edit_is_refused_until_the_clock_is_mended(off: Managed, clock: OffClock) -> None:
    await off.save(JOB)
    await say(off, -30_000)
    before = await off.stored()
    calls: list[tuple[str, str, object]] = [
        ("PUT", "/api/v1/jobs/j", {**SPEC, "command": "b"}), ("PATCH", "/api/v1/jobs/j", {"command": "b"}),
        ("PUT", "/api/v1/jobs/new", SPEC), ("POST", "/api/v1/jobs/j/pause", {}), ("POST", "/api/v1/jobs/j/resume", {}),
        ("POST", "/api/v1/jobs/j/run", {}), ("POST", "/api/v1/jobs/j/unblock", {}), ("DELETE", "/api/v1/jobs/j", None),
        ("POST", "/api/v1/jobs/j/kill", {}), ("POST", "/api/v1/runs/j@1%231/give-up", {"reason": "why"}),
    ]  # fmt: skip
    for method, path, body in calls:
        problem = await problem_of(await off.http.request(method, path, json=body), 503)
        assert (problem["code"], problem["detail"]) == ("clock-off", BEHIND), path
    for path, form in (("/job/save", {"job": JOB}), ("/job/delete", {"name": "j"}), ("/job/kill", {"name": "j"})):
        assert await refusal_of(await off.http.post(path, data=form), 503) == BEHIND
    bulk = await off.call("POST", "/api/v1/jobs/bulk", {"action": "pause", "names": ["j"]})
    assert "its clock is 30.0 s behind" in str(bulk)
    assert await off.stored() == before
    clock.offset_ms = 29_750
    off.parts.clock_guard.watch.look()
    await say(off, -250)
    await off.call("POST", "/api/v1/jobs/j/pause", {})


async def test_restoring_a_version_is_refused_too(off: Managed) -> None:
    await off.save(JOB)
    revision = (await off.get("/api/v1/jobs/j"))["revision"]
    await off.call("DELETE", "/api/v1/jobs/j")
    await say(off, 30_000)
    problem = await problem_of(await off.http.post(f"/api/v1/jobs/j/versions/{revision}/restore", json={}), 503)
    assert "its clock is 30.0 s ahead of the others'" in problem["detail"]


async def test_what_depends_on_no_time_is_done_all_the_same(off: Managed) -> None:
    run = await claim(off, "j", SystemClock().wall_ms())
    await say(off, -30_000)
    assert (await off.parts.kills.of_run(run, by="me", rights=OWNER)).name == "ASKED"
    await off.get("/api/v1/jobs")
    await off.call("POST", "/api/v1/workers/w1/undrain", {})


async def test_jump_refuses_at_once_where_others_are_compared(off: Managed, clock: OffClock) -> None:
    await say(off, 3)
    clock.offset_ms = -30_000
    problem = await problem_of(await off.http.put("/api/v1/jobs/j", json=SPEC), 503)
    assert "its clock jumped 30.0 s back, and has not been compared with the others' since" in problem["detail"]
    ready = await off.http.get("/readyz")
    assert ready.status == 503
    await say(off, 3)
    await off.call("PUT", "/api/v1/jobs/j", SPEC)
    await say(off, 3, count=2)
    clock.offset_ms = 0
    problem = await problem_of(await off.http.put("/api/v1/jobs/j", json=SPEC), 503)
    assert "jumped 30.0 s ahead" in problem["detail"], "it was right before; that too few are left makes it no righter"
    off.parts.clock_guard.check._doubted_s -= 120
    await say(off, 3, count=2)
    await off.call("PUT", "/api/v1/jobs/j", {**SPEC, "command": "b"})


async def test_a_clock_that_has_jumped_and_is_behind_a_decided_fire_dates_no_edit_of_that_job(
    off: Managed, clock: OffClock
) -> None:
    """Nobody compares it for so long that it is trusted again: the pause would leave fires without a record."""
    await off.save(JOB)
    before, guard = await off.stored(), off.parts.clock_guard
    clock.offset_ms = -30_000
    assert "jumped 30.0 s back" in (guard.fault or "")
    guard.check._doubted_s -= 120
    await guard.check.look()
    assert guard.fault is None
    problem = await problem_of(await off.http.post("/api/v1/jobs/j/pause", json={}), 503)
    assert problem["code"] == "clock-off"
    assert problem["detail"].startswith("this manager's clock has jumped, and is behind ")
    assert await off.stored() == before
    await off.call("PUT", "/api/v1/jobs/new", SPEC)
    clock.offset_ms = 0
    assert "jumped 30.0 s ahead" in str(guard.fault)
    await say(off, 0)
    await off.call("POST", "/api/v1/jobs/j/pause", {})


async def test_first_edit_waits_for_a_comparison_where_others_are_compared(off: Managed) -> None:
    await say_clocks(off.etcd, off.keys)
    saving = asyncio.ensure_future(off.http.put("/api/v1/jobs/j", json=SPEC))
    await wait_until(lambda: off.parts.clock_guard.check.clocks is not None, description="it has looked, and waits")
    await say_clocks(off.etcd, off.keys, {off.parts.name: (off.parts.clock_guard.watch, -30_000)})
    assert (await problem_of(await saving, 503))["code"] == "clock-off"
    assert await off.etcd.get(off.keys.job("j")) is None


async def test_edit_that_waits_in_vain_for_a_comparison_says_that_nothing_was_done(off: Managed) -> None:
    await say_clocks(off.etcd, off.keys, {"another": (off.parts.clock_guard.watch, 0)})
    problem = await problem_of(await off.http.put("/api/v1/jobs/j", json=SPEC), 503)
    assert problem["code"] == "clock-off"
    assert problem["detail"].endswith(" compared with the others' yet: try again in some seconds; nothing was changed")
    assert await off.etcd.get(off.keys.job("j")) is None


async def test_what_is_over_by_a_clock_that_is_off_is_not_removed(off: Managed, clock: OffClock) -> None:
    """Tokens and silences that are still good by all other clocks would be gone for all."""
    access = Accessing(off)
    token = access.keys.token(token_id(await access.token("user:alice")))
    made = await off.call("POST", "/api/v1/silences", {"jobs": ["j"], "hours": 1})
    silence = off.keys.silence(made["silence"]["id"])

    async def sweep() -> list[KeyValue | None]:
        await off.parts.tokens.sweep()
        await off.call("POST", "/api/v1/silences", {"jobs": ["j"], "hours": 1})
        return [await off.etcd.get(key) for key in (token, silence)]

    clock.offset_ms = 98 * 86_400_000
    off.parts.clock_guard.watch.look()
    await say(off, clock.offset_ms)
    assert None not in await sweep()
    await say(off, 0)
    off.parts.clock_guard.check._doubted_s -= 120
    await off.parts.clock_guard.check.look()
    assert await sweep() == [None, None]


async def test_probe_says_in_words_how_the_clocks_are(off: Managed) -> None:
    async def clocks() -> tuple[str, str, str | None]:
        seen = (await (await off.http.get("/readyz?verbose")).json())["checks"]["clocks"]
        return seen["state"], seen["summary"], seen["problem"]

    assert await clocks() == ("ok", "not compared: no steward has measured them yet", None)
    await say(off, 0, count=2)
    assert await clocks() == (
        "ok", "not compared: there are only 2, and it takes 3 to tell which one is wrong", None
    )  # fmt: skip
    await say_clocks(off.etcd, off.keys, count=4)
    assert await clocks() == ("ok", "not compared yet: 4 processes", None)
    await say(off, 2, w1=-250, w2=0)
    assert await clocks() == ("ok", "3 processes compared: all within 250 ms", None)
    await say(off, 2, w1=30_000, w2=-251)
    words = "the clock of w1 is 30.0 s ahead of the others'; the clock of w2 is 251 ms behind the others'"
    assert await clocks() == ("degraded", "3 processes compared: 2 off by more than 250 ms", words)
    answer = await off.get("/readyz")
    assert words in answer["problems"]
    await off.etcd.put(off.keys.clocks, b"\xff")
    assert (await clocks())[1] == "not compared: no steward has measured them yet"


async def test_probe_is_unready_while_its_own_clock_is_off(off: Managed, clock: OffClock) -> None:
    await say(off, -30_000, w1=0, w2=0)
    answer = await off.http.get("/readyz?verbose")
    assert answer.status == 503
    document = await answer.json()
    assert document["status"] == "unready"
    assert document["checks"]["clocks"]["state"] == "off"
    assert document["checks"]["clocks"]["off"] == [{"name": off.parts.name, "offsetMs": -30_000}]
    assert any(
        problem.startswith("this manager saves nothing: its clock is 30.0 s") for problem in document["problems"]
    )
    clock.offset_ms = 30_000
    off.parts.clock_guard.watch.look()
    await say(off, 0, w1=0, w2=0)
    assert (await off.http.get("/readyz")).status == 200


async def test_offset_of_each_process_is_listed(off: Managed) -> None:
    await beat_beside(off.etcd, off.keys, off.parts.name, "manager.h.unmeasured")
    lease = await off.etcd.lease_grant(60)
    for name in ("w1", "w2", "w3"):
        beat = Beat(kind="worker", wall_ms=1)
        await off.etcd.put(off.keys.beat(name), beat.to_json())
        value = b'{"instance":"i","host":"h","address":"a","slots":1}'
        await off.etcd.put(off.keys.worker(name, f"{lease.id:x}"), value, lease.id)
    await say(off, 12, w1=-3, w2=30_000)
    workers = {one["name"]: one for one in (await off.get("/api/v1/workers"))["items"]}
    shown = {name: (one["clockOffsetMs"], one["clockIsOff"]) for name, one in workers.items()}
    assert shown == {"w1": (-3, False), "w2": (30_000, True), "w3": (None, False)}
    managers = {one["id"]: one for one in (await off.get("/api/v1/system"))["managers"]}
    assert managers[off.parts.name]["clockOffsetMs"] == 12
    assert managers["manager.h.unmeasured"]["clockOffsetMs"] is None
