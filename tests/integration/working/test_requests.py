"""Requests among workers: each runs once, in order, and waits for the lock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.etcd import Change
from common.protocol.keys import RunId
from common.protocol.request import Origin, Request
from common.protocol.request_writes import RequestClaim
from common.protocol.txn import Put, Txn
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working
from worker.admission import Admission

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@asynccontextmanager
async def three(place: Place, **changes: Any) -> AsyncIterator[list[Working]]:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(working(place, f"w{number}", **changes)) for number in (1, 2, 3)]
        for worker in workers:
            await worker.deciding()
        for worker in workers:
            members = worker.parts.members
            await wait_until(lambda members=members: len(members.accepting()) == 3, description="all are ranked")  # type: ignore[misc]
        yield workers


async def settled(world: World, count: int) -> list[dict[str, object]]:
    async def done() -> bool:
        return len(await world.records()) == count and not await world.entries()

    await wait_until(done, description=f"{count} runs are recorded, and nothing is open")
    return await world.records()


async def test_each_runs_once_among_three_workers(place: Place, world: World, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    job = await world.save(command=f"echo $ETCRON_PLAN_MS >> {evidence}", overlap="allow")
    now_ms = SystemClock().wall_ms()
    async with three(place):
        for number in range(20):
            await world.ask(job, now_ms + number)
        records = await settled(world, 20)
        assert {record["status"] for record in records} == {"success"}
        assert sorted(map(int, evidence.read_text().split())) == [now_ms + number for number in range(20)]
        assert await world.etcd.count(world.keys.requests) == 0


async def test_oldest_first_one_at_a_time_and_the_next_at_once(
    place: Place, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who frees the lock does not wait for the next look at it: there is none.
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    evidence = tmp_path / "evidence"
    job = await world.save(command=f"echo begin $ETCRON_PLAN_MS >> {evidence}; sleep 0.05; echo end >> {evidence}")
    now_ms = SystemClock().wall_ms()
    for number in (3, 1, 4, 0, 2):
        await world.ask(job, now_ms + number)
    async with working(place) as worker:
        await worker.deciding()
        await settled(world, 5)
        lines = evidence.read_text().split("\n")
        assert lines[0::2][:5] == [f"begin {now_ms + number}" for number in range(5)]
        assert set(lines[1::2][:5]) == {"end"}


async def test_waits_for_a_lock_that_somebody_else_frees(place: Place, world: World) -> None:
    job = await world.save()
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")
    async with working(place) as worker:
        await worker.deciding()
        run_id = await world.ask(job, SystemClock().wall_ms())
        turns = worker.parts.requests._pending
        await wait_until(
            lambda: any(turn.parked for turn in turns.get("job", {}).values()), description="it waits for the lock"
        )
        assert await world.entry(run_id) is None
        await world.etcd.delete(world.keys.lock("job"))
        assert (await world.record(run_id))["status"] == "success"


async def test_a_worker_without_slots_leaves_it_to_another(place: Place, world: World) -> None:
    job = await world.save(command="true")
    async with working(place, "w1", slots=1) as busy, working(place, "w2") as other:
        await busy.deciding()
        await other.deciding()
        await wait_until(lambda: len(busy.parts.members.accepting()) == 2, description="both are ranked")
        busy.parts.table.running_slots += 1  # its only slot is taken
        plan_ms = SystemClock().wall_ms() - 2000
        run_id = await world.ask(job, plan_ms)
        assert (await world.record(run_id))["worker"] == "w2"
        busy.parts.table.running_slots -= 1


async def test_what_was_handed_on_is_run_by_another(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.save()
    async with working(place, "w1") as one:
        await one.deciding()
        monkeypatch.setattr(Admission, "starts_claimed", False)
        run_id = await world.ask(job, SystemClock().wall_ms())

        async def handed_on() -> bool:
            kv = await world.etcd.get(world.keys.request(run_id))
            return kv is not None and b"handedOn" in kv.value

        await wait_until(handed_on, description="it is handed on")
        await one.agent.spool_refuses("not this one")
        await wait_until(
            lambda: not one.parts.requests.claims_in_flight and not len(one.parts.table),
            description="it has handed on what it was claiming",
        )
        monkeypatch.undo()
        async with working(place, "w2") as other:
            await other.deciding()
            assert (await world.record(run_id))["worker"] == "w2"
            assert len(await world.records()) == 1


async def test_a_claim_whose_answer_was_cut_runs_once(
    place: Place, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = tmp_path / "evidence"
    job = await world.save(command=f"echo x >> {evidence}")
    async with Proxy(place.etcd) as proxy, working(place, etcd=proxy.endpoint, lease_ttl_s=10) as worker:
        await worker.deciding()
        claim = RequestClaim.transaction
        cut: list[int] = []

        def cutting(*arguments: Any) -> Any:
            if not cut:
                cut.append(1)
                proxy.set(Mode.CUT_REPLY)
            return claim(*arguments)

        monkeypatch.setattr(RequestClaim, "transaction", cutting)
        run_id = await world.ask(job, SystemClock().wall_ms())
        record = await world.record(run_id)
        assert record["status"] == "success"
        assert proxy.cuts == 1
        assert evidence.read_text() == "x\n"


@pytest.mark.parametrize("how", ["deleted", "made again", "paused", "killed", "expired"])
async def test_one_that_cannot_run_any_more_gets_its_record_from_the_steward(
    place: Place, world: World, how: str
) -> None:
    job = await world.save()
    await world.etcd.put(world.keys.lock("job"), b"job@5#1")  # nobody can claim it meanwhile
    now_ms = SystemClock().wall_ms()
    async with working(place) as worker:
        await worker.deciding()
        run_id = await world.ask(job, now_ms, expires_ms=now_ms + 100 if how == "expired" else None)
        match how:
            case "deleted":
                await world.etcd.delete(world.keys.job("job"))
            case "made again":
                await world.etcd.delete(world.keys.job("job"))
                await world.save()
            case "paused":
                await world.save(enabled=False)
            case "killed":
                await world.kill(run_id, by="operator")
            case _:
                pass  # time does it
        record = await world.record(run_id)
        expected = {
            "deleted": ("skipped", "deleted"), "made again": ("skipped", "deleted"), "paused": ("skipped", "paused"),
            "killed": ("killed", "before start"),
            "expired": ("missed", "late: it was offered to all workers, and none started it in time"),
        }[how]  # fmt: skip
        assert (record["status"], record["reason"]) == expected
        assert "startTime" not in record
        assert not await world.has(world.keys.request(run_id))


async def test_after_a_fault_is_over_what_waits_is_taken(place: Place, world: World) -> None:
    job = await world.save()
    async with working(place) as worker:
        await worker.deciding()
        await worker.agent.spool_refuses("full")
        run_id = await world.ask(job, SystemClock().wall_ms())
        by_job = worker.parts.requests.by_job
        await wait_until(lambda: "job" in by_job, description="it is seen")
        assert await world.entry(run_id) is None
        await worker.agent.spool_refuses(None)
        assert (await world.record(run_id))["status"] == "success"


async def test_what_makes_up_for_misfires_is_claimed_oldest_first_though_it_takes_no_lock(
    place: Place, world: World
) -> None:
    job = await world.save(overlap="allow")
    now_ms = SystemClock().wall_ms()
    async with three(place):
        puts = []
        for number in range(20):
            request = Request(
                run_id=RunId.planned("job", now_ms + number), origin=Origin.CATCH_UP,
                job_create_revision=job.create_revision, plan_ms=now_ms + number, dispatch_ms=now_ms + number,
                not_before_ms=now_ms, expires_ms=now_ms + 600_000,
            )  # fmt: skip
            puts.append(Put(request.key(world.keys), request.to_json()))
        await world.etcd.txn(Txn([], puts))
        records = await settled(world, 20)
    by_plan = sorted(records, key=lambda one: int(str(one["planTime"])))
    claimed = [int(str(one["fence"])) for one in by_plan]
    assert claimed == sorted(claimed), "each was claimed after the one before it"


async def test_one_jobs_error_keeps_no_other_from_being_planned_anew(
    place: Place, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with working(place) as worker:
        await worker.deciding()
        queue = worker.parts.requests
        rank = queue._rank

        def failing(request: Request) -> int | None:
            if request.run_id.job == "bad":
                raise ZeroDivisionError("a bug that nobody has foreseen")
            return rank(request)

        monkeypatch.setattr(queue, "_rank", failing)
        bad, good = await world.save("bad"), await world.save("good")
        asked = SystemClock().wall_ms()
        await world.ask(bad, asked, name="bad")
        await wait_until(lambda: "bad" in queue.by_job, description="it is seen")
        for _ in range(3):
            queue.replan()
        run_id = await world.ask(good, asked, name="good")
        assert (await world.record(run_id))["status"] == "success"
        assert not worker.task.done()
        assert [getattr(one, "action", "") for one in caplog.records].count("requests of job.set_aside") == 1


async def test_many_jobs_are_planned_anew_in_turns(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        queue = worker.parts.requests
        queue._to_plan.update({f"job-{number}": None for number in range(1000)})
        queue._plan_some()
        assert len(queue._to_plan) == 800, "then others have their turn"
        await wait_until(lambda: not queue._to_plan, description="all are planned")


async def test_garbage_among_requests_is_set_aside(
    place: Place, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    job = await world.save()
    await world.etcd.put(world.keys.request(RunId.planned("job", 1)), b"[" * 50_000)
    await world.etcd.put(world.keys.requests + "job/5/1", b"{}")
    await world.etcd.put(world.keys.requests + "what", b"\xff")
    async with working(place) as worker:
        await worker.deciding()
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert (await world.record(run_id))["status"] == "success"
        assert len([one for one in caplog.records if getattr(one, "action", "") == "request.set_aside"]) == 3
        worker.parts.requests.on_changes([Change(key=world.keys.requests + "what", old_mod=1, new=None)])
