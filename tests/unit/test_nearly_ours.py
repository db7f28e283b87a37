"""What is read of etcd is safe for all that comes of it, or is refused when it is read: whatever field of it is odd."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from common.errors import EtcronError
from common.instants import iso
from common.jobs.job import JobSpec
from common.jobs.reader import parse_job
from common.json_text import dumps
from common.protocol.clocks import Clocks, Measured
from common.protocol.dedupe import Remembered
from common.protocol.drain import Drain
from common.protocol.follow_ups import End, Facts, follow
from common.protocol.keys import Keys, RunId
from common.protocol.kill import Kill
from common.protocol.member import Beat, Member
from common.protocol.placement import Candidate, Placement
from common.protocol.planned_job import read_job
from common.protocol.records import lost_record
from common.protocol.request import Origin, Request
from common.protocol.run import EntryState, RunEntry, RunRecord, Trigger, final_entry
from common.protocol.run_writes import handed_on
from common.protocol.saved_job import EditKind, JobVersion, Pause, SavedJob
from common.runlog.documents import Encoded, encode
from common.runlog.last import advances_of
from common.runlog.versions import _document as version_document
from common.verdicts import Verdict
from manager.http.idempotency import Idempotency, _again
from manager.views.inventory import SeenWorker
from manager.views.shapes import drain_view, open_run_view, pause_view, worker_view
from tests.support.nearly_ours import nearly
from tests.support.stored import kv
from worker.launch import Launch
from worker.launcher.environment import encoded, marks
from worker.lead.clock_book import ClockBook
from worker.record.spool_segments import frame, record_of
from worker.runs import Run

KEYS = Keys()
NOW = 1_790_000_000_000
RUN = RunId.planned("job", NOW)
SPEC = parse_job({
    "name": "job", "command": "true", "cronExpr": "* * * * *", "retry": {"limit": 3}, "onWorkerLost": "rerun",
})  # fmt: skip
CHAIN = parse_job({"name": "job", "command": "true", "after": "1m"})
JOBS = [
    read_job("job", kv(KEYS.job("job"), SavedJob(spec=spec, anchor_ms=1).to_json(), 2, created=1))
    for spec in (SPEC, CHAIN)
]


def use_record(record: RunRecord) -> None:
    """It is spooled, delivered or set aside, shown."""
    assert record_of(memoryview(frame(record))[8:]).run_id == record.run_id
    encoded = encode(record)
    for advance in advances_of([record] if isinstance(encoded, Encoded) else []):
        bson.encode(advance.result)
        assert advance.merged_into({}) is not None
    dumps(record.to_document())
    RunEntry.from_json(final_entry(record).to_json())


def use_entry(entry: RunEntry) -> None:
    """Its run is lost, or ended, or handed on; and shown meanwhile."""
    dumps(open_run_view(RUN, entry, fence=7, now_ms=NOW))
    if entry.record is not None:
        use_record(entry.record)
        return
    assert (entry.lost_after_ms or 0) / 1000 >= 0
    KEYS.worker(entry.worker, entry.session).encode(errors="surrogatepass")
    assert len(KEYS.worker(entry.worker, entry.session)) < 1000
    for job in JOBS:
        record = lost_record(RUN, entry, fence=7, reason="worker gone", now_ms=NOW, command="x", labels={})
        use_record(record)
        for status in Verdict:
            ended = RunRecord(run_id=RUN, status=status, end_ms=NOW)
            then = follow(KEYS, End(entry=entry, record=ended, frees_lock=True), Facts(job=job))
            if then.request is not None:
                Request.from_json(then.request.to_json(), run_id=then.request.run_id)
    RunEntry.from_json(entry.to_json())


def use_request(request: Request) -> None:
    """It is claimed, started, handed on."""
    entry = RunEntry(
        state=EntryState.OPEN, plan_ms=request.plan_ms, dispatch_ms=max(request.dispatch_ms, request.not_before_ms),
        trigger=request.trigger, by=request.by, note=request.note, create_ms=request.create_ms, args=request.args,
        env=request.env, worker="w1", session="1",
    )  # fmt: skip
    assert RunEntry.from_json(entry.to_json()) == entry
    request.is_expired(NOW)
    request.key(KEYS).encode()
    assert request.job_create_revision < 1 << 63
    spec = JobSpec(name="j", command=("x",))
    Launch(run_id=RUN, spec=spec, args=request.args, plan_ms=entry.plan_ms, fence=1, env=request.env)
    encoded(marks(RUN, plan_ms=entry.plan_ms, fence=1, worker="w", instance="i"))
    session = cast(Any, SimpleNamespace(id="1"))
    run = Run(
        run_id=request.run_id, job=JOBS[0], entry=entry, fence=1, mod_revision=1, session=session, sent=0.0,
        start_by_ms=request.expires_ms or NOW, request=request,
    )  # fmt: skip
    Request.from_json(handed_on(run, now_ms=NOW).to_json(), run_id=request.run_id)


def use_member(member: Member) -> None:
    Placement([Candidate("a", 1), Candidate(member.worker, member.slots)]).order(1)
    Placement([Candidate("a", 1), Candidate(member.worker, member.slots)]).firsts(1)
    iso(member.since_ms)
    bson.encode({"slots": member.slots, "pid": member.pid})
    _strict(worker_view(SeenWorker(key="k", member=member), sees_all=True))
    assert len(member.to_json()) < 1_500_000


def use_beat(beat: Beat) -> None:
    book = ClockBook(bound_ms=250)
    for number in range(4):
        for process in ("a", "b", "c"):
            book.hear(process, beat, version=number + 1, at_ms=number * 3000, not_before_ms=number * 3000 - 1)
    Clocks.from_json(book.compare(9000).to_json())
    iso(beat.wall_ms)
    float(beat.free_slots + beat.running + beat.waiting + beat.unsent_records)
    member = Member(worker="w", session="1", instance="i", host="h", address="a", slots=1)
    _strict(worker_view(SeenWorker(key="k", member=member, beat=beat), sees_all=True))


def use_drain(drain: Drain) -> None:
    iso(drain.since_ms)
    _strict(drain_view(drain))
    member = Member(worker="w", session="1", instance="i", host="h", address="a", slots=1, not_accepting=str(drain))
    assert len(member.to_json()) < 100_000, "it is told with each of the worker's words"


def use_kill(kill: Kill) -> None:
    iso(kill.at_ms)
    record = RunRecord(run_id=RUN, status=Verdict.KILLED, by=kill.by, reason=kill.reason)
    assert len(final_entry(record).to_json()) < 100_000
    assert isinstance(encode(record), Encoded), "whoever kills takes no verdict away"


def use_remembered(remembered: Remembered) -> None:
    iso(remembered.expires_ms)
    remembered.is_over(NOW)
    Remembered.from_json(remembered.to_json())
    if remembered.status is not None and remembered.answer is not None:
        answer = _again(remembered, Idempotency(key="k", fingerprint=remembered.fingerprint))
        assert answer.text is not None
        assert not any(character in value for value in answer.headers.values() for character in "\r\n\0")


def use_clocks(clocks: Clocks) -> None:
    clocks.off(250)
    Clocks.from_json(clocks.to_json())
    float(clocks.count)


def use_version(version: JobVersion) -> None:
    iso(version.saved_ms)
    iso(version.ended_ms)
    version_document(version)
    JobVersion.from_json(version.to_json(), job="job", revision=5)
    dumps(version.to_document())


def use_saved(saved: SavedJob) -> None:
    iso(saved.saved_ms)
    iso(saved.anchor_ms)
    if (paused := pause_view(saved)) is not None:
        iso(paused["sinceMs"])
        dumps(paused)
    SavedJob.from_json(saved.to_json(), name="job")


def _strict(view: object) -> None:
    json.dumps(view, allow_nan=False, default=str)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of stored value."""

    good: bytes
    read: Callable[[bytes], Any]
    use: Callable[[Any], None]


