"""The steward's work on the statistics: which hours it counts when, in steps, and on after an outage."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from common.errors import UnavailableError
from common.runlog.statistics import HOUR_MS, ROLLED_UP_DAYS, Counts
from tests.support.background import running
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until
from worker.lead import statistics
from worker.lead.statistics import KEPT_DAYS, STEP, StatisticsKeeping, is_due

DAY_MS = 24 * HOUR_MS
MINUTE_MS = 60_000


class Store:
    """Hours of so many steps, and so much to roll up and to forget."""

    def __init__(self, *, steps: int = 1, to_roll_up: int = 0, to_forget: int = 0) -> None:
        self.steps = steps
        self.to_roll_up = to_roll_up
        self.to_forget = to_forget
        self.before: set[int] = set()
        self.failures: list[Exception] = []
        self.clock = FakeClock()
        self.step_ms = 0
        self.put: list[int] = []
        self.counted: dict[int, int] = {}
        self.oldest: int | None = 0

    async def oldest_hour(self, since_hour: int) -> int | None:
        return None if self.oldest is None else max(self.oldest, since_hour)

    async def count_hour(self, hour: int, *, after: str, limit: int, to: dict[str, Counts]) -> str | None:
        if self.failures:
            raise self.failures.pop()
        self.clock.advance(self.step_ms)
        done = len(after) + 1
        return "x" * done if done < self.steps else None

    async def put_hour(self, hour: int, found: Mapping[str, Counts]) -> None:
        self.put.append(hour)

    async def counted_hours(self) -> dict[int, int]:
        return dict(self.counted)

    async def put_counted_hours(self, hours: Mapping[int, int]) -> None:
        self.counted = dict(hours)

    async def roll_up_statistics(self, before_day: int) -> bool:
        self.before.add(before_day)
        self.to_roll_up -= 1
        return self.to_roll_up >= 0

    async def forget_statistics(self, before_day: int, *, limit: int) -> int:
        self.before.add(before_day)
        done = min(limit, self.to_forget)
        self.to_forget -= done
        return done

    def keeping(self, *, is_clock_off: bool = False) -> StatisticsKeeping:
        return StatisticsKeeping(store=self, is_clock_off=lambda: is_clock_off, clock=self.clock)


@pytest.mark.parametrize(
    ("counted_min", "now_min", "due"),
    [
        (None, 0, True), (None, 10_000, True), (-1, 0, True), (-30, -29, True),
        (2, 2, False), (2, 3, True), (60, 89, False), (60, 90, True),
        (6 * 1440, 7 * 1440 - 1, False), (6 * 1440, 7 * 1440, True),
        (60, 30, True),
    ],
)  # fmt: skip
def test_an_hour_is_due_less_and_less_often_from_its_end_on(counted_min: int | None, now_min: int, due: bool) -> None:
    end_ms = 500_001 * HOUR_MS
    counted_ms = None if counted_min is None else end_ms + counted_min * MINUTE_MS
    assert is_due(500_000, counted_ms, end_ms + now_min * MINUTE_MS) is due


async def test_the_newest_hour_is_counted_first_and_those_of_a_week_at_first() -> None:
    store = Store()
    await store.keeping().count()
    newest = store.clock.wall_ms() // HOUR_MS
    first = (newest // 24 - ROLLED_UP_DAYS) * 24
    assert store.put == list(range(newest, first - 1, -1))
    store.clock.advance(MINUTE_MS)
    await store.keeping().count()
    assert store.put[-1] == newest
    store.clock.advance(DAY_MS)
    await store.keeping().count()
    assert min(store.counted) == first + 24


@pytest.mark.parametrize(("oldest_of", "counts"), [(None, 0), (3, 4)])
async def test_hours_before_the_oldest_record_are_not_asked_for(oldest_of: int | None, counts: int) -> None:
    store = Store()
    newest = store.clock.wall_ms() // HOUR_MS
    store.oldest = None if oldest_of is None else newest - oldest_of
    await store.keeping().count()
    assert store.put == list(range(newest, newest - counts, -1))
    assert len(store.counted) >= ROLLED_UP_DAYS * 24


async def test_a_pass_begins_no_other_hour_once_it_has_taken_a_minute() -> None:
    store = Store()
    store.step_ms = 25_000
    await store.keeping().count()
    assert len(store.put) == 3
    await store.keeping().count()
    newest = store.clock.wall_ms() // HOUR_MS
    assert store.put[3:] == [newest, newest - 3, newest - 4]


async def test_it_goes_on_after_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "COUNT_EVERY_S", 0.001)
    store = Store(to_roll_up=3, to_forget=STEP + 1)
    store.failures = [UnavailableError("told to be away"), ValueError("what nobody has foreseen")]
    async with running(store.keeping().run()):
        await wait_until(lambda: store.to_forget == 0 and store.to_roll_up < 0, description="all is done")
    today = store.clock.wall_ms() // DAY_MS
    assert store.before == {today - ROLLED_UP_DAYS, today - KEPT_DAYS}


async def test_it_rests_after_each_step_of_an_hour_but_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(round(seconds, 3))

    monkeypatch.setattr("worker.lead.statistics.asyncio.sleep", rest)
    for step_ms, rest_s in ((100, 2.0), (40_000, 5.0)):
        store = Store(steps=3)
        store.step_ms = step_ms
        rests.clear()
        await store.keeping()._count(5)
        assert rests == [rest_s, rest_s]


async def test_nothing_is_counted_by_a_clock_that_is_off() -> None:
    store = Store(to_forget=1)
    await store.keeping(is_clock_off=True).count()
    assert (store.put, store.to_forget) == ([], 1)
