"""Whatever happens, each fire is decided once and never two run: three workers, one job, chance, and a real etcd."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from common.etcd import EtcdClient
from common.protocol.txn import KeyValue
from tests.support.deciding import MINUTE, NOON, SECOND, Planner, World, planning
from tests.support.waiting import wait_until

DAY = 24 * 60 * MINUTE
MIDNIGHT = NOON // DAY * DAY + DAY
STEPS = 80
SEEDS = range(1, 1 + int(os.environ.get("ETCRON_SEEDS", "2")))


@dataclass(eq=False)
class Chance:
    """What may happen to three workers: ranks change, locks come free unheard, time passes in leaps."""

    world: World
    random: random.Random
    holder: Planner | None = None
    happened: list[str] = field(default_factory=list)

    async def step(self) -> None:
        self.world.at(self.world.clock.wall_ms() + self.random.choice([100, 200, 300, 500, 900, 1700]))
        self.holder = await self.one_at_most()
        happening = self.random.choice([self.end, self.end, self.rank, self.look, self.nothing])
        self.happened.append(happening.__name__)
        await happening()

    async def one_at_most(self) -> Planner | None:
        """Who has the run that holds the lock, while nobody takes it: waiting fires are tried whenever they like."""
        while True:
            before = await self.lock()
            await self.world.settled()
            holders = [planner for planner in self.world.planners if len(planner.table)]
            running = sum(len(one.table) for one in holders)
            if before == await self.lock():
                assert running == (before is not None), "never two at once"
                return holders[0] if holders else None

    async def lock(self) -> KeyValue | None:
        return await self.world.client.get(self.world.keys.lock("job"))

    async def end(self) -> None:
        """The run ends; who frees the lock may not be there any more to try the next."""
        if self.holder is None:
            return
        for run in self.holder.table:
            self.holder.table.forget(run)
        await self.world.unlock()
        if self.random.random() < 0.7:
            self.holder.scheduler.lock_freed("job")

    async def rank(self) -> None:
        self.world.rank(*self.random.sample(["w1", "w2", "w3"], 3))

    async def look(self) -> None:
        one = self.random.choice(self.world.planners)
        one.scheduler.look_afresh("chance", after_a_gap=self.random.random() < 0.5)

    async def nothing(self) -> None:
        pass

    async def catch_up(self) -> None:
        """Every run ends at once, until all that is due is decided."""
        for planner in self.world.planners:
            planner.scheduler.look_afresh("the end")
        newest = self.world.jobs["job"].fires.newest_due_ms(self.world.clock.wall_ms())
        assert newest is not None

        async def caught_up() -> bool:
            for planner in self.world.planners:
                planner.free_slots()
            await self.world.unlock()
            return await self.world.mark() >= newest

        await wait_until(caught_up, description=f"all is decided after {self.happened[-10:]}")
        await self.world.settled()

    def decided(self) -> list[int]:
        """Every plan time that was claimed, or is in a record."""
        plans = [plan_ms for planner in self.world.planners for plan_ms in planner.wins]
        for record in (record for planner in self.world.planners for record in planner.records):
            last_ms = record.range_end_ms or record.plan_ms
            plans += range(record.plan_ms, last_ms + 1, SECOND)
            closed = {plan_ms >= MIDNIGHT for plan_ms in (record.plan_ms, last_ms)}
            assert closed == {record.reason == "calendar"}
        return sorted(plans)


@pytest.mark.parametrize("overlap", ["queue", "replace", "skip"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_each_fire_is_decided_once_and_never_two_run(
    client: EtcdClient, prefix: str, overlap: str, seed: int
) -> None:
    """The job has jitter, and its calendar closes at midnight."""
    closed = datetime.fromtimestamp(MIDNIGHT / 1000, UTC).date().isoformat()
    async with planning(client, prefix, names=["w1", "w2", "w3"], slots=100) as world:
        world.at(MIDNIGHT - 30 * SECOND)
        await world.save(overlap=overlap, calendar={"exclude": [closed]}, jitterSeconds=1)
        chance = Chance(world, random.Random(seed))
        for _ in range(STEPS):
            await chance.step()
        await chance.catch_up()
        assert chance.decided() == list(range(MIDNIGHT - 29 * SECOND, await world.mark() + 1, SECOND))
