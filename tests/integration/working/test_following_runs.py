"""Retries, reruns and chains, by whole workers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.jobs.reader import parse_job
from common.protocol.chain import link_at
from common.protocol.keys import RunId, Watched, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.run import Trigger
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Put, Txn
from common.verdicts import Verdict
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


async def records_of(world: World, run_id: RunId, attempts: int) -> list[dict[str, Any]]:
    return [await world.record(RunId(run_id.job, run_id.fire, attempt)) for attempt in range(1, attempts + 1)]


async def nothing_left(world: World, job: str = "job") -> None:
    async def is_clean() -> bool:
        run_keys = [run_id for run_id in await world.entries() if run_id.job == job]
        return not run_keys and not await world.requests(job) and not await world.has(world.keys.lock(job))

    await wait_until(is_clean, description="nothing is left in etcd")


async def test_fails_twice_and_then_succeeds_as_one_fire_of_three_attempts(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        retry = {"limit": 4, "delaySeconds": 0.5, "backoff": 2}
        job = await world.save(command="echo attempt $ETCRON_ATTEMPT; test $ETCRON_ATTEMPT = 3", retry=retry)
        run_id = await world.ask(job, SystemClock().wall_ms())
        first, second, third = await records_of(world, run_id, 3)
        assert [one["status"] for one in (first, second, third)] == ["failed", "failed", "success"]
        assert [one["trigger"] for one in (first, second, third)] == ["schedule", "retry", "retry"]
        assert third["output"] == "attempt 3\n"
        assert len({one["planTime"] for one in (first, second, third)}) == 1
        assert third["createTime"] == first["createTime"]
        assert second["startTime"] >= second["scheduleTime"] >= first["endTime"] + 500
        assert third["startTime"] >= third["scheduleTime"] >= second["endTime"] + 1000
        await nothing_left(world)
        results = (await world.runlog.job_results(["job"]))["job"]
        assert results.last is not None
        assert (results.last["status"], results.last["attempt"]) == ("success", 3)
        assert [one["runId"] for one in results.recent] == [str(RunId("job", run_id.fire, 3))]
        assert len(await world.records()) == 3


async def test_attempts_are_used_up_and_the_last_failure_is_the_verdict(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        job = await world.save(command="exit 7", retry={"limit": 2, "delaySeconds": 0}, overlap="allow")
        run_id = await world.ask(job, SystemClock().wall_ms())
        assert [one["exitCode"] for one in await records_of(world, run_id, 3)] == [7, 7, 7]
        await nothing_left(world)
        assert len(await world.records()) == 3


async def test_retry_goes_to_the_other_worker(place: Place, world: World) -> None:
    async with working(place) as first, working(place, "w2") as second:
        await first.deciding()
        await second.deciding()
        await wait_until(lambda: len(first.parts.members.accepting()) == 2, description="they know each other")
        await wait_until(lambda: len(second.parts.members.accepting()) == 2, description="they know each other")
        command = "test $ETCRON_ATTEMPT = 2"
        job = await world.save(command=command, retry={"limit": 1, "delaySeconds": 0, "otherWorker": True})
        run_id = await world.ask(job, SystemClock().wall_ms())
        one, two = await records_of(world, run_id, 2)
        assert {one["worker"], two["worker"]} == {"w1", "w2"}


async def test_run_that_was_killed_by_the_shutdown_of_its_worker_is_run_again_elsewhere(
    place: Place, world: World
) -> None:
    async with AsyncExitStack() as stack:
        workers = {name: await stack.enter_async_context(working(place, name)) for name in ("w1", "w2")}
        for worker in workers.values():
            await worker.deciding()
        job = await world.save(command="test $ETCRON_ATTEMPT = 2 || sleep 60", onWorkerLost="rerun")
        run_id = await world.ask(job, SystemClock().wall_ms())
        await wait_until(lambda: any(one.running() for one in workers.values()), description="it runs")
        [busy] = [one for one in workers.values() if one.running()]
        busy.stop.request("a restart")
        one, two = await records_of(world, run_id, 2)
        assert (one["status"], one["reason"]) == ("killed", "worker shutdown")
        assert (two["status"], two["trigger"]) == ("success", "rerun")
        assert one["worker"] != two["worker"]
        await nothing_left(world)


async def test_each_worker_of_a_broadcast_tries_its_own_run_again(place: Place, world: World) -> None:
    async with working(place) as first, working(place, "w2") as second:
        await first.deciding()
        await second.deciding()
        await world.save(
            command="test $ETCRON_ATTEMPT = 2", cron="* * * * * * *", broadcast=True, overlap="allow",
            retry={"limit": 1, "delaySeconds": 0, "otherWorker": True},
        )  # fmt: skip

        async def both_have() -> bool:
            succeeded = [one for one in await world.records() if one["status"] == "success"]
            return {one["worker"] for one in succeeded} == {"w1", "w2"}

        await wait_until(both_have, description="each has succeeded at its second attempt")
        for one in await world.records():
            assert one["_id"].startswith(f"job~{one['worker']}@")
            assert one["status"] == ("failed" if one["attempt"] == 1 else "success")


async def test_newer_fire_takes_the_place_of_a_retry(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        retry = {"limit": 1, "delaySeconds": 3}
        await world.save(command="exit 1", cron="* * * * * * *", retry=retry)

        async def is_overtaken() -> bool:
            return any(one["attempt"] == 2 for one in await world.records())

        await wait_until(is_overtaken, description="a retry has its record")
        [overtaken, *_] = [one for one in await world.records() if one["attempt"] == 2]
        assert (overtaken["status"], overtaken["reason"].split(":")[0]) == ("skipped", "overlap")


# The chain


async def save_chain(world: World, command: str, after: str) -> None:
    """As a manager saves it: with its first link, in one transaction."""
    spec = parse_job({"name": "job", "command": command, "after": after})
    now_ms = SystemClock().wall_ms()
    link = link_at(spec, now_ms, job_create_revision=0)
    assert link is not None
    keys = world.keys
    await world.etcd.txn(Txn([], [
        Put(keys.job("job"), SavedJob(spec=spec, anchor_ms=now_ms).to_json()), Put(keys.seen(Watched.JOBS), b""),
        Put(keys.mark("job"), encode_mark(now_ms)), Put(keys.chain("job"), link.to_json()),
        Put(keys.seen(Watched.REQUESTS), b""),
    ]))  # fmt: skip


async def successes(world: World) -> list[dict[str, Any]]:
    return sorted(
        (one for one in await world.records() if one["status"] == "success"), key=lambda one: int(one["startTime"])
    )


async def runs_again(world: World, times: int) -> list[dict[str, Any]]:
    async def are_there() -> bool:
        return len(await successes(world)) >= times

    await wait_until(are_there, description=f"it has run {times} times")
    return await successes(world)


def gaps_ms(records: list[dict[str, Any]]) -> list[int]:
    """From the end of each run to the start of the next one."""
    return [int(later["startTime"]) - int(former["endTime"]) for former, later in pairwise(records)]


async def test_chain_on_three_workers_keeps_its_delay_and_never_overlaps(
    place: Place, world: World, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(working(place, f"w{number}")) for number in (1, 2, 3)]
        for worker in workers:
            await worker.deciding()
        directory = tmp_path / "alone"
        await save_chain(world, f"mkdir {directory} || exit 9; sleep 0.2; rmdir {directory}", "1s")
        records = await runs_again(world, 6)
        gaps = gaps_ms(records)
        assert min(gaps) >= 1000
        assert {later["planTime"] - former["endTime"] for former, later in pairwise(records)} == {1000}
        assert {one["status"] for one in await world.records()} == {"success"}
        assert len(await world.requests()) <= 1
        stop = workers[0].stop
        stop.request("a restart")  # the chain goes on without it
        later = await runs_again(world, len(records) + 3)
        assert min(gaps_ms(later)) >= 1000
        assert {one["status"] for one in await world.records()} == {"success"}


async def test_run_now_moves_the_next_link_and_adds_none(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        await save_chain(world, "true", "60s")
        [first] = await runs_again(world, 1)
        await wait_until(lambda: chain_of(worker), description="the next link is seen")
        job = await world.etcd.get(world.keys.job("job"))
        assert job is not None
        now_ms = SystemClock().wall_ms()
        asked = Request(
            run_id=RunId("job", "r-1"), origin=Origin.RUN_NOW, job_create_revision=job.create_revision, plan_ms=now_ms,
            dispatch_ms=now_ms, not_before_ms=now_ms, trigger=Trigger.API,
        )  # fmt: skip
        puts = [Put(asked.key(world.keys), asked.to_json()), Put(world.keys.seen(Watched.REQUESTS), b"")]
        await world.etcd.txn(Txn([], puts))
        _, second = await runs_again(world, 2)

        async def has_moved() -> bool:
            link = await world.link()
            return link is not None and link.plan_ms == second["endTime"] + 60_000

        await wait_until(has_moved, description="the link has moved")
        assert second["runId" if "runId" in second else "_id"] == "job@r-1#1"
        assert first["endTime"] <= second["startTime"]
        assert len(await world.requests()) == 1


def chain_of(worker: Working) -> bool:
    return "job" in worker.parts.requests.by_job


async def test_broken_chain_goes_on(place: Place, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with working(place) as worker:
        monkeypatch.setattr(worker.parts.chains, "every_s", 0.5)
        await worker.deciding()
        await world.save(after="1s")  # without a link: as if somebody had deleted it
        await runs_again(world, 2)
        await world.save("never", after="1s", enabled=False)
        await asyncio.sleep(0)
        assert await world.link("never") is None


async def test_failed_link_is_tried_again_and_the_next_link_waits_for_it(place: Place, world: World) -> None:
    async with working(place) as worker:
        await worker.deciding()
        spec: dict[str, Any] = {"command": "test $ETCRON_ATTEMPT = 2", "retry": {"limit": 1, "delaySeconds": 1}}
        await world.save(after="60s", **spec)
        job = await world.etcd.get(world.keys.job("job"))
        assert job is not None
        link = link_at(SavedJob.from_json(job.value, name="job").spec, 5000, job_create_revision=job.create_revision)
        assert link is not None
        await world.etcd.txn(
            Txn([], [Put(world.keys.chain("job"), link.to_json()), Put(world.keys.seen(Watched.REQUESTS), b"")])
        )
        one, two = await records_of(world, link.run_id, 2)
        assert (one["status"], two["status"]) == (Verdict.FAILED, Verdict.SUCCESS)

        async def goes_on() -> bool:
            after = await world.link()
            return after is not None and after.plan_ms == two["endTime"] + 60_000

        await wait_until(goes_on, description="the next link follows the last attempt")
