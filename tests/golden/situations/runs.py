"""What becomes of a claimed run: its start, its end, and what follows."""

from __future__ import annotations

from typing import Any

from common.verdicts import Verdict
from tests.golden.stage import Stage, situation
from tests.support.waiting import wait_until
from tests.support.workshop import NOON, SECOND, Workshop, workshop
from worker.admission import Reason
from worker.runs import Run


async def started(shop: Workshop, name: str = "job", **fields: Any) -> Run:
    run = await shop.claim(name, **fields)
    await shop.started(run)
    return run


async def forgotten(shop: Workshop, run: Run) -> None:
    await wait_until(lambda: shop.table.get(run.run_id) is None, description=f"{run.run_id} is forgotten")
    await shop.settled()


@situation
async def stale_claim_is_stamped_anew(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        async with stage.recorded():
            shop.passes(2000)
            await shop.started(run)


@situation
async def stamp_in_doubt_is_sent_again(stage: Stage) -> None:
    stage.patch.setattr("worker.dispatcher._RETRY_S", 0.02)
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await shop.claim(plan_ms=NOON + 2000)
        async with stage.recorded(losing=1):
            shop.passes(2000)
            await shop.started(run)


async def handed_on(stage: Stage, *, losing: int = 0, **fields: Any) -> None:
    async with workshop(stage.etcd, stage.prefix, slots=1) as shop:
        shop.others("w2")
        await started(shop, "first")
        waits = await shop.claim("waits", **fields)
        async with stage.recorded(losing=losing):
            shop.passes(1000)
            await forgotten(shop, waits)


@situation
async def run_without_a_slot_is_handed_on(stage: Stage) -> None:
    await handed_on(stage)


@situation
async def handing_on_in_doubt_is_sent_again(stage: Stage) -> None:
    stage.patch.setattr("worker.dispatcher._RETRY_S", 0.02)
    await handed_on(stage, losing=1)


@situation
async def run_without_a_slot_and_lock_is_handed_on(stage: Stage) -> None:
    await handed_on(stage, overlap="allow")


@situation
async def link_without_a_slot_is_handed_on(stage: Stage) -> None:
    await handed_on(stage, after="30s")


@situation
async def several_are_handed_on_together_by_who_stops(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        for name in ("a", "b"):
            await shop.claim(name, plan_ms=NOON + 200)
        async with stage.recorded():
            shop.admission.set(Reason.STOP, "stopping")
            shop.dispatcher.wake()
            await wait_until(lambda: shop.table.claimed == 0, description="all are handed on")


async def ended(
    stage: Stage, verdict: Verdict = Verdict.SUCCESS, *, fault: str | None = None, losing: int = 0, **fields: Any
) -> None:
    """A run ends, 3 s after it has begun."""
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await started(shop, **fields)
        shop.passes(3 * SECOND)
        shop.spool.fault = fault
        async with stage.recorded(losing=losing):
            shop.end(run, verdict=verdict, exit_code=0 if verdict is Verdict.SUCCESS else 1, output="hello")
            await shop.settled()
            await wait_until(lambda: run.unlocked or shop.table.get(run.run_id) is None, description="its end is told")


@situation
async def lock_of_a_run_that_has_ended_is_freed(stage: Stage) -> None:
    await ended(stage)


@situation
async def freeing_of_a_lock_in_doubt_is_sent_again(stage: Stage) -> None:
    await ended(stage, losing=1)


@situation
async def retry_in_doubt_is_sent_again(stage: Stage) -> None:
    await ended(stage, Verdict.FAILED, retry={"limit": 1, "delaySeconds": 10}, losing=1)


@situation
async def run_without_a_lock_is_put_as_ended(stage: Stage) -> None:
    await ended(stage, overlap="allow")


@situation
async def retry_is_asked_for_as_the_lock_is_freed(stage: Stage) -> None:
    await ended(stage, Verdict.FAILED, retry={"limit": 1, "delaySeconds": 10})


@situation
async def retry_is_asked_for_by_a_run_without_a_lock(stage: Stage) -> None:
    await ended(stage, Verdict.FAILED, retry={"limit": 1, "delaySeconds": 10}, overlap="allow")


@situation
async def next_link_is_put_as_the_lock_is_freed(stage: Stage) -> None:
    await ended(stage, after="30s")


@situation
async def record_that_the_spool_refuses_goes_into_the_run_key(stage: Stage) -> None:
    await ended(stage, fault="no space left on device")


@situation
async def retry_is_asked_for_with_a_record_in_the_run_key(stage: Stage) -> None:
    await ended(stage, Verdict.FAILED, fault="no space left on device", retry={"limit": 1, "delaySeconds": 10})


@situation
async def several_locks_are_freed_together(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        runs = [await started(shop, name) for name in ("a", "b")]
        async with stage.recorded():
            for run in runs:
                shop.end(run)
            await wait_until(lambda: len(shop.unlocked) == len(runs), description="both are unlocked")


@situation
async def lock_that_is_somebody_elses_stays(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await started(shop)
        await shop.client.delete(shop.keys.lock("job"))
        await shop.client.put(shop.keys.lock("job"), b"another run")
        async with stage.recorded():
            shop.end(run)
            await shop.settled()
            await wait_until(lambda: run.unlocked, description="its lock is looked at")


@situation
async def several_locks_of_which_one_is_somebody_elses_are_freed_by_halves(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        runs = [await started(shop, name) for name in ("a", "b")]
        await shop.client.delete(shop.keys.lock("a"))
        await shop.client.put(shop.keys.lock("a"), b"another run")
        async with stage.recorded():
            for run in runs:
                shop.end(run)
            await wait_until(lambda: all(run.unlocked for run in runs), description="both are unlocked")


@situation
async def run_key_is_deleted_once_its_record_is_stored(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await started(shop)
        shop.end(run)
        await shop.settled()
        await wait_until(lambda: run.unlocked, description="its lock is free")
        async with stage.recorded():
            shop.settlement.delivered([run.run_id])
            await forgotten(shop, run)


@situation
async def kill_is_deleted_with_the_key_of_its_run(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix) as shop:
        run = await started(shop)
        await shop.client.put(shop.keys.kill(run.run_id), b"{}")
        shop.kill(run)
        shop.end(run, verdict=Verdict.KILLED)
        await shop.settled()
        await wait_until(lambda: run.unlocked, description="its lock is free")
        async with stage.recorded():
            shop.settlement.delivered([run.run_id])
            await forgotten(shop, run)


@situation
async def lock_of_a_run_that_was_too_late_to_start_is_freed(stage: Stage) -> None:
    async with workshop(stage.etcd, stage.prefix, slots=1) as shop:
        await started(shop, "first")
        await shop.claim("late", grace_s=5)
        async with stage.recorded():
            shop.passes(5 * SECOND + 1)
            await wait_until(lambda: shop.unlocked == ["late"], description="its lock is free")
