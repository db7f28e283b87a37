"""A schedule without what was started before its time: the other fires, each once, in both directions."""

from __future__ import annotations

import json

import pytest

from common.errors import InvalidInputError
from common.jobs.reader import parse_job
from common.protocol.saved_job import Again, SavedJob, first_attempt
from common.schedules.job_calendar import LeavingOut, spans_of
from common.schedules.schedule import parse_cron

SECOND = 1_000
BASE = 1_790_000_000_000
EACH_SECOND = parse_cron("* * * * * * *")


def at(*seconds: int) -> list[int]:
    return [BASE + second * SECOND for second in seconds]


def test_fires_that_follow_each_other_are_one_span() -> None:
    spans = spans_of(EACH_SECOND, at(5, 3, 4, 9, 4))
    assert spans == ((*at(3), *at(5)), (*at(9), *at(9)))


def test_the_other_fires_stay_in_order_forwards_and_backwards() -> None:
    schedule = LeavingOut(inner=EACH_SECOND, spans=spans_of(EACH_SECOND, at(3, 4, 5, 7)))
    assert schedule.fires_between_ms(BASE, BASE + 9 * SECOND, 100) == at(1, 2, 6, 8, 9)
    assert schedule.last_before_ms(*at(8)) == at(6)[0]
    assert schedule.last_before_ms(*at(6)) == at(2)[0]
    assert schedule.open_fires is schedule


def test_calendar_stays_in_force() -> None:
    fields = {"cronExpr": "0 0 0 * * * *", "calendar": {"exclude": ["12-24/12-26"]}}
    spec = parse_job({"name": "j", "command": "true", **fields})
    opens = spec.schedule.open_fires.next_after_ms(BASE)
    assert opens is not None
    schedule = LeavingOut(inner=spec.schedule, spans=((opens, opens),))
    assert schedule.open_fires.next_after_ms(BASE) == spec.schedule.open_fires.next_after_ms(opens)
    days = schedule.fires_between_ms(BASE, BASE + 365 * 86_400_000, 400)
    assert [schedule.is_open(day) for day in days].count(False) == 3
    assert len(days) == 364


def test_a_job_carries_what_runs_again() -> None:
    spec = parse_job({"name": "j", "command": "true", "cronExpr": "* * * * * * *"})
    again = Again(until_ms=BASE, attempt=2, started={"": ((1, 2), (5, 5)), "w1": ((7, 7),)})
    saved = SavedJob(spec=spec, anchor_ms=1, again=again)
    read = SavedJob.from_json(saved.to_json(), name="j")
    assert read.again == again
    assert [first_attempt(read.again, ms) for ms in (BASE, BASE + 1)] == [2, 1]


@pytest.mark.parametrize(
    "spoilt", [1, {}, {"untilMs": 1, "attempt": 1, "started": {}}, {"untilMs": 1, "attempt": 2, "started": {"": [1]}}]
)
def test_what_cannot_be_read_is_no_job_rather_than_a_second_start(spoilt: object) -> None:
    spec = parse_job({"name": "j", "command": "true", "cronExpr": "* * * * * * *"})
    document = json.loads(SavedJob(spec=spec, anchor_ms=1).to_json()) | {"again": spoilt}
    with pytest.raises(InvalidInputError, match="again"):
        SavedJob.from_json(json.dumps(document).encode(), name="j")
