"""Whatever the policy, the outage and the moment: each fire is covered once, in order, and in few steps."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from common.job import Misfire, MisfirePolicy
from common.planner import COUNT_LIMIT, Decision, decide, decide_for_nobody, undecided

NOW = 1_790_000_000_000


@dataclass(frozen=True)
class Listed:
    """A schedule of just these fires."""

    fires: tuple[int, ...]

    def next_after_ms(self, ms: int) -> int | None:
        return next((fire for fire in self.fires if fire > ms), None)

    def last_before_ms(self, ms: int) -> int | None:
        return next((fire for fire in reversed(self.fires) if fire < ms), None)

    def fires_between_ms(self, lo: int, hi: int, limit: int) -> list[int]:
        return [fire for fire in self.fires if lo < fire <= hi][:limit]


OFFSETS = st.lists(st.integers(-200, 10), min_size=0, max_size=40, unique=True)
SCHEDULES = OFFSETS.map(lambda offsets: Listed(tuple(NOW + offset * 500 for offset in sorted(offsets))))
MISFIRES = st.builds(
    Misfire, policy=st.sampled_from(MisfirePolicy), grace_s=st.integers(1, 40), window_s=st.integers(0, 80),
    limit=st.integers(1, 12),
)  # fmt: skip
MARKS = st.integers(-220, 5).map(lambda offset: NOW + offset * 500)


def covered(schedule: Listed, step: Decision) -> list[int]:
    missed = step.missed
    fires = [] if missed is None else schedule.fires_between_ms(missed.lo_ms - 1, missed.hi_ms, 10_000)
    return [*fires, *step.requests, *([] if step.claim_ms is None else [step.claim_ms])]


@given(
    schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, afresh=st.booleans(), ahead=st.integers(0, 4),
    passing=st.lists(st.integers(0, 30_000), min_size=60, max_size=60),
)  # fmt: skip
def test_steps_cover_every_fire_exactly_once_while_time_passes(
    schedule: Listed, misfire: Misfire, mark: int, afresh: bool, ahead: int, passing: list[int]
) -> None:
    now, until, done, at = NOW, NOW + ahead * 500, list[int](), mark
    for passed in passing:
        step = decide(schedule, misfire, mark_ms=at, until_ms=until, now_ms=now, afresh=afresh)
        if step is None:
            break
        assert step.from_ms == at < step.to_ms <= until
        done += covered(schedule, step)
        assert done[-1] == step.to_ms
        at, now, afresh = step.to_ms, now + passed, False
    assert done == schedule.fires_between_ms(mark, until, 10_000)


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS)
def test_looked_at_afresh_one_step_decides_all_that_is_due(schedule: Listed, misfire: Misfire, mark: int) -> None:
    step = decide(schedule, misfire, mark_ms=mark, until_ms=NOW, now_ms=NOW, afresh=True)
    newest = schedule.last_before_ms(NOW + 1)
    assert (None if step is None else step.to_ms) == (newest if newest is not None and newest > mark else None)


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, afresh=st.booleans())
def test_nothing_is_made_up_for_beyond_its_window_nor_missed_within_its_grace(
    schedule: Listed, misfire: Misfire, mark: int, afresh: bool
) -> None:
    step = decide(schedule, misfire, mark_ms=mark, until_ms=NOW, now_ms=NOW, afresh=afresh)
    if step is None:
        return
    for plan_ms in (*step.requests, *([] if step.claim_ms is None else [step.claim_ms])):
        assert NOW - plan_ms <= misfire.window_ms
    assert len(step.requests) <= misfire.limit
    if step.missed is not None and not afresh and misfire.policy is not MisfirePolicy.ALL:
        assert step.missed.hi_ms < NOW - misfire.grace_ms


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, patience=st.integers(0, 10_000))
def test_steward_gives_up_only_what_no_worker_would_run(
    schedule: Listed, misfire: Misfire, mark: int, patience: int
) -> None:
    step = decide_for_nobody(schedule, misfire, mark_ms=mark, now_ms=NOW, patience_ms=patience)
    if step is None:
        return
    assert step.claim_ms is None
    assert covered(schedule, step) == schedule.fires_between_ms(mark, step.to_ms, 10_000)
    workers = decide(schedule, misfire, mark_ms=mark, until_ms=step.to_ms, now_ms=NOW, afresh=True)
    assert workers is not None
    assert workers.claim_ms is None
    assert workers.requests == ()


@given(schedule=SCHEDULES, mark=MARKS, until=MARKS)
def test_undecided_is_what_lies_between(schedule: Listed, mark: int, until: int) -> None:
    fires = schedule.fires_between_ms(mark, until, 10_000)
    found = undecided(schedule, mark_ms=mark, until_ms=until)
    if found is None:
        assert fires == []
    else:
        assert (found.lo_ms, found.hi_ms, found.count) == (fires[0], fires[-1], len(fires))
        assert found.count <= COUNT_LIMIT
