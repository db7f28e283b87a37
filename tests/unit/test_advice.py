"""Why a schedule is refused, by the field to mend; and what a save warns of."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from common.instants import to_ms
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from manager.views.advice import next_fire, save_warnings, schedule_problems


def ms(text: str) -> int:
    return to_ms(datetime.fromisoformat(text).astimezone(UTC))


NOW = ms("2026-06-15T12:00:00Z")


def job(**fields: Any) -> JobSpec:
    return parse_job({"name": "j", "command": "a", **fields})


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"cronExpr": "0 0 0 1 1 * 2001"}, "cronExpr", "never fires again: its last fire was 2001-01-01"),
    ({"cronExpr": ["0 0 0 1 1 * 2001", "0 0 0 1 1 * 2002"]}, "cronExpr", "its last fire was 2002-01-01"),
    ({"cronExpr": "@daily", "endAt": "2026-06-15T11:59"}, "endAt", "is past"),
    ({"every": "5m", "endAt": "2026-06-15T12:04:59"}, "endAt", "no fire lies between now"),
    ({"cronExpr": "@yearly", "startAt": "2026-07-01T00:00", "endAt": "2026-12-31T00:00"}, "endAt", "between startAt"),
    ({"cronExpr": "0 0 0 1 1 * 2027", "startAt": "2027-07-01T00:00"}, "startAt", "no fire follows"),
    ({"after": "5m", "endAt": "2026-06-15T11:59"}, "endAt", "is past"),
    ({"after": "5m", "calendar": {"include": ["2026-06-14"]}}, "calendar", "every fire that is still to come"),
    ({"every": "5m", "calendar": {"include": ["2026-06-01/2026-06-14"]}}, "calendar", "every fire that is still"),
    ({"cronExpr": "0 0 12 1 * * *", "calendar": {"include": ["12-25"]}}, "calendar", "every fire"),
    ({"at": "2026-06-15T11:58:59Z"}, "at", "is past by more than its grace"),
    ({"at": "2026-07-01T00:00", "calendar": {"exclude": ["07-01"]}}, "calendar", "leaves out the only fire"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "field", "message"), REFUSED)
def test_enabled_job_that_never_fires_again_is_refused_by_its_field(
    fields: dict[str, Any], field: str, message: str
) -> None:
    [problem] = schedule_problems(job(**fields), now_ms=NOW)
    assert problem.field == field
    assert message in problem.message
    assert problem.remedy.endswith('or save it with "enabled": false')


@pytest.mark.parametrize(("fields", "field", "message"), REFUSED)
def test_paused_job_that_never_fires_again_is_saved_with_a_warning(
    fields: dict[str, Any], field: str, message: str
) -> None:
    paused = job(**fields, enabled=False)
    assert schedule_problems(paused, now_ms=NOW) == []
    [warning] = save_warnings(paused, now_ms=NOW, mark_ms=NOW)
    assert "never" in warning or "past" in warning


ACCEPTED: list[dict[str, Any]] = [
    {"cronExpr": "@daily"},
    {"cronExpr": "@daily", "endAt": "2026-06-16T00:00"},
    {"every": "5m", "startAt": "2100-01-01T00:00"},
    {"after": "5m"},
    {"after": "5m", "endAt": "2026-06-15T12:00:01", "calendar": {"include": ["06-15"]}},
    {"at": "2026-06-15T12:00:01Z"},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_job_that_fires_again_is_saved_without_a_word(fields: dict[str, Any]) -> None:
    assert schedule_problems(job(**fields), now_ms=NOW) == []
    assert save_warnings(job(**fields), now_ms=NOW, mark_ms=NOW) == ()


def test_instant_within_its_grace_is_saved_and_says_that_it_fires_at_once() -> None:
    late = job(at="2026-06-15T11:59:00Z")
    assert schedule_problems(late, now_ms=NOW) == []
    [warning] = save_warnings(late, now_ms=NOW, mark_ms=ms("2026-06-15T11:58:59.999Z"))
    assert "fires at once" in warning
    later = job(at="2026-06-15T11:00:00Z", misfire={"graceSeconds": 3600})
    assert schedule_problems(later, now_ms=NOW) == []


def test_instant_that_the_mark_has_reached_does_not_fire_and_the_answer_says_so() -> None:
    [warning] = save_warnings(job(at="2026-06-15T11:59:30Z"), now_ms=NOW, mark_ms=NOW)
    assert "nothing will fire" in warning


def test_one_of_several_expressions_that_is_past_is_named() -> None:
    spec = job(cronExpr=["0 0 0 1 1 * 2001", "@daily"])
    assert schedule_problems(spec, now_ms=NOW) == []
    [warning] = save_warnings(spec, now_ms=NOW, mark_ms=None)
    assert warning == "'0 0 0 1 1 * 2001': it never fires again: every fire of the expression is past"


def test_both_day_fields_are_warned_of_for_each_expression() -> None:
    [warning] = save_warnings(job(cronExpr=["0 0 0 1 * MON *", "@daily"]), now_ms=NOW, mark_ms=None)
    assert warning.startswith("'0 0 0 1 * MON *': both day fields are restricted")
    [warning] = save_warnings(job(cronExpr="0 0 0 1 * MON *"), now_ms=NOW, mark_ms=None)
    assert warning.startswith("both day fields")


def test_calendar_that_closes_all_of_the_next_fires_says_when_one_runs() -> None:
    spec = job(cronExpr="0 0 * * * * *", calendar={"exclude": ["2026-06-15/2026-06-20"]})
    [warning] = save_warnings(spec, now_ms=NOW, mark_ms=None)
    assert warning == "the calendar closes all of the next 10 fires: the first that runs is 2026-06-21T00:00:00.000Z"


def test_next_fire_is_the_next_one_that_runs() -> None:
    spec = job(cronExpr="0 0 * * * * *", calendar={"exclude": ["2026-06-15/2026-06-20"]})
    fire = next_fire(spec, after_ms=NOW)
    assert fire is not None
    assert (fire["utc"], fire["open"]) == ("2026-06-21T00:00:00.000Z", True)
    assert next_fire(job(after="5m"), after_ms=NOW) is None
    assert next_fire(job(every="5m", enabled=False), after_ms=NOW) is None
