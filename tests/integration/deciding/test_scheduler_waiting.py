"""Overlap `queue` and `replace`: while a run holds the lock one fire is kept waiting, on a real etcd."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from common.errors import EtcdInDoubtError
from common.etcd import EtcdClient
from common.protocol.keys import RunId, encode_mark
from common.protocol.kill import Kill
from common.protocol.run import RunRecord
from common.protocol.txn import Delete, KeyValue, Operation, Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.deciding import MINUTE, NOON, SECOND, Ranked, World, planning
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until

BOTH = pytest.mark.parametrize("overlap", ["queue", "replace"])
MINUTELY = "0 * * * * * *"


async def end_run(world: World, *, by: int | None = 0) -> None:
    """The run that holds the lock is over; the worker that had it (None: one that is not there) frees the lock."""
    kv = await world.client.get(world.keys.lock("job"))
    assert kv is not None
    await world.unlock()
    if by is not None:
        world.planners[by].free_slots()
        world.planners[by].scheduler.lock_freed("job")


async def kill_of(world: World, run: str) -> Kill | None:
    run_id = RunId.parse(run)
    kv = await world.client.get(world.keys.kill(run_id))
    return None if kv is None else Kill.from_json(kv.value, run_id=run_id, revision=kv.create_revision)


async def killed(world: World, run: str) -> Kill:
    async def there() -> bool:
        return await kill_of(world, run) is not None

    await wait_until(there, description=f"{run} is to be killed")
    kill = await kill_of(world, run)
    assert kill is not None
    return kill


async def waits(world: World, index: int = 0) -> None:
    planner = world.planners[index]
    await wait_until(
        lambda: (pending := planner.scheduler._pending_of["job"]).parked and pending.waited,
        description="a fire waits for the lock",
    )
    await world.settled()


def told(records: list[RunRecord]) -> list[tuple[Any, ...]]:
    return [(one.status, one.reason, one.plan_ms, one.range_end_ms, one.count) for one in records]


@BOTH
async def test_due_fires_stay_undecided_while_the_lock_is_held(client: EtcdClient, prefix: str, overlap: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap=overlap, misfire={"policy": "skip", "graceSeconds": 1})
        await world.lock()
        for moment in (800, 1000, 1100, 2000, 3000, 9000):
            world.at(NOON + moment)
            await world.settled()
        await waits(world)
        assert await world.runs() == {}
        assert await world.mark() == NOON


@BOTH
async def test_when_the_lock_is_free_the_newest_is_claimed_and_the_others_are_skipped(
    client: EtcdClient, prefix: str, overlap: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap=overlap, misfire={"policy": "skip", "graceSeconds": 1})
        await world.lock()
        for tick in range(1, 6):
            world.at(NOON + tick * SECOND)
            await world.settled()
        await waits(world)
        await end_run(world)
        await world.mark_comes_to(NOON + 5 * SECOND)
        planner = world.planners[0]
        reason = f"overlap: {overlap} kept a newer fire"
        assert told(planner.records) == [(Verdict.SKIPPED, reason, NOON + SECOND, NOON + 4 * SECOND, 4)]
        (won,) = planner.won_results
        assert won.proposal.decision.claim_ms == NOON + 5 * SECOND
        assert won.proposal.start_by_ms == NOON + 5 * SECOND + 3600 * SECOND
        keys = [world.keys.mark("job"), world.keys.lock("job"), world.keys.run(RunId.planned("job", NOON + 5 * SECOND))]
        found = await client.get_many(keys)
        assert len({found[key].mod_revision for key in keys}) == 1, "one transaction"


async def test_a_job_of_3_s_every_second_runs_back_to_back(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(overlap="queue")
        names = [planner.name for planner in world.planners]
        running: tuple[int, int] | None = None  # whose run it is, since when
        starts: list[int] = []
        for moment in range(SECOND, 31 * SECOND, 100):
            first = moment // SECOND % 3  # each second another is first in rank
            world.rank(*names[first:], *names[:first])
            world.at(NOON + moment)
            await world.settled()
            if running is not None and moment - running[1] >= 3 * SECOND:
                await end_run(world, by=running[0])
                await world.settled()
                running = None
            if running is None and await client.get(world.keys.lock("job")) is not None:
                wins = [len(planner.wins) for planner in world.planners]
                assert sum(wins) == len(starts) + 1
                owner = next(i for i, p in enumerate(world.planners) if len(p.table))
                starts.append(moment)
                running = owner, moment
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert len(starts) >= 9
        assert max(gaps) <= 3 * SECOND, "the next starts as soon as the one before it has ended"
        wins = sorted(plan_ms for planner in world.planners for plan_ms in planner.wins)
        skipped = [record for planner in world.planners for record in planner.records]
        assert {record.status for record in skipped} == {Verdict.SKIPPED}
        assert sum(record.count or 1 for record in skipped) + len(wins) == (await world.mark() - NOON) // SECOND


async def test_lock_that_somebody_else_frees_is_seen_by_ranks_0_and_1_only(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(overlap="queue", cronExpr=MINUTELY)
        await world.lock()
        for planner in world.planners:
            planner.members.placement = Ranked([planner.name, *({"w1", "w2", "w3"} - {planner.name})])
        world.at(NOON + MINUTE)
        for index in range(3):
            await waits(world, index)
        world.rank("w1", "w2", "w3")
        waiting = [planner.scheduler._fires_at_locks._waiting for planner in world.planners]
        await wait_until(lambda: [len(one) for one in waiting] == [1, 1, 0], description="w3 looks no more")
        await end_run(world, by=None)
        await world.mark_comes_to(NOON + MINUTE)
        await wait_until(lambda: not any(waiting), description="nobody looks any more")
        assert sorted(len(planner.wins) for planner in world.planners) == [0, 0, 1]


async def test_who_waits_finds_out_that_the_lock_is_held_for_what_it_waits_for(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        await world.save(overlap="queue", cronExpr=MINUTELY)
        await world.lock()
        for planner in world.planners:
            planner.members.placement = Ranked([planner.name, *({"w1", "w2"} - {planner.name})])
        world.at(NOON + MINUTE)
        await waits(world, 0)
        await waits(world, 1)
        loser, locks = world.planners[1].scheduler._fires_at_locks, world.planners[1].locks
        looks = asyncio.Event()
        look = locks.look

        async def once_the_other_has_it() -> None:
            await looks.wait()
            await look()

        monkeypatch.setattr(locks, "look", once_the_other_has_it)
        await end_run(world, by=None)
        await world.mark_comes_to(NOON + MINUTE)
        looks.set()
        await wait_until(lambda: not loser._waiting, description="nothing is waited for any more")
        assert [planner.wins for planner in world.planners] == [[NOON + MINUTE], []]


async def test_what_is_tried_while_its_lock_is_read_is_left_alone(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        await world.lock()
        world.at(NOON + MINUTE)
        await waits(world)
        scheduler = world.planners[0].scheduler
        waiting, read = scheduler._fires_at_locks, client.get_many

        async def read_meanwhile(keys: list[str]) -> dict[str, KeyValue]:
            found = await read(keys)
            waiting._try(scheduler._pending_of["job"])
            return found

        monkeypatch.setattr(waiting._client, "get_many", read_meanwhile)
        await world.planners[0].locks.look()
        monkeypatch.undo()
        await waits(world)


@BOTH
async def test_who_still_waits_for_a_lock_that_came_free_unheard_is_in_time_for_the_next_fire(
    client: EtcdClient, prefix: str, overlap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    async with planning(client, prefix) as world:
        await world.save(overlap=overlap, cronExpr=MINUTELY)
        await world.lock("job@1789999999000#1")
        world.at(NOON + MINUTE)
        await waits(world)
        await world.set_mark(NOON + MINUTE)  # somebody else has claimed what it waits for, and run it
        await world.unlock()
        world.at(NOON + 2 * MINUTE - 200)
        await world.mark_comes_to(NOON + 2 * MINUTE)
        assert world.planners[0].wins == [NOON + 2 * MINUTE]


async def test_fire_that_is_due_presently_is_not_given_up_with_the_one_before(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(overlap="queue", cronExpr=MINUTELY)
        await world.lock()
        world.at(NOON + MINUTE)
        await waits(world)
        world.at(NOON + 2 * MINUTE - 100)
        await waits(world)
        world.rank("w2", "w3", "w1")
        pending = world.planners[0].scheduler._pending_of["job"]
        await world.planners[0].locks.look()
        assert pending.until_ms == NOON + 2 * MINUTE
        world.at(NOON + 2 * MINUTE)
        await world.settled()
        await wait_until(lambda: not pending.wants, description="it is for others then")


async def test_nothing_waits_nothing_is_read(client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with planning(client, prefix) as world:
        locks = world.planners[0].locks
        assert locks.is_idle
        await world.save(overlap="queue")
        await world.lock()
        world.at(NOON + SECOND)
        await waits(world)
        await end_run(world)
        await world.mark_comes_to(NOON + SECOND)
        await wait_until(lambda: locks.is_idle, description="the look at the locks sleeps again")


async def test_beyond_its_window_what_waited_is_missed(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(
            overlap="queue", cronExpr=MINUTELY, misfire={"policy": "latest", "graceSeconds": 1, "windowSeconds": 30}
        )
        await world.lock()
        for minute in (1, 2):
            world.at(NOON + minute * MINUTE)
            await waits(world)
        world.at(NOON + 2 * MINUTE + 31 * SECOND)
        await end_run(world)
        await world.mark_comes_to(NOON + 2 * MINUTE)
        (record,) = world.planners[0].records
        assert (record.status, record.reason, record.count) == (Verdict.MISSED, "late", 2)
        assert world.planners[0].wins == []


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
async def test_after_an_outage_nothing_is_decided_either_while_the_lock_is_held(
    client: EtcdClient, prefix: str, policy: str
) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(overlap="queue", misfire={"policy": policy, "graceSeconds": 5})
        await world.lock()
        world.at(NOON + 300 * SECOND)
        world.planners[0].begin()
        await waits(world)
        assert await world.mark() == NOON
        assert await client.count(world.keys.requests) == 0
        await end_run(world)
        await world.mark_comes_to(NOON + 300 * SECOND)
        assert world.planners[0].wins == [NOON + 300 * SECOND]
        assert [(one.status, one.count) for one in world.planners[0].records] == [(Verdict.SKIPPED, 299)]


async def test_job_that_is_paused_while_a_fire_waits_claims_nothing(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="queue")
        await world.lock()
        world.at(NOON + SECOND)
        await waits(world)
        await world.save(overlap="queue", enabled=False, tell=False)
        await end_run(world)
        await world.settled()
        assert await world.mark() == NOON + SECOND, "where the pause has put it"
        assert world.planners[0].wins == []
        world.tell(world.keys.job("job"), await client.get(world.keys.job("job")))
        waiting = world.planners[0].scheduler._fires_at_locks._waiting
        await wait_until(lambda: not waiting, description="it waits no more")


async def test_lock_that_comes_free_while_a_try_is_under_way_is_tried_again_at_once(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    async with planning(client, prefix) as world:
        await world.save(overlap="queue", cronExpr=MINUTELY)
        await world.lock()
        real, freed = client.txn, list[int]()

        async def txn(transaction: Txn) -> TxnResult:
            result = await real(transaction)
            if not result.succeeded and world.clock.wall_ms() == NOON + MINUTE and not freed:
                freed.append(await client.delete(world.keys.lock("job")))
                world.planners[0].scheduler.lock_freed("job")
            return result

        monkeypatch.setattr(client, "txn", txn)
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)
        assert freed
        assert world.planners[0].wins == [NOON + MINUTE]


async def test_worker_that_may_not_run_the_job_any_more_leaves_it_to_others(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        await world.save(overlap="queue", cronExpr=MINUTELY)
        world.rank("w2")
        world.planners[1].members.placement = Ranked(["elsewhere", "another", "w2"])
        await world.lock()
        world.at(NOON + MINUTE)
        await world.unlock()
        for planner in world.planners:
            planner.scheduler.lock_freed("job")
        await world.mark_comes_to(NOON + MINUTE)
        assert [planner.wins for planner in world.planners] == [[], [NOON + MINUTE]]


# Replace


async def test_run_that_holds_the_lock_is_killed_when_a_newer_fire_is_due_and_not_before(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace")
        fence = await world.lock("job@1789999999000#1")
        for moment in (800, 999):
            world.at(NOON + moment)
            await world.settled()
            assert await kill_of(world, "job@1789999999000#1") is None
        world.at(NOON + SECOND)
        kill = await killed(world, "job@1789999999000#1")
        assert (kill.by, kill.reason, kill.revision > fence) == ("schedule", "replaced", True)
        seen = await client.get(world.keys.seen_prefix + "kills")
        assert seen is not None
        assert seen.mod_revision == kill.revision


async def test_with_jitter_it_is_killed_only_at_the_dispatch_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY, jitterSeconds=50)
        await world.lock("job@1789999999000#1")
        due_ms = world.jobs["job"].dispatch_ms(NOON + MINUTE)
        assert due_ms > NOON + MINUTE + SECOND
        for moment in (NOON + MINUTE, due_ms - 200, due_ms - 1):
            world.at(moment)
            await world.settled()
            assert await kill_of(world, "job@1789999999000#1") is None
        world.at(due_ms)
        await killed(world, "job@1789999999000#1")


async def test_run_is_killed_once_however_long_it_takes_to_end(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        await world.save(overlap="replace")
        await world.lock("job@1789999999000#1")
        world.at(NOON + SECOND)
        first = await killed(world, "job@1789999999000#1")
        for moment in range(1600, 6600, 500):
            world.at(NOON + moment)
            await world.settled()
        await world.planners[0].locks.look()
        await world.settled()
        kv = await client.get(world.keys.kill(RunId.parse("job@1789999999000#1")))
        assert kv is not None
        assert (kv.mod_revision, kv.version) == (first.revision, 1)
        await end_run(world)
        await world.mark_comes_to(NOON + 6 * SECOND)
        records = [record for planner in world.planners for record in planner.records]
        assert told(records) == [
            (Verdict.SKIPPED, "overlap: replace kept a newer fire", NOON + SECOND, NOON + 5 * SECOND, 5)
        ]


async def test_newest_run_is_not_killed_by_who_still_waits_for_the_one_before(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        await world.lock("job@1789999999000#1")
        for planner in world.planners:
            planner.members.placement = Ranked([planner.name, *({"w1", "w2"} - {planner.name})])
        world.at(NOON + MINUTE)
        await waits(world, 0)
        await waits(world, 1)
        await end_run(world, by=0)  # w1 claims the newest at once; w2 does not know yet
        await world.mark_comes_to(NOON + MINUTE)
        assert world.planners[0].wins == [NOON + MINUTE]
        await wait_until(lambda: not world.planners[1].scheduler._fires_at_locks._waiting, description="w2 has looked")
        assert await client.count(world.keys.kills) == 1
        assert await kill_of(world, f"job@{NOON + MINUTE}#1") is None


async def test_each_run_is_replaced_by_the_next(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(overlap="replace")
        names = [planner.name for planner in world.planners]
        world.rank(*names)
        world.at(NOON + SECOND)
        await world.mark_comes_to(NOON + SECOND)
        owner = 0
        for tick in range(2, 8):
            first = tick % 3
            world.rank(*names[first:], *names[:first])
            world.at(NOON + tick * SECOND)
            await killed(world, f"job@{NOON + (tick - 1) * SECOND}#1")
            await end_run(world, by=owner)
            await world.mark_comes_to(NOON + tick * SECOND)
            owner = next(i for i, planner in enumerate(world.planners) if len(planner.table))
        wins = sorted(plan_ms for planner in world.planners for plan_ms in planner.wins)
        assert wins == [NOON + tick * SECOND for tick in range(1, 8)]
        assert [planner.records for planner in world.planners] == [[], [], []]


async def test_kill_that_is_older_than_the_run_is_put_anew(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace")
        run = "job@1789999999000#1"
        old = Kill(run_id=RunId.parse(run), by="me", at_ms=1)
        await client.put(world.keys.kill(old.run_id), old.to_json())
        fence = await world.lock(run)
        world.at(NOON + SECOND)

        async def anew() -> bool:
            kill = await kill_of(world, run)
            return kill is not None and kill.revision > fence

        await wait_until(anew, description="a kill that is newer than the run")


@pytest.mark.parametrize("change", ["paused", "edited"])
async def test_job_changed_meanwhile_kills_nothing(client: EtcdClient, prefix: str, change: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace")
        await world.lock("job@1789999999000#1")
        if change == "paused":
            await world.save(overlap="replace", enabled=False, tell=False)
        else:
            await world.save(overlap="queue", tell=False)
        world.at(NOON + SECOND)
        await world.settled()
        await world.settled()
        assert await client.count(world.keys.kills) == 0


@pytest.mark.parametrize("field", [{"priority": 1}, {"labels": {"team": "billing"}}, {"overlap": "allow"}])
async def test_fire_that_waits_for_a_lock_goes_on_waiting_after_an_edit_of_something_else(
    client: EtcdClient, prefix: str, field: dict[str, Any]
) -> None:
    """Beyond its grace: what waits for a lock has its window."""
    misfire = {"policy": "skip", "graceSeconds": 1, "windowSeconds": 600}
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, misfire=misfire, overlap="queue")
        await world.lock()
        world.at(NOON + MINUTE)
        await waits(world)
        world.at(NOON + MINUTE + 30 * SECOND)
        await world.save(**{"cronExpr": MINUTELY, "misfire": misfire, "overlap": "queue"} | field, anchor_ms=NOON)
        if "overlap" not in field:
            await waits(world)
            await end_run(world)
        await world.mark_comes_to(NOON + MINUTE)
        (won,) = world.planners[0].won_results
        assert won.proposal.decision.claim_ms == NOON + MINUTE
        assert won.proposal.start_by_ms == NOON + MINUTE + 600 * SECOND
        assert not world.planners[0].records


async def test_fire_that_waits_for_a_lock_is_left_to_the_workers_that_an_edit_selects(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, overlap="queue")
        await world.lock()
        world.at(NOON + MINUTE)
        await waits(world)
        await world.save(cronExpr=MINUTELY, overlap="queue", workers={"zone": "eu"}, anchor_ms=NOON)
        await end_run(world)
        await world.settled()
        assert await world.mark() == NOON


async def test_lock_of_nobody_kills_nothing_and_is_waited_for(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        await world.lock("garbage")
        world.at(NOON + MINUTE)
        await waits(world)
        assert await client.count(world.keys.kills) == 0
        await world.unlock()
        await world.mark_comes_to(NOON + MINUTE)


async def test_kill_whose_answer_is_lost_is_put_once(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        run = "job@1789999999000#1"
        await world.lock(run)
        real, lost = client.txn, list[bool]()

        async def txn(transaction: Txn) -> TxnResult:
            result = await real(transaction)
            if not lost and any(
                isinstance(one, Put) and one.key.startswith(world.keys.kills) for one in transaction.then
            ):
                lost.append(result.succeeded)
                raise EtcdInDoubtError("the answer is lost")
            return result

        monkeypatch.setattr(client, "txn", txn)
        world.at(NOON + MINUTE)
        first = await killed(world, run)
        waiting = world.planners[0].scheduler._fires_at_locks._waiting
        await wait_until(lambda: any(wait.killed for wait in waiting.values()), description="it knows of the kill")
        kv = await client.get(world.keys.kill(first.run_id))
        assert kv is not None
        assert (lost, kv.version) == ([True], 1)
        await end_run(world)
        await world.mark_comes_to(NOON + MINUTE)


ANOTHER = "job@1789999999000#1"


async def lock_of_another_run(world: World) -> KeyValue:
    """The job's lock is held by a run that the worker itself does not find in it, and so does not end."""
    await world.lock("a run that cannot be killed")
    there = await world.client.get(world.keys.lock("job"))
    assert there is not None
    return structs.replace(there, value=ANOTHER.encode())


