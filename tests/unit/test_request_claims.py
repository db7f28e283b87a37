"""What the answer to a claim of a request says about one that is in doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from msgspec.structs import replace

from common.etcd import KeyValue, Session, TxnResult
from common.jobs.reader import parse_job
from common.stored.keys import Keys, RunId
from common.stored.request import Origin, Request
from common.stored.run import EntryState, RunEntry
from worker.catalog import CatalogJob
from worker.requests.request_claims import RequestClaim

KEYS = Keys()
SPEC = parse_job({"name": "job", "command": "true", "cronExpr": "* * * * * * *"})
KV = KeyValue(key="k", value=b"", create_revision=3, mod_revision=5, version=1, lease=10)


def refused(request: KeyValue | None, job: KeyValue | None, own: KeyValue | None) -> TxnResult:
    answers = (None, None, request, job, own)
    return TxnResult(succeeded=False, revision=9, results=tuple((kv,) if kv is not None else () for kv in answers))


@pytest.mark.parametrize(
    ("answer", "is_over"),
    [
        (refused(KV, KV, KV), False),
        (refused(None, KV, KV), True),
        (refused(replace(KV, mod_revision=6), KV, KV), True),
        (refused(KV, replace(KV, mod_revision=6), KV), True),
        (refused(KV, KV, None), True),
        pytest.param(refused(KV, KV, replace(KV, lease=0)), False, id="a detached key is put again with its lease"),
    ],
)
def test_claim_in_doubt_is_over_only_when_it_can_never_come_true(answer: TxnResult, is_over: bool) -> None:
    claim = RequestClaim(
        keys=KEYS, entry=RunEntry(state=EntryState.OPEN), session=cast(Session, SimpleNamespace(lease_id=10)),
        request=Request(
            run_id=RunId.planned("job", 7), origin=Origin.OFFERED, job_create_revision=3, plan_ms=7, dispatch_ms=7,
            not_before_ms=7, revision=5,
        ),
        job=CatalogJob(spec=SPEC, schedule=SPEC.schedule, anchor_ms=0, revision=5, create_revision=3),
    )  # fmt: skip
    assert claim.is_over(answer) is is_over
