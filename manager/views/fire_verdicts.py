"""What became of each fire of a job: one function of what was read of it, and now. Pure.

Its run counts, where one goes, or has ended without a record yet; else the records of its attempts; else the request
that waits for it. Where there is none of these the job was paused then, or the fire waits, or is to come, or nothing is
known of it any more. `verdicts` gives the planned fires one by one, and what somebody asked for among them; the list of
what was newest is made of the same parts (`of_records`, `of_run`, `waiting_together`), with each attempt apart.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from common.jobs.job import JobSpec, Overlap
from common.protocol.keys import MAX_MARK_MS, RunId
from common.protocol.planner import FireRange, undecided
from common.protocol.planner import Fires as FirePlan
from common.protocol.saved_job import SavedJob
from common.schedules.schedule import dispatch_ms
from common.verdicts import ENDS_UNKNOWN, Verdict
from manager.views.pending import WaitKind
from manager.watch.eligibility import Eligibility
from manager.watch.open_runs import OpenRun

OF_RANGES: Final = frozenset(one for one in Verdict if not one.is_of_a_run)
"""A record of these may be of several fires in a row."""
RANGES: Final = 5
"""Of so many records before a fire one may reach to it."""
NOT_TAKEN: Final = "no worker has taken it yet"
SOON_MS: Final = 1_500
"""A fire that is due for less than this is on its way, and not waiting."""
_NO_RECORD: Final = (
    "decided, and no record is there: it is on its way, or was removed with the older ones, or it was due while etcd "
    "was restored from a backup"
)
_ON_ITS_WAY: Final = "decided, and its record is on its way"
_AWAY: Final = "the log store, which knows what became of it, cannot be reached"
_OUT_OF_REACH: Final = "this manager cannot reach etcd, which knows what became of it"
_PAUSED: Final = "paused"
_OWED_BY_NOBODY: Final = (
    "no record is there: no worker that fits was live then, or it is on its way, or was removed with the older ones"
)
_OF_A_RECORD: Final = (
    "planTime", "rangeEndTime", "count", "countIsMinimum", "reason", "err", "createTime", "claimTime", "startTime",
    "endTime", "worker", "attempt", "exitCode", "by", "trigger",
)  # fmt: skip

Fire: TypeAlias = dict[str, Any]
"""In the shape of the API."""
Key: TypeAlias = tuple[int, str, int]
"""Plan time; the sequence: that of the job, or of one worker of a broadcast job, or of what was asked for the run; and
of a range its end, else 0.

