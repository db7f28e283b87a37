"""What is decided about fires, by one worker or several, on a real etcd; time moves only when told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from common.errors import EtcdInDoubtError
from common.etcd import EtcdClient
from common.protocol.keys import RunId, encode_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import Decision
from common.protocol.proposals import Proposal
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState
from common.protocol.txn import Delete, Operation, Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.deciding import MINUTE, NOON, SECOND, Ranked, planning
from tests.support.etcd_server import EtcdServer
from tests.support.meeting import Meeting
from tests.support.waiting import wait_until
from worker.plan.answers import pass_over

HOURLY = "0 0 * * * * *"
MINUTELY = "0 * * * * * *"


async def test_rank_0_claims_a_fire_ahead_of_its_time(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        world.at(NOON + 799)
        await world.settled()
        assert world.planners[0].wins == []
        world.at(NOON + 800)
        await world.mark_comes_to(NOON + 1000)
        await world.settled()
        runs = await world.runs()
        assert world.planners[0].wins == [NOON + 1000]
        assert runs[NOON + 1000].state is EntryState.OPEN
        assert runs[NOON + 1000].locked
        lock = await client.get(world.keys.lock("job"))
        run = await client.get(world.keys.run(RunId.planned("job", NOON + 1000)))
        assert lock is not None
        assert run is not None
        assert lock.create_revision == run.create_revision == world.planners[0].won_results[0].revision


async def test_of_several_workers_that_all_try_one_wins(client: EtcdClient, prefix: str) -> None:
    names = [f"w{number}" for number in range(5)]
    async with planning(client, prefix, names=names) as world:
        for planner in world.planners:  # each believes that it is its turn
            planner.members.placement = Ranked([planner.name, *(name for name in names if name != planner.name)])
        await world.save(overlap="allow")
        for tick in range(1, 11):
            world.at(NOON + tick * SECOND)
            await world.mark_comes_to(NOON + tick * SECOND)
            await world.settled()
        wins = sorted(plan_ms for planner in world.planners for plan_ms in planner.wins)
        assert wins == [NOON + tick * SECOND for tick in range(1, 11)]


async def test_batch_is_sent_again_without_those_that_were_ruled_out(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, slots=100) as world:
        for number in range(30):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        await world.lock(name="job3")
        await world.save("job7", cronExpr=MINUTELY, tell=False)  # this worker has not heard of it yet
        await world.set_mark(NOON + MINUTE, "job11")  # somebody else has decided its fire
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) >= 27, description="the other 27 are claimed")
        await world.settled()
        claimed = {result.proposal.job.name for result in world.planners[0].won_results}
        assert claimed == {f"job{number}" for number in range(30)} - {"job3", "job7", "job11"}
        assert len({result.revision for result in world.planners[0].won_results}) == 1


class _Counting(EtcdClient):
    """Knows how many reads for a refusal each of its claims had."""

    def __init__(self, endpoint: str) -> None:
        super().__init__([endpoint])
        self.asked: list[int] = []
        self.between: Callable[[], Awaitable[Any]] | None = None
        """Happens once: after the refusal of a claim that does not ask why."""
        self.losing = False
        """The answer to what comes after that."""

    async def txn(self, transaction: Txn) -> TxnResult:
        if any(isinstance(operation, Put) and "/runs/" in operation.key for operation in transaction.then):
            self.asked.append(len(transaction.otherwise))
        result = await super().txn(transaction)
        if self.asked == [0] and self.between is not None and not result.succeeded:
            between, self.between = self.between, None
            await between()
        elif self.asked == [0, len(transaction.otherwise)] and self.losing:
            self.losing = False
            raise EtcdInDoubtError("a lost answer")
        return result


@pytest.mark.parametrize(
    ("jobs", "is_one_locked", "asked"),
    [(30, False, [0]), (30, True, [0, 91, 0]), (1, False, [4]), (2, True, [7, 4])],
)
async def test_large_batch_asks_why_only_once_it_has_been_refused(
    etcd: EtcdServer, prefix: str, jobs: int, asked: list[int], *, is_one_locked: bool
) -> None:
    client = _Counting(etcd.endpoint)
    async with planning(client, prefix, slots=100) as world:
        for number in range(jobs):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        if is_one_locked:
            await world.lock(name="job0")
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) == jobs - is_one_locked, description="all others claimed")
        assert client.asked == asked
    await client.close()


@pytest.mark.parametrize("is_lost", [False, True])
async def test_large_batch_that_is_not_refused_any_more_is_claimed_once(
    etcd: EtcdServer, prefix: str, *, is_lost: bool
) -> None:
    """The lock that was in its way is freed before it asks why; also where the answer to that is lost."""
    client = _Counting(etcd.endpoint)
    async with planning(client, prefix, slots=100) as world:
        for number in range(12):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        await world.lock(name="job0")
        client.between, client.losing = partial(world.unlock, "job0"), is_lost
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) >= 12, description="all are claimed")
        await world.settled()
        [planner] = world.planners
        assert (len(planner.wins), len({result.revision for result in planner.won_results})) == (12, 1)
        assert client.asked == [0, 37, 37][: 2 + is_lost]
    await client.close()


async def test_session_that_ends_before_a_large_batch_asks_why_claims_nothing(etcd: EtcdServer, prefix: str) -> None:
    client = _Counting(etcd.endpoint)
    async with planning(client, prefix, slots=100) as world:
        for number in range(12):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        await world.lock(name="job0")

        async def ends() -> None:
            await world.unlock("job0")
            await client.lease_revoke(world.planners[0].session.lease_id)

        client.between = ends
        world.at(NOON + MINUTE)
        await wait_until(lambda: client.asked == [0, 37], description="it has asked why")
        await world.settled()
        assert world.planners[0].wins == []
        assert await world.mark("job5") == NOON
    await client.close()


@pytest.mark.parametrize("change", ["changed", "paused", "deleted"])
async def test_no_fire_is_claimed_under_an_old_spec(client: EtcdClient, prefix: str, change: str) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        match change:
            case "changed":
                await world.save(command="echo new", tell=False)
            case "paused":
                await world.save(enabled=False, tell=False)
            case _:
                await world.delete(tell=False)
        world.at(NOON + 1000)
        await world.settled()
        world.at(NOON + 2000)
        await world.settled()
        assert world.planners[0].wins == []
        assert await world.mark() == NOON


async def test_older_undecided_fires_are_taken_along_oldest_first(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow")
        world.rank("elsewhere", "another", "w1")
        for tick in (1, 2, 3):
            world.at(NOON + tick * SECOND)
            await world.settled()
        world.rank("w1")
        world.at(NOON + 4 * SECOND)
        await world.mark_comes_to(NOON + 4 * SECOND)
        await world.settled()
        assert world.planners[0].wins == [NOON + tick * SECOND for tick in (1, 2, 3, 4)]


async def test_mark_that_does_not_exist_or_is_garbage_is_left_to_the_steward(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save("gone")
        await world.save("garbage")
        await client.delete(world.keys.mark("gone"))
        await client.put(world.keys.mark("garbage"), b"\xff not a mark")
        await world.save("well")
        world.at(NOON + 1000)
        await world.mark_comes_to(NOON + 1000, "well")
        await world.settled()
        assert [result.proposal.job.name for result in world.planners[0].won_results] == ["well"]
        await world.set_mark(NOON + 1500, "gone")
        world.at(NOON + 2000)
        await world.mark_comes_to(NOON + 2000, "gone")


async def test_held_lock_is_no_verdict_before_the_dispatch_time_nor_until_100_ms_after_it(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        lock = await world.lock("job@earlier#1")
        for moment in (800, 999, 1000, 1099):
            world.at(NOON + moment)
            await world.settled()
            assert await world.runs() == {}, f"decided at {moment}"
        world.at(NOON + 1100)
        await world.mark_comes_to(NOON + 1000)
        await wait_until(lambda: world.planners[0].records != [], description="the record of the skip")
        record = (await world.runs())[NOON + 1000].record
        assert record is not None
        assert record.status is Verdict.SKIPPED
        assert record.reason == "overlap: job@earlier#1 was going"
        assert world.planners[0].records == [record]
        assert world.planners[0].wins == []
        held = await client.get(world.keys.lock("job"))
        assert held is not None
        assert held.create_revision == lock


@pytest.mark.parametrize("freed_at", [950, 1000, 1090])
async def test_lock_that_is_freed_in_time_is_no_overlap(client: EtcdClient, prefix: str, freed_at: int) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        await world.lock()
        for moment in (800, 950, 1000, 1090, 1100):
            if moment == freed_at:
                await world.unlock()
            world.at(NOON + moment)
            await world.settled()
        await world.mark_comes_to(NOON + 1000)
        assert world.planners[0].wins == [NOON + 1000]
        assert world.planners[0].records == []


async def test_lock_that_changes_hands_between_the_look_and_the_skip_is_looked_at_again(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        await world.lock("job@earlier#1")
        world.at(NOON + 1000)
        await world.settled()
        changes = [world.unlock(), world.lock("job@other#1")]

        async def change() -> None:
            for one in changes:
                await one

        real_send = world.planners[0].scheduler._sending.send

        async def send(batch: object) -> None:
            if changes and any(proposal.blocker for proposal in batch.proposals):  # type: ignore[attr-defined]
                await change()
                changes.clear()
            await real_send(batch)  # type: ignore[arg-type]

        monkeypatch.setattr(world.planners[0].scheduler._sending, "send", send)
        world.at(NOON + 1100)
        await world.mark_comes_to(NOON + 1000)
        record = (await world.runs())[NOON + 1000].record
        assert record is not None
        assert record.reason == "overlap: job@other#1 was going"


async def test_run_in_the_way_of_one_fire_does_not_skip_the_next_before_its_time(
    client: EtcdClient, prefix: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(misfire={"policy": "skip", "graceSeconds": 1})
        await world.lock()
        world.at(NOON + 1100)
        await world.mark_comes_to(NOON + 1000)
        for moment in (1800, 2000, 2099):
            world.at(NOON + moment)
            await world.settled()
            assert await world.mark() == NOON + 1000
        world.at(NOON + 2100)
        await world.mark_comes_to(NOON + 2000)


async def test_session_that_ended_decides_nothing(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix) as world:
        await world.save()
        await world.planners[0].session.close()
        world.at(NOON + 1000)
        await world.settled()
        assert await world.mark() == NOON
        assert world.planners[0].wins == []


async def test_detached_session_decides_nothing_until_its_key_is_put_again_and_says_so_once(
    client: EtcdClient, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY)
        session = world.planners[0].session
        await client.put(session.key, b"{}")
        for moment in (MINUTE, MINUTE + SECOND):
            world.at(NOON + moment)
            await world.settled()
        assert await world.mark() == NOON
        [told] = [record for record in caplog.records if getattr(record, "action", "") == "fires.detached"]
        assert told.getMessage().endswith(f"{session.key} is under no lease, not under lease {session.lease_id:x}")
        await client.put(session.key, b"{}", session.lease_id)
        world.at(NOON + MINUTE + 2 * SECOND)
        await world.mark_comes_to(NOON + MINUTE)


@pytest.mark.parametrize("where", ["at the fire", "at the first of a missed range"])
async def test_run_key_that_nobody_claimed_is_passed_over(client: EtcdClient, prefix: str, where: str) -> None:
    async with planning(client, prefix) as world:
        await world.save(overlap="allow", misfire={"policy": "skip", "graceSeconds": 1})
        first = NOON + SECOND
        there = world.keys.run(RunId.planned("job", first))
        await client.put(there, b"somebody else's")
        if where != "at the fire":
            world.rank("elsewhere", "another", "w1")
            world.at(NOON + 5 * SECOND)
            await world.settled()
            world.rank("w1")
        newest = first if where == "at the fire" else NOON + 6 * SECOND
        world.at(newest)
        await world.mark_comes_to(newest)
        world.at(NOON + 7 * SECOND)
        await world.mark_comes_to(NOON + 7 * SECOND)
        assert NOON + 7 * SECOND in world.planners[0].wins
        kv = await client.get(there)
        assert kv is not None
        assert kv.value == b"somebody else's"


@pytest.mark.parametrize("what", ["session over", "edited", "decided", "gone"])
async def test_run_key_in_the_way_is_passed_over_only_if_all_is_as_it_was_when_found(
    client: EtcdClient, prefix: str, meeting: Meeting, what: str
) -> None:
    async with planning(client, prefix) as world:
        await world.save(cronExpr=MINUTELY)
        keys, session = world.keys, world.planners[0].session
        there = keys.run(RunId.planned("job", NOON + MINUTE))
        await client.put(there, b"somebody else's")
        decision = Decision(from_ms=NOON, to_ms=NOON + MINUTE, claim_ms=NOON + MINUTE)
        claims = world.planners[0].claims
        proposal = claims.propose(world.jobs["job"], decision, session=session, now_ms=NOON + MINUTE)
        steps: dict[str, Operation] = {
            "session over": Delete(session.key),
            "edited": Put(keys.job("job"), b"another spec"),
            "decided": Put(keys.mark("job"), encode_mark(NOON - 1)),
            "gone": Delete(there),
        }
        await meeting.writes_nothing(
            prefix, lambda: pass_over(meeting, keys, proposal, session), after=[[steps[what]]]
        )  # fmt: skip


async def test_fires_missed_while_nobody_was_there_are_one_record(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(misfire={"policy": "latest", "graceSeconds": 10})
        world.at(NOON + 3600 * SECOND)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + 3600 * SECOND)
        await world.settled()
        runs = await world.runs()
        assert sorted(runs) == [NOON + SECOND, NOON + 3600 * SECOND]
        record = runs[NOON + SECOND].record
        assert record is not None
        assert (record.status, record.count, record.count_is_minimum) == (Verdict.MISSED, 1000, True)
        assert record.range_end_ms == NOON + 3599 * SECOND
        assert world.planners[0].wins == [NOON + 3600 * SECOND]
        assert world.planners[0].records == [record]


async def test_misfires_of_policy_all_become_requests_oldest_first(client: EtcdClient, prefix: str) -> None:
    async with planning(client, prefix, start=False) as world:
        await world.save(cronExpr=MINUTELY, misfire={"policy": "all", "graceSeconds": 10, "limit": 3})
        world.at(NOON + 10 * MINUTE)
        world.planners[0].begin()
        await world.mark_comes_to(NOON + 10 * MINUTE)
        found: list[Request] = []
        async for page in client.read_prefix(world.keys.requests):
            found += [Request.from_json(kv.value, run_id=world.keys.run_of(kv.key)) for kv in page.kvs]
        assert [request.plan_ms for request in found] == [NOON + minute * MINUTE for minute in (8, 9, 10)]
        assert {request.origin for request in found} == {Origin.CATCH_UP}
        assert await client.get(world.keys.seen_prefix + "requests") is not None
        assert sorted(await world.runs()) == [NOON + MINUTE]
        assert world.planners[0].wins == []


@pytest.mark.parametrize(("overlap", "keys"), [("skip", 3), ("allow", 2)])
async def test_claim_is_one_revision_of_few_keys(client: EtcdClient, prefix: str, overlap: str, keys: int) -> None:
    async with planning(client, prefix, names=["w1", "w2", "w3"]) as world:
        await world.save(overlap=overlap)
        world.at(NOON + 1000)
        await world.mark_comes_to(NOON + 1000)
        await world.settled()
        before = await client.get(world.keys.mark("job"))
        world.at(NOON + 1600)  # the hedge of rank 1 finds it decided, and writes nothing
        await world.settled()
        changed = [
            kv for prefix in (world.keys.marks, world.keys.runs, world.keys.locks, world.keys.requests)
            async for page in client.read_prefix(prefix) for kv in page.kvs
        ]  # fmt: skip
        assert before is not None
        assert [kv.mod_revision for kv in changed] == [before.mod_revision] * keys


async def test_large_records_do_not_make_a_transaction_too_large(client: EtcdClient, prefix: str) -> None:
    labels = {f"l{number}": "x" * 4000 for number in range(15)}
    async with planning(client, prefix, start=False) as world:
        for number in range(40):
            await world.save(
                f"job{number}", cronExpr=MINUTELY, labels=labels, misfire={"policy": "skip", "graceSeconds": 1}
            )
        world.at(NOON + 10 * MINUTE + 30 * SECOND)
        world.planners[0].begin()
        await wait_until(lambda: len(world.planners[0].records) == 40, description="all 40 are recorded")


async def test_what_cannot_be_decided_harms_no_other_job(
    client: EtcdClient, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planning(client, prefix) as world:
        await world.save("bad")
        await world.save("good")
        claims = world.planners[0].claims
        real = claims.propose

        def propose(job: PlannedJob, *values: Any, **more: Any) -> Proposal:
            if job.name == "bad":
                raise ZeroDivisionError("a bug that was not foreseen")
            return real(job, *values, **more)

        monkeypatch.setattr(claims, "propose", propose)
        world.at(NOON + 1000)
        await world.mark_comes_to(NOON + 1000, "good")
        assert [result.proposal.job.name for result in world.planners[0].won_results] == ["good"]


@pytest.mark.parametrize("rank", ["w1", "w2"])
async def test_what_cannot_be_looked_at_harms_no_other_job(
    client: EtcdClient, prefix: str, rank: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with planning(client, prefix, names=["w1", "w2"], start=False) as world:
        for name in ("bad", "good", "other"):
            await world.save(name, cronExpr=MINUTELY)
        one = world.planners[0] if rank == "w1" else world.planners[1]
        real = one.members.rank

        def failing(job: PlannedJob, fire: str) -> int | None:
            if job.name == "bad":
                raise ZeroDivisionError("a bug that nobody has foreseen")
            return real(job, fire)

        monkeypatch.setattr(one.members, "rank", failing)
        world.at(NOON + 10 * MINUTE)
        one.begin()
        await world.settled()
        if rank == "w2":  # the hedge of the second in rank
            world.at(NOON + 10 * MINUTE + SECOND)
        for name in ("good", "other"):
            await world.mark_comes_to(NOON + 10 * MINUTE, name)
        assert await world.mark("bad") == NOON
        assert [getattr(one, "action", "") for one in caplog.records].count("look at job.set_aside") == 1
