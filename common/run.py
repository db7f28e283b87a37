"""A run's record (what the log store keeps) and its entry (what etcd knows until the log store does).

Pure: standard library and its neighbours.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, Self

from common.keys import RunId


class Verdict(StrEnum):
    """How a fire ended."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    KILLED = "killed"
    LOST = "lost"
    SKIPPED = "skipped"
    MISSED = "missed"

    @property
    def is_of_a_run(self) -> bool:
        """Whether a run was claimed under it; skipped and missed fires never ran."""
        return self not in (Verdict.SKIPPED, Verdict.MISSED)


class Trigger(StrEnum):
    """What made a run happen."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    API = "api"
    RETRY = "retry"
    BACKFILL = "backfill"
    RERUN = "rerun"


class EntryState(StrEnum):
    """Where a run key stands."""

    OPEN = "open"
    """Claimed; its process is about to start, runs, or its record is on the way."""
    ENDED = "ended"
    """Its processes are gone and it held no lock; its record is on the way."""
    FINAL = "final"
    """Decided without a process of ours: the key carries the record, until the log store has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One document of the run log: a run, or a fire (or a range of fires) that did not run.

    Times are in ms since the epoch. The parent's fields keep their names: jobName command err output planTime
    scheduleTime startTime endTime.
    """

    run_id: RunId
    status: Verdict
    command: str = ""
    err: str = ""
    """Empty on success, else the reason in words."""
    output: str = ""
    plan_ms: int = 0
    schedule_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    create_ms: int | None = None
    claim_ms: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    worker: str | None = None
    host: str | None = None
    trigger: Trigger = Trigger.SCHEDULE
    by: str | None = None
    note: str | None = None
    """Of a run that somebody asked for: why."""
    reason: str | None = None
    """Why a fire was skipped or missed, a run killed or lost: a short stable phrase, details after a colon."""
    range_end_ms: int | None = None
    """For one record of many fires: the plan time of the last one; ``plan_ms`` is that of the first."""
    count: int | None = None
    """For one record of many fires: how many."""
    count_is_minimum: bool = False
    revision: int | None = None
    fence: int | None = None
    output_bytes: int = 0
    output_truncated: bool = False
    max_rss: int | None = None
    """Bytes."""
    cpu_seconds: float | None = None
    late: bool = False
    """The record came after the run had been given up as lost."""
    labels: Mapping[str, str] = field(default_factory=dict)

    def to_document(self) -> dict[str, Any]:
        """The document as the log store keeps it; absent values are left out."""
        document: dict[str, Any] = {
            "_id": str(self.run_id),
            "jobName": self.run_id.job_name,
            "attempt": self.run_id.attempt,
        }
        for attribute, name in _DOCUMENT_FIELDS.items():
            value = getattr(self, attribute)
            if value is not None:
                document[name] = str(value) if isinstance(value, StrEnum) else value
        document["labels"] = dict(self.labels)
        for name, absent in _LEFT_OUT_WHEN.items():
            if document.get(name) == absent:
                del document[name]
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a document back; ValueError or KeyError where it is none."""
        values: dict[str, Any] = {
            attribute: document[name] for attribute, name in _DOCUMENT_FIELDS.items() if name in document
        }
        values["status"] = Verdict(values["status"])
        values["trigger"] = Trigger(values.get("trigger", Trigger.SCHEDULE))
        return cls(run_id=RunId.parse(document["_id"]), labels=dict(document.get("labels", {})), **values)

    def without_output(self, why: str) -> Self:
        """The same record with its body cut away, for a store that does not take it."""
        return replace(self, output="", output_truncated=True, err=f"{self.err}; {why}" if self.err else why)


