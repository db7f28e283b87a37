"""The value of a run key: read back as it was written; anything else is refused, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.keys import MAX_MARK_MS, RunId
from common.protocol.run import EntryState, RunEntry, RunRecord, Trigger, final_entry
from common.verdicts import Verdict

TEXTS = st.text(max_size=20)
MS = st.integers(0, MAX_MARK_MS)
RUN_IDS = st.builds(RunId.planned, st.sampled_from(["job", "a.b-c"]), MS, st.integers(1, 9))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


RECORDS = st.builds(
    RunRecord,
    run_id=RUN_IDS, status=st.sampled_from(Verdict), command=TEXTS, err=TEXTS, output=TEXTS, plan_ms=MS,
    schedule_ms=maybe(MS), start_ms=maybe(MS), end_ms=maybe(MS), create_ms=maybe(MS), claim_ms=maybe(MS),
    exit_code=maybe(st.integers(0, 255)), signal=maybe(st.integers(1, 64)), worker=maybe(TEXTS), host=maybe(TEXTS),
    trigger=st.sampled_from(Trigger), by=maybe(TEXTS), reason=maybe(TEXTS), range_end_ms=maybe(MS),
    count=maybe(st.integers(1, 1000)), count_is_minimum=st.booleans(), revision=maybe(MS), fence=maybe(MS),
    output_bytes=MS, output_truncated=st.booleans(), max_rss=maybe(MS),
    cpu_seconds=maybe(st.floats(0, 1e6)), late=st.booleans(), labels=st.dictionaries(TEXTS, TEXTS, max_size=3),
)  # fmt: skip
OPEN = st.builds(
    RunEntry,
    state=st.sampled_from([EntryState.OPEN, EntryState.ENDED]), worker=TEXTS, session=TEXTS, instance=TEXTS,
    revision=MS, locked=st.booleans(), lost_after_ms=maybe(MS), plan_ms=MS, dispatch_ms=MS, claim_ms=MS,
    trigger=st.sampled_from(Trigger), by=maybe(TEXTS), note=maybe(TEXTS), create_ms=maybe(MS),
    args=st.lists(TEXTS, max_size=3).map(tuple), env=st.dictionaries(TEXTS, TEXTS, max_size=3),
)  # fmt: skip


@given(entry=OPEN)
def test_open_entry_is_read_back(entry: RunEntry) -> None:
    assert RunEntry.from_json(entry.to_json()) == entry


@given(record=RECORDS)
def test_final_entry_is_read_back_with_its_record(record: RunRecord) -> None:
    entry = final_entry(record, worker="w1", session="1f", instance="i")
    assert RunEntry.from_json(entry.to_json()) == entry
    assert RunRecord.from_document(json.loads(json.dumps(record.to_document()))) == record


def test_lone_surrogate_does_not_keep_a_verdict_from_being_written() -> None:
    record = RunRecord(run_id=RunId.planned("job", 1), status=Verdict.KILLED, by="caf\udce9")
    assert RunEntry.from_json(final_entry(record).to_json()).record == record


@pytest.mark.parametrize("name", ["late", "countIsMinimum"])
def test_somebody_elses_record_without_a_value_is_written_again(name: str) -> None:
    document = {**RunRecord(run_id=RunId.planned("job", 1), status=Verdict.LOST).to_document(), name: None}
    entry = RunEntry.from_json(json.dumps({"state": "final", "record": document}).encode())
    assert entry.record is not None
    assert name not in entry.record.to_document()


def test_run_that_is_lost_at_once_is_not_one_that_is_never_lost() -> None:
    entry = RunEntry(state=EntryState.OPEN, lost_after_ms=0)
    assert RunEntry.from_json(entry.to_json()).lost_after_ms == 0


@pytest.mark.parametrize(
    "value",
    [
        b"", b"garbage", b"\xff\xfe", b"[]", b"null", b"1", b"{}", b'{"state":"asleep"}', b'{"state":["open"]}',
        b'{"state":"final"}', b'{"state":"final","record":{}}', b'{"state":"final","record":[]}',
        b'{"state":"final","record":{"_id":7,"status":"lost"}}', b'{"state":"open","worker":5}',
        b'{"state":"open","claimMs":"soon"}', b'{"state":"open","claimMs":1.5}', b'{"state":"open","locked":"yes"}',
        b'{"state":"open","lostAfterMs":"never"}', b'{"state":"open","lostAfterMs":true}',
        b'{"state":"open","trigger":"magic"}', b'{"state":"open","trigger":{}}', b'{"state":"open","by":5}',
        b'{"state":"open","session":null}', b"[" * 100_000, b'{"state":"open","claimMs":' + b"9" * 5000 + b"}",
    ],
    ids=lambda value: value[:40],
)  # fmt: skip
def test_value_that_is_no_entry_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a run entry"):
        RunEntry.from_json(value)


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["state", "record", "worker", "claimMs", "lostAfterMs", "_id", "status", "labels", "trigger"]),
        inner | st.sampled_from(["open", "final", "lost", "job@1#1"]), max_size=6,
    ),
))  # fmt: skip
def test_whatever_somebody_else_has_written_is_an_entry_or_refused(value: Any) -> None:
    try:
        entry = RunEntry.from_json(json.dumps(value).encode())
    except ValueError:
        return
    assert (entry.state is not EntryState.FINAL) or entry.record is not None
    assert isinstance(entry.lost_after_ms, int | None)


def test_record_without_its_output_says_why() -> None:
    record = RunRecord(run_id=RunId.planned("job", 1), status=Verdict.FAILED, output="much", err="exit status 3")
    cut = record.without_output("too large")
    assert (cut.output, cut.err, cut.output_truncated) == ("", "exit status 3; too large", True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("planTime", 1.5), ("planTime", "soon"), ("startTime", "soon"), ("rangeEndTime", []), ("count", "many"),
        ("err", 5), ("output", None), ("labels", {"a": 5}), ("labels", ["a"]), ("cpuSeconds", "much"), ("late", 1),
    ],
)  # fmt: skip
def test_a_record_of_other_types_is_none(field: str, value: object) -> None:
    """Whoever delivers it would meet that where it is sorted or counted, and again at each start."""
    document = RunRecord(run_id=RunId.planned("job", 1), status=Verdict.SKIPPED).to_document()
    entry = {"state": "final", "record": {**document, field: value}}
    with pytest.raises(ValueError, match="not a run entry"):
        RunEntry.from_json(json.dumps(entry).encode())
