"""Jobs that say the same beside name and command are checked once, and are what a check of each would make of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.errors import InvalidInputError
from common.jobs import forms
from common.jobs.forms import LONGEST_CHECKED_BY_FORM, parse_known
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.protocol.saved_job import SavedJob
from common.schedules.schedule import CronSchedule

SAID: dict[str, Any] = {"cronExpr": "0 0 3 * * * *", "labels": {"team": "a"}, "retry": {"limit": 3}, "slots": 1}


def known(name: str, command: Any = "true", **said: Any) -> JobSpec:
    document = {"name": name, "command": command, **SAID, **said}
    return parse_known(document, name=name, size=len(str(document)))


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_known", {})


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the jobs that were checked as a whole."""
    names: list[str] = []

    def counted(document: dict[str, Any], *, is_small: bool = False) -> JobSpec:
        names.append(document["name"])
        return parse_job(document, is_small=is_small)

    monkeypatch.setattr(forms, "parse_job", counted)
    return names


def test_thousand_jobs_of_three_forms_are_checked_three_times(checked: list[str]) -> None:
    for number in range(1000):
        spec = parse_job({"name": f"j{number}", "command": f"run {number}", "every": f"{number % 3 + 1}m"})
        value = SavedJob(spec=spec, anchor_ms=number, saved_ms=number).to_json()
        assert SavedJob.from_json(value, name=spec.name) == SavedJob(spec=spec, anchor_ms=number, saved_ms=number)
    assert len(checked) == 3


def test_what_jobs_of_one_form_have_in_common_is_kept_once() -> None:
    one, other = known("one"), known("other", ["ls", "-l"])
    assert other == replace(one, name="other", command=("ls", "-l"))
    assert other.labels is one.labels
    assert other.retry is one.retry
    assert other.schedule is one.schedule


@pytest.mark.parametrize("slots", [True, "1", 1.0, [1]], ids=repr)
def test_value_of_another_type_is_another_form(slots: object) -> None:
    known("one", slots=1)
    with pytest.raises(InvalidInputError, match="slots"):
        known("other", slots=slots)


@pytest.mark.parametrize("command", [None, "", 7, [], ["", "x"], "a\0b"], ids=repr)
def test_bad_command_is_told_as_if_nothing_was_known(command: object) -> None:
    with pytest.raises(InvalidInputError) as expected:
        known("one", command)
    known("one")
    with pytest.raises(InvalidInputError) as told:
        known("one", command)
    assert told.value.problems == expected.value.problems


def test_hash_is_each_jobs_own(checked: list[str]) -> None:
    one, other = (known(name, cronExpr="0 H H * * * *") for name in ("one", "other"))
    assert one.schedule != other.schedule
    assert checked == ["one", "other"]


def test_long_job_is_measured_as_a_whole(checked: list[str]) -> None:
    for name in ("one", "other"):
        known(name, "x" * LONGEST_CHECKED_BY_FORM)
    assert checked == ["one", "other"]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_MOST", 10)
    for number in range(100):
        known(f"j{number}", timeoutSeconds=number)
    known("long", labels={"text": "x" * 2000})
    assert len(forms._known) <= 10


def test_jobs_of_one_schedule_are_planned_by_one_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def counted(_: CronSchedule, ms: int) -> int:
        searched.append(ms)
        return ms + 60_000

    monkeypatch.setattr(CronSchedule, "search_next_ms", counted)
    jobs = [known(f"j{number}", cronExpr="13 * * * * * 2197") for number in range(1000)]
    assert {job.schedule.next_after_ms(1_000_000 + index) for index, job in enumerate(jobs)} == {1_060_000}
    assert searched == [1_000_000]
