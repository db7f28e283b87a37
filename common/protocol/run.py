"""A run's record (what the log store keeps) and its entry (what etcd knows until the log store does).

Pure: no clock, no I/O.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self, TypeAlias, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import astuple, replace

from common.json_text import to_json
from common.protocol.keys import MAX_MARK_MS, RunId
from common.protocol.signatures import Grant
from common.protocol.values import LARGEST, LONGEST_NAME, MALFORMED, brief, instant, name, whole
from common.verdicts import Verdict

_Instant: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_MARK_MS)]
"""Milliseconds since the epoch, as every reader of an entry may rely on."""
_Number: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST)]
_Name: TypeAlias = Annotated[str, Meta(max_length=LONGEST_NAME)]
_T = TypeVar("_T")

SHUTDOWN: Final = "worker shutdown"
"""Why a run was killed that its worker took with it."""
OUT_OF_TOUCH: Final = "out of touch with etcd for too long"
"""Why a run was killed that would soon have counted as lost."""


class Trigger(StrEnum):
    """What made a run happen."""

    SCHEDULE = "schedule"
    MANUAL = "manual"
    API = "api"
    RETRY = "retry"
    RERUN = "rerun"


class EntryState(StrEnum):
    """Where a run key stands."""

    OPEN = "open"
    """Claimed; its process is about to start, runs, or its record is on the way."""
    ENDED = "ended"
    """Its processes are gone and it held no lock; its record is on the way."""
    FINAL = "final"
    """Decided without a process of ours: the key carries the record, until the log store has it."""


class RunRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One document of the run log: a run, or a fire (or a range of fires) that did not run.

    Times are in ms since the epoch. The legacy API's fields keep their names: jobName command err output planTime
    scheduleTime startTime endTime.
    """

    run_id: RunId
    status: Verdict
    command: str = ""
    err: str = ""
    """Empty on success, else the reason in words."""
    output: str = ""
    plan_ms: int = 0
    due_ms: int | None = None
    """When it was to start, where that is not its plan time: after the pause before a retry, or with its jitter."""
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
    """Of a run that a user asked for: why."""
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
        run_id, values = self.run_id, zip(_DOCUMENT_NAMES, astuple(self), strict=True)
        document: dict[str, Any] = {"_id": str(run_id), "jobName": run_id.job_name, "attempt": run_id.attempt}
        document |= {called: value for called, value in values if value is not None and called is not None}
        document["status"], document["trigger"] = str(self.status), str(self.trigger)
        document["labels"] = dict(self.labels)
        for called, absent in _LEFT_OUT_WHEN.items():
            if document.get(called) == absent:
                del document[called]
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Read a document back; ValueError where it is none."""
        try:
            values: dict[str, Any] = {
                attribute: document[called] for attribute, called in _DOCUMENT_FIELDS.items() if called in document
            }
            values["status"] = Verdict(values["status"])
            values["trigger"] = Trigger(values.get("trigger", Trigger.SCHEDULE))
            labels = dict(document.get("labels", {}))
            record = cls(run_id=RunId.parse(name(document["_id"])), labels=labels, **values)
            record._check_types()
        except MALFORMED as error:
            raise ValueError(f"not a record of a run: {brief(error)}") from error
        return record

    def _check_types(self) -> None:
        """ValueError: what sorts, counts or delivers it would meet it there, and could not go on."""
        for attribute, value, kind in zip(self.__struct_fields__, astuple(self), _KINDS, strict=True):
            if not isinstance(value, kind):
                raise ValueError(f"{attribute} is {value!r:.40}")
            if value is not None and attribute.endswith("_ms"):
                instant(value)
        if self.revision is not None:
            whole(self.revision)  # it stands in the run's entry, too
        for label in (*self.labels, *self.labels.values()):
            if not isinstance(label, str):
                raise ValueError(f"labels have {label!r:.40}")

    def without_output(self, why: str) -> Self:
        """The same record with its body cut away, for a store that does not take it."""
        return replace(self, output="", output_truncated=True, err=f"{self.err}; {why}" if self.err else why)


_DOCUMENT_FIELDS = {
    "command": "command", "err": "err", "output": "output", "plan_ms": "planTime", "due_ms": "dueTime",
    "schedule_ms": "scheduleTime",
    "start_ms": "startTime", "end_ms": "endTime", "create_ms": "createTime", "claim_ms": "claimTime",
    "status": "status", "exit_code": "exitCode", "signal": "signal", "worker": "worker", "host": "host",
    "trigger": "trigger", "by": "by", "note": "note", "reason": "reason", "range_end_ms": "rangeEndTime",
    "count": "count", "count_is_minimum": "countIsMinimum", "revision": "revision", "fence": "fence",
    "output_bytes": "outputBytes", "output_truncated": "outputTruncated", "max_rss": "maxRss",
    "cpu_seconds": "cpuSeconds", "late": "late",
}  # fmt: skip
_DOCUMENT_NAMES = tuple(map(_DOCUMENT_FIELDS.get, RunRecord.__struct_fields__))
_WIDER: Mapping[str, Any] = {
    "cpu_seconds": int | float | None, "count_is_minimum": bool | None, "late": bool | None, "labels": dict,
}  # fmt: skip
"""What a field may be as another program may have written it; of the others as it is declared."""
_KINDS = tuple(_WIDER.get(attribute, kind) for attribute, kind in get_type_hints(RunRecord).items())
_LEFT_OUT_WHEN: Mapping[str, object] = {"countIsMinimum": False, "late": False}


class _Entry(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A run key's value, but for a record."""

    state: EntryState
    worker: _Name = ""
    """Whose run it is; empty for a fire that a manager decided."""
    session: _Name = ""
    """The lease id (hex) of the session that claimed or re-adopted it."""
    instance: _Name = ""
    revision: _Number = 0
    """The job's revision that it was claimed under."""
    locked: bool = False
    """Whether the claim took the job's lock."""
    lost_after_ms: _Instant | None = None
    """How long its session may be gone before the run counts as lost; None: never."""
    plan_ms: _Instant = 0
    dispatch_ms: _Instant = 0
    claim_ms: _Instant = 0
    """The worker's wall clock when it sent the claim."""
    trigger: Trigger = Trigger.SCHEDULE
    by: str | None = None
    note: str | None = None
    """Why the user asked for the run."""
    create_ms: _Instant | None = None
    """When the run was asked for; None: when it was claimed."""
    args: tuple[str, ...] = ()
    """Of this run: more arguments for the command."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of this run: variables beside and over the job's."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The job's, as it was claimed; a version that did not write them leaves them out, as a job without any does."""
    grant: Grant | None = None
    """The manager's signature of a run that a user asked for."""
    scope: str | None = None
    """As its request's."""

    @property
    def due_ms(self) -> int | None:
        """When it was to start, where that is not its plan time."""
        return self.dispatch_ms if self.dispatch_ms > self.plan_ms else None


