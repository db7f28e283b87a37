"""What is decided about fires that a schedule plans."""

from __future__ import annotations

from tests.golden.stage import Stage, situation
from tests.support.deciding import NOON, SECOND, World, planning
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until

MINUTE = 60 * SECOND
MINUTELY = "0 * * * * * *"


async def decided(world: World, at_ms: int, *, mark_ms: int, name: str = "job") -> None:
    """The clock comes to the first, and the job's mark to the second."""
    world.at(at_ms)
    await world.mark_comes_to(mark_ms, name)


@situation
async def claim_of_a_fire(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save()
        async with stage.recorded():
            await decided(world, NOON + 800, mark_ms=NOON + SECOND)


@situation
async def claim_of_a_fire_without_a_lock(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save(overlap="allow")
        async with stage.recorded():
            await decided(world, NOON + 800, mark_ms=NOON + SECOND)


@situation
async def claim_of_a_fire_of_a_job_with_labels(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save(labels={"team": "a"})
        async with stage.recorded():
            await decided(world, NOON + 800, mark_ms=NOON + SECOND)


@situation
async def claim_of_a_batch_of_which_one_is_refused(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        for name in ("locked", "other"):
            await world.save(name, cronExpr=MINUTELY)
        await world.lock(name="locked")
        async with stage.recorded():
            await decided(world, NOON + MINUTE - 100, mark_ms=NOON + MINUTE, name="other")


@situation
async def claim_of_a_batch_of_ten_of_which_one_is_refused(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix, slots=100) as world:
        for number in range(10):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        await world.lock(name="job0")
        async with stage.recorded():
            await decided(world, NOON + MINUTE - 100, mark_ms=NOON + MINUTE, name="job1")


@situation
async def claim_in_doubt(stage: Stage) -> None:
    stage.patch.setattr("worker.plan.doubts.LOOK_AGAIN_S", 0.05)
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save()
        async with stage.recorded(losing=1):
            await decided(world, NOON + 800, mark_ms=NOON + SECOND)
            await wait_until(lambda: world.planners[0].wins != [], description="it is known to be claimed")


@situation
async def fire_is_skipped_where_its_lock_is_held(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save()
        await world.lock("job@earlier#1")
        async with stage.recorded():
            world.at(NOON + 1000)
            await world.settled()
            await decided(world, NOON + 1100, mark_ms=NOON + SECOND)
            await wait_until(lambda: world.planners[0].records != [], description="the record of the skip")


@situation
async def run_in_the_way_of_replace_is_killed(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        await world.lock("job@1789999999000#1")
        async with stage.recorded():
            world.at(NOON + MINUTE)

            async def killed() -> bool:
                return await client.count(world.keys.kills) == 1

            await wait_until(killed, description="it is to be killed")
            await world.settled()


@situation
async def kill_from_before_the_run_in_the_way_is_deleted(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        await client.put(f"{world.keys.kills}job/0001789999999000/1", b"{}")
        await world.lock("job@1789999999000#1")
        async with stage.recorded():
            world.at(NOON + MINUTE)

            async def is_gone() -> bool:
                return await client.count(world.keys.kills) == 0

            await wait_until(is_gone, description="the kill is deleted")
            await world.settled()


@situation
async def fire_that_the_calendar_closes_is_skipped(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix) as world:
        await world.save(cronExpr=MINUTELY, calendar={"include": ["2000-01-01"]})
        async with stage.recorded():
            await decided(world, NOON + MINUTE, mark_ms=NOON + MINUTE)


async def stopped_for_5_minutes(stage: Stage, policy: str) -> None:
    """Of a job that fires each minute; then the worker looks afresh."""
    async with stage.client() as client, planning(client, stage.prefix, start=False) as world:
        await world.save(cronExpr=MINUTELY, misfire={"policy": policy, "graceSeconds": 10, "limit": 3})
        world.clock.advance(5 * MINUTE)
        async with stage.recorded():
            world.planners[0].begin()
            await world.settled()
            await world.mark_comes_to(NOON + 5 * MINUTE)


@situation
async def fires_missed_by_policy_skip(stage: Stage) -> None:
    async with stage.client() as client, planning(client, stage.prefix, start=False) as world:
        await world.save(cronExpr=MINUTELY, misfire={"policy": "skip", "graceSeconds": 10})
        world.clock.advance(5 * MINUTE + 30 * SECOND)
        async with stage.recorded():
            world.planners[0].begin()
            await world.mark_comes_to(NOON + 5 * MINUTE)


@situation
async def fires_missed_by_policy_latest(stage: Stage) -> None:
    await stopped_for_5_minutes(stage, "latest")


@situation
async def fires_missed_by_policy_all(stage: Stage) -> None:
    await stopped_for_5_minutes(stage, "all")


@situation
async def run_key_that_nobody_claimed_is_passed_over(stage: Stage) -> None:
    async with Meeting(stage.etcd) as client, planning(client, stage.prefix) as world:
        await world.save(overlap="allow", misfire={"policy": "skip", "graceSeconds": 1})
        await client.put(f"{world.keys.runs_of('job')}{NOON + SECOND:016d}/1", b"{}")
        async with stage.recorded():
            await decided(world, NOON + SECOND, mark_ms=NOON + SECOND)
