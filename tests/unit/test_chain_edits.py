"""What an edit writes about the chain of an `after` job, and where it leaves the mark of an `at`. Without an etcd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.instants import from_ms, parse_duration
from common.jobs.job import JobSpec
from common.protocol.chain import Chained, link_at
from common.protocol.compares import Compare, absent, create_revision_is
from common.protocol.edits import Edit, Stored, plan_delete, plan_pause, plan_resume, plan_save
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.request import Origin, Request
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Delete, KeyValue, Operation, Put
from common.schedules.moment import Moment
from tests.support.stored import kv

KEYS = Keys()
NOW_MS = 1_700_000_000_500
CRON = JobSpec(name="j", command="echo", cron_exprs=("* * * * * * *",))
AFTER = JobSpec(name="j", command="echo", after=parse_duration("1h"))
PAUSED = replace(AFTER, enabled=False)
HELD = kv(KEYS.lock("j"), b"", 40)
DELETES = Delete(KEYS.chain("j"))


def moment(ms: int) -> Moment:
    return Moment(from_ms(ms).isoformat(), ms)


def link(plan_ms: int = NOW_MS + 5000, *, created: int = 7) -> KeyValue:
    request = link_at(AFTER, plan_ms, job_create_revision=created)
    assert request is not None
    return kv(KEYS.chain("j"), request.to_json(), 30)


def stored(
    spec: JobSpec | None, *, lock: KeyValue | None = None, link: KeyValue | None = None, mark_ms: int = NOW_MS - 2000
) -> Stored:
    job = None if spec is None else kv(KEYS.job("j"), SavedJob(spec=spec, anchor_ms=mark_ms).to_json())
    mark = kv(KEYS.mark("j"), encode_mark(mark_ms))
    return Stored.read("j", job, mark, chained=Chained(lock=lock, link=link))


def save(before: Stored, spec: JobSpec) -> Edit:
    edit = plan_save(KEYS, before, spec, now_ms=NOW_MS, by="test")
    assert edit is not None
    return edit


def about_chain(edit: Edit) -> tuple[list[Compare], list[Operation]]:
    """Its compares of the lock, and what it writes at the fixed key."""
    compares = [one for one in edit.txn.compares if one.key == KEYS.lock("j")]
    writes = [one for one in edit.txn.then if isinstance(one, Put | Delete) and one.key == KEYS.chain("j")]
    has_sentinel = Put(KEYS.seen_prefix + "requests", b"") in edit.txn.then
    assert has_sentinel == bool(writes)
    return compares, list(writes)


def requested(writes: list[Operation], revision: int = 99) -> Request:
    [put] = writes
    assert isinstance(put, Put)
    return Request.from_json(put.value, run_id=KEYS.run_of(put.key), revision=revision)


@pytest.mark.parametrize(
    ("before", "spec"),
    [
        (stored(None), AFTER),
        (stored(CRON), AFTER),
        (stored(PAUSED), AFTER),
        (stored(AFTER, link=link()), replace(AFTER, after=parse_duration("5m"))),
        (stored(AFTER, link=link(created=3)), replace(AFTER, command="other")),
        (stored(AFTER, link=kv(KEYS.chain("j"), b"garbage")), replace(AFTER, command="other")),
        (stored(AFTER), replace(AFTER, command="other")),
    ],
    ids=["new", "was cron", "was paused", "another delay", "link of a former job", "unreadable link", "no link"],
)  # fmt: skip
def test_save_begins_the_chain_at_once_where_the_lock_is_free(before: Stored, spec: JobSpec) -> None:
    compares, writes = about_chain(save(before, spec))
    request = requested(writes)
    assert compares == [absent(KEYS.lock("j"))]
    assert (request.origin, request.plan_ms, request.not_before_ms) == (Origin.CHAIN, NOW_MS, NOW_MS)
    assert request.expires_ms is None
    assert request.run_id == RunId.planned("j", NOW_MS)
    assert request.job_create_revision == (7 if before.job else 99), "of a new job: the request's own revision"


@pytest.mark.parametrize("before", [stored(AFTER, lock=HELD), stored(CRON, lock=HELD), stored(None, lock=HELD)])
def test_save_while_a_run_holds_the_lock_puts_no_link(before: Stored) -> None:
    compares, writes = about_chain(save(before, replace(AFTER, command="other")))
    assert (compares, writes) == ([create_revision_is(HELD.key, 40)], [])


def test_resume_begins_the_chain_at_once_and_pause_deletes_it() -> None:
    resume = plan_resume(KEYS, stored(PAUSED), now_ms=NOW_MS, by="test")
    pause = plan_pause(KEYS, stored(AFTER, link=link()), reason=None, now_ms=NOW_MS, by="test")
    assert resume is not None
    assert pause is not None
    assert requested(about_chain(resume)[1]).plan_ms == NOW_MS
    assert about_chain(pause) == ([], [DELETES])


@pytest.mark.parametrize("reason", [None, "for all of them"])
def test_pause_of_a_paused_job_changes_nothing(reason: str | None) -> None:
    assert plan_pause(KEYS, stored(PAUSED), reason=reason, now_ms=NOW_MS, by="test") is None


@pytest.mark.parametrize("lock", [None, HELD])
def test_delete_and_another_trigger_delete_the_link_even_one_that_comes_meanwhile(lock: KeyValue | None) -> None:
    before = stored(AFTER, lock=lock)
    delete = plan_delete(KEYS, before, now_ms=NOW_MS, by="test")
    assert delete is not None
    assert about_chain(delete) == ([], [DELETES])
    assert about_chain(save(before, CRON)) == ([], [DELETES])


def test_unreadable_job_that_is_replaced_leaves_no_link() -> None:
    before = Stored.read("j", kv(KEYS.job("j"), b"garbage"), None)
    assert about_chain(save(before, CRON)) == ([], [DELETES])


@pytest.mark.parametrize("before", [stored(None), stored(CRON), stored(replace(CRON, enabled=False))])
def test_job_with_another_trigger_costs_nothing(before: Stored) -> None:
    assert about_chain(save(before, replace(CRON, command="other"))) == ([], [])


def test_link_lies_in_the_window() -> None:
    later = replace(AFTER, start_at=moment(NOW_MS + 60_000))
    over = replace(AFTER, end_at=moment(NOW_MS - 60_000))
    assert requested(about_chain(save(stored(None), later))[1]).plan_ms == NOW_MS + 60_000
    assert about_chain(save(stored(AFTER, link=link()), over)) == ([absent(HELD.key)], [DELETES])


# One-shot jobs


def at(ms: int, **fields: Any) -> JobSpec:
    return JobSpec(name="j", command="echo", at=moment(ms), **fields)


LATE = at(NOW_MS - 3000)


@pytest.mark.parametrize(
    ("mark_ms", "spec", "expected"),
    [
        (NOW_MS - 9000, LATE, NOW_MS - 3001),
        (NOW_MS - 1000, LATE, NOW_MS - 1000),
        (NOW_MS - 9000, at(NOW_MS + 5000), NOW_MS),
        (NOW_MS - 9000, at(NOW_MS), NOW_MS - 1),
        (NOW_MS - 9000, replace(LATE, enabled=False), NOW_MS),
    ],
    ids=["late", "decided already", "to come", "now", "paused"],
)
def test_mark_of_a_late_one_shot_stays_just_before_it(mark_ms: int, spec: JobSpec, expected: int) -> None:
    edit = save(stored(None, mark_ms=mark_ms), spec)
    assert edit.mark_ms == expected
    assert edit.value is not None
    assert SavedJob.from_json(edit.value, name="j").anchor_ms == expected


def test_late_one_shot_that_is_edited_before_it_fired_is_not_skipped() -> None:
    edit = save(stored(LATE, mark_ms=NOW_MS - 9000), replace(LATE, command="other"))
    assert (edit.record, edit.mark_ms) == (None, NOW_MS - 9000)
    moved = save(stored(LATE, mark_ms=NOW_MS - 9000), replace(LATE, timezone="Europe/Berlin"))
    assert (moved.record, moved.mark_ms) == (None, NOW_MS - 3001)


def test_fires_of_a_former_trigger_around_a_late_one_shot_are_recorded() -> None:
    spec = at(NOW_MS - 2500)  # a whole second: a fire of the former trigger, too
    edit = save(stored(CRON, mark_ms=NOW_MS - 5000), spec)
    assert edit.mark_ms == NOW_MS - 2501
    assert edit.record is not None
    fires = (edit.record.plan_ms, edit.record.range_end_ms, edit.record.count)
    assert fires == (NOW_MS - 4500, NOW_MS - 500, 4), "of five, all but the one that is still to fire"