@pytest.mark.parametrize("what", ["session over", "edited", "decided", "locked anew", "killed"])
async def test_run_is_replaced_only_if_all_is_as_it_was_when_looked_at(
    client: EtcdClient, prefix: str, meeting: Meeting, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    async with planning(client, prefix, clients=[meeting]) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        held = await lock_of_another_run(world)
        world.at(NOON + MINUTE)
        await waits(world)
        scheduler, keys = world.planners[0].scheduler, world.keys
        lock, kill = held.key, keys.kill(RunId.parse(ANOTHER))
        steps: dict[str, list[Operation]] = {
            "session over": [Delete(world.planners[0].session.key)],
            "edited": [Put(keys.job("job"), b"another spec")],
            "decided": [Put(keys.mark("job"), encode_mark(NOON + MINUTE))],
            "locked anew": [Delete(lock), Put(lock, b"another run that cannot be killed")],
            "killed": [Put(kill, b"a kill")],
        }
        replace = scheduler._fires_at_locks.replace
        await meeting.writes_nothing(
            prefix, lambda: replace(scheduler._pending_of["job"], held), after=[steps[what]]
        )  # fmt: skip
        await world.settled()


async def test_older_kill_that_is_put_anew_meanwhile_stays(
    client: EtcdClient, prefix: str, meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.plan.lock_waits.LOOK_AT_LOCKS_S", 1000)
    async with planning(client, prefix, clients=[meeting]) as world:
        await world.save(overlap="replace", cronExpr=MINUTELY)
        kill = world.keys.kill(RunId.parse(ANOTHER))
        await client.put(kill, b"a kill of an older run")
        held = await lock_of_another_run(world)
        world.at(NOON + MINUTE)
        await waits(world)
        scheduler = world.planners[0].scheduler
        replace = scheduler._fires_at_locks.replace
        await meeting.writes_nothing(
            prefix, lambda: replace(scheduler._pending_of["job"], held), after=[[], [Put(kill, b"a kill")]]
        )  # fmt: skip
