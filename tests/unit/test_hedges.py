"""Which fires the second in rank looks at, once it has slots to spare."""

from __future__ import annotations

from tests.support.stored import planned, spec_of
from worker.plan.hedges import Hedges
from worker.plan.pending_jobs import PendingJob

NOON = 1_790_000_040_000
PLAN = NOON + 60_000
HEDGED = PLAN + 500


def a_pending_job(name: str = "job", *, slots: int = 1) -> PendingJob:
    return PendingJob(job=planned(spec_of(name, cronExpr="0 * * * * * *", slots=slots), anchor_ms=NOON))


def test_are_taken_once() -> None:
    hedges, one, other = Hedges(), a_pending_job(), a_pending_job("other")
    hedges.add([(one, PLAN), (other, PLAN)], HEDGED)
    assert hedges.take(HEDGED + 1_000, 1) == [(one, PLAN), (other, PLAN)]
    assert hedges.take(HEDGED + 1_000, 1) == []


def test_newest_fire_of_a_job_counts() -> None:
    hedges, often, other = Hedges(), a_pending_job(), a_pending_job("other")
    hedges.add([(often, PLAN), (other, PLAN)], HEDGED)
    hedges.add([(often, PLAN + 1_000)], HEDGED + 1_000)
    assert hedges.take(HEDGED + 1_000, 1) == [(other, PLAN), (often, PLAN + 1_000)]


def test_after_five_seconds_without_slots_they_are_the_stewards() -> None:
    hedges, late = Hedges(), a_pending_job()
    hedges.add([(a_pending_job("old"), PLAN)], HEDGED)
    hedges.add([(late, PLAN + 2_000)], HEDGED + 2_000)
    assert hedges.take(HEDGED + 5_001, 1) == [(late, PLAN + 2_000)]


def test_misfire_that_is_old_when_its_hedge_ends_is_looked_at() -> None:
    hedges, misfire = Hedges(), a_pending_job()
    hedges.add([(misfire, PLAN)], PLAN + 3_600_000)
    assert hedges.take(PLAN + 3_600_000, 1) == [(misfire, PLAN)]


def test_clock_that_jumped_leaves_none() -> None:
    hedges = Hedges()
    hedges.add([(a_pending_job(), PLAN)], HEDGED)
    hedges.clear()
    assert hedges.take(HEDGED, 1) == []


def test_one_whose_job_has_changed_is_forgotten() -> None:
    hedges, gone, there = Hedges(), a_pending_job(), a_pending_job("other")
    hedges.add([(there, PLAN), (gone, PLAN)], HEDGED)
    gone.gone = True
    assert hedges.take(HEDGED, 1) == [(there, PLAN)]


def test_job_of_several_slots_waits_until_there_are_as_many() -> None:
    hedges, small, large = Hedges(), a_pending_job(), a_pending_job("large", slots=2)
    hedges.add([(large, PLAN), (small, PLAN)], HEDGED)
    assert hedges.take(HEDGED, 1) == [(small, PLAN)]
    assert hedges.take(HEDGED + 1_000, 2) == [(large, PLAN)]
