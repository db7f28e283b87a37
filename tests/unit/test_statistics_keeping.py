"""The steward's work on the statistics: all in steps, nothing by a clock that is off, and on after an outage."""

from __future__ import annotations

import pytest

from common.errors import UnavailableError
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.stewarding import statistics
from worker.stewarding.statistics import KEPT_DAYS, STEP, StatisticsKeeping

DAY_MS = 86_400_000


class Store:
    """So much to fold and to forget."""

    def __init__(self, *, to_fold: int = 0, to_forget: int = 0) -> None:
        self.to_fold = to_fold
        self.to_forget = to_forget
        self.before: set[int] = set()
        self.failures: list[Exception] = []
        self.passes = 0
        self.clock = FakeClock()
        self.step_ms = 0

    async def fold_statistics(self, *, limit: int) -> int:
        if self.failures:
            raise self.failures.pop()
        self.clock.advance(self.step_ms)
        self.passes += self.to_fold == 0
        done = min(limit, self.to_fold)
        self.to_fold -= done
        return done

    async def forget_statistics(self, before_day: int, *, limit: int) -> int:
        self.before.add(before_day)
        done = min(limit, self.to_forget)
        self.to_forget -= done
        return done


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "FOLD_EVERY_S", 0.001)


async def test_all_is_folded_and_all_that_is_too_old_goes_after_an_outage() -> None:
    store = Store(to_fold=2 * STEP + 1, to_forget=STEP)
    store.failures = [UnavailableError("told to be away"), ValueError("what nobody has foreseen")]
    async with running(StatisticsKeeping(store=store, is_clock_off=lambda: False, clock=store.clock).run()):
        await wait_until(lambda: store.to_fold == store.to_forget == 0, description="all is done")
    assert store.before == {store.clock.wall_ms() // DAY_MS - KEPT_DAYS}


async def test_all_is_done_in_one_pass_with_a_rest_after_each_full_step(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(round(seconds, 3))

    store = Store()
    keeping = StatisticsKeeping(store=store, is_clock_off=lambda: False, clock=store.clock)
    monkeypatch.setattr("worker.stewarding.statistics.asyncio.sleep", rest)
    for step_ms, rest_s in ((100, 0.5), (9_000, 5.0)):
        store.to_fold, store.to_forget, store.step_ms = 2 * STEP + 1, STEP + 1, step_ms
        rests.clear()
        await keeping._pass()
        assert (store.to_fold, store.to_forget) == (0, 0)
        assert rests == [rest_s, rest_s, 0]


async def test_nothing_is_too_old_by_a_clock_that_is_off() -> None:
    store = Store(to_fold=1, to_forget=1)
    async with running(StatisticsKeeping(store=store, is_clock_off=lambda: True, clock=FakeClock()).run()):
        await wait_until(lambda: store.passes > 2, description="it goes on")
    assert (store.to_fold, store.to_forget) == (0, 1)
