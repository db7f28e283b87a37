"""What the elected worker does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from common.clock import SystemClock
from common.etcd import Change
from common.protocol.dedupe import Remembered
from common.protocol.keys import RunId, encode_mark
from common.protocol.roster import KEPT_MS
from common.protocol.run import RunRecord, Trigger
from common.timings import START_OVER_S
from common.verdicts import Verdict
from tests.golden.stage import NOON, Stage, situation
from tests.integration.working import (
    test_chains,
    test_clock_keeping,
    test_give_ups,
    test_lost_runs,
    test_roster,
    test_stuck_requests,
    test_sweeping,
)
from tests.support.background import running
from tests.support.stewarding import Office
from tests.support.waiting import wait_until
from worker.lead.sweeping import COMPARE_EVERY_S, MARK_KEPT_MS, DedupeSweeping

SECOND = 1000
HOUR_MS = 3_600_000
FULL_HOUR = NOON // HOUR_MS * HOUR_MS + HOUR_MS


@asynccontextmanager
async def office(stage: Stage) -> AsyncIterator[Office]:
    """Six seconds after a full hour."""
    async with stage.world() as world, stage.term(world) as term:
        office = Office(world, term)
        office.clock.advance((FULL_HOUR - NOON) / SECOND + 6)
        yield office


# Fires that nobody takes


@situation
async def undecided_fire_is_offered(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - 1)
        it.join("w1", "w2", "w3")
        it.fires.begin()
        async with stage.recorded():
            await it.look()


@situation
async def undecided_fire_is_offered_and_supersedes_the_one_before(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(
            mark_ms=FULL_HOUR - 60_001, cronExpr="0 * * * * * *", overlap="queue", misfire={"graceSeconds": 3600}
        )
        it.join("w1", "w2", "w3")
        it.fires.begin()
        async with stage.recorded():
            await it.look()


@situation
async def undecided_fire_is_skipped_where_its_lock_is_held(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - 1)
        await it.world.etcd.put(it.keys.lock("job"), b"job@7#1")
        it.fires.begin()
        async with stage.recorded():
            await it.look()


@situation
async def undecided_fires_are_given_up_after_their_grace(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - HOUR_MS - 1, misfire={"policy": "skip", "graceSeconds": 60})
        it.fires.begin()
        await it.look(0)  # nobody can take it, and that for a minute at least
        async with stage.recorded():
            await it.look(60)


@situation
async def undecided_fires_of_policy_latest_are_given_up_after_their_window(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - HOUR_MS - 1, misfire={"policy": "latest", "windowSeconds": 600})
        it.fires.begin()
        await it.look(0)  # nobody can take it, and that for a minute at least
        async with stage.recorded():
            await it.look(700)


@situation
async def undecided_fire_of_which_there_is_a_run_key_is_passed_over(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - 1, misfire={"policy": "skip", "graceSeconds": 60})
        await it.world.etcd.put(it.keys.run(RunId.planned("job", FULL_HOUR)), b"garbage")
        it.fires.begin()
        await it.look(0)  # nobody can take it, and that for a minute at least
        async with stage.recorded():
            await it.look(600)


@situation
async def job_without_a_mark_gets_one(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR)
        await it.world.etcd.delete(it.keys.mark("job"))
        it.fires.begin()
        async with stage.recorded():
            await it.look()


@situation
async def mark_from_before_the_anchor_is_moved_there(stage: Stage) -> None:
    async with office(stage) as it:
        await it.save(mark_ms=FULL_HOUR - 1)
        await it.world.etcd.put(it.keys.mark("job"), encode_mark(FULL_HOUR - HOUR_MS))
        it.join("w1", "w2", "w3")
        it.fires.begin()
        async with stage.recorded():
            await it.look()


# Requests that nobody takes


@situation
async def request_that_nobody_claims_is_put_again(stage: Stage) -> None:
    async with office(stage) as it:
        job = await it.save(mark_ms=it.now_ms)
        await it.world.ask(job, it.now_ms)
        await it.see_requests()
        it.join("w1")
        await it.requests.perform(it.term)
        it.clock.advance(6)
        async with stage.recorded():
            await it.requests.perform(it.term)


def request_ends(why: str) -> None:
    """A request that cannot run any more ends."""

    async def bring_about(stage: Stage) -> None:
        async with office(stage) as it:
            await test_stuck_requests.waiting(it, why)
            async with stage.recorded():
                await it.requests.perform(it.term)

    bring_about.__name__ = f"request_ends_{why.replace(' ', '_')}"
    situation(bring_about)


for _why in ("expired", "deleted", "paused", "made again", "overtaken", "job changed", "killed", "killed link"):
    request_ends(_why)


# Runs whose worker is gone


@asynccontextmanager
async def lost_runs(stage: Stage) -> AsyncIterator[test_lost_runs.Office]:
    async with stage.world() as world, stage.term(world) as term:
        yield test_lost_runs.Office(world, term)


@situation
async def run_is_lost(stage: Stage) -> None:
    async with lost_runs(stage) as it:
        await it.world.open_run(lost_after_ms=60_000, args=("a",), env={"A": "b"})
        await it.look()
        async with stage.recorded():
            await it.look(61)


@situation
async def run_is_lost_and_run_again(stage: Stage) -> None:
    async with lost_runs(stage) as it:
        job = await it.world.save(onWorkerLost="rerun", mark_ms=NOON)
        await it.world.open_run(lost_after_ms=60_000, revision=job.mod_revision)
        await it.look()
        async with stage.recorded():
            await it.look(61)


@situation
async def run_without_a_lock_is_lost(stage: Stage) -> None:
    async with lost_runs(stage) as it:
        await it.world.open_run(lost_after_ms=60_000, locked=False, trigger=Trigger.MANUAL, by="me", note="because")
        await it.look()
        async with stage.recorded():
            await it.look(61)


@situation
async def key_of_a_run_whose_record_is_stored_is_cleared(stage: Stage) -> None:
    async with lost_runs(stage) as it:
        run = await it.world.open_run(lost_after_ms=60_000)
        run_id = it.world.keys.run_of(run.key)
        it.store.records[str(run_id)] = RunRecord(run_id=run_id, status=Verdict.SUCCESS)
        await it.look()
        async with stage.recorded():
            await it.look(61)


# Sweeping


@asynccontextmanager
async def sweeping(stage: Stage) -> AsyncIterator[test_sweeping.Office]:
    async with stage.world() as world, stage.term(world) as term:
        it = test_sweeping.Office(world, term)
        async with running(*(mirror.run() for mirror in it.mirrors.values())):
            for mirror in it.mirrors.values():
                await mirror.synced.wait()
            yield it


@situation
async def kill_of_no_run_is_swept(stage: Stage) -> None:
    async with sweeping(stage) as it:
        await it.world.kill(RunId.planned("job", 7))
        await wait_until(lambda: len(it.kills.by_run) == 1, description="the kill is seen")
        async with stage.recorded():
            await it.sweep()


@situation
async def lock_of_no_run_is_freed(stage: Stage) -> None:
    async with sweeping(stage) as it:
        await it.world.etcd.put(it.keys.lock("a"), b"a@5#1")
        await it.sweep()
        async with stage.recorded():
            await it.sweep(31)


@situation
async def lock_that_names_no_run_is_freed(stage: Stage) -> None:
    async with sweeping(stage) as it:
        await it.world.etcd.put(it.keys.lock("a"), b"garbage")
        await it.sweep()
        async with stage.recorded():
            await it.sweep(31)


@situation
async def detached_session_is_swept(stage: Stage) -> None:
    async with sweeping(stage) as it:
        key = it.keys.worker("w2", "77")
        await it.world.etcd.put(key, b"{}")
        it.members.on_changes([Change(key=key, old_mod=None, new=await it.world.etcd.get(key))])
        await it.sweep()
        async with stage.recorded():
            await it.sweep(10)


@situation
async def mark_of_a_deleted_job_is_swept(stage: Stage) -> None:
    async with sweeping(stage) as it:
        await it.world.etcd.put(it.keys.mark("old"), encode_mark(NOON - 2 * MARK_KEPT_MS))
        async with stage.recorded():
            await it.sweep(COMPARE_EVERY_S + 1)


@situation
async def mark_of_a_worker_that_is_gone_is_swept(stage: Stage) -> None:
    async with sweeping(stage) as it:
        await it.world.save("job", broadcast=True)
        await wait_until(lambda: "job" in it.catalog.jobs, description="the job is seen")
        await it.world.etcd.put(it.keys.mark("job~away"), encode_mark(NOON - 2 * MARK_KEPT_MS))
        async with stage.recorded():
            await it.sweep(COMPARE_EVERY_S + 1)


@situation
async def dedupe_keys_that_are_expired_are_swept(stage: Stage) -> None:
    async with stage.world() as world, stage.term(world) as term:
        duty = DedupeSweeping(client=world.etcd, keys=world.keys, clock=SystemClock())
        for digest in ("aa", "bb"):
            remembered = Remembered(expires_ms=NOON - HOUR_MS)
            await world.etcd.put(world.keys.deduped("job", digest), remembered.to_json())
        async with stage.recorded():
            await duty.perform(term)


# Chains and clocks


@situation
async def chain_without_a_link_is_mended(stage: Stage) -> None:
    async with stage.world() as world, stage.term(world) as term:
        it = test_chains.Office(world, term)
        await it.save(after="10s")
        async with stage.recorded():
            await it.look()


@situation
async def offsets_of_clocks_are_put(stage: Stage) -> None:
    async with (
        stage.world() as world, stage.term(world) as term, test_clock_keeping.listening(world) as it, stage.recorded()
    ):  # fmt: skip
        await it.rounds(**test_clock_keeping.EVERYBODY)
        await it.keeping.perform(term)


# Who was here


@asynccontextmanager
async def roster(stage: Stage) -> AsyncIterator[test_roster.Office]:
    """A worker has come."""
    async with stage.world() as world, stage.term(world) as term:
        it = test_roster.Office(world, term)
        async with running(*(mirror.run() for mirror in it.mirrors)):
            for mirror in it.mirrors:
                await mirror.synced.wait()
            await it.come("w2")
            yield it


@situation
async def worker_that_has_come_is_remembered(stage: Stage) -> None:
    async with roster(stage) as it, stage.recorded():
        await it.perform()


@situation
async def worker_that_has_gone_is_remembered_as_gone(stage: Stage) -> None:
    async with roster(stage) as it:
        await it.perform()
        await it.go("w2")
        async with stage.recorded():
            await it.perform()


@situation
async def worker_that_went_long_ago_is_forgotten(stage: Stage) -> None:
    async with roster(stage) as it:
        await it.perform()
        await it.go("w2")
        await it.perform()
        async with stage.recorded():
            await it.perform(after_s=KEPT_MS / SECOND + 1)


# What users give up


@situation
async def run_that_is_given_up_is_lost(stage: Stage) -> None:
    async with stage.world() as world, stage.term(world) as term:
        it = test_give_ups.Office(world, term)
        await it.wish(await world.open_run(lost_after_ms=None))
        await it.look()
        async with stage.recorded():
            await it.look(START_OVER_S + 0.1)


@situation
async def wish_to_give_up_what_is_settled_is_swept(stage: Stage) -> None:
    async with stage.world() as world, stage.term(world) as term:
        it = test_give_ups.Office(world, term)
        run = await world.open_run()
        await it.wish(run)
        await world.etcd.delete(run.key)
        async with stage.recorded():
            await it.look()
