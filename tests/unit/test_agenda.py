"""The heap of cues and the queue of what is to be decided: in order, once, and without what is gone."""

from __future__ import annotations

from typing import Any

from common.jobs.reader import parse_job
from common.protocol.planned_job import PlannedJob
from common.protocol.proposals import Blocker
from worker.deciding.agenda import Agenda, Agendum, Cue

SECOND = 1000


def agendum(name: str = "job", *, until_ms: int = 0, base_ms: int = 0, anchor_ms: int = 0, **fields: Any) -> Agendum:
    spec = parse_job({"name": name, "command": "true", "cronExpr": "* * * * * * *"} | fields)
    job = PlannedJob(spec=spec, schedule=spec.schedule, anchor_ms=anchor_ms, revision=1, create_revision=1)
    return Agendum(job=job, until_ms=until_ms, base_ms=base_ms)


def taken(agenda: Agenda) -> Agendum | None:
    """The first in the line, which leaves it."""
    first = agenda.line.first()
    if first is not None:
        agenda.line.leave()
    return first


def test_cues_come_up_in_the_order_of_their_time() -> None:
    agenda, one = Agenda(), agendum()
    for at_ms in (3, 1, 2, 1):
        agenda.put_cue(at_ms, Cue.FIRE, one, at_ms)
    assert agenda.cues.next_ms == 1
    assert [plan_ms for _, _, plan_ms in agenda.due(2)] == [1, 1, 2]
    assert agenda.cues.next_ms == 3
    agenda.cues.clear()
    assert agenda.cues.next_ms is None


def test_cue_put_while_others_come_up_comes_up_too_when_it_is_due() -> None:
    agenda, one = Agenda(claim_lead_ms=200), agendum()
    agenda.advance(one, 0)
    plans: list[int] = []
    for _, came_up, plan_ms in agenda.due(3 * SECOND):
        plans.append(plan_ms)
        agenda.advance(came_up, plan_ms)
    assert plans == [SECOND, 2 * SECOND, 3 * SECOND]
    assert agenda.cues.next_ms == 4 * SECOND - 200


def test_what_is_gone_does_not_come_up() -> None:
    agenda, old = Agenda(), agendum(until_ms=5)
    agenda.put_cue(1, Cue.FIRE, old, 1)
    agenda.line.join(old)
    agenda.retire(old)
    assert list(agenda.due(10)) == []
    assert taken(agenda) is None


def test_what_is_gone_is_not_kept_for_ever() -> None:
    agenda, stays = Agenda(), agendum(until_ms=5)
    agenda.put_cue(7, Cue.FIRE, stays, 7)
    agenda.line.join(stays)
    for _ in range(1000):
        old = agendum(until_ms=5)
        agenda.put_cue(10**15, Cue.FIRE, old, 1)
        agenda.line.join(old)
        agenda.retire(old)
    assert len(agenda.line) < 400
    assert agenda.cues.next_ms == 7
    assert taken(agenda) is stays


def test_oldest_fire_is_decided_first_each_once() -> None:
    agenda = Agenda()
    young, old = agendum("young", until_ms=9), agendum("old", until_ms=3)
    for one in (young, old, young, old):
        agenda.line.join(one)
    assert len(agenda.line) == 2
    assert [taken(agenda), taken(agenda), taken(agenda)] == [old, young, None]


def test_skip_does_not_wait_behind_claims() -> None:
    agenda = Agenda()
    claim, skip = agendum("claim", until_ms=3), agendum("skip", until_ms=9)
    skip.blocker = Blocker(run="job@1#1", lock_revision=1)
    agenda.line.join(claim)
    agenda.line.join(skip)
    assert taken(agenda) is skip


def test_busy_parked_or_content_it_is_not_in_the_queue() -> None:
    agenda = Agenda()
    busy, parked, content = agendum(until_ms=1), agendum(until_ms=1), agendum(until_ms=1, base_ms=1)
    busy.busy = parked.parked = True
    for one in (busy, parked, content):
        agenda.line.join(one)
    assert len(agenda.line) == 0


def test_what_turned_busy_in_the_queue_can_be_queued_again() -> None:
    agenda, one = Agenda(), agendum(until_ms=1)
    agenda.line.join(one)
    one.busy = True
    assert taken(agenda) is None
    one.busy = False
    agenda.line.join(one)
    assert taken(agenda) is one


def test_wanted_fire_presumes_that_all_before_it_are_decided() -> None:
    agenda, one = Agenda(), agendum(anchor_ms=500)
    agenda.want(one, 3 * SECOND)
    assert (one.base_ms, one.until_ms) == (2 * SECOND, 3 * SECOND)
    agenda.want(one, 4 * SECOND)
    assert (one.base_ms, one.until_ms) == (2 * SECOND, 4 * SECOND)


def test_first_fire_after_a_save_starts_from_the_anchor() -> None:
    agenda, one = Agenda(), agendum(anchor_ms=2500)
    agenda.want(one, 3 * SECOND)
    assert one.base_ms == 2500


def test_what_is_remembered_of_decided_fires_is_forgotten() -> None:
    one = agendum(until_ms=5)
    one.fresh_ms, one.blocker, one.blocked_ms, one.waited = 5, Blocker(run="r", lock_revision=1), 5, True
    one.tidy()
    assert one.fresh_ms == 5
    one.give_up()
    left = (one.wants, one.fresh_ms, one.blocker, one.blocked_ms, one.waited)
    assert repr(left) == "(False, None, None, None, False)"


def test_greater_priority_goes_first_then_the_older_fire() -> None:
    agenda = Agenda()
    young, old = agendum("young", until_ms=9), agendum("old", until_ms=3)
    low, high = agendum("low", until_ms=1, priority=-1), agendum("high", until_ms=9, priority=5)
    skip = agendum("skip", until_ms=9, priority=-100)
    skip.blocker = Blocker(run="job@1#1", lock_revision=1)
    for one in (low, young, high, old, skip):
        agenda.line.join(one)
    assert [taken(agenda) for _ in range(5)] == [skip, high, old, young, low]


def test_closed_fire_does_not_wait_behind_claims() -> None:
    agenda = Agenda()
    claim = agendum("claim", until_ms=3 * SECOND, priority=100)
    closed = agendum("closed", until_ms=9 * SECOND, calendar={"exclude": ["1970-01-01"]})
    opened = agendum("opened", until_ms=9 * SECOND, calendar={"exclude": ["1970-01-02"]})
    for one in (opened, claim, closed):
        agenda.line.join(one)
    assert [taken(agenda) for _ in range(3)] == [closed, claim, opened]


def test_fire_with_jitter_comes_up_before_its_dispatch_time() -> None:
    agenda, one = Agenda(claim_lead_ms=200), agendum(jitterSeconds=30, cronExpr="0 * * * * * *")
    for minute in range(1, 20):
        plan_ms = minute * 60 * SECOND
        agenda.advance(one, plan_ms - 1)
        assert agenda.cues.next_ms == one.job.dispatch_ms(plan_ms) - 200
        agenda.cues.clear()


def test_what_is_put_back_keeps_its_place_whatever_came_up_since() -> None:
    agenda = Agenda()
    waits, other = agendum("waits", until_ms=3), agendum("other", until_ms=3)
    agenda.line.join(waits)
    agenda.line.join(other)
    assert agenda.line.first() is waits
    waits.until_ms = 9
    agenda.line.join(agendum("third", until_ms=3))
    assert taken(agenda) is waits
    assert taken(agenda) is other