_DOCUMENT_FIELDS = {
    "command": "command", "err": "err", "output": "output", "plan_ms": "planTime", "schedule_ms": "scheduleTime",
    "start_ms": "startTime", "end_ms": "endTime", "create_ms": "createTime", "claim_ms": "claimTime",
    "status": "status", "exit_code": "exitCode", "signal": "signal", "worker": "worker", "host": "host",
    "trigger": "trigger", "by": "by", "note": "note", "reason": "reason", "range_end_ms": "rangeEndTime",
    "count": "count", "count_is_minimum": "countIsMinimum", "revision": "revision", "fence": "fence",
    "output_bytes": "outputBytes", "output_truncated": "outputTruncated", "max_rss": "maxRss",
    "cpu_seconds": "cpuSeconds", "late": "late",
}  # fmt: skip
_LEFT_OUT_WHEN: Mapping[str, object] = {"countIsMinimum": False, "late": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEntry:
    """The value of a run key: who has the run, under which session, since when; or its final record."""

    state: EntryState
    worker: str = ""
    """Whose run it is; empty for a fire that a manager decided."""
    session: str = ""
    """The lease id (hex) of the session that claimed or re-adopted it."""
    instance: str = ""
    revision: int = 0
    """The job's revision that it was claimed under."""
    locked: bool = False
    """Whether the claim took the job's lock."""
    lost_after_ms: int | None = None
    """How long its session may be gone before the run counts as lost; None: never."""
    plan_ms: int = 0
    dispatch_ms: int = 0
    claim_ms: int = 0
    """The worker's wall clock when it sent the claim."""
    trigger: Trigger = Trigger.SCHEDULE
    by: str | None = None
    note: str | None = None
    """Why somebody asked for the run."""
    create_ms: int | None = None
    """When the run was asked for; None: when it was claimed."""
    args: tuple[str, ...] = ()
    """Of this run: more arguments for the command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of this run: variables beside and over the job's."""
    record: RunRecord | None = None
    """Only of a final entry."""

    def to_json(self) -> bytes:
        """The value as stored: compact JSON."""
        document: dict[str, Any] = {"state": str(self.state)}
        for attribute, name in _ENTRY_FIELDS.items():
            value = getattr(self, attribute)
            if value != _ENTRY_DEFAULTS[attribute]:
                document[name] = str(value) if isinstance(value, StrEnum) else value
        if self.args:
            document["args"] = list(self.args)
        if self.env:
            document["env"] = dict(self.env)
        if self.record is not None:
            document["record"] = self.record.to_document()
        # A lone surrogate in somebody's words must not keep a verdict from being written; json reads it back.
        return _TO_JSON(document).encode(errors="surrogatepass")

    @classmethod
    def from_json(cls, value: bytes) -> Self:
        """Read a run key's value; ValueError where it is not one of ours."""
        try:
            document = json.loads(value)
            values = {attribute: document[name] for attribute, name in _ENTRY_FIELDS.items() if name in document}
            _check_types(values)
            values["trigger"] = Trigger(values.get("trigger", Trigger.SCHEDULE))
            record = RunRecord.from_document(document["record"]) if "record" in document else None
            state = EntryState(document["state"])
            args = tuple(str(one) for one in document.get("args", ()))
            env = {str(name): str(text) for name, text in document.get("env", {}).items()}
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ValueError(f"not a run entry: {error}") from error
        if state is EntryState.FINAL and record is None:
            raise ValueError("not a run entry: it is final, and has no record")
        return cls(state=state, record=record, args=args, env=env, **values)


_ENTRY_FIELDS = {
    "worker": "worker", "session": "session", "instance": "instance", "revision": "revision", "locked": "locked",
    "lost_after_ms": "lostAfterMs", "plan_ms": "planMs", "dispatch_ms": "dispatchMs",
    "claim_ms": "claimMs", "trigger": "trigger", "by": "by", "note": "note", "create_ms": "createMs",
}  # fmt: skip
_TO_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_ENTRY_DEFAULTS: Mapping[str, object] = {one.name: one.default for one in fields(RunEntry)}


def _check_types(values: Mapping[str, object]) -> None:
    """Somebody else's value does no harm later, where it is reckoned with: ValueError."""
    for attribute, value in values.items():
        default = _ENTRY_DEFAULTS[attribute]
        kind = {"lost_after_ms": int, "create_ms": int, "by": str, "note": str}.get(attribute, type(default))
        if not isinstance(value, str if issubclass(kind, str) else kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{_ENTRY_FIELDS[attribute]} is {str(value)[:60]!r}")


def shown_command(command_line: str, args: Sequence[str]) -> str:
    """A run's command as one text: the job's, then what was given to this run alone."""
    return f"{command_line} {shlex.join(args)}" if args else command_line


def final_entry(record: RunRecord, *, worker: str = "", session: str = "", instance: str = "") -> RunEntry:
    """The entry of a fire that was decided without running, or of a run whose record rides in its key."""
    return RunEntry(
        state=EntryState.FINAL, worker=worker, session=session, instance=instance, plan_ms=record.plan_ms,
        revision=record.revision or 0, trigger=record.trigger, record=record,
    )  # fmt: skip
