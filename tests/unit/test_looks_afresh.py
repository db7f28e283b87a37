"""How often a worker looks at everything again because others come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from common.protocol.member import Member
from tests.support.fake_clock import FakeClock
from worker.members import EVERY_S, LooksAfresh


def accepting(*names: str, slots: int = 1) -> dict[str, Member]:
    return {
        name: Member(worker=name, session="1", instance="i", host="h", address="h:1", slots=slots) for name in names
    }


class Timers:
    """What the loop was asked to call later."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []
        monkeypatch.setattr(asyncio.get_running_loop(), "call_later", self._call_later, raising=False)

    def _call_later(self, delay: float, call: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        self.due.append((delay, call, args))
        return asyncio.get_running_loop().call_at(asyncio.get_running_loop().time() + 3600, lambda: None)


async def test_one_that_flaps_costs_one_look_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks, timers = FakeClock(0), list[float](), Timers(monkeypatch)
    afresh = LooksAfresh(lambda: looks.append(clock.monotonic()), clock)
    afresh.changed(accepting("w1", "w2"))
    began = clock.monotonic()
    for _ in range(9):
        clock.advance(2000)
        afresh.changed(accepting("w1"))
        clock.advance(2000)
        afresh.changed(accepting("w1", "w2"))
    assert looks == [began], "of the first change"
    [(delay, call, args)] = timers.due
    assert delay == pytest.approx(EVERY_S - 2)
    clock.advance(int(delay * 1000))
    call(*args)
    assert len(looks) == 2, "what has changed since is looked at once"


async def test_another_one_that_comes_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = FakeClock(0), list[float]()
    Timers(monkeypatch)
    afresh = LooksAfresh(lambda: looks.append(clock.monotonic()), clock)
    afresh.changed(accepting("w1", "w2"))
    afresh.changed(accepting("w1"))
    afresh.changed(accepting("w1", "w3"))
    assert len(looks) == 2
    clock.advance(int(EVERY_S * 1000))
    afresh.changed(accepting("w1", "w3", slots=2))
    assert len(looks) == 3, "a minute later each counts again"
