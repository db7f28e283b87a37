"""A mark that a wrong clock has put far ahead goes back to now, once, whoever else acts; and no other mark does."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from common.access.rights import OWNER
from common.clock import SystemClock
from common.errors import ConflictError, UnavailableError
from common.etcd import EtcdClient
from common.instants import iso
from common.protocol.keys import RunId, decode_mark, encode_mark, sequence_name
from common.protocol.member import Beat
from common.protocol.request import Origin, Request
from common.protocol.run import RunEntry, RunRecord, final_entry
from common.protocol.saved_job import Again, SavedJob, first_attempt
from common.protocol.txn import Delete, Put, Txn
from common.timings import Timings
from common.verdicts import Verdict
from manager.use_cases.jobs import JobService
from manager.use_cases.last_decided import LastDecided
from manager.use_cases.unblock import Decided, Unblocking
from manager.views.inventory import Inventory
from tests.support.managing import Managed, Place, ShiftedClock, managing, problem_of
from tests.support.meeting import Meeting
from tests.support.open_runs import claim, record_of
from tests.support.waiting import wait_until

DAY_MS = 86_400_000
FAR_MS = 400 * DAY_MS
MINUTE_MS = 60_000
UNBLOCK = "/api/v1/jobs/j/unblock"


def job(**fields: Any) -> str:
    trigger = {} if "after" in fields else {"cronExpr": "0 * * * * * *"}
    return json.dumps({"name": "j", "command": "true"} | trigger | fields)


def now_ms() -> int:
    return SystemClock().wall_ms()


async def saved(manager: Managed) -> SavedJob:
    kv = await manager.etcd.get(manager.keys.job("j"))
    assert kv is not None
    return SavedJob.from_json(kv.value, name="j")


async def put_mark(manager: Managed, ms: int, sequence: str = "j") -> None:
    await manager.etcd.put(manager.keys.mark(sequence), encode_mark(ms))


async def test_job_saved_by_a_wrong_clock_fires_again(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async with managing(place, clock=ShiftedClock(FAR_MS)) as wrong, managing(place) as right:
        await wrong.save(job(labels={"team": "a"}))

        async def is_listed() -> bool:
            return bool((await right.get("/api/v1/jobs"))["items"])

        await wait_until(is_listed, description="the other manager lists it")
        (item,) = (await right.get("/api/v1/jobs"))["items"]
        assert "`etcron job unblock` sets it back" in item["problem"]
        began_ms, old = now_ms(), await saved(right)
        assert old.anchor_ms > began_ms + DAY_MS
        with caplog.at_level(logging.INFO, logger="manager.use_cases.jobs"):
            answer = await right.call("POST", UNBLOCK, {"reason": "the clock was in 2027"})
        new = await saved(right)
        assert began_ms <= new.anchor_ms <= now_ms()
        assert await right.mark("j") == new.anchor_ms
        assert (new.spec, new.saved_ms) == (old.spec, new.anchor_ms)
        assert answer["changed"]
        assert answer["job"]["problem"] is None
        assert answer["job"]["nextFire"]["ms"] <= now_ms() + 60_000
        (line,) = [one for one in caplog.records if getattr(one, "action", "") == "job.unblocked"]
        assert line.__dict__["reason"] == "the clock was in 2027"
        assert line.__dict__["by"].startswith("api ")
        versions = (await right.get("/api/v1/jobs/j/versions"))["items"]
        assert [one["action"] for one in versions] == ["unblock", None]
        again = await problem_of(await right.http.post(UNBLOCK, json={}), 409)
        assert "is not blocked" in again["detail"]
        assert iso(new.anchor_ms) in again["detail"]


async def test_mark_alone_and_anchor_alone_are_mended(manager: Managed) -> None:
    await manager.save(job())
    await put_mark(manager, now_ms() + FAR_MS)
    await manager.call("POST", UNBLOCK, {})
    mark = await manager.mark("j")
    assert mark is not None
    assert mark <= now_ms()
    # Somebody has set the mark back by hand, and not the anchor.
    faulty = SavedJob(spec=(await saved(manager)).spec, anchor_ms=now_ms() + FAR_MS)
    await manager.etcd.put(manager.keys.job("j"), faulty.to_json())
    await put_mark(manager, mark_ms := now_ms())
    await manager.call("POST", UNBLOCK, {})
    assert (await saved(manager)).anchor_ms == await manager.mark("j")
    assert mark_ms <= (await saved(manager)).anchor_ms <= now_ms()


@pytest.mark.parametrize("ahead_ms", [-5_000, 0])
async def test_mark_that_is_no_fault_never_goes_back(manager: Managed, ahead_ms: int) -> None:
    await manager.save(job())
    await put_mark(manager, now_ms() + ahead_ms)
    before = await manager.stored()
    assert "nothing was changed" in (await problem_of(await manager.http.post(UNBLOCK, json={}), 409))["detail"]
    assert await manager.stored() == before


async def test_no_job_no_readable_job_no_name(manager: Managed) -> None:
    await problem_of(await manager.http.post(UNBLOCK, json={}), 404)
    await manager.etcd.put(manager.keys.job("j"), b"nonsense")
    assert "save it anew" in (await problem_of(await manager.http.post(UNBLOCK, json={}), 409))["detail"]
    await problem_of(await manager.http.post("/api/v1/jobs/a%20b/unblock", json={}), 400)
    await problem_of(await manager.http.post(UNBLOCK, json={"why": "x"}), 400)


async def test_refused_while_some_clock_is_ahead_of_this_managers(manager: Managed) -> None:
    """It may be this one that is wrong: then the mark is right, and setting it back would make fires run twice."""
    await manager.save(job())
    await put_mark(manager, now_ms() + FAR_MS)
    before = await manager.mark("j")
    beat = Beat(kind="worker", wall_ms=now_ms() + FAR_MS)
    await manager.etcd.put(manager.keys.beat("w1"), beat.to_json())
    refused = await problem_of(await manager.http.post(UNBLOCK, json={}), 409)
    assert "the clock of w1" in refused["detail"]
    assert await manager.mark("j") == before
    await manager.etcd.put(manager.keys.beat("w1"), Beat(kind="worker", wall_ms=now_ms() + 5_000).to_json())
    await manager.etcd.put(manager.keys.beat("w2"), b"nonsense")
    await manager.call("POST", UNBLOCK, {})


async def test_after_job_gets_its_next_run_anew(place: Place) -> None:
    async with managing(place, clock=ShiftedClock(FAR_MS)) as wrong, managing(place) as right:
        await wrong.save(job(after="1h"))
        key = right.keys.chain("j")
        before = await right.etcd.get(key)
        await right.call("POST", UNBLOCK, {})
        after = await right.etcd.get(key)
        assert before is not None
        assert after is not None
        plan_ms = [
            Request.from_json(kv.value, run_id=right.keys.run_of(key), revision=1).plan_ms for kv in (before, after)
        ]
        assert plan_ms[0] > now_ms() + DAY_MS
        assert plan_ms[1] <= now_ms()


async def test_every_own_mark_of_a_broadcast_job_is_mended(manager: Managed) -> None:
    await manager.save(job(broadcast=True))
    workers = [f"w{number:03}" for number in range(120)]
    for worker in workers:
        await put_mark(manager, now_ms() + FAR_MS, sequence_name("j", worker))
    fine_ms = now_ms() - 5_000
    await put_mark(manager, fine_ms, sequence_name("j", "fine"))
    await put_mark(manager, far_ms := now_ms() + FAR_MS, sequence_name("jj", "other"))
    await manager.call("POST", UNBLOCK, {})
    for worker in workers:
        mark = await manager.mark(sequence_name("j", worker))
        assert mark is not None
        assert mark <= now_ms()
    assert await manager.mark(sequence_name("j", "fine")) == fine_ms
    assert await manager.mark(sequence_name("jj", "other")) == far_ms


async def nothing(_name: str, _now_ms: int) -> Decided:
    return 0, ""


def unblocking(
    manager: Managed, etcd: EtcdClient, *, last_decided: Callable[[str, int], Awaitable[Decided]] = nothing
) -> Unblocking:
    clock = ShiftedClock()
    service = JobService(etcd, manager.keys, clock=clock, timings=Timings(), deliver=lambda delivery: None)
    return Unblocking(
        etcd,
        manager.keys,
        service,
        Inventory(etcd, manager.keys),
        last_decided=last_decided,
        records=manager.runlog,
        ahead_ms=120_000,
        clock=clock,
    )


@pytest.mark.parametrize("moved", ["the job's", "a worker's"])
async def test_marks_that_move_meanwhile_are_compared(manager: Managed, place: Place, moved: str) -> None:
    """The job's mark is mended elsewhere and has moved on (to a clock a little ahead); or a worker's own mark is."""
    await manager.save(job(broadcast=True))
    own, elsewhere_ms = sequence_name("j", "w1"), now_ms() + 60_000
    for sequence in ("j", own):
        await put_mark(manager, now_ms() + FAR_MS, sequence)
    sequence = "j" if moved == "the job's" else own
    async with Meeting(place.etcd, lambda: put_mark(manager, elsewhere_ms, sequence)) as etcd:
        await unblocking(manager, etcd).unblock("j", by="me", rights=OWNER)
    marks = {one: await manager.mark(one) for one in ("j", own)}
    assert marks.pop(sequence) == elsewhere_ms
    [other] = marks.values()
    assert other is not None
    assert other <= now_ms()


async def test_edit_that_comes_meanwhile_stays(manager: Managed, place: Place) -> None:
    await manager.save(job())
    await put_mark(manager, now_ms() + FAR_MS)
    async with Meeting(place.etcd, lambda: manager.save(job(command="false"))) as etcd:
        await unblocking(manager, etcd).unblock("j", by="me", rights=OWNER)
    assert (await saved(manager)).spec.command == "false"


async def test_run_that_begins_meanwhile_keeps_its_place_in_the_chain(manager: Managed, place: Place) -> None:
    await manager.save(job(after="1h"))
    await put_mark(manager, now_ms() + FAR_MS)
    keys = manager.keys

    async def claim() -> None:
        await manager.etcd.txn(Txn([], [Put(keys.lock("j"), b"j@5#1"), Delete(keys.chain("j"))]))

    async with Meeting(place.etcd, claim) as etcd:
        await unblocking(manager, etcd).unblock("j", by="me", rights=OWNER)
    assert await manager.etcd.get(keys.chain("j")) is None


async def test_twenty_at_once_one_mends_and_the_others_are_told(manager: Managed) -> None:
    await manager.save(job())
    await put_mark(manager, now_ms() + FAR_MS)
    parts = manager.parts
    done = await asyncio.gather(
        *(parts.unblocking.unblock("j", by=str(number), rights=OWNER) for number in range(20)), return_exceptions=True
    )
    assert sum(not isinstance(one, BaseException) for one in done) == 1
    assert sum(isinstance(one, ConflictError) for one in done) == 19
    mark = await manager.etcd.get(manager.keys.mark("j"))
    assert mark is not None
    assert decode_mark(mark.value) <= now_ms()


# What did not fire meanwhile


async def saved_ago(manager: Managed, minutes: int, **fields: Any) -> int:
    """A job of every minute that was saved so long ago, and whose mark lies far ahead; the newest whole minute."""
    await manager.save(job(**fields))
    minute = now_ms() // MINUTE_MS * MINUTE_MS
    there = replace(await saved(manager), anchor_ms=minute - minutes * MINUTE_MS - 1)
    await manager.etcd.put(manager.keys.job("j"), there.to_json())
    await put_mark(manager, minute + FAR_MS)
    return minute


async def missed_after_unblock(manager: Managed, *, among: int = 1) -> RunRecord | None:
    """The record that the unblocking has put into etcd, among so many; None: none."""
    kvs = [kv async for page in manager.etcd.read_prefix(manager.keys.runs_of("j")) for kv in page.kvs]
    finals = [entry.record for kv in kvs if (entry := RunEntry.from_json(kv.value)).record is not None]
    assert len(finals) <= among
    return finals[0] if finals else None


async def ask_for(manager: Managed, plan_ms: int) -> None:
    """The fire waits as a request, as one does that is made up for."""
    request = Request(
        run_id=RunId.planned("j", plan_ms), origin=Origin.CATCH_UP, job_create_revision=1, plan_ms=plan_ms,
        dispatch_ms=plan_ms, not_before_ms=plan_ms,
    )  # fmt: skip
    await manager.etcd.put(manager.keys.request(request.run_id), request.to_json())


async def test_fires_since_the_newest_record_are_recorded_as_missed(manager: Managed) -> None:
    minute = await saved_ago(manager, 30)
    await manager.write([
        record_of(RunId.planned("j", minute - 20 * MINUTE_MS), Verdict.MISSED, reason="late",
                  range_end_ms=minute - 18 * MINUTE_MS, count=3),
        record_of(RunId("j", "r-0123456789abcdef"), plan_ms=minute - MINUTE_MS),
        record_of(RunId.planned("j", minute + FAR_MS), plan_ms=minute + FAR_MS),
    ])  # fmt: skip
    mark_ms = minute + FAR_MS
    answer = await manager.call("POST", UNBLOCK, {})
    record = await missed_after_unblock(manager)
    assert record is not None
    assert (record.status, record.plan_ms) == (Verdict.MISSED, minute - 17 * MINUTE_MS)
    assert record.reason == f"blocked: the job's mark lay at {iso(mark_ms)}"
    assert record.range_end_ms == now_ms() // MINUTE_MS * MINUTE_MS
    assert answer["warnings"] == [f"{record.count} fires since {iso(record.plan_ms)} did not run: recorded as missed"]


async def test_a_run_that_still_goes_was_decided(manager: Managed) -> None:
    minute = await saved_ago(manager, 30)
    await claim(manager, "j", minute - 2 * MINUTE_MS)
    await manager.call("POST", UNBLOCK, {})
    record = await missed_after_unblock(manager)
    assert record is not None
    assert record.plan_ms == minute - MINUTE_MS


@pytest.mark.parametrize("is_over", [False, True])
async def test_what_a_manager_that_lags_behind_etcd_has_not_seen_was_decided(place: Place, is_over: bool) -> None:
    async with managing(place) as manager, managing(place, watches=False) as behind:
        minute = await saved_ago(manager, 30)
        run, last_ms = RunId.planned("j", minute - 3 * MINUTE_MS), minute - 2 * MINUTE_MS
        if is_over:
            record = record_of(run, Verdict.MISSED, plan_ms=run.plan_ms or 0, range_end_ms=last_ms, count=2)
            await manager.etcd.put(manager.keys.run(run), final_entry(record).to_json())
        else:
            await claim(manager, "j", last_ms)
        await behind.parts.unblocking.unblock("j", by="me", rights=OWNER)
        recorded = [kv async for page in manager.etcd.read_prefix(manager.keys.runs_of("j")) for kv in page.kvs]
        assert manager.keys.run(RunId.planned("j", minute - MINUTE_MS, 2)) in {kv.key for kv in recorded}


async def test_a_fire_that_still_waits_to_be_made_up_for_was_decided(manager: Managed) -> None:
    minute = await saved_ago(manager, 30)
    await ask_for(manager, minute - 2 * MINUTE_MS)
    await manager.call("POST", UNBLOCK, {})
    record = await missed_after_unblock(manager)
    assert record is not None
    assert record.plan_ms == minute - MINUTE_MS


async def test_of_a_job_saved_while_it_was_blocked_what_was_due_since_that_save(manager: Managed) -> None:
    minute = await saved_ago(manager, 30)
    there = await saved(manager)
    there = replace(there, anchor_ms=minute + FAR_MS, saved_ms=minute - 3 * MINUTE_MS - 1)
    await manager.etcd.put(manager.keys.job("j"), there.to_json())
    await manager.call("POST", UNBLOCK, {})
    record = await missed_after_unblock(manager)
    assert record is not None
    assert record.plan_ms == minute - 3 * MINUTE_MS


async def test_where_it_cannot_be_told_what_was_started_it_is_refused(place: Place) -> None:
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(away, apiWriteTimeout=1000, mongodbConnectTimeout=200) as manager:
        await saved_ago(manager, 30)
        before = await manager.stored()
        await problem_of(await manager.http.post(UNBLOCK, json={}), 503)
        assert await manager.stored() == before


async def test_log_store_that_comes_back_after_it_was_asked_what_was_decided_loses_no_fire(place: Place) -> None:
    """It is refused, for what is not recorded then never is; the next try records the fires."""
    away = Place(etcd=place.etcd, log_store="mongodb://127.0.0.1:9", prefix=place.prefix, database=place.database)
    async with managing(place) as manager, managing(away, apiWriteTimeout=1000, mongodbConnectTimeout=200) as without:
        await saved_ago(manager, 30)
        before = await manager.stored()
        last_decided = LastDecided(manager.etcd, manager.keys, without.parts.history).before
        with pytest.raises(UnavailableError):
            await unblocking(manager, manager.etcd, last_decided=last_decided).unblock("j", by="me", rights=OWNER)
        assert await manager.stored() == before
        await manager.call("POST", UNBLOCK, {})
        assert await missed_after_unblock(manager) is not None


async def test_records_that_do_not_tell_what_was_decided_keep_no_job_blocked(manager: Managed) -> None:
    """Waiting would not help: the newest are all of runs that somebody asked for."""
    minute = await saved_ago(manager, 30)
    asked_for = [RunId("j", f"r-{number:016x}") for number in range(201)]
    await manager.write([record_of(run, plan_ms=minute - MINUTE_MS) for run in asked_for])
    answer = await manager.call("POST", UNBLOCK, {})
    assert await missed_after_unblock(manager) is None
    [warning] = answer["warnings"]
    assert warning.endswith("have no record: the newest 200 records of j are of no planned fire")


@pytest.mark.parametrize("fields", [{"enabled": False}, {"broadcast": True}])
async def test_of_a_paused_or_a_broadcast_job_there_is_no_record(manager: Managed, fields: dict[str, bool]) -> None:
    await saved_ago(manager, 30, **fields)
    answer = await manager.call("POST", UNBLOCK, {})
    assert await missed_after_unblock(manager) is None
    assert bool(answer["warnings"]) == ("broadcast" in fields)


# Jobs that are blocked are shown


async def test_mark_in_the_near_future_is_shown_where_one_looks(manager: Managed) -> None:
    await manager.save(job())
    await manager.save(json.dumps({"name": "k", "command": "true", "cronExpr": "0 * * * * * *", "broadcast": True}))
    blocked, until_ms = manager.parts.watching.blocked, now_ms() + 3 * 3_600_000
    await put_mark(manager, until_ms)
    await put_mark(manager, until_ms - 5, sequence_name("k", "w1"))
    await put_mark(manager, until_ms, "deleted")

    async def are_known() -> bool:
        await blocked.look()
        return blocked.until(OWNER) == {"j": until_ms, "k": until_ms - 5}

    await wait_until(are_known, description="both are known to be blocked")
    row = await manager.get("/api/v1/jobs/j")
    assert row["blockedUntil"] == until_ms
    assert row["problem"].startswith(f"blocked until {iso(until_ms)}: ")
    assert row["nextFire"]["ms"] > until_ms
    items = (await manager.get("/api/v1/jobs"))["items"]
    assert [item["blockedUntil"] for item in items] == [until_ms, until_ms - 5]
    ready = await manager.get("/readyz?verbose")
    assert ready["status"] == "degraded"
    assert any(text.startswith(f"2 jobs are blocked until {iso(until_ms)} (the last: j)") for text in ready["problems"])
    assert ready["checks"]["blocked"] == [{"name": "j", "until": until_ms}, {"name": "k", "until": until_ms - 5}]
    async with manager.http.get("/metrics") as answer:
        assert "etcron_jobs_blocked 2.0" in await answer.text()
    to_come = f"/api/v1/jobs/j/fires?from={now_ms()}&to={now_ms() + 120_000}"
    assert {fire["reason"] for fire in (await manager.get(to_come))["items"]} == {row["problem"]}
    await manager.call("POST", "/api/v1/jobs/j/pause", {})

    async def is_told() -> bool:
        return list(blocked.until(OWNER)) == ["k"]

    await wait_until(is_told, description="a paused job does not wait for a mark")


async def test_mark_that_is_a_moment_ahead_blocks_nothing(manager: Managed) -> None:
    await manager.save(job())
    await put_mark(manager, now_ms() + 9_000)
    await manager.parts.watching.blocked.look()
    assert manager.parts.watching.blocked.until(OWNER) == {}


# What the wrong clock had decided


HOURS_MS = 3 * 3_600_000


async def test_what_was_started_before_its_time_is_left_out_and_the_rest_runs_under_the_next_attempt(
    manager: Managed,
) -> None:
    minute = await saved_ago(manager, 5)
    far_ms = minute + HOURS_MS
    await put_mark(manager, far_ms)
    began, goes, asked, missed = (minute + number * MINUTE_MS for number in (10, 11, 20, 30))
    await manager.write([
        record_of(RunId.planned("j", began), Verdict.FAILED, plan_ms=began),
        record_of(RunId.planned("j", missed), Verdict.MISSED, plan_ms=missed, range_end_ms=far_ms - MINUTE_MS, count=9),
    ])  # fmt: skip
    await claim(manager, "j", goes)
    await ask_for(manager, asked)
    await manager.call("POST", UNBLOCK, {})
    new = await saved(manager)
    assert new.anchor_ms <= now_ms()
    assert new.again == Again(until_ms=far_ms, attempt=2, started={"": ((began, goes), (asked, asked))})
    assert new.schedule.next_after_ms(began - 1) == goes + MINUTE_MS
    assert [first_attempt(new.again, ms) for ms in (missed, far_ms, far_ms + 1)] == [2, 2, 1]
    record = await missed_after_unblock(manager, among=2)
    assert record is None or record.run_id.attempt == 2
    # It stays so through edits, also a pause, and a second wrong clock makes the next attempt of it.
    await manager.call("POST", "/api/v1/jobs/j/pause", {})
    await manager.call("POST", "/api/v1/jobs/j/resume", {})
    await manager.save(job(command="false"))
    assert (await saved(manager)).again == new.again
    await put_mark(manager, far_ms + MINUTE_MS)
    await manager.call("POST", UNBLOCK, {})
    second = (await saved(manager)).again
    assert second is not None
    assert (second.until_ms, second.attempt) == (far_ms + MINUTE_MS, 3)
    assert new.again is not None
    assert second.started == new.again.started
    # Another schedule has other fires.
    await manager.save(job(cronExpr="30 * * * * * *"))
    third = (await saved(manager)).again
    assert third == replace(second, started={})


async def test_fire_that_is_claimed_meanwhile_is_looked_for_anew(manager: Managed, place: Place) -> None:
    minute = await saved_ago(manager, 5)
    await put_mark(manager, minute + HOURS_MS)
    claimed_ms = minute + HOURS_MS + MINUTE_MS

    async def claim_one() -> None:
        await claim(manager, "j", claimed_ms)
        await put_mark(manager, claimed_ms)

    async with Meeting(place.etcd, claim_one) as etcd:
        await unblocking(manager, etcd).unblock("j", by="me", rights=OWNER)
    again = (await saved(manager)).again
    assert again is not None
    assert (again.until_ms, again.started) == (claimed_ms, {"": ((claimed_ms, claimed_ms),)})


async def test_clock_that_nobody_keeps_unblocks_only_by_force(place: Place) -> None:
    clock = ShiftedClock()
    clock.synchronised = False
    async with managing(place, clock=clock) as manager:
        await saved_ago(manager, 5)
        refused = await problem_of(await manager.http.post(UNBLOCK, json={}), 409)
        assert "the kernel does not call this manager's clock synchronised" in refused["detail"]
        await problem_of(await manager.http.post(UNBLOCK, json={"force": 1}), 400)
        assert (await manager.call("POST", UNBLOCK, {"force": True}))["changed"]


async def test_refused_while_many_records_are_on_their_way(manager: Managed) -> None:
    await saved_ago(manager, 5)
    beat = Beat(kind="worker", wall_ms=now_ms(), unsent_records=1_001)
    await manager.etcd.put(manager.keys.beat("w1"), beat.to_json())
    assert "1,001 records of w1" in (await problem_of(await manager.http.post(UNBLOCK, json={}), 503))["detail"]
