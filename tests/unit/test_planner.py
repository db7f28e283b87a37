"""Decisions about undecided fires are arithmetic: a job, a mark, a now."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from common.job import Misfire, MisfirePolicy
from common.planner import COUNT_LIMIT, Decision, FireRange, decide, decide_for_nobody, undecided

SECOND = 1000
NOW = 1_000_000


@dataclass(frozen=True)
class Each:
    """A fire at every whole multiple of ``step`` ms."""

    step: int = SECOND

    def next_after_ms(self, ms: int) -> int | None:
        return (ms // self.step + 1) * self.step

    def last_before_ms(self, ms: int) -> int | None:
        return ((ms - 1) // self.step) * self.step

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        first = (lo // self.step + 1) * self.step
        return list(range(first, hi + 1, self.step))[:limit]


def misses(lo: int, hi: int) -> FireRange:
    return FireRange(lo_ms=lo, hi_ms=hi, count=(hi - lo) // SECOND + 1)


@dataclass(frozen=True, kw_only=True)
class Case:
    situation: str
    mark: int
    until: int = NOW
    now: int = NOW
    afresh: bool = False
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
        mark=NOW - 5000, afresh=True,
        expected=Decision(from_ms=NOW - 5000, to_ms=NOW, missed=misses(NOW - 4000, NOW - 1000), claim_ms=NOW),
    ),
    Case(
        situation="looked at afresh with one fire due",
        mark=NOW - 1000, afresh=True, expected=Decision(from_ms=NOW - 1000, to_ms=NOW, claim_ms=NOW),
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
        mark=NOW - 20_000, afresh=True, misfire=policy("all"),
        expected=Decision(
            from_ms=NOW - 20_000, to_ms=NOW, missed=misses(NOW - 19_000, NOW - 3000),
            requests=(NOW - 2000, NOW - 1000, NOW),
        ),
    ),
    Case(
        situation="all: with fewer misfires than the limit none is missed",
        mark=NOW - 2000, afresh=True, misfire=policy("all"),
        expected=Decision(from_ms=NOW - 2000, to_ms=NOW, requests=(NOW - 1000, NOW)),
    ),
    Case(
        situation="all: beyond the window nothing is made up for",
        mark=NOW - 100_000, until=NOW - 61_000, misfire=policy("all"),
        expected=Decision(from_ms=NOW - 100_000, to_ms=NOW - 61_000, missed=misses(NOW - 99_000, NOW - 61_000)),
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.situation)
def test_decides(case: Case) -> None:
    decision = decide(Each(), case.misfire, mark_ms=case.mark, until_ms=case.until, now_ms=case.now, afresh=case.afresh)
    assert decision == case.expected


@pytest.mark.parametrize("name", ["skip", "latest", "all"])
@pytest.mark.parametrize("afresh", [True, False])
@pytest.mark.parametrize("age", [0, 5, 11, 59, 61, 5000])
def test_steps_cover_every_fire_exactly_once(name: str, afresh: bool, age: int) -> None:
    mark, until, covered = NOW - 70 * SECOND - age * SECOND, NOW - age * SECOND, list[int]()
    while step := decide(Each(), policy(name), mark_ms=mark, until_ms=until, now_ms=NOW, afresh=afresh):
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
    decision = decide_for_nobody(Each(case.step), policy(case.policy), mark_ms=case.mark, now_ms=NOW, patience_ms=2000)
    assert (decision.to_ms if decision else None) == case.last_missed
