"""Whose turn it is, what is looked at afresh, and what waits: schedulers on a real etcd; time moves only when told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from common.etcd import EtcdClient
from common.protocol.member import Member
from common.protocol.placement import Candidate, Placement
from common.protocol.planner import Decision
from common.protocol.proposals import Answer, Result
from common.protocol.txn import KeyValue, Txn
from common.verdicts import Verdict
from tests.support.deciding import MINUTE, NOON, SECOND, Ranked, planning
from tests.support.etcd_metrics import transactions_since
from tests.support.waiting import wait_until
from worker.admission import Reason

MINUTELY = "0 * * * * * *"
PLAN = str(NOON + MINUTE)


async def test_rank_1_takes_over_after_the_hedge_and_nobody_else(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(cronExpr=MINUTELY)
        world.rank("dead", "w2", "w3")
        world.at(NOON + MINUTE + 499)
        await world.settled()
        assert await world.mark() == NOON
        world.at(NOON + MINUTE + 500)
        await world.mark_comes_to(NOON + MINUTE)
        assert [planner.wins for planner in world.planners] == [[], [NOON + MINUTE], []]


async def test_rank_1_without_a_free_slot_does_not_try(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1"], slots=1) as world:
        await world.save("first", cronExpr=MINUTELY)
        await world.save("second", cronExpr=MINUTELY)
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) == 1, description="one takes the slot")
        world.rank("dead", "w1")
        world.at(NOON + 2 * MINUTE + 500)
        await world.settled()
        assert len(world.planners[0].wins) == 1


async def test_rank_1_whose_own_fires_wait_looks_once_it_has_a_slot_to_spare(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1"], slots=1) as world:
        [planner] = world.planners
        await world.save("first", cronExpr=MINUTELY)
        await world.save("second", cronExpr=MINUTELY)
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(planner.wins) == 1, description="one takes the slot")
        world.rank("dead", "w1")
        await world.save("anothers", cronExpr="1 * * * * * *")
        world.at(NOON + MINUTE + SECOND + 500)
        await world.settled()
        planner.free_slots()
        await wait_until(lambda: len(planner.wins) == 2, description="its own goes first")
        await world.settled()
        assert await world.mark("anothers") == NOON + MINUTE
        planner.free_slots()
        await world.mark_comes_to(NOON + MINUTE + SECOND, "anothers")
        assert planner.wins == [NOON + MINUTE, NOON + MINUTE, NOON + MINUTE + SECOND]


async def test_fire_that_waited_for_a_slot_until_it_was_late_says_so(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1"], slots=1) as world:
        [planner] = world.planners
        await world.save("first", cronExpr=MINUTELY)
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(planner.wins) == 1, description="it takes the slot")
        await world.save("waits", cronExpr="1 * * * * * *", misfire={"policy": "skip", "graceSeconds": 3})
        world.at(NOON + MINUTE + SECOND)
        await world.settled()
        world.at(NOON + MINUTE + 5 * SECOND)
        await world.mark_comes_to(NOON + MINUTE + SECOND, "waits")
        planner.free_slots()
        await world.settled()
        planner.scheduler.look_afresh("the worker was elsewhere", after_a_gap=True)
        world.at(NOON + 2 * MINUTE + 5 * SECOND)
        await world.mark_comes_to(NOON + 2 * MINUTE + SECOND, "waits")
        reasons = [record.reason for record in planner.records if record.run_id.job == "waits"]
        assert reasons == ["late: w1 had no free slot", "late"]


async def test_rank_1_makes_up_for_a_misfire_that_rank_0_leaves(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(cronExpr=MINUTELY)
        world.rank("dead", "w1")
        world.at(NOON + MINUTE + 50 * SECOND)
        world.planners[0].begin()
        await world.settled()
        world.at(NOON + MINUTE + 50 * SECOND + 500)
        await world.mark_comes_to(NOON + MINUTE)
        assert world.planners[0].wins == [NOON + MINUTE]


async def test_hedge_that_waits_for_a_slot_is_forgotten_when_the_clock_jumps_back(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, names=["w1"], slots=1) as world:
        [planner] = world.planners
        await world.save("first", cronExpr=MINUTELY)
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(planner.wins) == 1, description="it takes the slot")
        world.rank("dead", "w1")
        await world.save("anothers", cronExpr="1 * * * * * *")
        world.at(NOON + MINUTE + SECOND + 500)
        await world.settled()
        world.clock.set_wall(NOON + MINUTE)
        planner.scheduler.clock_jumped()
        await world.settled()
        planner.free_slots()
        await world.settled()
        assert await world.mark("anothers") == NOON + MINUTE
        world.at(NOON + MINUTE + SECOND + 500)
        await world.mark_comes_to(NOON + MINUTE + SECOND, "anothers")


async def test_hedge_finds_a_fire_that_was_decided_and_leaves_it(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, names=["w1", "w2"]) as world:
        await world.save(cronExpr=MINUTELY)
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)
        world.at(NOON + MINUTE + 500)
        await world.settled()
        assert [planner.wins for planner in world.planners] == [[NOON + MINUTE], []]


async def test_claim_of_a_fire_that_another_worker_has_decided_is_counted_as_lost(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, names=["w1"]) as world:
        await world.save(cronExpr=MINUTELY)
        await world.settled()
        await world.set_mark(NOON + MINUTE)
        world.at(NOON + MINUTE)
        await world.settled()
        scheduler = world.planners[0].scheduler
        await wait_until(lambda: scheduler.claims_lost == 1, description="its claim came late")
        assert world.planners[0].wins == []
        world.at(NOON + 2 * MINUTE)
        await world.mark_comes_to(NOON + 2 * MINUTE)
        assert scheduler.claims_lost == 1


async def test_new_membership_makes_a_due_fire_this_workers_at_once(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY)
        world.rank("dead", "another", "w1")
        world.at(NOON + MINUTE + 10)
        await world.settled()
        assert await world.mark() == NOON
        world.rank("w1")
        world.planners[0].scheduler.look_afresh("the membership changed")
        await world.mark_comes_to(NOON + MINUTE)


async def test_a_look_afresh_reads_only_the_marks_of_which_this_worker_is_first_or_second(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        names = [f"job-{number}" for number in range(20)]
        for name in names:
            await world.save(name, cronExpr=MINUTELY)
        world.planners[0].members.placement = Placement(Candidate(f"w{number}", 8) for number in range(1, 7))
        await world.settled()
        read = client.get_many
        asked: list[str] = []

        async def read_and_tell(keys: Sequence[str]) -> dict[str, KeyValue]:
            asked.extend(keys)
            return await read(keys)

        monkeypatch.setattr(client, "get_many", read_and_tell)
        world.planners[0].admission.set(Reason.STOP, "stopping")  # else it would claim its own in time
        world.at(NOON + MINUTE + 10)
        await world.settled()
        world.planners[0].begin()
        own = [name for name in names if world.planners[0].members.order(world.jobs[name], PLAN)[:2].count("w1")]
        assert 0 < len(own) < len(names)
        await wait_until(lambda: bool(asked), description="it looks at marks")
        await world.settled()
        assert sorted(asked) == sorted(world.keys.mark(name) for name in own)
        firsts = [name for name in own if world.planners[0].members.order(world.jobs[name], PLAN)[0] == "w1"]
        await wait_until(lambda: len(world.planners[0].wins) == len(firsts), description="it decides its own")


async def test_new_membership_while_a_decision_is_on_its_way_is_not_forgotten(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, overlap="allow")
        world.rank("dead", "another", "w1")
        world.at(NOON + MINUTE)
        await world.settled()
        pending = world.planners[0].scheduler._pending_of["job"]
        pending.busy = True
        world.rank("w1")
        world.planners[0].scheduler.look_afresh("the membership changed")
        await wait_until(lambda: pending.look_again, description="it is looked at while it is busy")
        assert await world.mark() == NOON
        decision = Decision(from_ms=NOON, to_ms=NOON + MINUTE, claim_ms=NOON + MINUTE)
        planner = world.planners[0]
        proposal = planner.claims.propose(pending.job, decision, session=planner.session, now_ms=NOON + MINUTE)
        answer = Result(proposal=proposal, answer=Answer.NOT_DONE)
        planner.scheduler._answers.answered(answer, planner.session)
        await world.mark_comes_to(NOON + MINUTE)


async def test_fires_that_wait_for_a_slot_keep_their_grace(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=1) as world:
        await world.save("long", cronExpr=MINUTELY, overlap="allow")
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE, "long")
        await world.save("waits", cronExpr="*/10 * * * * * *", overlap="allow")
        for tick in (10, 20, 30):
            world.at(NOON + MINUTE + tick * SECOND)
            await world.settled()
        assert await world.mark("waits") == NOON + MINUTE
        assert world.planners[0].scheduler.waiting == 1
        world.planners[0].scheduler.look_afresh("the membership changed")
        await world.settled()
        for tick in (10, 20, 30):
            world.planners[0].free_slots()
            await world.mark_comes_to(NOON + MINUTE + tick * SECOND, "waits")
        assert world.planners[0].wins == [NOON + MINUTE + tick * SECOND for tick in (0, 10, 20, 30)]


async def test_after_an_outage_only_the_newest_fire_has_its_grace(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        planner = world.planners[0]
        planner.scheduler.session = None
        for tick in range(1, 51):
            world.at(NOON + tick * SECOND)
        await world.settled()
        before = await client.get(world.keys.mark("job"))
        planner.begin()
        await world.mark_comes_to(NOON + 50 * SECOND)
        after = await client.get(world.keys.mark("job"))
        assert planner.wins == [NOON + 50 * SECOND]
        assert [(record.status, record.count) for record in planner.records] == [(Verdict.MISSED, 49)]
        assert before is not None
        assert after is not None
        assert after.version == before.version + 1


@pytest.mark.parametrize(
    ("by", "other_since_s", "made_up"),
    [
        ("the hedge", 50, [50]),
        ("the next fire", 50, [50, 51]),
        ("the hedge", 0, range(1, 51)),
        ("the next fire", 0, range(1, 52)),
        ("the hedge, after a silence of its own", 0, range(1, 51)),
    ],
    ids=[
        "by its hedge",
        "with the next fire",
        "by its hedge, where another was there",
        "with the next, likewise",
        "where it was out of touch itself",
    ],
)
async def test_after_an_absence_of_all_only_the_newest_fire_has_its_grace_whoever_decides_it(
    client: EtcdClient, prefix: str, by: str, other_since_s: int, made_up: Sequence[int]
) -> None:
    """The worker whose turn it was is slower; where it was there all the time, what it has left may wait for a slot."""
    async with planning(client, prefix, slots=100, start=False) as world:
        await world.save(overlap="allow")
        [planner] = world.planners
        now_ms = NOON + 50 * SECOND
        world.rank("another", "third", "w1") if by == "the next fire" else world.rank("another", "w1")
        names = planner.members.eligible(world.jobs["job"])
        if by == "the hedge, after a silence of its own":
            planner.absences.saw(live(name, NOON) for name in names)
            planner.absences.lost_touch(planner.clock.boottime())
        world.at(now_ms)
        since_ms = {name: NOON + other_since_s * SECOND if name == "another" else now_ms for name in names}
        planner.absences.saw(live(name, since_ms[name]) for name in names)
        planner.begin()
        await world.settled()
        assert planner.wins == []
        if by == "the next fire":
            planner.members.placement = Ranked(["w1", *sorted(names - {"w1"})])
            world.at(now_ms + SECOND)
        else:
            world.at(now_ms + 500)
        await world.mark_comes_to(NOON + made_up[-1] * SECOND)
        assert planner.wins == [NOON + second * SECOND for second in made_up]
        passed = [(record.status, record.count) for record in planner.records]
        assert passed == ([(Verdict.MISSED, 49)] if other_since_s else [])


def live(worker: str, since_ms: int) -> Member:
    return Member(worker=worker, session="a", instance="i", host="h", address="a", slots=100, since_ms=since_ms)


async def test_worker_that_accepts_again_reads_the_marks_before_it_decides(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        planner = world.planners[0]
        planner.admission.set(Reason.STOP, "stopping")
        planner.scheduler.wake()
        await world.settled()
        world.at(NOON + 30 * SECOND)
        await world.settled()
        planner.admission.set(Reason.STOP, None)
        planner.admission.announced()
        planner.scheduler.wake()
        await world.mark_comes_to(NOON + 30 * SECOND)
        assert planner.wins == [NOON + 30 * SECOND]


@pytest.mark.parametrize("jump", [-3600 * SECOND, 3600 * SECOND])
async def test_clock_that_jumped_neither_repeats_nor_forgets_a_fire(client: EtcdClient, prefix: str, jump: int) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, overlap="allow")
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)
        planner = world.planners[0]
        world.clock.set_wall(NOON + MINUTE + jump)
        planner.scheduler.clock_jumped()
        await world.settled()
        world.at(NOON + 2 * MINUTE + jump)
        await world.settled()
        expected = [NOON + MINUTE]
        if jump > 0:
            expected += [NOON + MINUTE + jump, NOON + 2 * MINUTE + jump]
        assert planner.wins == expected
        if jump < 0:
            world.clock.set_wall(NOON + 2 * MINUTE)
            planner.scheduler.clock_jumped()
            await world.mark_comes_to(NOON + 2 * MINUTE)


@pytest.mark.parametrize(("policy", "claimed", "asked_for"), [("skip", 1, 0), ("latest", 1, 0), ("all", 0, 10)])
async def test_clock_that_jumped_ahead_makes_misfires_and_no_burst(
    client: EtcdClient, prefix: str, policy: str, claimed: int, asked_for: int
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow", misfire={"policy": policy})
        world.at(NOON + SECOND)
        await world.mark_comes_to(NOON + SECOND)
        planner, there_ms = world.planners[0], NOON + 3600 * SECOND
        world.clock.set_wall(there_ms)
        planner.scheduler.clock_jumped()
        await world.mark_comes_to(there_ms)
        await wait_until(lambda: planner.records != [], description="the range")
        assert planner.wins == [NOON + SECOND, *([there_ms] if claimed else [])]
        (missed,) = planner.records
        assert (missed.status, missed.plan_ms, missed.count_is_minimum) == (Verdict.MISSED, NOON + 2 * SECOND, True)
        assert len(await world.requests()) == asked_for


async def test_clock_that_jumped_ahead_and_back_waits_until_it_gets_there_again(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        planner = world.planners[0]
        world.clock.set_wall(NOON + 30 * SECOND)
        planner.scheduler.clock_jumped()
        await world.mark_comes_to(NOON + 30 * SECOND)
        world.clock.set_wall(NOON)
        planner.scheduler.clock_jumped()
        await world.settled()
        for tick in (1, 15, 30, 31):
            world.at(NOON + tick * SECOND)
            await world.settled()
        await world.mark_comes_to(NOON + 31 * SECOND)
        assert planner.wins == [NOON + 30 * SECOND, NOON + 31 * SECOND]


async def test_clock_that_jumped_while_a_fire_waits_for_a_lock_lets_it_go_on(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY)
        await world.lock()
        world.at(NOON + MINUTE)
        await world.settled()
        await world.unlock()
        world.clock.set_wall(NOON + MINUTE + 50)
        world.planners[0].scheduler.clock_jumped()
        await world.mark_comes_to(NOON + MINUTE)


async def test_clock_that_jumped_has_many_jobs_planned_anew_some_at_a_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        revision = await world.save("yearly", cronExpr="0 0 0 1 1 * *")
        yearly = await client.get(world.keys.job("yearly"))
        assert yearly is not None
        await world.save(cronExpr=MINUTELY)
        for number in range(1200):
            world.tell_copy(yearly, f"copy-{number}", revision + 1)
        await world.settled()
        scheduler = world.planners[0].scheduler
        world.clock.set_wall(NOON + 30 * SECOND)
        scheduler.clock_jumped()
        left = [len(scheduler._to_plan)]
        while scheduler._to_plan:
            await asyncio.sleep(0)
            left.append(len(scheduler._to_plan))
        assert max(before - after for before, after in pairwise(left)) == 500
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)


async def test_job_edited_between_claim_and_start_fires_under_the_new_spec_afterwards(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY, overlap="allow")
        world.at(NOON + MINUTE - 200)
        await world.mark_comes_to(NOON + MINUTE)
        await world.save(cronExpr=MINUTELY, overlap="allow", command="echo new", anchor_ms=NOON + MINUTE)
        world.at(NOON + MINUTE + 800)
        await world.settled()
        world.at(NOON + 2 * MINUTE)
        await world.mark_comes_to(NOON + 2 * MINUTE)
        commands = [result.proposal.job.spec.command for result in world.planners[0].won_results]
        assert commands == ["true", "echo new"]


async def test_fire_that_waits_for_its_jitter_starts_under_the_spec_of_an_edit_of_something_else(
    client: EtcdClient, prefix: str
) -> None:
    hourly: dict[str, Any] = {"cronExpr": "0 0 * * * * *", "jitterSeconds": 3000}
    async with planning(client, prefix) as world:
        await world.save(**hourly)
        plan_ms = NOON - NOON % (60 * MINUTE) + 60 * MINUTE
        dispatch_ms = world.jobs["job"].dispatch_ms(plan_ms)
        assert dispatch_ms > plan_ms + MINUTE
        world.at(plan_ms + MINUTE)
        await world.settled()
        await world.save(**hourly, command="echo new", anchor_ms=NOON)
        world.at(dispatch_ms - SECOND)
        await world.settled()
        assert await world.mark() == NOON
        world.at(dispatch_ms)
        await world.mark_comes_to(plan_ms)
        (won,) = world.planners[0].won_results
        assert won.proposal.job.spec.command == "echo new"


async def test_fire_that_waits_for_a_slot_starts_under_the_spec_of_an_edit_of_something_else(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, slots=1) as world:
        await world.save("first", cronExpr=MINUTELY, overlap="allow")
        await world.save("second", cronExpr=MINUTELY, overlap="allow", priority=-1)
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE, "first")
        world.at(NOON + MINUTE + 30 * SECOND)
        await world.save("second", cronExpr=MINUTELY, overlap="allow", labels={"a": "b"}, anchor_ms=NOON)
        await world.settled()
        world.planners[0].free_slots()
        await world.mark_comes_to(NOON + MINUTE, "second")
        assert not world.planners[0].records


async def test_fire_of_the_second_in_rank_keeps_its_hedge_over_an_edit_of_something_else(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, names=("w0", "w1")) as world:
        world.planners[0].scheduler.session = None
        await world.save(cronExpr=MINUTELY, overlap="allow")
        world.at(NOON + MINUTE + 300)
        await world.settled()
        await world.save(cronExpr=MINUTELY, overlap="allow", labels={"a": "b"}, anchor_ms=NOON)
        world.at(NOON + MINUTE + 499)
        await world.settled()
        assert await world.mark() == NOON
        world.at(NOON + MINUTE + 500)
        await world.mark_comes_to(NOON + MINUTE)
        assert world.planners[1].wins == [NOON + MINUTE]


@pytest.mark.parametrize("off_by", [-2 * SECOND, 2 * SECOND])
async def test_job_saved_by_a_manager_whose_clock_is_off(client: EtcdClient, prefix: str, off_by: int) -> None:
    async with planning(client, prefix) as world:
        world.at(NOON + 10 * SECOND)
        await world.save(overlap="allow", anchor_ms=NOON + 10 * SECOND + off_by)
        for tick in range(11, 16):
            world.at(NOON + tick * SECOND)
            await world.settled()
        await world.mark_comes_to(NOON + 15 * SECOND)
        first = 10 + off_by // SECOND + 1
        assert world.planners[0].wins == [NOON + tick * SECOND for tick in range(first, 16)]


async def test_job_deleted_and_made_again_at_once_fires_each_time_once(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        world.at(NOON + SECOND)
        await world.mark_comes_to(NOON + SECOND)
        await world.delete()
        await world.save(overlap="allow", anchor_ms=NOON + SECOND)
        for tick in (2, 3):
            world.at(NOON + tick * SECOND)
            await world.mark_comes_to(NOON + tick * SECOND)
        assert world.planners[0].wins == [NOON + tick * SECOND for tick in (1, 2, 3)]


async def test_job_saved_while_all_jobs_are_looked_at_does_not_lose_its_first_fire(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save("first", cronExpr=MINUTELY)
        world.planners[0].begin()
        world.planners[0].scheduler._turn(world.clock.wall_ms())  # the look has begun
        world.clock.advance(SECOND)
        await world.save("late", anchor_ms=NOON)
        await world.mark_comes_to(NOON + SECOND, "late")


async def test_edits_without_end_do_not_make_the_agenda_grow(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr="0 0 0 1 1 * *")
        kv = await client.get(world.keys.job("job"))
        for _ in range(1000):
            world.tell(world.keys.job("job"), kv)
        assert len(world.planners[0].scheduler._pending_jobs.cues) < 300


async def test_worker_without_anything_to_do_sleeps(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        scheduler = world.planners[0].scheduler
        await world.save(cronExpr=MINUTELY)
        await world.settled()
        turns: list[int] = []
        real = scheduler._turn

        def turn(now_ms: int) -> int | None:
            turns.append(now_ms)
            return real(now_ms)

        monkeypatch.setattr(scheduler, "_turn", turn)
        for _ in range(50):
            await client.get(world.keys.prefix)
        looks = len(turns)
        assert looks < 25, "one now and then, the longer the busier the machine is, and not one after the other"
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)
        assert len(turns) < looks + 25


async def test_five_thousand_jobs_are_caught_up_with_constant_work(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False, slots=10_000) as world:
        await world.save("job0", cronExpr=MINUTELY, overlap="allow")
        kv = await client.get(world.keys.job("job0"))
        assert kv is not None
        for number in range(1, 5000, 60):
            puts = [
                world.put_copy(kv, f"job{one}", NOON) for one in range(number, min(number + 60, 5000))
            ]  # fmt: skip
            result = await client.txn(Txn([], [put for pair in puts for put in pair]))
            for one in range(number, min(number + 60, 5000)):
                world.tell_copy(kv, f"job{one}", result.revision)
        world.clock.advance(60 * MINUTE)
        before = (await client.status()).revision
        world.planners[0].begin()
        await wait_until(lambda: len(world.planners[0].wins) == 5000, description="each has its newest fire claimed")
        await world.settled()
        assert set(world.planners[0].wins) == {NOON + 60 * MINUTE}
        assert len(world.planners[0].records) == 5000
        assert await transactions_since(client, world.keys.prefix, before) < 400


async def test_job_of_several_slots_is_not_passed_by_those_of_one_that_fire_all_the_time(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix, slots=2) as world:
        planner = world.planners[0]
        planner.members._selected[2, ()] = Ranked(["w1"])
        for name in "abcdefgh":  # more than there are slots for
            await world.save(name, overlap="allow")
        await world.save("big", overlap="allow", slots=2)
        names: list[str] = []
        for step in range(1, 60):
            world.at(NOON + step * 250)
            await world.settled()
            names = [result.proposal.job.name for result in planner.won_results]
            if "big" in names:
                break
            for run in list(planner.table)[:1]:  # one at a time: never are two slots free by chance
                planner.table.forget(run)
                planner.scheduler.wake()
        assert "big" in names


async def test_mark_that_was_set_back_before_the_anchor_is_looked_at_with_pauses(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        await world.set_mark(NOON - SECOND)
        sent, usual = [], client.txn

        async def txn(transaction: Txn) -> Any:
            sent.append(transaction.then)
            return await usual(transaction)

        monkeypatch.setattr(client, "txn", txn)
        world.at(NOON + SECOND)
        for _ in range(50):  # time for as many transactions, were they sent without a pause
            await client.get(prefix)
        assert len(sent) < 10
        await world.set_mark(NOON)
        world.at(NOON + 2 * SECOND)
        await world.mark_comes_to(NOON + 2 * SECOND)