class _Stored(_Entry, frozen=True, kw_only=True):
    """The value as it lies in etcd."""

    record: dict[str, Any] | None = None


class RunEntry(_Entry, frozen=True, kw_only=True):
    """The value of a run key: who has the run, under which session, since when; or its final record."""

    record: RunRecord | None = None
    """Only of a final entry."""

    def to_json(self) -> bytes:
        """The value as stored: compact JSON."""
        record = None if self.record is None else self.record.to_document()
        return to_json(self if record is None else _Stored(record=record, **_values_of(self)))

    @staticmethod
    def from_json(value: bytes) -> RunEntry:
        """Read a run key's value; ValueError where it is not one of ours."""
        try:
            entry = _with_record(value) if _MAY_HAVE_RECORD in value else _decoded(_PLAIN, value)
        except (*MALFORMED, msgspec.MsgspecError) as error:
            raise ValueError(f"not a run entry: {brief(error)}") from error
        if entry.state is EntryState.FINAL and entry.record is None:
            raise ValueError("not a run entry: it is final, and has no record")
        return entry


_PLAIN = msgspec.json.Decoder(RunEntry)
_STORED = msgspec.json.Decoder(_Stored)
_MAY_HAVE_RECORD = b'"record"'
"""Without these bytes an entry is of a run that is open or has ended: so it is with nearly all."""


def _with_record(value: bytes) -> RunEntry:
    stored = _decoded(_STORED, value)
    record = None if stored.record is None else RunRecord.from_document(stored.record)
    return RunEntry(record=record, **_values_of(stored))


def _decoded(decoder: msgspec.json.Decoder[_T], value: bytes) -> _T:
    try:
        return decoder.decode(value)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):  # no JSON; or with lone surrogates, which Python's own reads
        return msgspec.convert(json.loads(value), decoder.type)


def _values_of(entry: _Entry) -> dict[str, Any]:
    return dict(zip(_Entry.__struct_fields__, astuple(entry), strict=False))


def plan_key(plan_ms: int) -> str:
    """The part of a page key, or of an order, that says the plan time: as a bound it stands before all of that time."""
    return f"{max(plan_ms, 0):016d}"


def last_order(record: RunRecord) -> str:
    """What decides which of two records of one job is the newer.

    Plan time; of one fire's attempts those that started before those that did not (a retry that was skipped leaves the
    verdict as it was), then the later attempt; a verdict before a ``lost``.
    """
    newest_ms = max(record.plan_ms, record.range_end_ms or 0)
    # A run that was lost counts as one that started: its worker cannot say.
    has_started = record.status.is_of_a_run and (record.status is not Verdict.KILLED or record.start_ms is not None)
    attempt = f"{has_started:d}{record.run_id.attempt:05d}"
    return f"{plan_key(newest_ms)}/{attempt}/{record.status.end_is_known:d}/{record.run_id}"


def shown_command(command_line: str, args: Sequence[str]) -> str:
    """A run's command as one text: the job's, then what was given to this run alone."""
    return f"{command_line} {shlex.join(args)}" if args else command_line


def final_entry(record: RunRecord, *, worker: str = "", session: str = "", instance: str = "") -> RunEntry:
    """The entry of a fire that was decided without running, or of a run whose record rides in its key."""
    return RunEntry(
        state=EntryState.FINAL, worker=worker, session=session, instance=instance, plan_ms=record.plan_ms,
        revision=record.revision or 0, trigger=record.trigger, record=record,
    )  # fmt: skip
