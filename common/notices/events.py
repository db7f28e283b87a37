"""What happened to a run, to a job or to the system: something that a message may report."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Final, Self

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from common.jobs.job import JobSpec
from common.protocol.keys import MAX_MARK_MS
from common.protocol.run import RunRecord, Trigger, last_order
from common.verdicts import EventKind, Verdict

LONGEST_TEXT: Final = 500
ASKED_FOR: Final = frozenset({EventKind.OUTPUT, *(one.kind for one in Verdict if one.is_quiet)})
"""What is an event only where a job or a rule asks for it."""
_NEVER_BEGAN: Final = frozenset(one for one in Verdict if one is Verdict.KILLED or not one.is_of_a_run)
_AGAIN: Final = (Trigger.RETRY, Trigger.RERUN)

_Instant = Annotated[int, Meta(ge=0, le=MAX_MARK_MS)]
_Id = Annotated[str, Meta(max_length=1_000)]
_Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]


class Event(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One event. Its identity is (``order``, ``kind``)."""

    kind: EventKind
    at_ms: _Instant
    job: _Id = ""
    """Empty: of the system."""
    subject: _Id = ""
    """Of the system: what it is about, e.g. a worker's name."""
    run: _Id = ""
    order: _Id = ""
    """Which of two records of one job is the newer: `common.protocol.run.last_order`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    plan_ms: _Instant | None = None
    start_ms: _Instant | None = None
    end_ms: _Instant | None = None
    worker: _Id | None = None
    attempt: int = 1
    count: int = 1
    """Of fires that did not run: how many."""
    reason: _Text | None = None
    exit_code: int | None = None
    err: _Text | None = None
    zone: _Id | None = None
    """The job's time zone."""
    due_ms: _Instant | None = None
    """Not of a record: since then something is due for the open alert that began with such an event."""

    def to_document(self) -> dict[str, Any]:
        """As JSON has it; what is absent is left out."""
        # Of a record that was read from the log store, whole numbers are of a kind of its own.
        document: dict[str, Any] = msgspec.to_builtins(self, enc_hook=int)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """ValueError where it is none, or of a later version."""
        try:
            return msgspec.convert(dict(document), cls)
        except msgspec.MsgspecError as error:
            raise ValueError(f"not an event: {error}") from None


def events_of(
    record: RunRecord, wanted: Collection[EventKind] = (), *, spec: JobSpec | None = None, is_tried_again: bool = False
) -> tuple[Event, ...]:
    """What a record tells; nearly always nothing.

    ``wanted``: those of ``ASKED_FOR`` that are wanted. ``spec``: its job as it is now. ``is_tried_again``: another
    attempt follows, so its verdict is no problem yet.
    """
    kinds = list(_kinds_of(record, wanted, spec, is_tried_again=is_tried_again))
    if not kinds:
        return ()
    run_id = record.run_id
    event = Event(
        kind=kinds[0], at_ms=record.end_ms or record.create_ms or record.plan_ms, job=run_id.job_name, run=str(run_id),
        order=last_order(record), labels=dict(record.labels), plan_ms=record.plan_ms, start_ms=record.start_ms,
        end_ms=record.end_ms, worker=record.worker, attempt=run_id.attempt, count=record.count or 1,
        reason=_cut(record.reason), exit_code=record.exit_code, err=_cut(record.err),
        zone=None if spec is None else spec.timezone,
    )  # fmt: skip
    return (event, *(replace(event, kind=kind) for kind in kinds[1:]))


def never_began(record: RunRecord) -> bool:
    """Whether it is of another attempt that was asked for and never ran: then the one before it is a problem."""
    is_another = record.trigger in _AGAIN and record.run_id.attempt > 1
    return is_another and record.start_ms is None and record.status in _NEVER_BEGAN


def gave_up(record: RunRecord, before: RunRecord | None, *, spec: JobSpec | None = None) -> Event:
    """What such a record tells: the problem of the attempt ``before`` it, as far as its record is there."""
    why = f"the next attempt did not run: {record.reason or record.status}"
    failure = next(iter(events_of(before, spec=spec)), None) if before is not None else None
    if failure is None:
        [failure] = events_of(replace(record, status=Verdict.FAILED), spec=spec)
        return replace(failure, reason=_cut(why))
    return replace(failure, reason=_cut(f"{failure.reason}; {why}" if failure.reason else why))


def _kinds_of(
    record: RunRecord, wanted: Collection[EventKind], spec: JobSpec | None, *, is_tried_again: bool
) -> Iterator[EventKind]:
    kind, start_ms = record.status.kind, record.start_ms
    if not is_tried_again and (kind not in ASKED_FOR or kind in wanted):
        yield kind
    if record.output_bytes and EventKind.OUTPUT in wanted:
        yield EventKind.OUTPUT
    if spec is None or start_ms is None:
        return
    is_first = record.trigger not in _AGAIN  # the others begin as late as their delay says
    if spec.late_after_s and is_first and start_ms - record.plan_ms > 1000 * (spec.late_after_s + spec.jitter_s):
        yield EventKind.LATE
    if (
        spec.suspicious_below_s
        and record.status is Verdict.SUCCESS
        and record.end_ms is not None
        and record.end_ms - start_ms < 1000 * spec.suspicious_below_s
    ):
        yield EventKind.FAST


def _cut(text: str | None) -> str | None:
    return text[:LONGEST_TEXT] if text else None
