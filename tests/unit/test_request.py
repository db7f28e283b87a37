"""A request is read back as it was written; what would do harm where it is carried out is refused when it is read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.protocol.keys import MAX_MARK_MS, RunId
from common.protocol.request import Origin, Request
from common.protocol.run import Trigger

INSTANTS = st.integers(0, MAX_MARK_MS)
TEXTS = st.text(max_size=20)
REQUESTS = st.builds(
    Request,
    run_id=st.just(RunId("job", "r-1")), origin=st.sampled_from(sorted(set(Origin) - {Origin.CHAIN})),
    job_create_revision=st.integers(1, 10**9), plan_ms=INSTANTS, dispatch_ms=INSTANTS, not_before_ms=INSTANTS,
    expires_ms=st.none() | INSTANTS, trigger=st.sampled_from(Trigger), by=st.none() | TEXTS, note=st.none() | TEXTS,
    create_ms=st.none() | INSTANTS, args=st.lists(TEXTS, max_size=3).map(tuple),
    env=st.dictionaries(TEXTS, TEXTS, max_size=3), avoid=st.none() | TEXTS, mark_ms=st.none() | INSTANTS,
    revision=st.just(7),
)  # fmt: skip
GOOD = {"origin": "runNow", "jobCreateRevision": 1, "planMs": 5, "dispatchMs": 5, "notBeforeMs": 5, "trigger": "api"}


@given(request=REQUESTS)
def test_it_is_read_back(request: Request) -> None:
    assert Request.from_json(request.to_json(), run_id=request.run_id, revision=7) == request


@pytest.mark.parametrize("field", ["planMs", "dispatchMs", "notBeforeMs", "expiresMs", "createMs", "markMs"])
@pytest.mark.parametrize("ms", [-1, MAX_MARK_MS + 1, 10**30, "soon"])
def test_a_time_that_is_none_is_refused(field: str, ms: object) -> None:
    run_id = RunId("job", "r-1")
    Request.from_json(json.dumps(GOOD).encode(), run_id=run_id)
    with pytest.raises(ValueError, match="not a request"):
        Request.from_json(json.dumps({**GOOD, field: ms}).encode(), run_id=run_id)
