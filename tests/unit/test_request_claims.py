"""What the answer to a claim of a request says about one that is in doubt."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from common.etcd import Session
from common.jobs.job import JobSpec
from common.protocol.keys import Keys, RunId
from common.protocol.member import WorkerIdentity
from common.protocol.request import Origin, Request
from common.protocol.request_writes import NO_LIMIT_MS, RequestClaim, claim_of, is_overtaken
from common.protocol.run import EntryState, RunEntry
from common.protocol.run_writes import handed_on
from common.protocol.txn import KeyValue, TxnResult
from tests.support.stored import kv, planned, spec_of
from worker.plan.request_claiming import claimed_run

KEYS = Keys()
SPEC = spec_of()
KV = kv("k", b"", 5, created=3, lease=10)


def refused(request: KeyValue | None, job: KeyValue | None, own: KeyValue | None) -> TxnResult:
    answers = (None, None, request, job, own)
    return TxnResult(succeeded=False, revision=9, results=tuple((one,) if one is not None else () for one in answers))


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
    assert a_claim().is_over(answer) is is_over


def a_claim(mark: KeyValue | None = None, spec: JobSpec = SPEC, **changes: Any) -> RequestClaim:
    values: dict[str, Any] = {
        "run_id": RunId.planned("job", 7), "origin": Origin.OFFERED, "job_create_revision": 3, "plan_ms": 7,
        "dispatch_ms": 7, "not_before_ms": 7, "revision": 5,
    }  # fmt: skip
    return RequestClaim(
        keys=KEYS, entry=RunEntry(state=EntryState.OPEN, worker="w1"), request=Request(**(values | changes)),
        session=cast(Session, SimpleNamespace(lease_id=10)), mark=mark,
        job=planned(spec, revision=5, created=3),
    )  # fmt: skip


def answered(*kvs: KeyValue | None) -> TxnResult:
    return TxnResult(succeeded=False, revision=9, results=tuple((one,) if one is not None else () for one in kvs))


@pytest.mark.parametrize(("not_before_ms", "dispatch_ms", "overlap"), [(9, 9, "skip"), (7, 8, "allow")])
def test_run_is_due_when_its_request_may_be_claimed_and_says_whether_it_took_the_lock(
    not_before_ms: int, dispatch_ms: int, overlap: str
) -> None:
    spec = spec_of(overlap=overlap)
    claim = a_claim(spec=spec, dispatch_ms=8, not_before_ms=not_before_ms)
    claim = claim_of(
        claim.request, claim.job, cast(Session, SimpleNamespace(id="a1")), keys=KEYS,
        identity=WorkerIdentity(worker="w1", instance="i", host="h"),
        lost_after_ms=5, now_ms=9, mark=None,
    )  # fmt: skip
    assert (claim.entry.dispatch_ms, claim.entry.locked) == (dispatch_ms, overlap == "skip")


def test_claim_of_a_retry_in_doubt_is_over_once_the_mark_has_moved() -> None:
    claim = a_claim(mark=replace(KV, value=b"7"))
    for mark, is_over in ((b"7", False), (b"8", True)):
        assert claim.is_over(answered(None, None, KV, KV, KV, replace(KV, value=mark))) is is_over
    assert claim.is_over(answered(None, None, KV, KV, KV, None))


def test_only_a_run_as_it_was_sent_shows_that_a_claim_was_carried_out() -> None:
    claim = a_claim()
    of_another = replace(KV, value=RunEntry(state=EntryState.OPEN, worker="w2").to_json())
    for run, fence in ((None, None), (of_another, None), (replace(KV, value=claim.entry.to_json()), 3)):
        assert claim.fence_in(answered(run, None, None, KV, KV)) == fence


@pytest.mark.parametrize(("overlap", "meets"), [("skip", True), ("allow", False)])
def test_only_a_job_that_takes_the_lock_waits_for_it(overlap: str, meets: bool) -> None:
    spec = spec_of(overlap=overlap)
    assert a_claim(spec=spec).meets_lock(answered(None, KV, KV, KV, KV)) is meets
    assert not a_claim(spec=spec).meets_lock(answered(None, None, KV, KV, KV))


@pytest.mark.parametrize(
    ("origin", "expires_ms", "start_by_ms"),
    [
        (Origin.OFFERED, 99, 99), (Origin.OFFERED, None, NO_LIMIT_MS),
        pytest.param(Origin.CHAIN, 99, NO_LIMIT_MS, id="a link never expires"),
    ],
)  # fmt: skip
def test_run_is_to_start_before_its_request_expires(origin: Origin, expires_ms: int | None, start_by_ms: int) -> None:
    claim = a_claim(origin=origin, expires_ms=expires_ms, mark_ms=6)
    run = claimed_run(claim, cast(Session, claim.session), fence=4, sent=1.0)
    assert (run.fence, run.mod_revision, run.start_by_ms) == (4, 4, start_by_ms)
    again = handed_on(run, now_ms=50)
    assert again.expires_ms == (None if start_by_ms == NO_LIMIT_MS else start_by_ms)
    assert again.is_chain is (origin is Origin.CHAIN)
    assert again.mark_ms is None, "fires that came due meanwhile were skipped because of it"


@dataclass(frozen=True, kw_only=True)
class Retry:
    """A retry after which the mark stood at 5 s, of a job that fires every second."""

    mark_ms: int | None
    anchor_ms: int = 0
    overlap: str = "skip"
    overtaken: bool


@pytest.mark.parametrize(
    "case",
    [
        Retry(mark_ms=5_000, overtaken=False), Retry(mark_ms=6_000, overtaken=True),
        Retry(mark_ms=6_000, anchor_ms=6_000, overtaken=False), Retry(mark_ms=7_000, anchor_ms=6_000, overtaken=True),
        Retry(mark_ms=6_000, overlap="allow", overtaken=False), Retry(mark_ms=None, overtaken=False),
        pytest.param(Retry(mark_ms=5_500, overtaken=False), id="the mark of an edit, no fire"),
    ],
)  # fmt: skip
def test_a_retry_is_overtaken_by_a_newer_fire_that_was_decided(case: Retry) -> None:
    spec = spec_of(overlap=case.overlap)
    claim = a_claim(spec=spec, origin=Origin.RETRY, plan_ms=4_000, mark_ms=5_000)
    job = dataclasses.replace(claim.job, anchor_ms=case.anchor_ms)
    assert is_overtaken(claim.request, job, case.mark_ms) is case.overtaken
