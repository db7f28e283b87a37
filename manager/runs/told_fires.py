"""One fire as it is told: by the records of its attempts, by its open run, or by what is known where neither is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from common.jobs.job import JobSpec
from common.protocol.keys import RunId
from common.protocol.run import Verdict
from common.protocol.saved_job import SavedJob
from manager.watching.eligibility import Eligibility

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
    "endTime", "worker", "attempt", "exitCode", "by",
)  # fmt: skip

Key: TypeAlias = tuple[int, str, int]
"""Plan time; the sequence: that of the job, or of one worker of a broadcast job; and of a range its end, else 0.

The first fire of a range may have a later attempt, with a verdict of its own: the range is told beside it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """What is known for all fires without a record."""

    spec: JobSpec
    pause: str | None
    """Why nothing fires, where the job is paused."""
    takers: Eligibility
    mark_ms: int | None
    fault: str | None
    """What is wrong with the mark."""
    due_ms: int
    """The newest fire that is due."""
    waits_for: str | None
    """In words, of those that are due and that somebody could take; None where there are none."""
    out_of_reach: bool
    """What etcd knows of them cannot be told."""
    no_records: bool
    """What the log store knows of them cannot be told."""


def without_record(view: Undecided, plan_ms: int) -> dict[str, Any]:
    """The fire planned at ``plan_ms`` (ms since the epoch), of which there is neither a record nor a run."""
    due = plan_ms <= view.due_ms
    verdict = "waiting" if due else "planned"
    if view.pause is not None:
        return while_paused(plan_ms, view.pause)
    if not view.spec.schedule.is_open(plan_ms):
        return fire_told(planTime=plan_ms, verdict=verdict, reason="calendar: it will be skipped")
    if due and view.out_of_reach:
        return fire_told(planTime=plan_ms, verdict="unknown", reason=_OUT_OF_REACH)
    if view.fault is not None and view.mark_ms is not None and plan_ms <= view.mark_ms:
        return fire_told(planTime=plan_ms, verdict="unknown", reason=view.fault)
    if due and view.mark_ms is not None and plan_ms <= view.mark_ms:
        reason = _OWED_BY_NOBODY if view.spec.broadcast else _NO_RECORD
        if view.no_records:
            reason = _AWAY
        return fire_told(planTime=plan_ms, verdict="unknown", reason=reason)
    would = view.takers.takers(str(plan_ms))
    waiting = view.waits_for if due else None
    return fire_told(planTime=plan_ms, verdict=verdict, reason=would.reason or waiting, takers=list(would.workers))


def while_paused(plan_ms: int, reason: str = _PAUSED) -> dict[str, Any]:
    """One that did not fire, and will not, as the job is or was paused; ``plan_ms`` in ms since the epoch."""
    return fire_told(planTime=plan_ms, verdict="none", reason=reason)


def why_paused(saved: SavedJob) -> str | None:
    """By whom the job is paused, and why, as far as it says; None: it is not."""
    if saved.spec.enabled:
        return None
    pause = saved.pause
    said = [] if pause is None else [one for one in (pause.by and f"by {pause.by}", pause.reason) if one]
    return ": ".join([_PAUSED, *said])


def on_its_way(run_id: RunId, plan_ms: int) -> dict[str, Any]:
    """One that is decided, and whose record no log store has yet; ``plan_ms`` in ms since the epoch."""
    return fire_told(planTime=plan_ms, verdict="unknown", reason=_ON_ITS_WAY, runId=str(run_id), attempt=run_id.attempt)


def end_ms(document: Mapping[str, Any]) -> int:
    """The plan time (ms since the epoch) of the last fire that the record is about."""
    return int(document.get("rangeEndTime") or document["planTime"])


def verdicts(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One fire for the records of all its attempts, and one for each range that begins with it."""
    attempts: dict[str, list[Mapping[str, Any]]] = {}
    for document in documents:
        run = run_id_of(document)
        if run is not None and run.plan_ms is not None:
            attempts.setdefault(f"{run.job}@{run.fire}", []).append(document)
    return [fire for of_one in attempts.values() for fire in _of_one(of_one)]


def _of_one(documents: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    single = [one for one in documents if not one.get("rangeEndTime")]
    ranges = [_verdict([one], attempts=1) for one in documents if one.get("rangeEndTime")]
    return [*ranges, _verdict(single, attempts=len(documents))] if single else ranges


def _verdict(documents: Sequence[Mapping[str, Any]], *, attempts: int) -> dict[str, Any]:
    """Of a fire's records: that of its last attempt that started (a lost one may have), or else of its last one."""
    ordered = sorted(documents, key=lambda one: one.get("attempt", 1))
    started = [one for one in ordered if one.get("startTime") or one.get("status") == Verdict.LOST]
    last = (started or ordered)[-1]
    told = {name: last[name] for name in _OF_A_RECORD if name in last}
    return fire_told(**told, verdict=last.get("status"), runId=last.get("_id"), attempts=attempts)


def fire_told(**told: Any) -> dict[str, Any]:
    """A fire in the shape of the API: each of its fields, None where ``told`` has it not."""
    return {name: told.get(name) for name in (*_OF_A_RECORD, "verdict", "runId", "attempts", "takers")}


def key_of(fire: Mapping[str, Any]) -> Key:
    """Of a fire that has a ``runId``."""
    return fire["planTime"], RunId.parse(fire["runId"]).job, fire["rangeEndTime"] or 0


def run_id_of(document: Mapping[str, Any]) -> RunId | None:
    """Of a log document; None: it is the legacy system's, of which there is no run ID."""
    try:
        return RunId.parse(str(document.get("_id")))
    except ValueError:
        return None
