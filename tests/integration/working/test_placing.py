"""Which worker runs what: selectors, slots, broadcast and drains, on workers that run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.clock import SystemClock
from common.protocol.drain import Drain
from common.protocol.keys import encode_mark
from common.protocol.txn import Delete, KeyValue, Put, Txn
from tests.support.waiting import wait_until
from tests.support.working import Place, Working, World, working

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]

SECOND = "* * * * * * *"


@asynccontextmanager
async def workers(place: Place, **changes: Mapping[str, Any]) -> AsyncIterator[dict[str, Working]]:
    """These workers, each with its own configuration; all of them decide, and know of each other."""
    async with AsyncExitStack() as stack:
        found = {
            name: await stack.enter_async_context(working(place, name, **config)) for name, config in changes.items()
        }
        for worker in found.values():
            await worker.deciding()
        for worker in found.values():
            await knows(worker, *found)
        yield found


async def knows(worker: Working, *names: str) -> None:
    members = worker.parts.members
    description = f"{worker.identity.worker} ranks {names}"
    await wait_until(lambda: set(members.accepting()) == set(names), description=description)


async def drain(world: World, name: str, reason: str = "new kernel") -> None:
    value = Drain(by="me", since_ms=1, reason=reason).to_json()
    await world.etcd.put(world.keys.drain(name), value)


async def undrain(world: World, name: str) -> None:
    await world.etcd.delete(world.keys.drain(name))


def one_fire(at_ms: int) -> str:
    """The expression of this whole second alone."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{at.second} {at.minute} {at.hour} {at.day} {at.month} * {at.year}"


def whole_second(after_ms: int = 0) -> int:
    return (SystemClock().wall_ms() + after_ms) // 1000 * 1000


async def fired(world: World, count: int, job: str = "job") -> list[dict[str, Any]]:
    """The records of the job, once there are so many."""

    async def there() -> bool:
        return len(await world.records(job)) >= count

    await wait_until(there, description=f"{count} fires are recorded")
    return await world.records(job)


async def all_fired(world: World, last_ms: int, names: set[str], job: str = "job") -> list[dict[str, Any]]:
    """The records of the broadcast job, once each of these workers has one of this fire."""

    async def there() -> bool:
        records = await world.records(job)
        return {one["worker"] for one in records if one["planTime"] == last_ms} >= names

    await wait_until(there, description=f"{names} have fired at {last_ms}")
    return await world.records(job)


def by_worker(records: list[dict[str, Any]]) -> dict[str, set[int]]:
    plans: dict[str, set[int]] = {}
    for record in records:
        assert record["planTime"] not in plans.setdefault(record["worker"], set()), f"twice: {record}"
        plans[record["worker"]].add(record["planTime"])
    return plans


# Selectors


async def test_only_workers_with_the_labels_run_it(place: Place, world: World) -> None:
    config: dict[str, Mapping[str, Any]] = {
        "w1": {"labels": {"zone": "eu"}}, "w2": {"labels": {"zone": "us"}},
        "w3": {"labels": {"zone": "eu", "gpu": "a100"}},
    }  # fmt: skip
    async with workers(place, **config):
        anyhow: dict[str, Any] = {"cron": SECOND, "overlap": "allow", "misfire": {"policy": "skip"}}
        await world.save(**anyhow, workers={"zone": ["eu", "ap"]})
        await world.save("gpu", **anyhow, workers={"zone": "eu", "gpu": ["a100", "h100"]})
        records = await fired(world, 6) + await fired(world, 4, "gpu")
        assert {record["status"] for record in records} == {"success"}
        assert {one["worker"] for one in records if one["jobName"] == "job"} <= {"w1", "w3"}
        assert {one["worker"] for one in records if one["jobName"] == "gpu"} == {"w3"}