RECORD = RunRecord(
    run_id=RUN, status=Verdict.LOST, command="x", err="e", output="o", plan_ms=NOW, schedule_ms=NOW, start_ms=NOW,
    end_ms=NOW, create_ms=NOW, claim_ms=NOW, exit_code=1, signal=9, worker="w", host="h", by="me", note="n", reason="r",
    range_end_ms=NOW, count=2, count_is_minimum=True, revision=5, fence=7, output_bytes=1, max_rss=1, cpu_seconds=1.5,
    late=True, labels={"a": "b"},
)  # fmt: skip
KINDS = {
    "open run": Kind(
        good=RunEntry(
            state=EntryState.OPEN, worker="w1", session="1f", instance="i", revision=5, locked=True, lost_after_ms=1000,
            plan_ms=NOW, dispatch_ms=NOW, claim_ms=NOW, trigger=Trigger.API, by="me", note="n", create_ms=NOW,
            args=("a",), env={"A": "b"},
        ).to_json(),
        read=RunEntry.from_json, use=use_entry,
    ),
    "final run": Kind(good=final_entry(RECORD, worker="w").to_json(), read=RunEntry.from_json, use=use_entry),
    "spooled record": Kind(
        good=json.dumps(RECORD.to_document()).encode(), read=lambda value: record_of(value), use=use_record
    ),
    "request": Kind(
        good=Request(
            run_id=RUN, origin=Origin.RUN_NOW, job_create_revision=1, plan_ms=NOW, dispatch_ms=NOW, not_before_ms=NOW,
            expires_ms=NOW, by="me", note="n", create_ms=NOW, args=("a",), env={"A": "b"}, avoid="w2", mark_ms=NOW,
        ).to_json(),
        read=lambda value: Request.from_json(value, run_id=RUN, revision=3), use=use_request,
    ),
    "link": Kind(
        good=Request(
            run_id=RUN, origin=Origin.CHAIN, job_create_revision=1, plan_ms=NOW, dispatch_ms=NOW, not_before_ms=NOW,
        ).to_json(),
        read=lambda value: Request.from_json(value, run_id=RunId("job", "next"), revision=3), use=use_request,
    ),
    "member": Kind(
        good=Member(
            worker="w1", session="1f", instance="i", host="h", address="a", slots=4, labels={"a": "b"}, version="1",
            tzdata="2", pid=7, since_ms=NOW, not_accepting="drained",
        ).to_json(),
        read=lambda value: Member.from_json(value, worker="w1", session="1f", lease=31), use=use_member,
    ),
    "beat": Kind(
        good=Beat(kind="worker", wall_ms=NOW, problem="p", clock="c", round_trip_ms=5).to_json(),
        read=Beat.from_json, use=use_beat,
    ),
    "drain": Kind(good=Drain(by="me", since_ms=NOW, reason="r").to_json(), read=Drain.from_json, use=use_drain),
    "kill": Kind(
        good=Kill(run_id=RUN, by="me", at_ms=NOW, reason="r").to_json(),
        read=lambda value: Kill.from_json(value, run_id=RUN, revision=3), use=use_kill,
    ),
    "remembered": Kind(
        good=Remembered(
            expires_ms=NOW, fingerprint="f", token="t", job_create_revision=1, status=202, answer={"runId": "x"},
            headers={"Location": "/api/v1/runs/1"},
        ).to_json(),
        read=Remembered.from_json, use=use_remembered,
    ),
    "clocks": Kind(
        good=Clocks(count=3, measured={"a": Measured(offset_ms=1, clock="c", within_ms=1)}).to_json(),
        read=Clocks.from_json, use=use_clocks,
    ),
    "version": Kind(
        good=JobVersion(
            job="job", revision=5, spec={"name": "job", "env": {"A": "b"}}, saved_ms=NOW, saved_by="me", ended_ms=NOW,
            ended_by="me", ended_with=EditKind.SAVE,
        ).to_json(),
        read=lambda value: JobVersion.from_json(value, job="job", revision=5), use=use_version,
    ),
    "job": Kind(
        good=SavedJob(
            spec=parse_job({"name": "job", "command": "true", "cronExpr": "* * * * *", "enabled": False}),
            anchor_ms=1, saved_ms=NOW, saved_by="me", pause=Pause(since_ms=NOW, by="me", reason="r"),
        ).to_json(),
        read=lambda value: SavedJob.from_json(value, name="job"), use=use_saved,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_what_is_read_is_safe_or_refused(kind: Kind) -> None:
    kind.use(kind.read(kind.good))
    faults = []
    for odd, value in nearly(json.loads(kind.good)):
        try:
            read = kind.read(value)
        except (ValueError, EtcronError) as error:
            if len(str(error)) > 5_000:
                faults.append(f"{odd}: told of in {len(str(error))} characters")
            continue
        except Exception as error:
            faults.append(f"{odd}: reading: {type(error).__name__}: {error!s:.100}")
            continue
        try:
            kind.use(read)
        except Exception as error:
            faults.append(f"{odd}: {type(error).__name__}: {error!s:.100}")
    assert not faults, "\n".join(faults)