The first fire of a range may have a later attempt, with a verdict of its own: the range is shown beside it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """What is known for all fires of a job, as it is now, of which there is neither a record nor a run."""

    saved: SavedJob
    takers: Eligibility
    mark_ms: int | None
    """None: it is not known."""
    fault: str | None
    """What is wrong with the mark."""
    due_ms: int
    """The newest fire that has been due for a while."""
    out_of_reach: bool
    """What etcd knows of them is not known."""
    no_records: bool
    """What the log store knows of them is not known."""
    waits_for: str | None = None
    """In words, of those that are due and that a worker could take; None where there are none."""

    @property
    def waiting(self) -> FireRange | None:
        """Those that are due and undecided, as far as the mark tells; None: there are none."""
        after_ms = max(self.mark_ms or 0, self.saved.anchor_ms)
        return undecided(self.saved.spec.schedule, mark_ms=after_ms, until_ms=self.due_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From one instant to another, both included; ms since the epoch."""

    from_ms: int
    to_ms: int

    def __contains__(self, ms: int | None) -> bool:
        return ms is not None and self.from_ms <= ms <= self.to_ms

    def since(self, from_ms: int) -> Span:
        """The part of it from there on."""
        return Span(from_ms=max(self.from_ms, from_ms), to_ms=self.to_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """All that was read of a job's fires in some span; of requests and runs there may be others."""

    name: str
    span: Span
    documents: Sequence[Mapping[str, Any]]
    """Of the log, also those of ranges that reach into the span."""
    requests: Iterable[Mapping[str, Any]]
    """Runs that were asked for and wait, as `Pending` shows them."""
    settling: Iterable[RunId]
    """Runs that have ended, and whose record is not among the documents."""
    going: Iterable[OpenRun]
    planned: Sequence[int]
    """Plan times, ms since the epoch."""
    former: Mapping[int, JobSpec]
    """Of those among them that a former version of the job had, that version."""
    no_records: bool
    """What the log store knows of them is not known."""
    unrecorded: Unrecorded | None
    """None: there is no such job, or nothing is planned."""


def verdicts(read: Read, now_ms: int) -> dict[Key, Fire]:
    """Each planned fire with what became of it; and those of which there is a record, a run or a request."""
    # What waits was asked for; or it was offered, handed on, or is to be made up for.
    asked_for = [
        _of_run_id(
            RunId.parse(view["id"]), view["planTime"], verdict="waiting", reason=f"waits for {view['waitsFor']}",
            by=view["by"], trigger=view["trigger"],
        )
        for view in read.requests
        if view["waitsForKind"] != WaitKind.TIME or RunId.parse(view["id"]).plan_ms is None
    ]  # fmt: skip
    unsettled = [
        *(_of_run_id(run_id, run_id.plan_ms, verdict="unknown", reason=_ON_ITS_WAY) for run_id in read.settling),
        *(of_run(run, now_ms) for run in read.going),
    ]
    within = [[fire for fire in some if fire["planTime"] in read.span] for some in (asked_for, unsettled)]
    fires = {_key(fire): fire for fire in (*within[0], *_of_documents(read.documents), *within[1])}
    for plan_ms in without_any(read.planned, fires.values()):
        if read.unrecorded is not None and plan_ms > read.unrecorded.saved.anchor_ms:
            fires[(plan_ms, read.name, 0)] = _without_record(read.unrecorded, plan_ms)
        elif (spec := read.former.get(plan_ms)) is not None:
            fires[(plan_ms, read.name, 0)] = _fire(
                planTime=plan_ms, verdict="unknown" if spec.enabled else "none",
                reason=_without_record_of(spec, no_records=read.no_records) if spec.enabled else _PAUSED,
            )  # fmt: skip
    return fires


def of_records(documents: Sequence[Mapping[str, Any]], *, attempts: int = 1) -> Fire:
    """By a fire's records: that of its last attempt that started (a lost one may have), or else of its last one."""
    ordered = sorted(documents, key=lambda one: one.get("attempt", 1))
    started = [one for one in ordered if one.get("startTime") or one.get("status") in ENDS_UNKNOWN]
    last = (started or ordered)[-1]
    known = {name: last[name] for name in _OF_A_RECORD if name in last}
    return _fire(**known, verdict=last.get("status"), runId=last.get("_id"), attempts=attempts)


def of_run(run: OpenRun, now_ms: int) -> Fire:
    """By the run that goes."""
    started = run.has_started(now_ms)
    return _fire(
        planTime=run.plan_ms, verdict="running" if started else "claimed", runId=str(run.run_id),
        claimTime=run.claim_ms, startTime=run.start_ms if started else None, worker=run.worker,
        attempt=run.run_id.attempt, trigger=str(run.trigger),
    )  # fmt: skip


def waiting_together(view: Unrecorded) -> list[Fire]:
    """The fires that are due and undecided, as one; without a mark we cannot know."""
    fires = view.waiting
    if fires is None or view.mark_ms is None:
        return []
    several = fires.count > 1
    reason = view.takers.takers(str(fires.lo_ms)).reason or view.waits_for
    return [
        _fire(
            planTime=fires.lo_ms, rangeEndTime=fires.hi_ms if several else None,
            count=fires.count if several else None, verdict="waiting", reason=reason,
        )
    ]  # fmt: skip


def without_any(planned: Iterable[int], fires: Iterable[Fire]) -> list[int]:
    """The plan times that lie in none of these fires, of ranges both ends included."""
    planned_ones = (fire for fire in fires if not _is_asked_for(fire))
    ranges = sorted((fire["planTime"], fire["rangeEndTime"] or fire["planTime"]) for fire in planned_ones)
    outside: list[int] = []
    for plan_ms in planned:
        index = bisect_right(ranges, (plan_ms, MAX_MARK_MS))
        if not any(low <= plan_ms <= high for low, high in ranges[max(0, index - RANGES) : index]):
            outside.append(plan_ms)
    return outside


def newest_due_ms(spec: JobSpec, now_ms: int) -> int | None:
    """The newest planned fire that has been due for a while: its dispatch time counts."""
    dispatch = partial(dispatch_ms, spec.name, spec.schedule, spec.jitter_s)
    return FirePlan.of(spec.schedule, dispatch).newest_due_ms(now_ms - SOON_MS)


def first_due_ms(spec: JobSpec, anchor_ms: int, now_ms: int) -> int | None:
    """The first fire planned since the anchor, where it has been due for a while; of broadcasts no fire is owed."""
    plan_ms = None if spec.broadcast or not spec.enabled else spec.schedule.next_after_ms(anchor_ms)
    if plan_ms is None or dispatch_ms(spec.name, spec.schedule, spec.jitter_s, plan_ms) > now_ms - SOON_MS:
        return None
    return plan_ms


def waits_for_run(spec: JobSpec, open_runs: Sequence[OpenRun]) -> str | None:
    """What a fire waits for whose turn comes when another run ends."""
    if spec.overlap not in (Overlap.QUEUE, Overlap.REPLACE) or not open_runs:
        return None
    return f"waits for {open_runs[0].run_id} to end"


def end_ms(document: Mapping[str, Any]) -> int:
    """The plan time (ms since the epoch) of the last fire that the record is about."""
    return int(document.get("rangeEndTime") or document["planTime"])


def run_id_of(document: Mapping[str, Any]) -> RunId | None:
    """Of a log document; None: it is the legacy system's, of which there is no run ID."""
    try:
        return RunId.parse(str(document.get("_id")))
    except ValueError:
        return None


def _without_record(view: Unrecorded, plan_ms: int) -> Fire:
    """The fire planned at ``plan_ms`` (ms since the epoch), of which there is neither a record nor a run."""
    spec, due = view.saved.spec, plan_ms <= view.due_ms
    unknown = partial(_fire, planTime=plan_ms, verdict="unknown")
    verdict = "waiting" if due else "planned"
    if not spec.enabled:
        # By whom it is paused, and why, as far as it says.
        pause = view.saved.pause
        why = [] if pause is None else [one for one in (pause.by and f"by {pause.by}", pause.reason) if one]
        return _fire(planTime=plan_ms, verdict="none", reason=": ".join([_PAUSED, *why]))
    if not spec.schedule.is_open(plan_ms):
        return _fire(planTime=plan_ms, verdict=verdict, reason="calendar: it will be skipped")
    if due and view.out_of_reach:
        return unknown(reason=_OUT_OF_REACH)
    is_passed = view.mark_ms is not None and plan_ms <= view.mark_ms
    if is_passed and view.fault is not None:
        return unknown(reason=view.fault)
    if is_passed and due:
        return unknown(reason=_without_record_of(spec, no_records=view.no_records))
    would = view.takers.takers(str(plan_ms))
    waits_for = view.waits_for if due else None
    return _fire(planTime=plan_ms, verdict=verdict, reason=would.reason or waits_for, takers=list(would.workers))


def _without_record_of(spec: JobSpec, *, no_records: bool) -> str:
    """Of a fire that was decided, why nothing is known of it."""
    return _AWAY if no_records else _OWED_BY_NOBODY if spec.broadcast else _NO_RECORD


def _of_documents(documents: Iterable[Mapping[str, Any]]) -> list[Fire]:
    """One fire for the records of all its attempts, and one for each range that begins with it."""
    attempts: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        run = run_id_of(document)
        if run is not None:
            attempts.setdefault(f"{run.job}@{run.fire}", []).append(document)
    fires: list[Fire] = []
    for of_one in attempts.values():
        single = [one for one in of_one if not one.get("rangeEndTime")]
        fires += [of_records([one]) for one in of_one if one.get("rangeEndTime")]
        fires += [of_records(single, attempts=len(of_one))] if single else []
    return fires


def _of_run_id(run_id: RunId, plan_ms: int | None, **known: Any) -> Fire:
    """Without a plan time where it is not known."""
    return _fire(planTime=plan_ms, runId=str(run_id), attempt=run_id.attempt, **known)


def _is_asked_for(fire: Fire) -> bool:
    """Whether no schedule planned it: it stands beside a fire of the same time, and in no other's place."""
    return bool(fire["runId"]) and RunId.parse(fire["runId"]).plan_ms is None


def _fire(**known: Any) -> Fire:
    """Each field of a fire, None where it is not known."""
    return {name: known.get(name) for name in (*_OF_A_RECORD, "verdict", "runId", "attempts", "takers")}


def _key(fire: Fire) -> Key:
    """Of a fire that has a ``runId``."""
    run = RunId.parse(fire["runId"])
    sequence = run.job if run.plan_ms is not None else f"{run.job}@{run.fire}"
    return fire["planTime"], sequence, fire["rangeEndTime"] or 0
