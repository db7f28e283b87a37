"""The heap of cues and the queue of what is to be decided: in order, once, and without what is gone."""

from __future__ import annotations

from typing import Any

from tests.support.stored import kv, planned, spec_of
from worker.plan.pending_jobs import Cue, PendingJob, PendingJobs

SECOND = 1000
LOCK = kv("/etcron/locks/job", b"job@1#1", 1)


def pending(name: str = "job", *, until_ms: int = 0, base_ms: int = 0, anchor_ms: int = 0, **fields: Any) -> PendingJob:
    return PendingJob(job=planned(spec_of(name, **fields), anchor_ms=anchor_ms), until_ms=until_ms, base_ms=base_ms)


def taken(pending_jobs: PendingJobs) -> PendingJob | None:
    """The first in the line, which leaves it."""
    first = pending_jobs.line.first()
    if first is not None:
        pending_jobs.line.leave()
    return first


def test_cues_come_up_in_the_order_of_their_time() -> None:
    pending_jobs, one = PendingJobs(), pending()
    for at_ms in (3, 1, 2, 1):
        pending_jobs.put_cue(at_ms, Cue.FIRE, one, at_ms)
    assert pending_jobs.cues.next_ms == 1
    assert [plan_ms for _, _, plan_ms in pending_jobs.due(2)] == [1, 1, 2]
    assert pending_jobs.cues.next_ms == 3
    pending_jobs.cues.clear()
    assert pending_jobs.cues.next_ms is None


def test_cue_put_while_others_come_up_comes_up_too_when_it_is_due() -> None:
    pending_jobs, one = PendingJobs(claim_lead_ms=200), pending()
    pending_jobs.advance(one, 0)
    plans: list[int] = []
    for _, came_up, plan_ms in pending_jobs.due(3 * SECOND):
        plans.append(plan_ms)
        pending_jobs.advance(came_up, plan_ms)
    assert plans == [SECOND, 2 * SECOND, 3 * SECOND]
    assert pending_jobs.cues.next_ms == 4 * SECOND - 200


def test_what_is_gone_does_not_come_up() -> None:
    pending_jobs, old = PendingJobs(), pending(until_ms=5)
    pending_jobs.put_cue(1, Cue.FIRE, old, 1)
    pending_jobs.line.join(old)
    pending_jobs.retire(old)
    assert list(pending_jobs.due(10)) == []
    assert taken(pending_jobs) is None


def test_what_is_gone_is_not_kept_for_ever() -> None:
    pending_jobs, stays = PendingJobs(), pending(until_ms=5)
    pending_jobs.put_cue(7, Cue.FIRE, stays, 7)
    pending_jobs.line.join(stays)
    for _ in range(1000):
        old = pending(until_ms=5)
        pending_jobs.put_cue(10**15, Cue.FIRE, old, 1)
        pending_jobs.line.join(old)
        pending_jobs.retire(old)
    assert len(pending_jobs.line) < 400
    assert pending_jobs.cues.next_ms == 7
    assert taken(pending_jobs) is stays


def test_oldest_fire_is_decided_first_each_once() -> None:
    pending_jobs = PendingJobs()
    young, old = pending("young", until_ms=9), pending("old", until_ms=3)
    for one in (young, old, young, old):
        pending_jobs.line.join(one)
    assert len(pending_jobs.line) == 2
    assert [taken(pending_jobs), taken(pending_jobs), taken(pending_jobs)] == [old, young, None]


def test_busy_parked_or_content_it_is_not_in_the_queue() -> None:
    pending_jobs = PendingJobs()
    busy, parked, content = pending(until_ms=1), pending(until_ms=1), pending(until_ms=1, base_ms=1)
    busy.busy = parked.parked = True
    for one in (busy, parked, content):
        pending_jobs.line.join(one)
    assert len(pending_jobs.line) == 0


def test_what_turned_busy_in_the_queue_can_be_queued_again() -> None:
    pending_jobs, one = PendingJobs(), pending(until_ms=1)
    pending_jobs.line.join(one)
    one.busy = True
    assert taken(pending_jobs) is None
    one.busy = False
    pending_jobs.line.join(one)
    assert taken(pending_jobs) is one


def test_wanted_fire_presumes_that_all_before_it_are_decided() -> None:
    pending_jobs, one = PendingJobs(), pending(anchor_ms=500)
    pending_jobs.want(one, 3 * SECOND)
    assert (one.base_ms, one.until_ms) == (2 * SECOND, 3 * SECOND)
    pending_jobs.want(one, 4 * SECOND)
    assert (one.base_ms, one.until_ms) == (2 * SECOND, 4 * SECOND)


def test_first_fire_after_a_save_starts_from_the_anchor() -> None:
    pending_jobs, one = PendingJobs(), pending(anchor_ms=2500)
    pending_jobs.want(one, 3 * SECOND)
    assert one.base_ms == 2500


def test_what_is_remembered_of_decided_fires_is_forgotten() -> None:
    one = pending(until_ms=5)
    one.fresh_ms, one.blocker, one.blocked_ms, one.waited = 5, LOCK, 5, True
    one.tidy()
    assert one.fresh_ms == 5
    one.give_up()
    left = (one.wants, one.fresh_ms, one.blocker, one.blocked_ms, one.waited)
    assert repr(left) == "(False, None, None, None, False)"


def test_greater_priority_goes_first_then_the_older_fire() -> None:
    pending_jobs = PendingJobs()
    young, old = pending("young", until_ms=9), pending("old", until_ms=3)
    low, high = pending("low", until_ms=1, priority=-1), pending("high", until_ms=9, priority=5)
    skip = pending("skip", until_ms=9, priority=-100)
    skip.blocker = LOCK
    for one in (low, young, high, old, skip):
        pending_jobs.line.join(one)
    assert [taken(pending_jobs) for _ in range(5)] == [skip, high, old, young, low]


def test_closed_fire_does_not_wait_behind_claims() -> None:
    pending_jobs = PendingJobs()
    claim = pending("claim", until_ms=3 * SECOND, priority=100)
    closed = pending("closed", until_ms=9 * SECOND, calendar={"exclude": ["1970-01-01"]})
    opened = pending("opened", until_ms=9 * SECOND, calendar={"exclude": ["1970-01-02"]})
    for one in (opened, claim, closed):
        pending_jobs.line.join(one)
    assert [taken(pending_jobs) for _ in range(3)] == [closed, claim, opened]


def test_fire_with_jitter_comes_up_before_its_dispatch_time() -> None:
    pending_jobs, one = PendingJobs(claim_lead_ms=200), pending(jitterSeconds=30, cronExpr="0 * * * * * *")
    for minute in range(1, 20):
        plan_ms = minute * 60 * SECOND
        pending_jobs.advance(one, plan_ms - 1)
        assert pending_jobs.cues.next_ms == one.job.dispatch_ms(plan_ms) - 200
        pending_jobs.cues.clear()


def test_what_is_put_back_keeps_its_place_whatever_came_up_since() -> None:
    pending_jobs = PendingJobs()
    waits, other = pending("waits", until_ms=3), pending("other", until_ms=3)
    pending_jobs.line.join(waits)
    pending_jobs.line.join(other)
    assert pending_jobs.line.first() is waits
    waits.until_ms = 9
    pending_jobs.line.join(pending("third", until_ms=3))
    assert taken(pending_jobs) is waits
    assert taken(pending_jobs) is other
