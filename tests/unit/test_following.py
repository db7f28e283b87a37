"""What follows the end of a run, by the job as it is now. Without an etcd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from common.instants import from_ms, parse_duration
from common.jobs.job import JobSpec, OnWorkerLost, Overlap
from common.jobs.retry import Retry
from common.protocol.compares import absent, mod_revision_is, value_is
from common.protocol.follow_ups import NOTHING, End, Facts, FollowUp, follow, merged, next_link
from common.protocol.keys import Keys, RunId, encode_mark
from common.protocol.planned_job import PlannedJob
from common.protocol.request import Origin, Request
from common.protocol.run import OUT_OF_TOUCH, SHUTDOWN, EntryState, RunEntry, RunRecord, Trigger
from common.protocol.txn import Delete, Put
from common.schedules.moment import Moment
from common.verdicts import Verdict
from tests.support.stored import kv, planned

KEYS = Keys()
PLAN_MS = 1_790_000_000_000
END_MS = PLAN_MS + 7000
SPEC = JobSpec(name="j", command="echo", cron_exprs=("* * * * * * *",), retry=Retry(limit=2, delay_s=10, backoff=2))
RERUN = replace(SPEC, retry=Retry(), on_worker_lost=OnWorkerLost.RERUN)
AFTER = JobSpec(name="j", command="echo", after=parse_duration("2s"))
MARK = kv(KEYS.mark("j"), encode_mark(PLAN_MS + 5000), 9, created=1)


def job(spec: JobSpec = SPEC, *, created: int = 5) -> PlannedJob:
    return planned(spec, anchor_ms=PLAN_MS - 1, revision=20, created=created)


def end(
    verdict: Verdict = Verdict.FAILED, *, attempt: int = 1, fire: str | None = None, sequence: str = "j", **changes: Any
) -> End:
    entry = RunEntry(
        state=EntryState.OPEN, worker="w1", revision=8, locked=True, plan_ms=PLAN_MS, claim_ms=PLAN_MS - 100,
        by="me", note="why", args=("a",), env={"K": "v"}, create_ms=changes.pop("create_ms", None),
    )  # fmt: skip
    frees_lock = changes.pop("frees_lock", True)
    exit_code = 1 if verdict is Verdict.FAILED else None
    values: dict[str, Any] = {"status": verdict, "end_ms": END_MS, "exit_code": exit_code} | changes
    record = RunRecord(run_id=RunId(sequence, fire or str(PLAN_MS), attempt), **values)
    return End(entry=entry, record=record, frees_lock=frees_lock)


def after(one: End, spec: JobSpec | None = SPEC, **facts: Any) -> FollowUp:
    return follow(KEYS, one, Facts(job=None if spec is None else job(spec), **facts))


def origin(one: End, spec: JobSpec) -> Origin | None:
    request = after(one, spec).request
    return request.origin if request else None


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_failures_and_timeouts_are_tried_again(verdict: Verdict) -> None:
    expected = Origin.RETRY if verdict in (Verdict.FAILED, Verdict.TIMEOUT) else None
    assert origin(end(verdict), SPEC) is expected


@pytest.mark.parametrize(("attempt", "expected"), [(1, 10_000), (2, 20_000), (3, None)])
def test_as_often_and_as_late_as_the_policy_says(attempt: int, expected: int | None) -> None:
    request = after(end(attempt=attempt)).request
    assert (request.not_before_ms - END_MS if request else None) == expected
    if request is not None:
        assert request.run_id == RunId("j", str(PLAN_MS), attempt + 1)


@pytest.mark.parametrize(("codes", "one", "again"), [
    ((75,), end(exit_code=75), True),
    ((75,), end(exit_code=1), False),
    ((75,), end(Verdict.TIMEOUT), False),
    ((), end(Verdict.TIMEOUT), True),
])  # fmt: skip
def test_exit_codes_restrict_retries(codes: tuple[int, ...], one: End, again: bool) -> None:
    spec = replace(SPEC, retry=Retry(limit=1, on_exit_codes=codes))
    assert (origin(one, spec) is Origin.RETRY) is again


def test_retry_carries_what_the_run_was_asked_with_and_relies_on_what_it_compares() -> None:
    following = after(end(), mark=MARK)
    request = following.request
    assert request is not None
    assert (request.args, dict(request.env), request.by, request.note) == (("a",), {"K": "v"}, "me", "why")
    assert (request.trigger, request.expires_ms, request.avoid) == (Trigger.RETRY, None, None)
    assert (request.create_ms, request.mark_ms) == (PLAN_MS - 100, PLAN_MS + 5000)
    assert (request.job_create_revision, request.plan_ms) == (5, PLAN_MS)
    key = KEYS.request(request.run_id)
    assert set(following.compares) == {
        mod_revision_is(KEYS.job("j"), 20), absent(key), absent(KEYS.run(request.run_id)),
        value_is(MARK.key, MARK.value),
    }  # fmt: skip
    assert following.then == (Put(key, request.to_json()), Put(KEYS.seen_prefix + "requests", b""))
    assert Request.from_json(request.to_json(), run_id=request.run_id) == request


def test_first_wish_counts_as_the_creation_of_every_attempt() -> None:
    request = after(end(create_ms=PLAN_MS - 60_000)).request
    assert request is not None
    assert request.create_ms == PLAN_MS - 60_000


@pytest.mark.parametrize("spec", [
    replace(SPEC, overlap=Overlap.ALLOW), replace(AFTER, retry=Retry(limit=1)),
])  # fmt: skip
def test_retry_that_no_fire_can_take_the_place_of_knows_no_mark(spec: JobSpec) -> None:
    request = after(end(), spec, mark=MARK).request
    assert request is not None
    assert (request.origin, request.mark_ms) == (Origin.RETRY, None)


def test_retry_of_a_run_that_was_asked_for_gives_way_to_no_fire_and_runs_although_paused() -> None:
    request = after(end(fire="r-1"), replace(SPEC, enabled=False), mark=MARK).request
    assert request is not None
    assert (request.run_id, request.mark_ms) == (RunId("j", "r-1", 2), None)


def test_retry_goes_elsewhere_where_the_policy_says_so() -> None:
    spec = replace(SPEC, retry=Retry(limit=1, other_worker=True))
    request = after(end(), spec).request
    assert request is not None
    assert request.avoid == "w1"
    own = end(sequence="j~w1")
    request = after(own, replace(spec, broadcast=True)).request
    assert request is not None
    assert (request.run_id.job, request.avoid) == ("j~w1", None)


@pytest.mark.parametrize("spec", [None, replace(SPEC, enabled=False), replace(SPEC, retry=Retry())])
def test_job_that_is_gone_paused_or_without_retries_now_tries_nothing_again(spec: JobSpec | None) -> None:
    assert after(end(), spec) == NOTHING


def test_job_that_was_made_again_meanwhile_is_another() -> None:
    assert follow(KEYS, end(), Facts(job=job(created=9))) == NOTHING
    assert follow(KEYS, end(), Facts(job=job(created=8))).request is not None


def test_attempt_that_is_there_already_is_not_asked_for_again() -> None:
    there = after(end(), has_next=True)
    assert there == replace(NOTHING, tries_again=True)


# Reruns


@pytest.mark.parametrize(("one", "expected"), [
    (end(Verdict.LOST, exit_code=None), Origin.RERUN),
    (end(Verdict.KILLED, reason=SHUTDOWN), Origin.RERUN),
    (end(Verdict.KILLED, reason=OUT_OF_TOUCH), Origin.RERUN),
    (end(Verdict.KILLED, reason="enough"), None),
    (end(Verdict.FAILED), None),
    (end(Verdict.LOST, attempt=2), None),
])  # fmt: skip
def test_runs_that_went_with_their_worker_are_run_again_once(one: End, expected: Origin | None) -> None:
    assert origin(one, RERUN) is expected


def test_reruns_and_retries_share_the_attempts() -> None:
    both = replace(RERUN, retry=Retry(limit=2))
    assert [origin(end(Verdict.LOST, attempt=n), both) for n in (1, 2, 3)] == [Origin.RERUN, Origin.RERUN, None]
    assert [origin(end(attempt=n), both) for n in (2, 3)] == [Origin.RETRY, None]


def test_rerun_is_due_at_once_and_nobody_has_wished_an_end() -> None:
    following = after(end(Verdict.LOST), RERUN, mark=MARK)
    assert following.request is not None
    assert (following.request.not_before_ms, following.request.trigger) == (END_MS, Trigger.RERUN)
    assert following.request.mark_ms is None
    assert absent(KEYS.kill(RunId("j", str(PLAN_MS)))) in following.compares
    assert after(end(Verdict.LOST), RERUN, is_killed=True) == NOTHING


# The chain


@pytest.mark.parametrize("verdict", [Verdict.SUCCESS, Verdict.FAILED, Verdict.KILLED, Verdict.LOST, Verdict.MISSED])
def test_every_end_that_frees_the_lock_puts_the_next_link(verdict: Verdict) -> None:
    following = after(end(verdict), AFTER)
    request = following.request
    assert request is not None
    assert (request.origin, request.plan_ms, request.expires_ms) == (Origin.CHAIN, END_MS + 2000, None)
    assert request.run_id == RunId.planned("j", END_MS + 2000)
    assert following.compares == (mod_revision_is(KEYS.job("j"), 20),)
    assert following.then == (Put(KEYS.chain("j"), request.to_json()), Put(KEYS.seen_prefix + "requests", b""))


def test_another_attempt_takes_the_place_of_the_next_link() -> None:
    assert origin(end(), replace(AFTER, retry=Retry(limit=1))) is Origin.RETRY
    assert origin(end(attempt=2), replace(AFTER, retry=Retry(limit=1))) is Origin.CHAIN


@pytest.mark.parametrize(("one", "spec"), [
    (end(Verdict.SUCCESS, frees_lock=False), AFTER),
    (end(Verdict.SUCCESS), replace(AFTER, enabled=False)),
    (end(Verdict.SUCCESS), SPEC),
    (end(Verdict.SUCCESS), replace(AFTER, end_at=Moment("", END_MS + 1999))),
])  # fmt: skip
def test_no_link_without_the_lock_for_a_paused_job_or_past_its_window(one: End, spec: JobSpec) -> None:
    assert after(one, spec) == NOTHING


def test_link_is_the_current_jobs_also_where_that_was_made_again() -> None:
    request = follow(KEYS, end(Verdict.SUCCESS), Facts(job=job(AFTER, created=15))).request
    assert request is not None
    assert request.job_create_revision == 15


def test_link_waits_for_the_window_and_never_shares_a_plan_time() -> None:
    start = Moment(from_ms(END_MS + 90_000).isoformat(), END_MS + 90_000)
    windowed = next_link(KEYS, job(replace(AFTER, start_at=start)), end_ms=END_MS, last_plan_ms=PLAN_MS)
    behind = next_link(KEYS, job(AFTER), end_ms=PLAN_MS - 9000, last_plan_ms=PLAN_MS)
    assert windowed.request is not None
    assert windowed.request.plan_ms == END_MS + 90_000
    assert behind.request is not None
    assert behind.request.plan_ms == PLAN_MS + 1


def test_link_takes_the_place_of_the_one_that_is_deleted_in_the_same_transaction() -> None:
    link = next_link(KEYS, job(AFTER), end_ms=END_MS, last_plan_ms=PLAN_MS)
    sentinel, run = Put(KEYS.seen_prefix + "requests", b""), Put(KEYS.runs + "j/1/1", b"")
    assert merged([Delete(KEYS.chain("j")), sentinel, run], link) == [run, *link.then]
    assert merged([run], NOTHING) == [run]