async def test_requests_keep_to_the_selector(place: Place, world: World) -> None:
    async with workers(place, w1={"labels": {"zone": "eu"}}, w2={}, w3={}):
        job = await world.save(workers={"zone": "eu"}, overlap="allow")
        now_ms = SystemClock().wall_ms()
        for number in range(12):
            await world.ask(job, now_ms + number)
        records = await fired(world, 12)
        assert Counter(record["worker"] for record in records) == {"w1": 12}


async def test_labels_change_with_a_restart_and_a_request_finds_the_worker(place: Place, world: World) -> None:
    job = await world.save(workers={"zone": "eu"})
    async with working(place, "w1", labels={"zone": "us"}) as worker:
        await worker.deciding()
        run_id = await world.ask(job, whole_second())
        await wait_until(lambda: run_id.job in worker.parts.requests.by_job, description="the request is seen")
        assert not await world.entries()
    async with working(place, "w1", labels={"zone": "eu"}) as worker:
        await worker.deciding()
        assert (await world.record(run_id))["status"] == "success"


async def test_an_edit_of_the_selector_lets_a_waiting_request_go(place: Place, world: World) -> None:
    job = await world.save(workers={"zone": "eu"})
    async with working(place, "w1") as worker:
        await worker.deciding()
        run_id = await world.ask(job, whole_second())
        await wait_until(lambda: run_id.job in worker.parts.requests.by_job, description="the request is seen")
        await world.save()
        assert (await world.record(run_id))["worker"] == "w1"


# Slots


