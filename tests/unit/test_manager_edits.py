"""What one save or delete writes: the transaction as a value, without an etcd."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from common.instants import parse_duration
from common.jobs.job import JobSpec, Misfire, OnWorkerLost, Overlap
from common.jobs.notify import Link, Notify
from common.jobs.retry import Retry
from common.protocol.compares import value_is
from common.protocol.edits import Edit, Stored, plan_delete, plan_save
from common.protocol.keys import Keys, encode_mark
from common.protocol.member import Member
from common.protocol.saved_job import SavedJob
from common.protocol.txn import Delete, Earlier, Fate, KeyRead, Put, TxnResult
from common.schedules.job_calendar import Calendar
from common.schedules.moment import parse_moment
from tests.support.stored import kv

KEYS = Keys()
SPEC = JobSpec(name="j", command="echo", cron_exprs=("* * * * * * *",))
MOVED = replace(SPEC, cron_exprs=("0 * * * * * *",))
NOW_MS = 1_700_000_000_500


def stored(mark_ms: int | None, *, spec: JobSpec | None = SPEC, anchor_ms: int | None = None) -> Stored:
    job = None
    if spec is not None:
        saved = SavedJob(spec=spec, anchor_ms=anchor_ms if anchor_ms is not None else mark_ms or 0)
        job = kv(KEYS.job("j"), saved.to_json())
    return Stored.read("j", job, None if mark_ms is None else kv(KEYS.mark("j"), encode_mark(mark_ms)))


def save(before: Stored, spec: JobSpec, now_ms: int = NOW_MS) -> Edit:
    edit = plan_save(KEYS, before, spec, now_ms=now_ms, by="test")
    assert edit is not None
    return edit


def test_fires_at_or_before_the_anchor_were_never_planned() -> None:
    edit = save(stored(NOW_MS - 9_000, anchor_ms=NOW_MS - 700), MOVED)
    assert edit.record is not None
    assert edit.record.plan_ms == NOW_MS - 500


@pytest.mark.parametrize(
    ("before", "spec", "reason"),
    [
        (stored(NOW_MS - 3_000), MOVED, "edited"),
        (stored(NOW_MS - 3_000), replace(SPEC, enabled=False), "paused"),
        (stored(NOW_MS - 3_000, spec=replace(SPEC, enabled=False)), SPEC, None),
        (stored(None), MOVED, None),
        (stored(NOW_MS - 3_000, spec=None), SPEC, None),
    ],
    ids=["edited", "paused", "was paused", "had no mark", "was deleted"],
)
def test_reason_of_the_record(before: Stored, spec: JobSpec, reason: str | None) -> None:
    record = save(before, spec).record
    assert (record.reason if record else None) == reason


def test_same_spec_is_no_edit_unless_its_mark_is_missing() -> None:
    assert plan_save(KEYS, stored(NOW_MS - 3_000), SPEC, now_ms=NOW_MS, by="test") is None
    assert plan_save(KEYS, stored(None), SPEC, now_ms=NOW_MS, by="test") is not None


GOES_ON: dict[str, Any] = {
    "command": "other", "overlap": Overlap.QUEUE, "misfire": Misfire(grace_s=5), "retry": Retry(limit=1),
    "timeout_s": 1, "kill_grace_s": 1, "on_worker_lost": OnWorkerLost.RERUN, "lost_after_s": "never", "env": {"A": "b"},
    "secrets": {"PW": "pg/prod"}, "secret_files": {"F": "pg/file"},
    "workdir": "/srv", "user": "www-data", "shell": "/bin/bash", "output_limit_bytes": 1, "labels": {"team": "billing"},
    "workers": {"zone": ("eu",)}, "slots": 2, "priority": 1, "description": "x",
    "links": (Link(title="x", url="https://a.b/c"),), "notify": (Notify(to="ops"),), "warn_after_s": 1,
    "late_after_s": 1, "silent_after_s": 1, "suspicious_below_s": 1,
}  # fmt: skip
"""Fields that do not say when the job fires."""
BEGINS_NOW: dict[str, Any] = {
    "cron_exprs": ("0 * * * * * *",), "every": parse_duration("2s"), "offset": parse_duration("1s"),
    "after": parse_duration("2s"), "at": parse_moment("2023-11-14T23:00:00Z"), "timezone": "Europe/Berlin",
    "start_at": parse_moment("2023-01-01T00:00:00Z"), "end_at": parse_moment("2199-01-01T00:00:00Z"),
    "calendar": Calendar(entries=("12-24",)), "jitter_s": 1, "broadcast": True, "enabled": False,
}  # fmt: skip
"""Fields that do."""


def test_each_field_says_when_the_job_fires_or_does_not() -> None:
    assert {"name", *GOES_ON, *BEGINS_NOW} == {field.name for field in fields(JobSpec)}


@pytest.mark.parametrize("field", GOES_ON)
@pytest.mark.parametrize("mark_ms", [NOW_MS - 3_000, NOW_MS + 100])
def test_edit_that_leaves_alone_when_it_fires_takes_no_fire_away(field: str, mark_ms: int) -> None:
    edit = save(stored(mark_ms, anchor_ms=NOW_MS - 9_000), replace(SPEC, **{field: GOES_ON[field]}))
    assert (edit.mark_ms, edit.record) == (mark_ms, None)
    assert value_is(KEYS.mark("j"), encode_mark(mark_ms)) in edit.txn.compares
    assert all(put.key != KEYS.mark("j") for put in edit.txn.then if isinstance(put, Put))
    assert edit.value is not None
    assert SavedJob.from_json(edit.value, name="j").anchor_ms == mark_ms


@pytest.mark.parametrize("field", BEGINS_NOW)
def test_edit_that_changes_when_it_fires_takes_away_what_was_due_until_now(field: str) -> None:
    edit = save(stored(NOW_MS - 3_000), replace(SPEC, **{field: BEGINS_NOW[field]}))
    assert edit.record is not None
    assert (edit.record.plan_ms, edit.record.count) == (NOW_MS - 2_500, 3)


@pytest.mark.parametrize(
    "change", [{"workers": {"zone": ("eu",)}}, {"slots": 2}], ids=lambda change: next(iter(change))
)
def test_edit_of_where_a_broadcast_job_fires_begins_now(change: dict[str, Any]) -> None:
    broadcast = replace(SPEC, broadcast=True)
    assert save(stored(NOW_MS - 3_000, spec=broadcast), replace(broadcast, **change)).mark_ms == NOW_MS
    assert save(stored(NOW_MS - 3_000, spec=broadcast), replace(broadcast, command="x")).mark_ms == NOW_MS - 3_000


def test_mark_that_was_set_back_by_hand_goes_to_the_anchor_when_the_job_is_edited() -> None:
    edit = save(stored(NOW_MS - 9_000, anchor_ms=NOW_MS - 700), replace(SPEC, command="other"))
    assert (edit.mark_ms, edit.record) == (NOW_MS - 700, None)
    assert Put(KEYS.mark("j"), encode_mark(NOW_MS - 700)) in edit.txn.then


def test_delete_keeps_the_mark() -> None:
    edit = plan_delete(KEYS, stored(NOW_MS + 5_000), now_ms=NOW_MS, by="test")
    assert edit is not None
    assert edit.txn.then[0] == Delete(KEYS.job("j"))
    assert edit.mark_ms == NOW_MS + 5_000
    assert all(one.key != KEYS.mark("j") for one in edit.txn.then if isinstance(one, Put | Delete))


def test_nothing_to_delete_is_no_edit() -> None:
    assert plan_delete(KEYS, stored(NOW_MS, spec=None), now_ms=NOW_MS, by="test") is None


def test_unreadable_values_are_compared_as_they_are_and_replaced() -> None:
    before = Stored.read("j", kv(KEYS.job("j"), b"garbage"), kv(KEYS.mark("j"), b"x"))
    assert before.problem is not None
    edit = save(before, SPEC)
    assert value_is(KEYS.mark("j"), b"x") in edit.txn.compares
    assert (edit.mark_ms, edit.record) == (NOW_MS, None)


def test_taken_run_key_moves_the_record_on() -> None:
    before = stored(NOW_MS - 3_000)
    edit = save(before, MOVED)
    assert before.job is not None
    assert before.mark is not None
    assert edit.record_key is not None
    answer: Any = ((before.job,), (before.mark,), KeyRead(None), (), KeyRead(kv(edit.record_key, b"")))
    there = edit.meanwhile(TxnResult(succeeded=False, revision=9, results=answer))
    again = save(there, MOVED).record
    assert again is not None
    assert (again.plan_ms, again.count) == (NOW_MS - 1_500, 2)


def edited(times: int, *, mark_ms: int = NOW_MS, created: int = 7, value: bytes = b"others") -> TxnResult:
    """What the refusal of an edit reads, after so many edits."""
    job = structs.replace(kv(KEYS.job("j"), value, 7 + times, created=created), version=1 + times)
    answer: Any = ((job,), (kv(KEYS.mark("j"), encode_mark(mark_ms)),), KeyRead(None), (), KeyRead(None))
    return TxnResult(succeeded=False, revision=99, results=answer)


GONE: Any = TxnResult(succeeded=False, revision=99, results=((), (), KeyRead(None), (), KeyRead(None)))


@pytest.mark.parametrize(
    ("refusal", "saved", "deleted"),
    [
        pytest.param(edited(0), Fate.NEVER, Fate.NEVER, id="a fire was decided"),
        pytest.param(edited(0, mark_ms=NOW_MS - 3_000), Fate.UNKNOWN, Fate.UNKNOWN, id="a run key is in the way"),
        pytest.param(edited(1), Fate.NEVER, Fate.NEVER, id="one edit, somebody else's"),
        pytest.param(edited(2), Fate.UNKNOWN, Fate.NEVER, id="two edits, the last somebody else's"),
        pytest.param(edited(0, created=8), Fate.UNKNOWN, 0, id="made again"),
        pytest.param(GONE, Fate.UNKNOWN, 0, id="gone"),
    ],
)
def test_what_a_refusal_tells_of_an_edit_in_doubt(refusal: TxnResult, saved: Earlier, deleted: Earlier) -> None:
    before = stored(NOW_MS - 3_000)
    assert before.job is not None
    edit = save(before, MOVED)
    assert edit.earlier(refusal) == saved
    assert edit.value is not None
    assert edit.earlier(edited(1, value=edit.value)) == 8
    assert edit.earlier(edited(0, value=edit.value)) is Fate.NEVER, "what lay there before is none of its doing"
    deletion = plan_delete(KEYS, before, now_ms=NOW_MS, by="test")
    assert deletion is not None
    assert deletion.earlier(refusal) == deleted
    assert save(stored(None, spec=None), SPEC).earlier(edited(0)) is Fate.UNKNOWN


@given(
    mark_ms=st.one_of(st.none(), st.integers(NOW_MS - 100_000, NOW_MS + 100_000)),
    now_ms=st.integers(NOW_MS - 100_000, NOW_MS + 100_000),
    enabled=st.booleans(),
)
@example(mark_ms=NOW_MS - 700, now_ms=NOW_MS, enabled=True)
@example(mark_ms=NOW_MS - 3_000, now_ms=NOW_MS, enabled=True)
def test_mark_never_goes_back_and_the_record_covers_exactly_what_it_passes(
    mark_ms: int | None, now_ms: int, enabled: bool
) -> None:
    before = stored(mark_ms)
    edit = save(before, replace(MOVED, enabled=enabled), now_ms)
    assert edit.mark_ms == max(now_ms, mark_ms or 0)
    passed = [] if mark_ms is None else SPEC.schedule.fires_between_ms(mark_ms, edit.mark_ms, 1000)
    if not passed:
        assert edit.record is None
        return
    assert edit.record is not None
    is_range = len(passed) > 1
    assert edit.record.plan_ms == passed[0]
    assert edit.record.range_end_ms == (passed[-1] if is_range else None), "a single fire is no range"
    assert edit.record.count == (len(passed) if is_range else None)


def member(not_accepting: str | None = None, **labels: str) -> Member:
    return Member(
        worker="w1", session="a", instance="i", host="h", address="a", slots=1, labels=labels,
        not_accepting=not_accepting,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([], "edited"),
        ([member()], "edited"),
        ([member("drained by me")], "edited: until then no worker that fits takes fires: w1: drained by me"),
        ([member("drained by me"), member()], "edited"),
    ],
)
def test_what_an_edit_skips_says_what_had_held_it_up_where_no_worker_takes_fires(
    members: list[Member], reason: str
) -> None:
    before = stored(NOW_MS - 3_000)
    edit = plan_save(KEYS, before, MOVED, now_ms=NOW_MS, by="test", members=members)
    assert edit is not None
    assert edit.record is not None
    assert edit.record.reason == reason
