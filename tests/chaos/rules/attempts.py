"""Retry and rerun: an attempt follows where the job says so, and only there; never beside the one before, and a retry
not before its delay is over."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from tests.chaos.view import MACHINE_GONE, Id, Record, Run, View, Violation

_EDIT_NEARBY_MS = 5000
_GIVEN_UP_BEFORE_MS = 20_000
"""So long may pass between a verdict and the claim of the rerun: the session of another worker, a busy one."""
_TOLD_AFTER_MS = 5_000
"""So long after etcd is back a worker may still wait for the answer to what it told before."""
_LONGEST_DELAY_S = 3600
_WITH_ITS_WORKER = ("worker shutdown", "out of touch with etcd for too long")
"""Reasons of runs that were killed, and that nobody wished an end of."""
_ROUNDING_MS = 2


def check(view: View) -> Iterator[Violation]:
    """Every run against the attempt before it and after it."""
    for run, record in view.records():
        following = view.runs.get(Id(run.id.sequence, run.id.fire, run.id.attempt + 1))
        spec = view.spec_of(run.id.job)
        if following is not None and following.record is not None:
            if not _was_given_up_unasked(view, run, following, spec):
                yield from _followed(view, run, record, following, spec.get("onWorkerLost", "record"))
            yield from _too_soon(run, record, following, spec.get("retry") or {})
        elif _is_owed_another(record, spec) and not _is_edited_nearby(view, run, record):
            yield Violation("retry", str(run.id), f"{record['status']}, and attempt {run.id.attempt + 1} has no record")


def _was_given_up_unasked(view: View, run: Run, following: Run, spec: dict[str, Any]) -> bool:
    """Whether the run was run again after its end because nobody could know of that: its worker could not tell etcd, so
    the lock was held on, and the log store, which has the record, could not be asked when the run was given up.
    """
    record = following.record or {}
    is_rerun = spec.get("onWorkerLost") == "rerun" and record.get("trigger") == "rerun"
    if not is_rerun or not run.ends or not following.starts:
        return False
    ended_ms, given_up_ms = run.ends[0].wall_ms, record["claimTime"]
    faults = view.faults_between(ended_ms, given_up_ms)
    worker = run.ends[0].worker
    went_ms = min(
        (one.from_ms for one in faults if one.target == worker and one.what.startswith(MACHINE_GONE)), default=inf
    )
    was_cut_off = any(
        one.from_ms <= ended_ms
        and (
            (one.target == worker and one.what.startswith("etcd: "))
            or (one.target == "etcd" and "SIG" in one.what and went_ms <= one.until_ms + _TOLD_AFTER_MS)
        )
        for one in faults
    )
    may_be_asked_until_ms = given_up_ms - _GIVEN_UP_BEFORE_MS
    was_away = any(
        (one.target == "log store" or one.what.startswith("log store: ")) and one.until_ms >= may_be_asked_until_ms
        for one in faults
    )
    return was_cut_off and was_away


def _followed(view: View, run: Run, record: Record, following: Run, on_lost: str) -> Iterator[Violation]:
    status = "failed" if _has_lost_its_failure(view, run, record) else record["status"]
    is_rerun = on_lost == "rerun" and (status == "lost" or record.get("reason") in _WITH_ITS_WORKER)
    # A late verdict takes the place of `lost` after the run was repeated.
    is_rerun = is_rerun or (on_lost == "rerun" and bool(record.get("late")))
    if status not in ("failed", "timeout") and not is_rerun:
        yield Violation("retry", str(following.id), f"there is such an attempt, after one that was {status}")
    if not is_rerun and run.signs and following.signs and following.first_ns < run.last_ns:
        yield Violation("retry", str(following.id), "started before the attempt before it had ended")


def _has_lost_its_failure(view: View, run: Run, record: Record) -> bool:
    """Whether it failed, and was told so to etcd, and its record was lost with its worker's disk."""
    if record["status"] != "lost":
        return False
    if not run.signs:  # it could not be started: etcd alone knows that it has ended
        claimed_ms = record.get("claimTime") or record["planTime"]
        return record.get("reason") == "result not delivered" and view.has_lost_disk(record["worker"], claimed_ms)
    if not run.ends or run.ends[0].exit_code == 0:
        return False
    return view.has_lost_disk(run.ends[0].worker, run.ends[0].wall_ms)


def _too_soon(run: Run, record: Record, following: Run, retry: dict[str, Any]) -> Iterator[Violation]:
    """After a failure or a timeout the next attempt waits, by CLOCK_BOOTTIME, whatever clocks say."""
    is_rerun = (following.record or {}).get("trigger") == "rerun"
    if record["status"] not in ("failed", "timeout") or is_rerun or not run.signs or not following.starts:
        return
    backoff = retry.get("backoff", 2) ** (run.id.attempt - 1)
    delay_ms = min(retry.get("delaySeconds", 10) * backoff, _LONGEST_DELAY_S) * 1000
    gap_ms = (following.first_ns - run.last_ns) / 1e6
    if gap_ms < delay_ms - _ROUNDING_MS:
        text = f"started {gap_ms:.0f} ms after the attempt before it had ended; its delay is {delay_ms:g} ms"
        yield Violation("retry", str(following.id), text)


def _is_owed_another(record: Record, spec: dict[str, object]) -> bool:
    retry = spec.get("retry")
    limit = retry["limit"] if isinstance(retry, dict) else 0
    return record["status"] in ("failed", "timeout") and int(record.get("attempt", 1)) <= limit


def _is_edited_nearby(view: View, run: Run, record: Record) -> bool:
    """Whether an edit may have been carried out before the run's end was, and after its claim, which may be early.

    Where there is evidence, no clock of a worker's makes the claim later or the end earlier than that.
    """
    edits = [call for call in view.calls if call.op.is_edit and call.job == run.id.job]
    shown_ms = [one.wall_ms for one in run.signs]
    claimed_ms = min([record.get("claimTime") or record["planTime"], *shown_ms])
    ended_ms = max([record["endTime"], *shown_ms])
    return any(call.ack_ms > claimed_ms and call.sent_ms < ended_ms + _EDIT_NEARBY_MS for call in edits)
