"""One waiter, woken by a ring or by the clock; a ring is not lost, and nobody is starved by it."""

from __future__ import annotations

import asyncio

import pytest

import worker.plan.cues
from common.clock import SystemClock
from tests.support.fake_clock import FakeClock
from worker.plan.cues import Alarm


async def test_ring_before_the_wait_is_not_lost() -> None:
    alarm = Alarm(FakeClock())
    alarm.ring()
    await asyncio.wait_for(alarm.wait_until_wall(None), 60)


async def test_ring_ends_the_wait() -> None:
    alarm = Alarm(FakeClock())
    waiting = asyncio.ensure_future(alarm.wait_until_wall(None))
    await asyncio.sleep(0)
    alarm.ring()
    await asyncio.wait_for(waiting, 60)


async def test_moment_that_has_come_ends_the_wait() -> None:
    clock = SystemClock()
    await asyncio.wait_for(Alarm(clock).wait_until_wall(clock.wall_ms() + 5), 60)
    await asyncio.wait_for(Alarm(clock).wait_until_wall(0), 60)


async def test_clock_is_looked_at_again_before_a_far_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.plan.cues, "LONGEST_S", 0.01)
    clock = FakeClock()
    await asyncio.wait_for(Alarm(clock).wait_until_wall(clock.wall_ms() + 86_400_000), 60)


@pytest.mark.parametrize("moment", [None, 0])
async def test_who_rings_for_himself_lets_others_have_their_turn(moment: int | None) -> None:
    alarm, turns = Alarm(FakeClock()), list[str]()

    async def other() -> None:
        turns.append("other")

    task = asyncio.ensure_future(other())
    for _ in range(3):
        alarm.clear()
        turns.append("own")
        alarm.ring()
        await alarm.wait_until_wall(moment)
    await task
    assert turns[:2] == ["own", "other"]
