"""Whatever the policy, the outage and the moment: each fire is covered once, in order, and in few steps."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from common.jobs.job import Misfire, MisfirePolicy
from common.protocol.planner import COUNT_LIMIT, Decision, Fires, decide, give_up_unclaimed, undecided

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


@dataclass(frozen=True)
class Closing(Listed):
    """Some of them are closed by a calendar, and each has its own delay."""

    closed: frozenset[int] = frozenset()
    delays: tuple[int, ...] = ()
    """As many as fires; each capped below the gap to the next."""
    keeps_one: bool = False

    @property
    def open_fires(self) -> Listed:
        return Listed(tuple(fire for fire in self.fires if fire not in self.closed)) if self.closed else self

    def dispatch_ms(self, plan_ms: int) -> int:
        following = self.next_after_ms(plan_ms)
        delay = self.delays[self.fires.index(plan_ms)] if self.delays else 0
        return plan_ms + (delay if following is None else min(delay, following - plan_ms - 1))

    @property
    def plan(self) -> Fires:
        return Fires.of(self, self.dispatch_ms, keeps_one=self.keeps_one)


OFFSETS = st.lists(st.integers(-200, 10), min_size=0, max_size=40, unique=True)


@st.composite
def schedules(draw: st.DrawFn) -> Closing:
    fires = tuple(NOW + offset * 500 for offset in sorted(draw(OFFSETS)))
    shut = draw(st.lists(st.booleans(), min_size=len(fires), max_size=len(fires)))
    delays = draw(st.just(()) | st.lists(st.integers(0, 5000), min_size=len(fires), max_size=len(fires)).map(tuple))
    closed = frozenset(fire for fire, is_shut in zip(fires, shut, strict=True) if is_shut)
    closed = draw(st.sampled_from([closed, frozenset[int]()]))
    return Closing(fires, closed=closed, delays=delays, keeps_one=draw(st.booleans()))


SCHEDULES = schedules()
MISFIRES = st.builds(
    Misfire, policy=st.sampled_from(MisfirePolicy), grace_s=st.integers(1, 40), window_s=st.integers(0, 80),
    limit=st.integers(1, 12),
)  # fmt: skip
MARKS = st.integers(-220, 5).map(lambda offset: NOW + offset * 500)


def covered(schedule: Closing, step: Decision) -> list[int]:
    """The open and the closed fires that a step decides, in order."""
    passed = step.passed
    fires = [] if passed is None else schedule.fires_between_ms(passed.lo_ms - 1, passed.hi_ms, 10_000)
    return [*fires, *step.requests, *([] if step.claim_ms is None else [step.claim_ms])]


def check(schedule: Closing, step: Decision, now: int) -> None:
    """Every range is of one kind, and counts its own; nothing closed runs, nothing runs that is passed."""
    passed = step.passed
    assert sum(one is not None for one in (step.missed, step.superseded, step.closed)) <= 1
    if passed is not None:
        of = schedule if step.closed else schedule.open_fires
        inside = of.fires_between_ms(passed.lo_ms - 1, passed.hi_ms, 10_000)
        assert (inside[0], inside[-1], len(inside)) == (passed.lo_ms, passed.hi_ms, passed.count)
    if step.closed is not None:
        assert not step.requests
        assert step.claim_ms is None
        assert set(covered(schedule, step)) <= schedule.closed
    started = {*step.requests, *([] if step.claim_ms is None else [step.claim_ms])}
    assert not started & schedule.closed
    assert all(schedule.dispatch_ms(plan_ms) <= now for plan_ms in step.requests)


AFRESH = st.none() | st.integers(-210, 0).map(lambda offset: NOW + offset * 500)


@given(
    schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, fresh=AFRESH, waited=st.booleans(), ahead=st.integers(0, 4),
    passing=st.lists(st.integers(0, 30_000), min_size=60, max_size=60),
)  # fmt: skip
def test_steps_cover_every_fire_exactly_once_while_time_passes(
    schedule: Closing, misfire: Misfire, mark: int, fresh: int | None, waited: bool, ahead: int, passing: list[int]
) -> None:
    now, until, done, at = NOW, NOW + ahead * 500, list[int](), mark
    for passed in passing:
        step = decide(
            schedule.plan, misfire, mark_ms=at, until_ms=until, now_ms=now, fresh_ms=fresh, waited=waited
        )  # fmt: skip
        if step is None:
            break
        assert step.from_ms == at < step.to_ms <= until
        check(schedule, step, now)
        done += covered(schedule, step)
        assert done[-1] == step.to_ms
        at, now, waited = step.to_ms, now + passed, waited and step.claim_ms is None
    assert done == schedule.fires_between_ms(mark, until, 10_000)


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, waited=st.booleans())
def test_looked_at_afresh_few_steps_decide_all_that_is_due(
    schedule: Closing, misfire: Misfire, mark: int, waited: bool
) -> None:
    newest, at, steps, claims = schedule.plan.newest_due_ms(NOW), mark, 0, 0
    while newest is not None and (
        step := decide(schedule.plan, misfire, mark_ms=at, until_ms=newest, now_ms=NOW, fresh_ms=newest, waited=waited)
    ):
        at, steps, claims = step.to_ms, steps + 1, claims + (step.claim_ms is not None)
    assert at == (newest if newest is not None and newest > mark else mark)
    most = 2 * misfire.limit + 3 if misfire.policy is MisfirePolicy.ALL and not waited else 5
    assert steps <= (most if schedule.closed else 1 + schedule.keeps_one)
    assert claims <= 1


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, fresh=AFRESH)
def test_nothing_is_made_up_for_beyond_its_window_nor_missed_within_its_grace(
    schedule: Closing, misfire: Misfire, mark: int, fresh: int | None
) -> None:
    step = decide(schedule.plan, misfire, mark_ms=mark, until_ms=NOW, now_ms=NOW, fresh_ms=fresh)
    if step is None:
        return
    for plan_ms in (*step.requests, *([] if step.claim_ms is None else [step.claim_ms])):
        assert NOW - schedule.dispatch_ms(plan_ms) <= misfire.window_ms
    assert len(step.requests) <= misfire.limit
    if step.missed is not None and fresh is None and misfire.policy is not MisfirePolicy.ALL:
        assert schedule.dispatch_ms(step.missed.hi_ms) < NOW - misfire.grace_ms


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS)
def test_fire_whose_dispatch_time_is_to_come_is_neither_missed_nor_superseded(
    schedule: Closing, misfire: Misfire, mark: int
) -> None:
    for waited in (False, True):
        step = decide(
            schedule.plan, misfire, mark_ms=mark, until_ms=NOW + 5000, now_ms=NOW, fresh_ms=NOW, waited=waited
        )
        passed = None if step is None else step.missed or step.superseded
        if passed is not None:
            assert schedule.dispatch_ms(passed.hi_ms) <= NOW


@given(schedule=SCHEDULES, misfire=MISFIRES, mark=MARKS, patience=st.integers(0, 10_000))
def test_steward_gives_up_only_what_no_worker_would_run(
    schedule: Closing, misfire: Misfire, mark: int, patience: int
) -> None:
    step = give_up_unclaimed(schedule.plan, misfire, mark_ms=mark, now_ms=NOW, patience_ms=patience)
    if step is None:
        return
    assert step.claim_ms is None
    check(schedule, step, NOW)
    assert covered(schedule, step) == schedule.fires_between_ms(mark, step.to_ms, 10_000)
    workers = decide(schedule.plan, misfire, mark_ms=mark, until_ms=step.to_ms, now_ms=NOW, fresh_ms=step.to_ms)
    assert workers is not None
    assert workers.claim_ms is None
    assert workers.requests == ()


@given(schedule=SCHEDULES, mark=MARKS, until=MARKS)
def test_undecided_is_what_lies_between(schedule: Closing, mark: int, until: int) -> None:
    fires = schedule.fires_between_ms(mark, until, 10_000)
    found = undecided(schedule, mark_ms=mark, until_ms=until)
    if found is None:
        assert fires == []
    else:
        assert (found.lo_ms, found.hi_ms, found.count) == (fires[0], fires[-1], len(fires))
        assert found.count <= COUNT_LIMIT
