"""Decisions about undecided fires are arithmetic: a job, a mark, a now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from common.jobs.job import Misfire, MisfirePolicy
from common.protocol.planner import (
    COUNT_LIMIT,
    Decision,
    FireRange,
    Fires,
    Held,
    decide,
    give_up_unclaimed,
    miss_while_no_worker,
    undecided,
)

SECOND = 1000
NOW = 1_000_000


@dataclass(frozen=True)
class Each:
    """A fire at every whole multiple of ``step`` ms; counts what is asked of it."""

    step: int = SECOND
    asked: list[int] = field(default_factory=list, compare=False)

    @property
    def open_fires(self) -> Each:
        return self

    def next_after_ms(self, ms: int) -> int | None:
        self.asked.append(1)
        return (ms // self.step + 1) * self.step

    def last_before_ms(self, ms: int) -> int | None:
        self.asked.append(1)
        return ((ms - 1) // self.step) * self.step

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        first = (lo // self.step + 1) * self.step
        fires = list(range(first, hi + 1, self.step)[:limit])
        self.asked.append(len(fires))
        return fires


@dataclass(frozen=True)
class Working(Each):
    """The same, but the calendar closes the last ``closed`` of every ten of them."""

    closed: int = 3

    @property
    def open_fires(self) -> Open:  # type: ignore[override]
        return Open(self)


@dataclass(frozen=True)
class Open:
    """Those that it lets run."""

    every: Working

    def next_after_ms(self, ms: int) -> int | None:
        at = self.every.next_after_ms(ms)
        assert at is not None
        return at if is_open(at, self.every.closed) else self.next_after_ms(at)

    def last_before_ms(self, ms: int) -> int | None:
        at = self.every.last_before_ms(ms)
        assert at is not None
        return at if is_open(at, self.every.closed) else self.last_before_ms(at)

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        return [at for at in self.every.fires_between_ms(lo, hi, limit) if is_open(at, self.every.closed)]


def is_open(ms: int, closed: int = 3) -> bool:
    return ms // SECOND % 10 < 10 - closed


def misses(lo: int, hi: int) -> FireRange:
    return FireRange(lo_ms=lo, hi_ms=hi, count=(hi - lo) // SECOND + 1)


@dataclass(frozen=True, kw_only=True)
class Case:
    situation: str
    mark: int
    until: int = NOW
    now: int = NOW
    fresh: int | None = None
    waited: bool = False
    keeps_one: bool = False
    jitter: int = 0
    misfire: Misfire = field(default_factory=lambda: Misfire(grace_s=10, window_s=60, limit=3))
    expected: Decision | None


def policy(name: str) -> Misfire:
    return Misfire(policy=MisfirePolicy(name), grace_s=10, window_s=60, limit=3)


CASES = [
    Case(situation="everything is decided", mark=NOW, expected=None),
    Case(situation="the mark lies in the future", mark=NOW + 5000, expected=None),
    Case(
        situation="the usual fire, claimed ahead of its time",
        mark=NOW, until=NOW + 1000, now=NOW + 800,
        expected=Decision(from_ms=NOW, to_ms=NOW + 1000, claim_ms=NOW + 1000),
    ),
    Case(
        situation="several fires wait within their grace: the oldest first",
        mark=NOW - 3000, expected=Decision(from_ms=NOW - 3000, to_ms=NOW - 2000, claim_ms=NOW - 2000),
    ),
    Case(
        situation="a fire exactly at the end of its grace may still start",
        mark=NOW - 11_000, expected=Decision(from_ms=NOW - 11_000, to_ms=NOW - 10_000, claim_ms=NOW - 10_000),
    ),
    Case(
        situation="fires beyond their grace are missed, the oldest live one is claimed",
        mark=NOW - 15_000,
        expected=Decision(
            from_ms=NOW - 15_000, to_ms=NOW - 10_000, missed=misses(NOW - 14_000, NOW - 11_000), claim_ms=NOW - 10_000
        ),
    ),
    Case(
        situation="looked at afresh, only the newest has its grace",
        mark=NOW - 5000, fresh=NOW,
        expected=Decision(from_ms=NOW - 5000, to_ms=NOW, missed=misses(NOW - 4000, NOW - 1000), claim_ms=NOW),
    ),
    Case(
        situation="looked at afresh with one fire due",
        mark=NOW - 1000, fresh=NOW, expected=Decision(from_ms=NOW - 1000, to_ms=NOW, claim_ms=NOW),
    ),
    Case(
        situation="latest: the newest misfire within the window is claimed, the older ones missed",
        mark=NOW - 40_000, until=NOW - 30_000, misfire=policy("latest"),
        expected=Decision(
            from_ms=NOW - 40_000, to_ms=NOW - 30_000, missed=misses(NOW - 39_000, NOW - 31_000), claim_ms=NOW - 30_000
        ),
    ),
    Case(
        situation="latest: beyond the window all are missed",
        mark=NOW - 100_000, until=NOW - 61_000, misfire=policy("latest"),
        expected=Decision(from_ms=NOW - 100_000, to_ms=NOW - 61_000, missed=misses(NOW - 99_000, NOW - 61_000)),
    ),
    Case(
        situation="skip: misfires are missed, nothing is made up for",
        mark=NOW - 40_000, until=NOW - 30_000, misfire=policy("skip"),
        expected=Decision(from_ms=NOW - 40_000, to_ms=NOW - 30_000, missed=misses(NOW - 39_000, NOW - 30_000)),
    ),
    Case(
        situation="all: the newest three become requests, the rest is missed",
        mark=NOW - 20_000, fresh=NOW, misfire=policy("all"),
        expected=Decision(
            from_ms=NOW - 20_000, to_ms=NOW, missed=misses(NOW - 19_000, NOW - 3000),
            requests=(NOW - 2000, NOW - 1000, NOW),
        ),
    ),
    Case(
        situation="all: with fewer misfires than the limit none is missed",
        mark=NOW - 2000, fresh=NOW, misfire=policy("all"),
        expected=Decision(from_ms=NOW - 2000, to_ms=NOW, requests=(NOW - 1000, NOW)),
    ),
    Case(
        situation="all: beyond the window nothing is made up for",
        mark=NOW - 100_000, until=NOW - 61_000, misfire=policy("all"),
        expected=Decision(from_ms=NOW - 100_000, to_ms=NOW - 61_000, missed=misses(NOW - 99_000, NOW - 61_000)),
    ),
    Case(
        situation="a fire whose dispatch time is still to come is not the newest that is due",
        mark=NOW - 3000, fresh=NOW - 1000, jitter=900, now=NOW + 500,
        expected=Decision(from_ms=NOW - 3000, to_ms=NOW - 1000, missed=misses(NOW - 2000, NOW - 2000),
                          claim_ms=NOW - 1000),
    ),
    Case(
        situation="grace is counted from the dispatch time",
        mark=NOW - 11_000, jitter=900, now=NOW + 900,
        expected=Decision(from_ms=NOW - 11_000, to_ms=NOW - 10_000, claim_ms=NOW - 10_000),
    ),
    Case(
        situation="a millisecond later it is over",
        mark=NOW - 11_000, jitter=900, now=NOW + 901,
        expected=Decision(from_ms=NOW - 11_000, to_ms=NOW - 9000, missed=misses(NOW - 10_000, NOW - 10_000),
                          claim_ms=NOW - 9000),
    ),
    Case(
        situation="the window is counted from the dispatch time",
        mark=NOW - 62_000, until=NOW - 61_000, jitter=900, now=NOW - 100,
        expected=Decision(from_ms=NOW - 62_000, to_ms=NOW - 61_000, claim_ms=NOW - 61_000),
    ),
    Case(
        situation="all: what is not due yet is not made up for",
        mark=NOW - 13_000, jitter=900, now=NOW + 700, misfire=policy("all"), fresh=NOW - 1000,
        expected=Decision(from_ms=NOW - 13_000, to_ms=NOW - 1000, missed=misses(NOW - 12_000, NOW - 4000),
                          requests=(NOW - 3000, NOW - 2000, NOW - 1000)),
    ),
    Case(
        situation="of those that waited for a lock the newest is claimed, however late, the others are superseded",
        mark=NOW - 40_000, until=NOW - 30_000, waited=True, misfire=policy("skip"),
        expected=Decision(from_ms=NOW - 40_000, to_ms=NOW - 30_000, superseded=misses(NOW - 39_000, NOW - 31_000),
                          claim_ms=NOW - 30_000),
    ),
    Case(
        situation="one that waited for a lock alone",
        mark=NOW - 31_000, until=NOW - 30_000, waited=True,
        expected=Decision(from_ms=NOW - 31_000, to_ms=NOW - 30_000, claim_ms=NOW - 30_000),
    ),
    Case(
        situation="one that comes up ahead of its time does not supersede the newest that waited",
        mark=NOW - 3000, until=NOW + 1000, now=NOW + 900, waited=True,
        expected=Decision(from_ms=NOW - 3000, to_ms=NOW, superseded=misses(NOW - 2000, NOW - 1000), claim_ms=NOW),
    ),
    Case(
        situation="nothing waits any more: the next is claimed ahead of its time",
        mark=NOW, until=NOW + 1000, now=NOW + 900, waited=True,
        expected=Decision(from_ms=NOW, to_ms=NOW + 1000, claim_ms=NOW + 1000),
    ),
    Case(
        situation="where one is kept, the newest of those in their grace is claimed",
        mark=NOW - 3000, until=NOW + 1000, now=NOW + 900, keeps_one=True,
        expected=Decision(from_ms=NOW - 3000, to_ms=NOW, superseded=misses(NOW - 2000, NOW - 1000), claim_ms=NOW),
    ),
    Case(
        situation="where one is kept, those out of their grace are missed first",
        mark=NOW - 15_000, keeps_one=True,
        expected=Decision(from_ms=NOW - 15_000, to_ms=NOW - 11_000, missed=misses(NOW - 14_000, NOW - 11_000)),
    ),
    Case(
        situation="where one is kept, the next is claimed ahead of its time",
        mark=NOW, until=NOW + 1000, now=NOW + 900, keeps_one=True,
        expected=Decision(from_ms=NOW, to_ms=NOW + 1000, claim_ms=NOW + 1000),
    ),
    Case(
        situation="all that waited for a lock beyond their window are missed",
        mark=NOW - 100_000, until=NOW - 61_000, waited=True,
        expected=Decision(from_ms=NOW - 100_000, to_ms=NOW - 61_000, missed=misses(NOW - 99_000, NOW - 61_000)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.situation)
def test_decides(case: Case) -> None:
    decision = decide(
        Fires.of(Each(), lambda plan_ms: plan_ms + case.jitter, keeps_one=case.keeps_one), case.misfire,
        mark_ms=case.mark, until_ms=case.until, now_ms=case.now, fresh_ms=case.fresh, waited=case.waited,
    )  # fmt: skip
    assert decision == case.expected


@pytest.mark.parametrize("name", ["skip", "latest", "all"])
@pytest.mark.parametrize("fresh", [NOW, None])
@pytest.mark.parametrize("age", [0, 5, 11, 59, 61, 5000])
def test_steps_cover_every_fire_exactly_once(name: str, fresh: int | None, age: int) -> None:
    mark, until, covered = NOW - 70 * SECOND - age * SECOND, NOW - age * SECOND, list[int]()
    fires = Fires.of(Each())
    while step := decide(fires, policy(name), mark_ms=mark, until_ms=until, now_ms=NOW, fresh_ms=fresh):
        assert step.from_ms == mark < step.to_ms
        if step.missed:
            covered += Each().fires_between_ms(step.missed.lo_ms - 1, step.missed.hi_ms, 10_000)
        covered += step.requests
        covered += [] if step.claim_ms is None else [step.claim_ms]
        mark = step.to_ms
    assert covered == Each().fires_between_ms(until - 70 * SECOND, until, 10_000)


def test_range_is_counted_exactly_up_to_a_thousand_and_at_least_beyond() -> None:
    exact = undecided(Each(), mark_ms=0, until_ms=COUNT_LIMIT * SECOND)
    beyond = undecided(Each(), mark_ms=0, until_ms=10 * COUNT_LIMIT * SECOND)
    assert exact == FireRange(lo_ms=SECOND, hi_ms=COUNT_LIMIT * SECOND, count=COUNT_LIMIT)
    assert beyond == FireRange(lo_ms=SECOND, hi_ms=10 * COUNT_LIMIT * SECOND, count=COUNT_LIMIT, at_least=True)


def test_nothing_is_undecided_up_to_the_mark() -> None:
    assert undecided(Each(), mark_ms=NOW, until_ms=NOW) is None


@dataclass(frozen=True, kw_only=True)
class Nobody:
    situation: str
    policy: str
    mark: int
    step: int = SECOND
    last_missed: int | None


NOBODY = [
    Nobody(situation="skip: only what is beyond grace and patience", policy="skip", mark=NOW - 30_000,
           last_missed=NOW - 13_000),
    Nobody(situation="skip: within the patience nothing", policy="skip", mark=NOW - 12_000, last_missed=None),
    Nobody(situation="latest: the newest due is within the window", policy="latest", mark=NOW - 500_000,
           last_missed=None),
    Nobody(situation="latest: the newest due is beyond the window", policy="latest", mark=NOW - 300_000, step=100_007,
           last_missed=900_063),
    Nobody(situation="all: the newest due is beyond the window", policy="all", mark=0, step=900_000,
           last_missed=900_000),
]  # fmt: skip


@pytest.mark.parametrize("case", NOBODY, ids=lambda case: case.situation)
def test_steward_gives_up_late_fires(case: Nobody) -> None:
    fires = Fires.of(Each(case.step))
    decision = give_up_unclaimed(fires, policy(case.policy), mark_ms=case.mark, now_ms=NOW, patience_ms=2000)
    assert (decision.to_ms if decision else None) == case.last_missed


class Absent(NamedTuple):
    situation: str
    policy: str
    gone_s: int
    last_passed: int | None
    mark: int = NOW - 1000 * SECOND
    keeps_one: bool = False


ABSENT = [
    Absent("skip: what is out of grace and patience", "skip", 1000, NOW - 13_000),
    Absent("latest: all that are out of grace; the newest has its window", "latest", 1000, NOW - 13_000),
    Absent("all: not the newest 3, nor what is in its grace", "all", 1000, NOW - 13_000),
    Absent("one is kept: the others pass", "skip", 1000, NOW - 13_000, keeps_one=True),
    Absent("nothing within a minute", "skip", 59, None),
    Absent("nothing of less than a minute", "latest", 200, None, mark=NOW - 70_000),
    Absent("after ten minutes a range of ten", "latest", 1200, None, mark=NOW - 600 * SECOND),
]  # fmt: skip


@pytest.mark.parametrize("case", ABSENT, ids=lambda case: case.situation)
def test_steward_passes_what_can_never_run_while_nobody_could_take_it(case: Absent) -> None:
    fires = Fires.of(Each(SECOND), keeps_one=case.keeps_one)
    decision = miss_while_no_worker(
        fires, policy(case.policy), mark_ms=case.mark, now_ms=NOW, since_ms=NOW - case.gone_s * SECOND,
        patience_ms=2000,
    )  # fmt: skip
    assert (decision.to_ms if decision else None) == case.last_passed
    assert decision is None or (decision.superseded is not None) == case.keeps_one


@pytest.mark.parametrize("step_s", [1, 7, 60, 3600, 86_400])
@pytest.mark.parametrize("name", ["skip", "latest", "all"])
def test_what_was_passed_for_nobody_would_not_have_run(name: str, step_s: int) -> None:
    """Whoever comes back at that moment starts and makes up for what it would have without the steward."""
    fires, misfire = Fires.of(Each(step_s * SECOND)), policy(name)
    for gone_s in (61, 300, 7200, 400_000):
        mark, since = NOW - gone_s * SECOND, NOW - gone_s * SECOND
        passed = miss_while_no_worker(fires, misfire, mark_ms=mark, now_ms=NOW, since_ms=since, patience_ms=2000)
        if passed is None:
            continue
        for fresh in (None, fires.newest_due_ms(NOW)):
            assert _run(fires, misfire, passed.to_ms, fresh) == _run(fires, misfire, mark, fresh)


def _run(fires: Fires, misfire: Misfire, mark: int, fresh: int | None) -> list[int]:
    found: list[int] = []
    while step := decide(fires, misfire, mark_ms=mark, until_ms=NOW, now_ms=NOW, fresh_ms=fresh):
        found += [*step.requests, *([step.claim_ms] if step.claim_ms is not None else [])]
        mark = step.to_ms
    return found


def steps(schedule: Each, misfire: Misfire, *, mark: int, fresh: int | None = NOW, now: int = NOW) -> list[Decision]:
    found: list[Decision] = []
    while step := decide(Fires.of(schedule), misfire, mark_ms=mark, until_ms=NOW, now_ms=now, fresh_ms=fresh):
        found.append(step)
        mark = step.to_ms
    return found


def test_closed_fires_are_decided_by_themselves_as_one_range() -> None:
    assert NOW % 10_000 == 0
    first, *_ = steps(Working(), policy("latest"), mark=NOW - 4000)
    assert first == Decision(from_ms=NOW - 4000, to_ms=NOW - 1000, closed=misses(NOW - 3000, NOW - 1000))


def test_closed_fires_to_come_are_left_until_they_are_due() -> None:
    fires = Fires.of(Working())
    step = decide(fires, policy("latest"), mark_ms=NOW - 4000, until_ms=NOW - 2000, now_ms=NOW - 2000)
    assert step == Decision(from_ms=NOW - 4000, to_ms=NOW - 2000, closed=misses(NOW - 3000, NOW - 2000))


@pytest.mark.parametrize("name", ["skip", "latest"])
def test_newest_open_fire_is_claimed_after_closed_ones(name: str) -> None:
    found = steps(Working(), policy(name), mark=NOW - 30_000)
    assert [(step.claim_ms, step.requests) for step in found] == [(None, ()), (None, ()), (NOW, ())]


def test_all_makes_up_for_open_fires_only_up_to_the_limit_on_either_side_of_closed_ones() -> None:
    found = steps(Working(), Misfire(policy=MisfirePolicy.ALL, grace_s=10, window_s=60, limit=9), mark=NOW - 30_000)
    assert [step.requests for step in found if step.requests] == [
        (NOW - 14_000,), tuple(range(NOW - 10_000, NOW - 3000, SECOND)),
    ]  # fmt: skip
    assert found[-1].claim_ms == NOW, "after closed ones the newest still has its grace"


def test_missed_range_does_not_count_closed_fires() -> None:
    found = steps(Working(), policy("latest"), mark=NOW - 30_000)
    missed = [step.missed for step in found if step.missed]
    assert missed == [FireRange(lo_ms=NOW - 29_000, hi_ms=NOW - 4000, count=6 + 7 + 7)]
    assert [step.closed for step in found if step.closed] == [misses(NOW - 3000, NOW - 1000)]


def test_latest_is_the_newest_open_fire_where_closed_ones_came_later() -> None:
    until = NOW - 2000
    found, mark = list[Decision](), NOW - 30_000
    while step := decide(
        Fires.of(Working()), policy("latest"), mark_ms=mark, until_ms=until, now_ms=until, fresh_ms=until
    ):
        found.append(step)
        mark = step.to_ms
    assert [step.claim_ms for step in found if step.claim_ms] == [NOW - 4000]
    assert found[-1].closed == misses(NOW - 3000, NOW - 2000)


@pytest.mark.parametrize("name", ["skip", "latest", "all"])
@pytest.mark.parametrize("make", [Each, Working])
def test_cost_does_not_depend_on_the_length_of_the_outage(make: type[Each], name: str) -> None:
    costs, counts = list[int](), list[int]()
    for outage_s in (1800, 3 * 86_400):
        schedule, misfire = make(), Misfire(policy=MisfirePolicy(name), grace_s=10, window_s=60, limit=3)
        mark = NOW * 1000 - outage_s * SECOND
        found = 0
        while step := decide(
            Fires.of(schedule), misfire, mark_ms=mark, until_ms=NOW * 1000, now_ms=NOW * 1000, fresh_ms=NOW * 1000
        ):
            found += 1
            mark = step.to_ms
        costs.append(sum(schedule.asked))
        counts.append(found)
    assert counts[0] == counts[1] <= 6
    assert costs[0] == costs[1] <= COUNT_LIMIT + 100


def test_steward_gives_up_what_may_wait_for_a_lock_only_by_its_window() -> None:
    for now, expected in ((NOW + 61_000, None), (NOW + 62_001, NOW)):
        fires = Fires.of(Each(100_000), keeps_one=True)
        decision = give_up_unclaimed(fires, policy("skip"), mark_ms=NOW - 1, now_ms=now, patience_ms=2000)
        assert (decision.to_ms if decision else None) == expected


def test_steward_leaves_closed_fires_to_a_decision_of_their_own() -> None:
    fires, later = Fires.of(Working()), NOW + 3_600_000
    assert give_up_unclaimed(fires, policy("skip"), mark_ms=NOW - 4000, now_ms=later, patience_ms=0) is None


def test_what_was_held_once_takes_no_later_fire_s_misfire_away() -> None:
    skip, held = Misfire(policy=MisfirePolicy.SKIP, grace_s=60), Held(from_ms=NOW - 5_500, until_ms=NOW)
    assert held.limits(NOW, skip, now_ms=NOW + 60_000) == held.from_ms
    assert held.limits(NOW - 6_000, skip, now_ms=NOW + 60_000) == NOW - 6_000
    assert held.limits(NOW + 50_000, skip, now_ms=NOW + 60_001) == NOW + 50_000


def test_grace_of_what_was_due_while_nothing_was_decided_counts_from_the_end_of_that() -> None:
    skip, fires = Misfire(policy=MisfirePolicy.SKIP, grace_s=1), Fires.of(Each())
    held = Held(from_ms=NOW - 5_500, until_ms=NOW)

    def next_step(mark_ms: int, now_ms: int) -> Decision | None:
        fresh_ms = held.from_ms
        return decide(fires, skip, mark_ms=mark_ms, until_ms=NOW, now_ms=now_ms, fresh_ms=fresh_ms, held=held)

    # What was due before has no grace; each that was due meanwhile is claimed, oldest first.
    missed = FireRange(lo_ms=NOW - 9_000, hi_ms=NOW - 6_000, count=4)
    assert next_step(NOW - 10_000, NOW) == Decision(
        from_ms=NOW - 10_000, to_ms=NOW - 5_000, missed=missed, claim_ms=NOW - 5_000
    )
    assert next_step(NOW - 5_000, NOW + 1_000) == Decision(from_ms=NOW - 5_000, to_ms=NOW - 4_000, claim_ms=NOW - 4_000)
    late = next_step(NOW - 5_000, NOW + 1_001)
    assert late is not None
    assert late.missed is not None
    for now_ms, last_ms in ((NOW + 1_000, NOW - 6_000), (NOW + 1_100, NOW - 6_000), (NOW + 1_101, NOW)):
        given_up = give_up_unclaimed(fires, skip, mark_ms=NOW - 10_000, now_ms=now_ms, patience_ms=100, held=held)
        assert given_up is not None
        assert given_up.to_ms == last_ms
