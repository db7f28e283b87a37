"""A job as it lies in etcd: read back as it was saved; whatever somebody else has put there is refused in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import InvalidInputError
from common.etcd import Change
from common.jobs.job import NEWER, JobSpec
from common.jobs.kinds import members_of
from common.jobs.reader import parse_job
from common.protocol.keys import MAX_MARK_MS, Keys
from common.protocol.saved_job import SavedJob, fields_for_older
from common.version import VERSION
from tests.support.stored import kv
from worker.catalog import Catalog

SPEC = parse_job({"name": "job", "command": "echo caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cronExpr": "@hourly"})


@given(anchor=st.integers(0, MAX_MARK_MS), saved=st.integers(0, MAX_MARK_MS), by=st.none() | st.text(max_size=10))
def test_saved_job_is_read_back(anchor: int, saved: int, by: str | None) -> None:
    job = SavedJob(spec=SPEC, anchor_ms=anchor, saved_ms=saved, saved_by=by)
    assert SavedJob.from_json(job.to_json(), name="job") == job


@pytest.mark.parametrize(
    "anchor", [None, -1, True, "1", 1.5, MAX_MARK_MS + 1, 10**100], ids=lambda anchor: str(anchor)[:20]
)
def test_anchor_that_is_no_mark_is_refused(anchor: object) -> None:
    value = json.dumps(SPEC.to_stored() | {"anchorMs": anchor}).encode()
    with pytest.raises(InvalidInputError, match="anchorMs"):
        SavedJob.from_json(value, name="job")


def test_job_under_another_name_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="save it as 'other'"):
        SavedJob.from_json(SavedJob(spec=SPEC, anchor_ms=1).to_json(), name="other")


@pytest.mark.parametrize("span", ["[1e999, 1]", "[1, -1]", '["1", 1]', "[1]", "1"])
def test_unblocking_that_cannot_be_read_is_refused(span: str) -> None:
    value = SavedJob(spec=SPEC, anchor_ms=7).to_json()
    again = f'"again": {{"untilMs": 5, "attempt": 2, "started": {{"": [{span}]}}}}'
    with pytest.raises(InvalidInputError, match="is not what an unblocking writes"):
        SavedJob.from_json(value[:-1] + f", {again}}}".encode(), name=SPEC.name)


@pytest.mark.parametrize("value", [b"", b"garbage", b"\xff", b"[]", b"{}", b"[" * 60_000, b'{"name":"job"}'])
def test_bad_job_is_set_aside_and_disturbs_nobody(value: bytes) -> None:
    told: list[str] = []
    keys = Keys()
    catalog = Catalog(keys, on_changed=told.append)

    def change(name: str, value: bytes | None, revision: int = 5) -> Change:
        key = keys.job(name)
        return Change(key=key, old_mod=None, new=None if value is None else kv(key, value, revision, created=2))

    good = SavedJob(spec=SPEC, anchor_ms=7).to_json()
    catalog.on_changes([change("bad", value), change("job", good)])
    assert set(catalog.set_aside) == {"bad"}
    assert catalog.jobs["job"].anchor_ms == 7
    assert (catalog.jobs["job"].revision, catalog.jobs["job"].create_revision) == (5, 2)
    assert told == ["bad", "job"]
    catalog.on_changes([change("job", value)])
    assert catalog.jobs == {}
    catalog.on_changes([change("job", good), change("bad", None)])
    assert (set(catalog.jobs), catalog.set_aside) == ({"job"}, {})


FROM_LATER = SPEC.to_stored() | {"anchorMs": 1, "mood": "grim", "quota": 5, "savedVersion": "9.1.0"}


def test_fields_of_a_later_version_are_ignored_unless_a_reader_must_know_them() -> None:
    value = json.dumps(FROM_LATER | {"mustKnow": []}).encode()
    assert SavedJob.from_json(value, name="job") == SavedJob(spec=SPEC, anchor_ms=1)
    value = json.dumps(FROM_LATER | {"mustKnow": ["quota", "cronExpr"]}).encode()
    with pytest.raises(InvalidInputError, match=r"quota: is not known .* use etcron 9\.1\.0") as refused:
        SavedJob.from_json(value, name="job")
    assert [problem.field for problem in refused.value.problems] == ["quota"]


@pytest.mark.parametrize("must_know", [None, "quota", 5])
def test_a_job_that_does_not_say_has_to_be_known_whole(must_know: object) -> None:
    value = json.dumps(FROM_LATER | {"mustKnow": must_know}).encode()
    with pytest.raises(InvalidInputError, match="mood"):
        SavedJob.from_json(value, name="job")


@given(needed=st.booleans(), at_all=st.booleans())
def test_a_job_with_a_newer_field_says_so_and_no_other_does(needed: bool, at_all: bool) -> None:
    newer = {"labels": needed, "priority": True}
    spec = parse_job(SPEC.to_document() | ({"labels": {"a": "b"}} if at_all else {}))
    said = fields_for_older(spec.to_stored(), newer)
    assert said == ({"mustKnow": ["labels"] if needed else [], "savedVersion": VERSION} if at_all else {})


def test_every_field_is_known_to_each_version_or_said_to_be_newer() -> None:
    """Who adds a field says here whether an older version may ignore it: in `NEWER`, or, if none can, by this list."""
    first = """name command cronExpr every offset at after timezone enabled startAt endAt calendar jitterSeconds overlap
        misfire retry timeoutSeconds killGraceSeconds onWorkerLost lostAfterSeconds env workdir user shell
        outputLimitBytes labels workers broadcast slots priority"""
    assert set(members_of(JobSpec)) == {*first.split(), *NEWER}
