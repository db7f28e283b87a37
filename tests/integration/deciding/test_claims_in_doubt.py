"""Claims whose answer is lost: carried out or not, early or late, a fire is claimed once and nothing is forgotten.

The first transaction is held back in the client, which answers "in doubt" as a deadline would; it is let go later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

import worker.plan.doubts
from common.errors import EtcdInDoubtError
from common.etcd import EtcdClient
from common.protocol.txn import Delete, Put, Txn, TxnResult
from common.verdicts import Verdict
from tests.support.deciding import MINUTE, NOON, SECOND, World, planning
from tests.support.etcd_server import EtcdServer
from tests.support.proxy import Mode, Proxy
from tests.support.waiting import wait_until
from worker.admission import Reason

MINUTELY = "0 * * * * * *"


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.plan.doubts, "LOOK_AGAIN_S", 0.05)


class Doubtful(EtcdClient):
    """Loses the answers to claims while told to; the transactions it has not sent can be sent later."""

    losing = 0
    carry_out = True
    reachable = True

    def __init__(self, endpoints: Sequence[str]) -> None:
        super().__init__(endpoints)
        self.held: list[Txn] = []
        self.lost = 0
        """Answers that were lost: what was to be carried out before that is."""
        self.looks = 0
        self.has_lost = asyncio.Event()

    async def txn(self, transaction: Txn) -> TxnResult:
        if self.losing and any("/marks/" in one.key for one in transaction.then if isinstance(one, Put | Delete)):
            self.losing -= 1
            if self.carry_out:
                await super().txn(transaction)
            else:
                self.held.append(transaction)
            self.lost += 1
            self.has_lost.set()
            raise EtcdInDoubtError("a lost answer")
        if not self.reachable:
            self.looks += 1
            raise EtcdInDoubtError("etcd is away")
        return await super().txn(transaction)

    async def let_go(self) -> bool:
        """The transaction that was held back arrives; whether it was carried out."""
        return (await super().txn(self.held.pop(0))).succeeded


@asynccontextmanager
async def doubtful(client: EtcdClient, etcd: EtcdServer, prefix: str) -> AsyncIterator[tuple[World, Doubtful]]:
    async with Doubtful([etcd.endpoint]) as own, planning(client, prefix, clients=[own], slots=100) as world:
        yield world, own


async def test_reply_cut_after_the_commit_is_a_claim_that_needs_a_new_stamp(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with (
        Proxy(etcd.endpoint) as proxy, EtcdClient([proxy.endpoint]) as own,
        planning(client, prefix, clients=[own]) as world,
    ):  # fmt: skip
        await world.save(cronExpr=MINUTELY)
        proxy.set(Mode.CUT_REPLY)
        world.at(NOON + MINUTE)
        await wait_until(lambda: world.planners[0].wins != [], description="the claim is found to be won")
        await world.settled()
        [result] = world.planners[0].won_results
        assert proxy.cuts == 1
        assert result.sent == float("-inf")
        run = await client.get(world.keys.run(next(iter(world.planners[0].table)).run_id))
        assert run is not None
        assert result.revision == run.create_revision


async def test_transaction_that_never_arrived_is_sent_again(client: EtcdClient, etcd: EtcdServer, prefix: str) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing, own.carry_out = 1, False
        world.at(NOON + MINUTE)
        await wait_until(lambda: world.planners[0].wins == [NOON + MINUTE], description="it is claimed")
        assert not await own.let_go()
        await world.settled()
        assert world.planners[0].wins == [NOON + MINUTE]
        assert world.planners[0].won_results[0].sent > 0


async def test_claim_in_doubt_is_watched_on_while_its_mark_may_still_come_to_where_it_starts(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        planner = world.planners[0]
        world.rank("elsewhere", "another", "w1")
        world.at(NOON + MINUTE)  # nobody decides this one for now
        await world.settled()
        world.rank("w1")
        own.losing, own.carry_out = 1, False
        world.at(NOON + 2 * MINUTE)
        await own.has_lost.wait()  # the claim, which presumes that one
        while planner.scheduler._wants_look is not None:  # noqa: ASYNC110 - not a moment later than it
            await asyncio.sleep(0)
        planner.admission.set(Reason.STOP, "stopping")  # it is told where the mark is, and would go on from there
        await world.settled()
        await world.set_mark(NOON + MINUTE)  # somebody has decided it
        await own.let_go()  # carried out, unless the next sending was faster
        await wait_until(lambda: planner.wins == [NOON + 2 * MINUTE], description="the late claim is found to be won")


async def test_batch_carried_out_in_doubt_is_won_whole_with_its_records(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        for number in range(5):
            await world.save(f"job{number}", cronExpr=MINUTELY, misfire={"policy": "skip", "graceSeconds": 60})
        world.rank("elsewhere", "another", "w1")
        world.at(NOON + 9 * MINUTE)
        await world.settled()
        world.rank("w1")
        own.losing = 1
        world.at(NOON + 10 * MINUTE)
        await wait_until(lambda: len(world.planners[0].records) == 5, description="the missed ranges are found")
        assert {record.status for record in world.planners[0].records} == {Verdict.MISSED}
        await wait_until(lambda: len(world.planners[0].wins) >= 5, description="the claims are found")


async def test_skip_carried_out_in_doubt_is_delivered(client: EtcdClient, etcd: EtcdServer, prefix: str) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        await world.lock("job@earlier#1")
        for moment in (0, 99):
            world.at(NOON + MINUTE + moment)
            await world.settled()
        world.at(NOON + MINUTE + 99)
        await world.settled()
        real, own.losing = own.txn, 0

        async def txn(transaction: Txn) -> TxnResult:
            result = await real(transaction)
            if result.succeeded and any(
                "/runs/" in one.key for one in transaction.then if isinstance(one, Put | Delete)
            ):
                own.txn = real  # type: ignore[method-assign]
                raise EtcdInDoubtError("a lost answer")
            return result

        own.txn = txn  # type: ignore[method-assign]
        world.at(NOON + MINUTE + 100)
        await wait_until(lambda: world.planners[0].records != [], description="the skip is found, and delivered")
        assert [record.status for record in world.planners[0].records] == [Verdict.SKIPPED]


async def test_one_held_lock_does_not_hold_up_the_others_of_a_batch_in_doubt(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        for number in range(10):
            await world.save(f"job{number}", cronExpr=MINUTELY)
        own.losing, own.carry_out = 1, False
        await world.lock(name="job4")
        world.at(NOON + MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) == 9, description="the nine others are claimed")
        assert not await own.let_go()


async def test_lock_is_held_when_the_doubt_is_looked_into_and_the_claim_arrives_late(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing, own.carry_out = 1, False
        await world.lock()
        world.at(NOON + MINUTE)
        await wait_until(lambda: world.planners[0].scheduler._pending_of["job"].parked, description="it is locked")
        own.reachable = False
        await wait_until(lambda: own.looks > 1, description="nobody looks in between")
        await world.unlock()
        assert await own.let_go()
        own.reachable = True
        await wait_until(lambda: world.planners[0].wins == [NOON + MINUTE], description="it is won late")
        world.at(NOON + MINUTE + 200)
        await world.settled()
        assert world.planners[0].wins == [NOON + MINUTE]
        assert world.planners[0].records == []


async def test_overlap_policy_goes_on_while_a_claim_is_in_doubt(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing, own.carry_out = 1, False
        await world.lock("job@earlier#1")
        world.at(NOON + MINUTE)
        await wait_until(lambda: world.planners[0].scheduler._pending_of["job"].parked, description="it is locked")
        world.at(NOON + MINUTE + 100)
        await wait_until(lambda: world.planners[0].records != [], description="the skip")
        await world.unlock()
        assert not await own.let_go()
        await wait_until(lambda: world.planners[0].doubts.count == 0, description="the doubt is over")
        assert world.planners[0].wins == []


async def test_session_ends_while_a_claim_is_in_doubt_that_was_carried_out(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing = 1
        world.at(NOON + MINUTE)
        await wait_until(lambda: own.lost == 1, description="it is sent")
        await world.planners[0].session.close()
        await wait_until(lambda: world.planners[0].wins == [NOON + MINUTE], description="it is won all the same")


async def test_session_ends_while_a_claim_is_in_doubt_that_was_not_and_the_next_one_decides(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with (
        doubtful(client, etcd, prefix) as (world, own), planning(client, prefix, start=False) as second,
    ):  # fmt: skip
        planner = world.planners[0]
        await world.save(cronExpr="0 0 0 * * * *", anchor_ms=NOON - 86_400_000 * 2, tell=False)
        newest = world.jobs["job"].schedule.last_before_ms(NOON + 1)
        assert newest is not None
        world.clock.set_wall(newest - SECOND)
        await world.set_mark(newest - 86_400_000)
        kv = await client.get(world.keys.job("job"))
        world.tell(world.keys.job("job"), kv)
        await world.settled()
        own.losing, own.carry_out = 1, False
        own.reachable = False
        world.at(newest)
        await wait_until(lambda: len(own.held) == 1 and own.looks > 0, description="it is in doubt")
        await planner.session.close()
        planner.scheduler.session = second.planners[0].session  # the successor
        planner.scheduler.look_afresh("a session was opened")
        own.reachable = True
        await wait_until(lambda: planner.wins == [newest], description="the next session claims it")
        assert not await own.let_go()


async def test_job_edited_while_its_claim_is_in_doubt_keeps_what_was_won(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing = 1
        world.at(NOON + MINUTE)
        await wait_until(lambda: own.lost == 1, description="it is sent")
        await world.save(cronExpr=MINUTELY, command="echo new")
        await wait_until(lambda: world.planners[0].wins == [NOON + MINUTE], description="the old claim is won")
        await client.delete(world.keys.lock("job"))
        world.at(NOON + 2 * MINUTE)
        await wait_until(lambda: len(world.planners[0].wins) == 2, description="the new spec fires")


async def test_run_key_of_somebody_else_does_not_keep_a_claim_in_doubt(
    client: EtcdClient, etcd: EtcdServer, prefix: str
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        await client.put(f"{world.keys.runs_of('job')}{NOON + MINUTE:016d}/1", b"garbage")
        own.losing, own.carry_out = 1, False
        world.at(NOON + MINUTE)
        await world.mark_comes_to(NOON + MINUTE)
        await wait_until(lambda: world.planners[0].doubts.count == 0, description="the doubt is over")
        assert not await own.let_go()
        world.at(NOON + 2 * MINUTE)
        await wait_until(lambda: world.planners[0].wins == [NOON + 2 * MINUTE], description="the job goes on")


async def test_etcd_away_for_long_leaves_one_line_in_the_log(
    client: EtcdClient, etcd: EtcdServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with doubtful(client, etcd, prefix) as (world, own):
        await world.save(cronExpr=MINUTELY)
        own.losing, own.carry_out, own.reachable = 1, False, False
        world.at(NOON + MINUTE)
        await wait_until(lambda: own.looks > 5, description="it is looked into again and again")
        own.reachable = True
        await wait_until(lambda: world.planners[0].wins != [], description="etcd is back")
        await asyncio.sleep(0)
        actions = [getattr(line, "action", "") for line in caplog.records]
        assert actions.count("scheduler.outage") == 1
