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
        self.filled: set[int] | None = None
        """The hours that have records; None: all."""
        self.asked: list[int] = []
        self.put: list[int] = []
        self.counted: dict[int, int] = {}

    async def count_hour(self, hour: int, *, after: str, limit: int, to: dict[str, Counts]) -> str | None:
        if self.failures:
            raise self.failures.pop()
        self.clock.advance(self.step_ms)
        self.asked.append(hour)
        if self.filled is None or hour in self.filled:
            to["job"] = {"success": 1}
        done = len(after) + 1
        return "x" * done if done < self.steps else None

    async def newest_hour(self, before: int) -> int | None:
        return max((hour for hour in self.filled or () if hour < before), default=None)

    async def put_hour(self, hour: int, found: Mapping[str, Counts]) -> None:
        self.put.append(hour)

    async def counted_hours(self) -> dict[int, int]:
        return dict(self.counted)

    async def put_counted_hours(self, hours: Mapping[int, int]) -> None:
        self.counted = dict(hours)

    async def roll_up_statistics(self, before_day: int) -> bool:
        self.before.add(before_day)
        self.clock.advance(self.step_ms)
        self.to_roll_up -= 1
        return self.to_roll_up >= 0

    async def forget_statistics(self, before_day: int, *, limit: int) -> int:
        self.before.add(before_day)
        self.clock.advance(self.step_ms)
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


async def test_hours_without_records_are_passed_by_the_next_record() -> None:
    store = Store()
    newest = store.clock.wall_ms() // HOUR_MS
    first = (newest // 24 - ROLLED_UP_DAYS) * 24
    store.filled = {newest - 2, newest - 3, newest - 90}
    await store.keeping().count()
    assert store.asked == [newest, newest - 2, newest - 3, newest - 4, newest - 90, newest - 91]
    assert sorted(store.counted) == list(range(first, newest + 1)), "an empty hour is counted, too"


async def test_a_pass_begins_no_other_hour_once_it_has_taken_a_minute() -> None:
    store = Store()
    store.step_ms = 25_000
    await store.keeping().count()
    assert len(store.put) == 3
    await store.keeping().count()
    newest = store.clock.wall_ms() // HOUR_MS
    assert store.put[3:] == [newest, newest - 3, newest - 4]


async def test_days_that_end_are_rolled_up_and_forgotten_a_minute_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rest(_: float) -> None:
        pass

    monkeypatch.setattr("worker.lead.statistics.asyncio.sleep", rest)
    store = Store(to_roll_up=10, to_forget=5 * STEP)
    store.filled, store.step_ms = set(), 15_000
    left = []
    for _ in range(4):
        await store.keeping().count()
        left.append((max(store.to_roll_up, 0), store.to_forget // STEP))
    assert left == [(6, 4), (2, 3), (0, 2), (0, 0)]


async def test_a_newest_hour_that_takes_longer_than_a_minute_keeps_no_other_from_being_counted_again() -> None:
    """A run's record comes when it ends, an hour and more after its plan time."""
    store = Store()
    store.step_ms = 70_000
    keeping = store.keeping()
    newest = store.clock.wall_ms() // HOUR_MS
    store.counted = {hour: store.clock.wall_ms() - DAY_MS + newest - hour for hour in range(newest - 9, newest)}
    store.counted |= {hour: store.clock.wall_ms() for hour in range(newest - 9 * 24, newest - 9)}
    for _ in range(9):
        await keeping.count()
    assert set(store.put) == set(range(newest - 9, newest + 1))
    assert store.put[:4] == [newest, newest - 1, newest, newest - 2]


async def test_an_hour_that_cannot_be_counted_keeps_none_of_the_others_from_being() -> None:
    store = Store(to_roll_up=1)
    store.failures = [UnavailableError("no answer in time")]
    with pytest.raises(UnavailableError):
        await store.keeping().count()
    newest = store.clock.wall_ms() // HOUR_MS
    assert newest not in store.counted
    assert store.put[0] == newest - 1
    assert set(store.counted) == set(store.put)
    assert store.to_roll_up < 0


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