async def test_a_job_of_several_slots_is_not_starved_by_small_ones(place: Place, world: World, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    async with working(place, "w1", slots=3) as worker:
        await worker.deciding()
        for number in range(6):
            await world.save(f"small-{number}", "sleep 0.7", SECOND, overlap="allow", misfire={"graceSeconds": 20})
        await fired(world, 2, "small-5")
        job = await world.save(command=f"echo begin >> {evidence}; sleep 0.3; echo end >> {evidence}", slots=3)
        run_id = await world.ask(job, whole_second())
        record = await world.record(run_id)
        assert record["status"] == "success"
        smalls = [one for number in range(6) for one in await world.records(f"small-{number}")]
        beside = [
            one for one in smalls
            if one.get("startTime") and one["startTime"] < record["endTime"] and one["endTime"] > record["startTime"]
        ]  # fmt: skip
        assert not beside, "it had all slots"
        assert worker.parts.table.kept_from("nobody") <= 1, "the small ones wait for one slot each"


async def test_a_request_of_one_slot_is_not_starved_by_fires(place: Place, world: World) -> None:
    """Fires are claimed ahead of the slots that come free: it has its share all the same, the more urgent one first."""
    async with working(place, "w1", slots=2) as worker:
        await worker.deciding()
        for number in range(4):
            await world.save(f"small-{number}", "sleep 0.9", SECOND, overlap="allow", misfire={"policy": "skip"})
        await fired(world, 2, "small-3")
        urgent = await world.ask(await world.save("urgent", priority=100), whole_second(), name="urgent")
        other = await world.ask(await world.save("other"), whole_second(), name="other")
        records = [await world.record(run_id) for run_id in (urgent, other)]
        assert [record["status"] for record in records] == ["success", "success"]
        assert records[0]["startTime"] <= records[1]["startTime"]


async def test_runs_take_as_many_slots_as_they_ask_for(place: Place, world: World) -> None:
    async with working(place, "w1", slots=4) as worker:
        await worker.deciding()
        job = await world.save(command="sleep 0.4", slots=2, overlap="allow")
        now_ms = SystemClock().wall_ms()
        most = 0
        for number in range(5):
            await world.ask(job, now_ms + number)

        async def done() -> bool:
            nonlocal most
            most = max(most, worker.parts.table.running)
            assert worker.parts.table.running_slots <= 4
            return len(await world.records()) == 5

        await wait_until(done, description="all have run")
        assert most == 2


# Broadcast


async def test_a_broadcast_job_runs_on_every_worker_once_a_fire(place: Place, world: World) -> None:
    async with workers(place, w1={}, w2={}, w3={}):
        await world.save(cron=SECOND, broadcast=True, command="echo $ETCRON_JOB $ETCRON_RUN_ID on $ETCRON_WORKER")
        last_ms = whole_second(3000)
        records = await all_fired(world, last_ms, {"w1", "w2", "w3"})
        assert {record["status"] for record in records} == {"success"}
        plans = {name: {ms for ms in each if ms <= last_ms} for name, each in by_worker(records).items()}
        assert plans["w1"] == plans["w2"] == plans["w3"]
        assert len(plans["w1"]) >= 3
        record = next(one for one in records if one["worker"] == "w2")
        run = await world.runlog.run(record["_id"])
        assert run is not None
        assert run["output"] == f"job {record['_id']} on w2\n"
        assert record["_id"].startswith("job~w2@")


async def test_who_is_away_owes_nothing_and_who_joins_takes_part_from_the_next_fire(place: Place, world: World) -> None:
    async with working(place, "w1") as first:
        async with working(place, "w2") as second:
            await first.deciding()
            await second.deciding()
            await world.save(cron=SECOND, broadcast=True, overlap="allow")
            await all_fired(world, whole_second(2000), {"w1", "w2"})
        stopped_ms = whole_second(1000)
        await all_fired(world, stopped_ms + 2000, {"w1"})
        async with working(place, "w3") as third:
            await third.deciding()
            joined_ms = whole_second(1000)
            await all_fired(world, joined_ms + 2000, {"w1", "w3"})
        async with working(place, "w2") as second:
            await second.deciding()
            back_ms = whole_second(1000)
            records = await all_fired(world, back_ms + 1000, {"w1", "w2"})
    plans = by_worker(records)
    assert {record["status"] for record in records} == {"success"}
    assert not {ms for ms in plans["w2"] if stopped_ms <= ms < back_ms - 1000}
    assert min(plans["w3"]) >= joined_ms - 2000
    assert {joined_ms, joined_ms + 1000} <= plans["w3"]


async def test_each_workers_own_lock_decides_its_overlap(place: Place, world: World, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.touch()
    async with workers(place, w1={}, w2={}):
        await world.save(
            cron=SECOND, broadcast=True, command=f"if [ $ETCRON_WORKER = w1 ] && [ -e {slow} ]; then sleep 30; fi"
        )
        records = await all_fired(world, whole_second(4000), {"w2"})
        assert {one["status"] for one in records if one["worker"] == "w2"} == {"success"}

        async def skipped() -> bool:
            return any(one["worker"] == "w1" and one["status"] == "skipped" for one in await world.records())

        await wait_until(skipped, description="w1 skips for its own run")
        record = next(one for one in await world.records() if one["status"] == "skipped")
        assert record["reason"].startswith("overlap: job~w1@")
        assert await world.has(world.keys.lock("job~w1"))


async def test_a_broadcast_job_keeps_to_the_selector(place: Place, world: World) -> None:
    async with workers(place, w1={"labels": {"zone": "eu"}}, w2={"labels": {"zone": "us"}}, w3={"slots": 1}):
        await world.save(cron=SECOND, broadcast=True, workers={"zone": ["eu", "us"]}, slots=2)
        records = await all_fired(world, whole_second(3000), {"w1", "w2"})
        assert {record["worker"] for record in records} == {"w1", "w2"}


async def test_an_edit_pause_and_deletion_of_a_broadcast_job_leave_no_fire_undecided(
    place: Place, world: World
) -> None:
    async with workers(place, w1={}, w2={}) as both:
        await world.save(cron=SECOND, broadcast=True)
        begun_ms = whole_second(1000)
        await all_fired(world, whole_second(2000), {"w1", "w2"})
        await world.save(cron=SECOND, broadcast=True, command="true edited")
        await all_fired(world, whole_second(2000), {"w1", "w2"})
        deleted_ms = SystemClock().wall_ms()
        await world.etcd.txn(Txn([], [
            Delete(world.keys.job("job")), Put(world.keys.mark("job"), encode_mark(deleted_ms)),
        ]))  # fmt: skip
        for worker in both.values():
            await wait_until(lambda one=worker: not one.parts.catalog.sequences, description="it is closed")  # type: ignore[misc]
        for name in ("w1", "w2"):
            mark = await world.etcd.get(world.keys.mark(f"job~{name}"))
            assert mark is not None
            assert int(mark.value) >= deleted_ms

        async def complete() -> bool:
            plans = by_worker(await world.records())
            wanted = set(range(begun_ms, deleted_ms + 1, 1000))
            return all(wanted <= plans[name] for name in ("w1", "w2"))

        await wait_until(complete, description="every fire of both has one record")


async def test_a_retry_of_a_broadcast_run_stays_on_its_worker(place: Place, world: World, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    failed.mkdir()
    async with workers(place, w1={}, w2={}, w3={}):
        at_ms = whole_second(2000)
        await world.save(
            cron=one_fire(at_ms), broadcast=True, retry={"limit": 2, "delaySeconds": 0, "otherWorker": True},
            command=f"mkdir {failed}/$ETCRON_WORKER 2>/dev/null && exit 1; echo $ETCRON_ATTEMPT",
        )  # fmt: skip
        records = await fired(world, 6)
        found = {(one["_id"], one["worker"], one["status"]) for one in records}
        wanted = [
            (name, number, status) for name in ("w1", "w2", "w3") for number, status in ((1, "failed"), (2, "success"))
        ]
        assert found == {(f"job~{name}@{at_ms}#{number}", name, status) for name, number, status in wanted}


async def test_a_lost_session_begins_anew_and_its_runs_go_on(place: Place, world: World) -> None:
    async with workers(place, w1={}, w2={}) as both:
        await world.save(cron=SECOND, broadcast=True, overlap="allow")
        await world.save("long", "sleep 3; echo to the end", SECOND, broadcast=True)
        await all_fired(world, whole_second(2000), {"w1", "w2"})
        first = both["w1"].session
        await world.etcd.lease_revoke(first.lease_id)
        await both["w1"].deciding_after(first)
        records = await all_fired(world, whole_second(3000), {"w1", "w2"})
        assert {record["status"] for record in records} == {"success"}
        by_worker(records)

        async def ended() -> bool:
            return any(one["worker"] == "w1" and one["status"] == "success" for one in await world.records("long"))

        await wait_until(ended, description="the long run on w1 is recorded")


async def test_a_request_of_a_worker_that_never_comes_back_is_missed(place: Place, world: World) -> None:
    async with working(place, "w1") as worker:
        await worker.deciding()
        job = await world.save(broadcast=True, misfire={"graceSeconds": 1, "windowSeconds": 1})
        run_id = await world.ask(job, whole_second(), name="job~gone")
        record = await world.record(run_id)
        assert (record["status"], record["jobName"]) == ("missed", "job")
        assert record["reason"] == "no eligible worker: gone is not live"


# Drains


async def session_of(world: World, name: str) -> dict[str, Any]:
    (kv,) = await world.sessions(name)
    document: dict[str, Any] = json.loads(kv.value)
    return document


async def test_a_drained_worker_takes_nothing_new_and_says_why(place: Place, world: World) -> None:
    async with workers(place, w1={}, w2={}) as both:
        job = await world.save(overlap="allow")
        long = await world.save("long", "sleep 2; echo to the end", SECOND)
        await drain(world, "w1")
        await knows(both["w2"], "w2")
        assert (await session_of(world, "w1"))["notAccepting"] == "drained by me: new kernel"
        now_ms = SystemClock().wall_ms()
        for number in range(8):
            await world.ask(job, now_ms + number)
        assert {record["worker"] for record in await fired(world, 8)} == {"w2"}
        await undrain(world, "w1")
        await knows(both["w2"], "w1", "w2")
        await wait_until(both["w1"].is_deciding, description="w1 decides again")
        assert long.value


async def test_what_runs_on_a_drained_worker_goes_on_and_what_waits_is_handed_on(place: Place, world: World) -> None:
    async with workers(place, w1={"slots": 1, "labels": {"here": "yes"}}, w2={"labels": {"there": "yes"}}) as both:
        going = await world.save("going", "sleep 2; echo done", workers={"here": "yes"})
        run_id = await world.ask(going, whole_second(), name="going")
        await wait_until(lambda: both["w1"].running() == [run_id], description="it runs")
        waiting = await world.save("waiting", cron=SECOND, misfire={"graceSeconds": 30})
        await drain(world, "w1")
        records = await fired(world, 3, "waiting")
        assert {record["worker"] for record in records} == {"w2"}
        record = await world.record(run_id)
        assert (record["status"], record["output"], record["worker"]) == ("success", "done\n", "w1")
        assert waiting.value


async def test_a_drain_outlives_the_worker(place: Place, world: World) -> None:
    await drain(world, "w1")
    await drain(world, "w10", "not for w1")
    async with working(place, "w1") as worker:
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it is there")
        assert not worker.is_deciding()
        await undrain(world, "w1")
        await worker.deciding()
    async with working(place, "w10") as worker:
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it is there")
        assert not worker.is_deciding()


async def test_a_drain_that_cannot_be_read_is_one(place: Place, world: World) -> None:
    await world.etcd.put(world.keys.drain("w1"), b"\xff garbage")
    async with working(place, "w1") as worker:
        await wait_until(lambda: worker.parts.scheduler.session is not None, description="it is there")
        assert not worker.is_deciding()
        assert "cannot be read" in (worker.parts.registry.not_accepting or "")


async def test_a_drain_that_comes_while_the_session_is_lost_counts(place: Place, world: World) -> None:
    async with working(place, "w1") as worker:
        await worker.deciding()
        first = worker.session
        await world.etcd.lease_revoke(first.lease_id)
        await drain(world, "w1")
        await wait_until(
            lambda: worker.parts.scheduler.session not in (None, first) and not worker.is_deciding(),
            description="the next session is drained",
        )


async def test_a_drained_worker_owes_nothing_of_a_broadcast_job(place: Place, world: World) -> None:
    async with workers(place, w1={}, w2={}) as both:
        await world.save(cron=SECOND, broadcast=True)
        await all_fired(world, whole_second(2000), {"w1", "w2"})
        await drain(world, "w1")
        await knows(both["w2"], "w2")
        drained_ms = whole_second(2000)
        await all_fired(world, drained_ms + 2000, {"w2"})
        await undrain(world, "w1")
        await knows(both["w2"], "w1", "w2")
        back_ms = whole_second()
        records = await all_fired(world, back_ms + 2000, {"w1", "w2"})
        assert {record["status"] for record in records} == {"success"}
        assert not {ms for ms in by_worker(records)["w1"] if drained_ms <= ms < back_ms - 1000}


async def test_a_drained_worker_that_is_alone_hands_on_and_takes_it_again(place: Place, world: World) -> None:
    async with working(place, "w1", slots=1) as worker:
        await worker.deciding()
        saved: KeyValue = await world.save("going", "sleep 1.5")
        run_id = await world.ask(saved, whole_second(), name="going")
        await wait_until(lambda: worker.running() == [run_id], description="it runs")
        job = await world.save(cron="*/30 * * * * * *", misfire={"graceSeconds": 30})
        asked = await world.ask(job, whole_second() - 1)
        await drain(world, "w1")
        await wait_until(lambda: not worker.is_deciding(), description="it is drained")
        await world.record(run_id)
        assert await world.has(world.keys.request(asked))
        await undrain(world, "w1")
        assert (await world.record(asked))["status"] == "success"
