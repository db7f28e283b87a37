"""What a record tells: nearly always nothing; and an event as it is kept."""

from __future__ import annotations

from typing import Any

import pytest

from common.access.selectors import EVERYTHING, Selector
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.notices.events import Event, events_of, gave_up, never_began
from common.notices.rules import Rule
from common.notices.wanted import Wanted
from common.protocol.keys import RunId
from common.protocol.run import RunRecord, Trigger, last_order
from common.verdicts import EventKind, Verdict
from tests.support.records import PLAN_0_MS, record

ALL = tuple(EventKind)


def job(**fields: Any) -> JobSpec:
    return parse_job({"name": "backup", "command": "x", "every": "1m", **fields})


def kinds(one: RunRecord, *wanted: EventKind, **options: Any) -> list[str]:
    return [event.kind for event in events_of(one, wanted, **options)]


@pytest.mark.parametrize(
    ("status", "told"),
    [("success", []), ("skipped", []), *((one, [one]) for one in ("failed", "timeout", "killed", "lost", "missed"))],
)
def test_each_verdict_but_success_and_skipped_tells_something(status: str, told: list[str]) -> None:
    assert kinds(record(status=Verdict(status))) == told


def test_what_is_asked_for_is_told_too() -> None:
    assert kinds(record(), *ALL) == ["succeeded", "output"]
    assert kinds(record(status=Verdict.SKIPPED, output_bytes=0), *ALL) == ["skipped"]
    assert kinds(record(status=Verdict.FAILED), *ALL) == ["failed", "output"]


def test_an_attempt_after_which_another_follows_tells_no_problem_yet() -> None:
    assert kinds(record(status=Verdict.FAILED), EventKind.OUTPUT, is_tried_again=True) == ["output"]


def test_event_says_what_the_record_does_and_no_more_than_it_may() -> None:
    long = "x" * 9_000
    one = record(status=Verdict.FAILED, exit_code=3, err=long, reason=long, labels={"team": "billing"})
    [event] = events_of(one, spec=job(timezone="Asia/Tokyo"))
    assert event == Event(
        kind=EventKind.FAILED, at_ms=PLAN_0_MS + 7, job="backup", run=str(one.run_id), order=last_order(one),
        labels={"team": "billing"}, plan_ms=PLAN_0_MS, start_ms=PLAN_0_MS + 2, end_ms=PLAN_0_MS + 7, worker="w1",
        reason="x" * 500, err="x" * 500, exit_code=3, zone="Asia/Tokyo",
    )  # fmt: skip
    assert Event.from_document(event.to_document()) == event


def test_record_of_many_fires_says_how_many() -> None:
    [event] = events_of(record(status=Verdict.MISSED, count=7, reason="late"))
    assert (event.kind, event.count, event.reason, event.at_ms) == ("missed", 7, "late", PLAN_0_MS - 60)


@pytest.mark.parametrize(
    ("late_ms", "changes", "told"),
    [
        (5_000, {}, []),
        (5_001, {}, ["late"]),
        (9_000, {"trigger": Trigger.RETRY}, []),
        (9_000, {"status": Verdict.FAILED}, ["failed", "late"]),
    ],
)
def test_late_is_what_starts_after_its_jitter_and_more_than_the_job_allows(
    late_ms: int, changes: dict[str, Any], told: list[str]
) -> None:
    spec = job(lateAfterSeconds=2, jitterSeconds=3)
    assert kinds(record(start_ms=PLAN_0_MS + late_ms, **changes), spec=spec) == told
    assert "late" not in kinds(record(start_ms=PLAN_0_MS + late_ms, **changes), spec=job())


def test_fast_is_a_success_alone() -> None:
    spec = job(suspiciousBelowSeconds=0.01)
    assert kinds(record(), spec=spec) == ["fast"]
    assert kinds(record(end_ms=PLAN_0_MS + 12), spec=spec) == []
    assert kinds(record(status=Verdict.FAILED), spec=spec) == ["failed"]


def retry(status: Verdict, **changes: Any) -> RunRecord:
    run_id = RunId.planned("backup", PLAN_0_MS, 2)
    return record(status=status, run_id=run_id, trigger=Trigger.RETRY, **changes)


@pytest.mark.parametrize(
    ("one", "holds"),
    [
        (retry(Verdict.SKIPPED, reason="paused"), True),
        (retry(Verdict.MISSED), True),
        (retry(Verdict.KILLED, start_ms=None), True),
        (retry(Verdict.KILLED), False),
        (retry(Verdict.LOST, start_ms=None), False),
        (retry(Verdict.FAILED, start_ms=None), False),
        (record(status=Verdict.SKIPPED), False),
    ],
)
def test_which_attempts_never_began(one: RunRecord, holds: bool) -> None:
    assert never_began(one) is holds


def test_attempt_that_never_began_tells_of_the_one_before() -> None:
    before = record(status=Verdict.TIMEOUT, reason="timeout of 5 s", exit_code=None)
    event = gave_up(retry(Verdict.SKIPPED, reason="paused"), before)
    assert (event.kind, event.run, event.order) == ("timeout", str(before.run_id), last_order(before))
    assert event.reason == "timeout of 5 s; the next attempt did not run: paused"
    unknown = gave_up(retry(Verdict.SKIPPED, reason="paused"), None)
    assert (unknown.kind, unknown.attempt, unknown.reason) == ("failed", 2, "the next attempt did not run: paused")


@pytest.mark.parametrize(
    "document",
    [
        {}, {"kind": "failed"}, {"kind": "exploded", "atMs": 1}, {"kind": "failed", "atMs": "1"},
        {"kind": "failed", "atMs": -1}, {"kind": "failed", "atMs": 1, "reason": "x" * 501},
        {"kind": "failed", "atMs": 1, "labels": {"a": 1}}, {"kind": "failed", "atMs": 1, "job": "x" * 1_001},
    ],
)  # fmt: skip
def test_what_is_no_event_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not an event"):
        Event.from_document(document)


def test_member_of_a_later_version_is_passed_over() -> None:
    assert Event.from_document({"kind": "failed", "atMs": 1, "mood": "grim"}) == Event(kind=EventKind.FAILED, at_ms=1)


def test_what_rules_and_the_job_ask_for_beside_problems() -> None:
    billing = Selector.of({"team": ["billing"]})
    wanted = Wanted([
        Rule(labels=EVERYTHING, to=("ops",)), Rule(labels=billing, on=(EventKind.SUCCEEDED,), to=("ops",)),
        Rule(system=True, to=("ops",)), Rule(labels=EVERYTHING, on=(EventKind.SKIPPED,), to=("ops",)),
    ])  # fmt: skip
    assert wanted.kinds({"team": "billing"}, None) == {"succeeded", "skipped"}
    assert wanted.kinds({}, None) == {"skipped"}
    assert wanted.kinds({}, job(notify=[{"to": "ops", "on": ["output", "failed"]}])) == {"skipped", "output", "failed"}
    assert not Wanted([Rule(labels=EVERYTHING, to=("ops",)), Rule(system=True, to=("ops",))])
