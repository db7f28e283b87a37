"""A process's judgement of its own clock, on a real etcd, under a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest

from common.clock_check import ClockCheck
from common.clock_watch import ClockWatch
from common.etcd import EtcdClient, KeyValue
from tests.support.clocks import say_clocks
from tests.support.fake_clock import FakeClock
from tests.support.working import World

pytestmark = [pytest.mark.etcd, pytest.mark.logstore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A process that checks its clock, and what a steward says of it."""

    world: World
    clock: FakeClock
    watch: ClockWatch
    check: ClockCheck

    async def told(self, offset_ms: int | None, *, others: bool = True) -> str | None:
        """A steward has measured it (None: has not), and others (or nobody); the fault that there is now."""
        other = ClockWatch(self.clock, max_skew_ms=250, on_jump=lambda _: None)
        of = {"other": (other, 0)} if others else {}
        await say_clocks(
            self.world.etcd, self.world.keys, of if offset_ms is None else {**of, "own": (self.watch, offset_ms)}
        )
        await self.check.look()
        return self.check.fault

    async def for_seconds(self, seconds: int, *, others: bool = True) -> str | None:
        """For so long the steward puts comparisons without it, every 10 s."""
        for _ in range(seconds // 10):
            self.clock.advance(10_000)
            await self.told(None, others=others)
        return self.check.fault

    def jump(self, by_ms: int) -> None:
        self.clock.set_wall(self.clock.wall_ms() + by_ms)
        self.watch.look()


@pytest.fixture
def own(world: World) -> Own:
    clock = FakeClock()
    watch = ClockWatch(clock, max_skew_ms=250, on_jump=lambda by_s: check.jumped(by_s))
    check = ClockCheck(
        world.etcd, world.keys, process="own", watch=watch, clock=clock, max_skew_ms=250, on_change=_nobody
    )
    return Own(world=world, clock=clock, watch=watch, check=check)


async def _nobody(fault: str | None) -> None:
    """Nobody is told."""


@pytest.mark.parametrize("others", [True, False])
async def test_jump_that_cannot_be_compared_is_borne_for_30_s(own: Own, others: bool) -> None:
    await own.told(0)
    own.jump(30_000)
    assert await own.for_seconds(30, others=others) is not None
    assert await own.for_seconds(10, others=others) is None


async def test_clock_found_wrong_is_wrong_as_long_as_others_are_compared_and_for_30_s(own: Own) -> None:
    assert await own.told(30_000) is not None
    assert await own.for_seconds(120) is not None
    assert await own.for_seconds(30, others=False) is not None
    assert await own.for_seconds(10, others=False) is None
    assert await own.told(30_000) is not None


async def test_jump_while_it_was_frozen_is_borne_until_it_has_looked(own: Own) -> None:
    await own.told(0)
    own.clock.advance(60_000)
    own.jump(30_000)
    assert own.check.fault is not None
    assert await own.told(None) is not None


async def test_jump_while_etcd_is_asked_does_not_pass_for_a_clock_found_right(own: Own, world: World) -> None:
    await own.told(0)

    class Jumping:
        async def get(self, key: str) -> KeyValue | None:
            own.clock.set_wall(own.clock.wall_ms() + 30_000)
            return await world.etcd.get(key)

    own.check._client = cast(EtcdClient, Jumping())
    await own.check.look()
    assert own.check.fault is not None
