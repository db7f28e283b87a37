"""Jitter moves a fire by a hash: the same everywhere, never onto the next one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from common.protocol.planner import Fires
from common.schedules.schedule import dispatch_ms, parse_cron
from common.schedules.triggers import AtSchedule, EverySchedule

MINUTELY = parse_cron("0 * * * * * *")
NOON = 1_790_000_040_000
MINUTE = 60_000


def delays(jitter_s: int, job: str = "job") -> list[int]:
    plans = [NOON + number * MINUTE for number in range(300)]
    return [dispatch_ms(job, MINUTELY, jitter_s, plan_ms) - plan_ms for plan_ms in plans]


def test_without_jitter_a_fire_starts_at_its_plan_time() -> None:
    assert set(delays(0)) == {0}


def test_fires_spread_over_the_whole_span_and_each_job_its_own_way() -> None:
    found = delays(30)
    assert 0 <= min(found) < 1000
    assert 29_000 < max(found) <= 30_000
    assert 13_000 < sum(found) / len(found) < 17_000
    assert found == delays(30)
    assert found != delays(30, "another")


def test_it_stays_below_the_gap_to_the_next_plan_time() -> None:
    found = delays(3600)
    assert 59_000 < max(found) < MINUTE


def test_every_delay_below_the_gap_comes_up_and_none_beyond() -> None:
    """With two milliseconds to the next plan time there are two moments to start at; with one there is one."""

    def moments(gap_ms: int) -> set[int]:
        schedule = EverySchedule(period_ms=gap_ms)
        return {dispatch_ms(f"job-{number}", schedule, 5, gap_ms) - gap_ms for number in range(40)}

    assert [moments(gap_ms) for gap_ms in (1, 2, 3)] == [{0}, {0, 1}, {0, 1, 2}]


def test_delay_is_the_same_for_ever() -> None:
    """Frozen: workers of two versions, which look after one job, agree on when its fires start."""
    assert delays(30)[:3] == [4262, 10_925, 16_676]


def test_last_fire_of_a_schedule_may_be_moved_by_all_of_it() -> None:
    found = {dispatch_ms(f"job-{number}", AtSchedule(at_ms=NOON), 3600, NOON) - NOON for number in range(200)}
    assert max(found) > 3_000_000
    assert max(found) <= 3_600_000


@given(st.integers(1, 100), st.integers(0, 200), st.integers(NOON, NOON + 10_000_000))
def test_newest_due_fire_is_the_last_whose_dispatch_time_has_come(period_s: int, jitter_s: int, now_ms: int) -> None:
    schedule = EverySchedule(period_ms=period_s * 1000)
    fires = Fires.of(schedule, lambda plan_ms: dispatch_ms("job", schedule, jitter_s, plan_ms))
    newest = fires.newest_due_ms(now_ms)
    assert newest is not None
    following = schedule.next_after_ms(newest)
    assert following is not None
    assert fires.dispatch_ms(newest) <= now_ms < fires.dispatch_ms(following)
