"""Jitter, calendars, windows and the other triggers, as one worker decides their fires; time moves only when told."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from common.etcd import EtcdClient
from common.jobs.job import MisfirePolicy
from common.verdicts import Verdict
from tests.support.deciding import MINUTE, NOON, SECOND, World, planning
from tests.support.etcd_metrics import transactions_since
from tests.support.waiting import wait_until

MINUTELY = "0 * * * * * *"
HOUR, DAY = 60 * MINUTE, 24 * 60 * MINUTE
TODAY = datetime.fromtimestamp(NOON / 1000, UTC).date()
MIDNIGHT = int(datetime.combine(TODAY, datetime.min.time(), UTC).timestamp()) * 1000


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat()


def day(offset: int = 0) -> str:
    return (TODAY + timedelta(offset)).isoformat()


# Jitter


async def test_fire_with_jitter_is_claimed_ahead_of_its_dispatch_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, jitterSeconds=50)
        for minute in (1, 2, 3):
            plan_ms = NOON + minute * MINUTE
            due_ms = world.jobs["job"].dispatch_ms(plan_ms)
            assert due_ms - plan_ms > 200
            world.at(plan_ms)
            await world.settled()
            world.at(due_ms - 201)
            await world.settled()
            assert await world.mark() == plan_ms - MINUTE
            world.at(due_ms - 200)
            await world.mark_comes_to(plan_ms)
            entry = (await world.runs())[plan_ms]
            assert (entry.plan_ms, entry.dispatch_ms) == (plan_ms, due_ms)
            await world.unlock()
        assert (
            world.planners[0].won_results[0].proposal.start_by_ms
            == world.jobs["job"].dispatch_ms(NOON + MINUTE) + MINUTE
        )


async def test_second_in_rank_hedges_after_the_dispatch_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        world.rank("dead", "w2")
        await world.save(cronExpr=MINUTELY, jitterSeconds=50)
        due_ms = world.jobs["job"].dispatch_ms(NOON + MINUTE)
        for moment in (NOON + MINUTE + 500, due_ms, due_ms + 499):
            world.at(moment)
            await world.settled()
            assert await world.mark() == NOON
        world.at(due_ms + 500)
        await world.mark_comes_to(NOON + MINUTE)


@pytest.mark.parametrize("policy", list(MisfirePolicy))
@pytest.mark.parametrize("why", ["a look afresh", "a jump of the clock", "a new worker", "an edit"])
async def test_fire_still_to_be_dispatched_is_neither_claimed_early_nor_a_misfire(
    client: EtcdClient, prefix: str, policy: str, why: str
) -> None:
    async with planning(client, prefix, start=why != "a new worker") as world:
        fields: dict[str, Any] = {"cronExpr": MINUTELY, "jitterSeconds": 50, "overlap": "allow"}
        await world.save(misfire={"policy": policy, "graceSeconds": 1}, anchor_ms=NOON + MINUTE - 1, **fields)
        due_ms = world.jobs["job"].dispatch_ms(NOON + MINUTE)
        planner = world.planners[0]
        world.at(NOON + MINUTE + SECOND)
        match why:
            case "a look afresh":
                planner.scheduler.look_afresh("a test")
            case "a jump of the clock":
                planner.scheduler.clock_jumped()
            case "a new worker":
                planner.begin()
            case _:
                await world.save(
                    misfire={"policy": policy, "graceSeconds": 2}, anchor_ms=NOON + MINUTE - 1, **fields
                )  # fmt: skip
        for moment in (NOON + MINUTE + 2 * SECOND, due_ms - 201):
            world.at(max(moment, world.clock.wall_ms()))
            await world.settled()
            assert await world.mark() == NOON + MINUTE - 1
        world.at(due_ms)
        await world.mark_comes_to(NOON + MINUTE)
        assert (planner.wins, planner.records) == ([NOON + MINUTE], [])


async def test_made_up_for_expires_by_its_dispatch_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        misfire = {"policy": "all", "graceSeconds": 10, "windowSeconds": 600, "limit": 3}
        await world.save(cronExpr=MINUTELY, jitterSeconds=50, misfire=misfire)
        job = world.jobs["job"]
        now_ms = job.dispatch_ms(NOON + 5 * MINUTE) - 201  # the fifth is still to come
        world.at(now_ms)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + 4 * MINUTE)
        requests = await world.requests()
        assert [one.plan_ms for one in requests] == [NOON + minute * MINUTE for minute in (2, 3, 4)]
        assert all(one.expires_ms == job.dispatch_ms(one.plan_ms) + 600 * SECOND for one in requests)


# Calendar


async def test_fire_that_the_calendar_closes_is_skipped_at_its_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=0) as world:
        await world.save(cronExpr=MINUTELY, calendar={"exclude": [day()]})
        await world.lock()
        for minute in (1, 2):
            world.at(NOON + minute * MINUTE)
            await world.mark_comes_to(NOON + minute * MINUTE)
        records = world.planners[0].records
        assert [(one.status, one.reason, one.count) for one in records] == [(Verdict.SKIPPED, "calendar", None)] * 2
        assert world.planners[0].wins == []


async def test_it_does_not_wait_behind_those_that_wait_for_a_slot(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=0) as world:
        for number in range(5):
            await world.save(f"waits{number}", cronExpr=MINUTELY, priority=100)
        await world.save("closed", cronExpr=MINUTELY, calendar={"include": [day(1)]}, priority=-100)
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE, "closed")
        assert world.planners[0].scheduler.waiting == 5


async def test_it_waits_a_moment_at_most_while_enough_is_claimed_ahead(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        planner = world.planners[0]
        await world.save("waits", cronExpr=MINUTELY, priority=100)
        await world.save("closed", cronExpr=MINUTELY, calendar={"exclude": [day()]})
        world.at(NOON + MINUTE - 250)
        await world.settled()
        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(planner.table, "has_enough", lambda now: True)
            world.at(NOON + MINUTE - 200)
            await world.settled()
            assert await world.mark("closed") == NOON, "it goes with what comes within the moment"
            world.at(NOON + MINUTE)
            await world.mark_comes_to(NOON + MINUTE, "closed")
            assert planner.wins == []
        world.at(NOON + MINUTE + 1)
        await world.mark_comes_to(NOON + MINUTE, "waits")


async def test_many_that_are_found_late_are_one_range(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(calendar={"exclude": [day()]}, misfire={"policy": "all"})
        world.at(NOON + 300 * SECOND)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + 300 * SECOND)
        await wait_until(lambda: world.planners[0].records != [], description="the record")
        (record,) = world.planners[0].records
        assert (record.status, record.reason, record.count) == (Verdict.SKIPPED, "calendar", 300)
        assert (record.plan_ms, record.range_end_ms) == (NOON + SECOND, NOON + 300 * SECOND)
        assert await client.count(world.keys.requests) == 0


@pytest.mark.parametrize(("policy", "made_up"), [("skip", 0), ("latest", 1), ("all", 3)])
async def test_misfires_are_made_up_for_with_open_fires_where_closed_ones_came_later(
    client: EtcdClient, prefix: str, policy: str, made_up: int
) -> None:
    """Open until midnight, closed since; the workers come back two hours into the closed day."""
    async with planning(client, prefix, start=False) as world:
        misfire = {"policy": policy, "windowSeconds": DAY // SECOND, "limit": 3}
        evening = MIDNIGHT + DAY - 10 * MINUTE
        await world.save(
            cronExpr=MINUTELY, calendar={"exclude": [day(1)]}, misfire=misfire, anchor_ms=evening, overlap="allow"
        )
        world.at(MIDNIGHT + DAY + 2 * HOUR)
        world.planners[0].begin()
        await world.mark_comes_to(MIDNIGHT + DAY + 2 * HOUR)
        await wait_until(lambda: len(world.planners[0].records) == 2, description="both ranges")
        last_open = MIDNIGHT + DAY - MINUTE
        missed, closed = sorted(world.planners[0].records, key=lambda one: one.plan_ms)
        assert (missed.status, missed.count) == (Verdict.MISSED, 9 - made_up)
        assert (closed.reason, closed.count, closed.plan_ms) == ("calendar", 121, MIDNIGHT + DAY)
        newest = [last_open - ago * MINUTE for ago in reversed(range(made_up))]
        assert world.planners[0].wins == (newest if policy == "latest" else [])
        assert [one.plan_ms for one in await world.requests()] == (newest if policy == "all" else [])


async def test_first_open_fire_after_closed_days_runs_in_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        midnight = MIDNIGHT + DAY
        await world.save(cronExpr="0 0 * * * * *", calendar={"exclude": [day()]}, anchor_ms=midnight - 3 * HOUR)
        world.at(midnight - 200)
        await world.mark_comes_to(midnight)
        assert world.planners[0].wins == [midnight]
        (record,) = world.planners[0].records
        assert (record.reason, record.count) == ("calendar", 2)


async def test_what_is_closed_behind_one_that_waits_for_the_lock_follows_it(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        midnight = MIDNIGHT + DAY
        await world.save(
            cronExpr=MINUTELY, overlap="queue", calendar={"exclude": [day(1)]}, anchor_ms=midnight - 3 * MINUTE
        )
        await world.lock()
        world.at(midnight + 5 * MINUTE)
        pending = world.planners[0].scheduler._pending_of["job"]
        await wait_until(lambda: pending.parked, description="it waits for the lock")
        assert await world.mark() == midnight - 3 * MINUTE
        await world.unlock()
        world.planners[0].scheduler.lock_freed("job")
        await world.mark_comes_to(midnight + 5 * MINUTE)
        await wait_until(lambda: len(world.planners[0].records) == 2, description="both ranges")
        assert world.planners[0].wins == [midnight - MINUTE]
        superseded, closed = world.planners[0].records
        assert (superseded.reason, superseded.count) == ("overlap: queue kept a newer fire", None)
        assert (closed.reason, closed.count) == ("calendar", 6)


# Other triggers


async def test_one_shot_fires_once_and_is_done(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=None, at=iso(NOON + 10 * SECOND))
        world.at(NOON + 10 * SECOND - 200)
        await world.mark_comes_to(NOON + 10 * SECOND)
        await world.unlock()
        world.at(NOON + DAY)
        await world.settled()
        world.planners[0].scheduler.look_afresh("a test", after_a_gap=True)
        await world.settled()
        assert world.planners[0].wins == [NOON + 10 * SECOND]
        assert world.planners[0].scheduler._pending_jobs.cues.next_ms is None
        assert await world.mark() == NOON + 10 * SECOND


async def test_one_shot_that_was_missed_is_made_up_for_within_its_window(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save("made-up", cronExpr=None, at=iso(NOON + SECOND))
        await world.save("missed", cronExpr=None, at=iso(NOON + SECOND), misfire={"windowSeconds": 60})
        world.at(NOON + HOUR)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + SECOND, "made-up")
        await world.mark_comes_to(NOON + SECOND, "missed")
        assert [result.proposal.job.name for result in world.planners[0].won_results] == ["made-up"]
        assert [one.status for one in world.planners[0].records] == [Verdict.MISSED]


async def test_nothing_fires_outside_its_window(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        window: dict[str, Any] = {"startAt": iso(NOON + 3 * SECOND), "endAt": iso(NOON + 5 * SECOND)}
        await world.save(overlap="allow", **window)
        for tick in range(1, 10):
            world.at(NOON + tick * SECOND)
            await world.settled()
        await world.mark_comes_to(NOON + 5 * SECOND)
        assert world.planners[0].wins == [NOON + tick * SECOND for tick in (3, 4, 5)]


async def test_fixed_rate_and_several_expressions_fire_as_planned(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save("every", cronExpr=None, every="7s", overlap="allow")
        await world.save("both", cronExpr=["*/5 * * * * * *", "*/10 * * * * * *", "3 * * * * * *"], overlap="allow")
        for tick in range(1, 16):
            world.at(NOON + tick * SECOND)
            await world.settled()
        wins: dict[str, list[int]] = {"every": [], "both": []}
        for result in world.planners[0].won_results:
            wins[result.proposal.job.name].append(result.proposal.decision.to_ms)
        assert wins["both"] == [NOON + tick * SECOND for tick in (3, 5, 10, 15)]
        assert [plan_ms % 7000 for plan_ms in wins["every"]] == [0, 0]


async def test_job_that_runs_after_its_last_run_has_no_fires_and_costs_nothing(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=None, after="10s")
        world.at(NOON + DAY)
        await world.settled()
        world.planners[0].scheduler.look_afresh("a test", after_a_gap=True)
        await world.settled()
        assert await world.runs() == {}
        assert world.planners[0].scheduler._pending_jobs.cues.next_ms is None


# Priority


async def test_greater_priority_gets_the_slot_that_comes_free(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=1) as world:
        await world.save("first", cronExpr=MINUTELY, overlap="allow")
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE, "first")
        for tick, (name, priority) in enumerate([("low", -1), ("usual", 0), ("later", 0), ("high", 7)], 10):
            await world.save(name, cronExpr=f"{tick} * * * * * *", priority=priority, overlap="allow")
        world.at(NOON + MINUTE + 20 * SECOND)
        await world.settled()
        assert world.planners[0].scheduler.waiting == 4
        for count in range(2, 6):
            world.planners[0].free_slots()
            await wait_until(lambda count=count: len(world.planners[0].wins) == count, description="one more")  # type: ignore[misc]
        names = [result.proposal.job.name for result in world.planners[0].won_results]
        assert names == ["first", "high", "usual", "later", "low"]


# Catching up


async def stopped_for_5_minutes(world: World, policy: str, grace_s: int = 10) -> None:
    await world.save(misfire={"policy": policy, "graceSeconds": grace_s, "limit": 4}, overlap="allow")
    world.at(NOON + 300 * SECOND)
    world.planners[0].begin()
    await world.mark_comes_to(NOON + 300 * SECOND)
    await wait_until(lambda: world.planners[0].records != [], description="the range")


@pytest.mark.parametrize(("policy", "missed"), [("latest", 299), ("all", 296), ("skip", 299)])
async def test_all_workers_stopped_for_five_minutes(client: EtcdClient, prefix: str, policy: str, missed: int) -> None:
    async with planning(client, prefix, start=False) as world:
        await stopped_for_5_minutes(world, policy)
        (record,) = world.planners[0].records
        assert (record.status, record.count, record.plan_ms) == (Verdict.MISSED, missed, NOON + SECOND)
        assert record.range_end_ms == NOON + missed * SECOND
        wins = [] if policy == "all" else [NOON + 300 * SECOND]
        asked = [NOON + tick * SECOND for tick in (297, 298, 299, 300)] if policy == "all" else []
        assert (world.planners[0].wins, [one.plan_ms for one in await world.requests()]) == (wins, asked)


async def test_skip_runs_nothing_where_the_newest_is_out_of_its_grace(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(cronExpr=MINUTELY, misfire={"policy": "skip", "graceSeconds": 10})
        world.at(NOON + 5 * MINUTE + 11 * SECOND)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + 5 * MINUTE)
        await wait_until(lambda: world.planners[0].records != [], description="the range")
        (record,) = world.planners[0].records
        assert (record.status, record.count) == (Verdict.MISSED, 5)
        assert world.planners[0].wins == []


@pytest.mark.parametrize("policy", list(MisfirePolicy))
async def test_three_days_cost_as_many_writes_as_three_minutes(client: EtcdClient, prefix: str, policy: str) -> None:
    writes: list[int] = []
    for number, outage_ms in enumerate((3 * MINUTE, 3 * DAY)):
        async with planning(client, f"{prefix}-{number}", start=False) as world:
            anchor_ms = NOON - outage_ms
            await world.save(misfire={"policy": policy, "graceSeconds": 10}, overlap="allow", anchor_ms=anchor_ms)
            before = (await client.status()).revision
            world.planners[0].begin()
            await world.mark_comes_to(NOON)
            writes.append(await transactions_since(client, world.keys.prefix, before))
            (record,) = world.planners[0].records
            made_up = 10 if policy == "all" else 1
            assert record.count == min(outage_ms // SECOND - made_up, 1000)
            assert record.range_end_ms == NOON - made_up * SECOND
    assert writes == [1, 1]
