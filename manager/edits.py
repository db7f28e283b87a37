"""What one edit of a job writes: a single etcd transaction, so that marks never go back, and no fire is lost silently.

    if   mod_revision(jobs/J) is what was read       nobody changed the job meanwhile
    and  marks/J is what was read                    nobody decided a fire meanwhile
    then jobs/J = the new spec (or delete it),  marks/J = max(old mark, now),  seen/jobs = J,
         versions/J/<its revision> = the old spec
         runs/J/<lo>/1 = skipped                     the old spec's undecided fires in (old mark, new mark], one record

Pure: functions of (what etcd held, the change, now). Source: ``docs/protocol.md``, *Marks never go back*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from common.errors import ConflictError, InvalidInputError, NotFoundError
from common.etcd import Compare, Delete, Get, KeyValue, Operation, Put, TxnResult, absent, mod_revision_is, value_is
from common.job import JobSpec
from common.job_version import Change, JobVersion
from common.keys import Keys, RunId, Watched, decode_mark, encode_mark
from common.planner import FireRange, undecided
from common.run import RunRecord, Verdict, final_entry
from common.saved_job import Pause, SavedJob

_COMMAND_SHOWN = 1_000
"""Of the command, in a record that lies in etcd until it is delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A job and its mark as etcd held them at one revision."""

    name: str
    job: KeyValue | None
    mark: KeyValue | None
    saved: SavedJob | None = None
    """None: there is no job, or its value is not one of ours."""
    problem: str | None = None
    """Why the job's value is not one of ours."""
    mark_ms: int | None = None
    """None: there is no mark, or it is not one of ours."""
    taken: frozenset[int] = frozenset()
    """Plan times after the mark that have a run key all the same (somebody set the mark back by hand)."""

    @property
    def revision(self) -> int:
        """The job's revision, 0 where there is none."""
        return self.job.mod_revision if self.job else 0

    @classmethod
    def read(cls, name: str, job: KeyValue | None, mark: KeyValue | None, taken: frozenset[int] = frozenset()) -> Self:
        """Read both values; what does not parse is set aside, and disturbs nothing."""
        saved, problem = None, None
        if job is not None:
            try:
                saved = SavedJob.from_json(job.value, name=name)
            except InvalidInputError as error:
                problem = str(error)
        return cls(
            name=name, job=job, mark=mark, saved=saved, problem=problem, mark_ms=_mark_ms(mark), taken=taken
        )  # fmt: skip

    def with_mark(self, mark: KeyValue | None) -> Self:
        """The same job beside a mark that was read later."""
        return replace(self, mark=mark, mark_ms=_mark_ms(mark))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One transaction, and what it leaves behind where it is carried out."""

    before: Stored
    value: bytes | None
    """The job's value afterwards; None: it is deleted."""
    mark_ms: int
    record: RunRecord | None
    """The fires of the old spec that this edit decides, as one skipped record."""
    record_key: str | None
    compares: Sequence[Compare]
    then: Sequence[Operation]
    otherwise: Sequence[Operation]

    def meanwhile(self, result: TxnResult) -> Stored:
        """What etcd holds instead, from the answer of a transaction whose compares failed."""
        taken = self.before.taken
        if self.record is not None and result.one(2) is not None:
            taken |= {self.record.plan_ms}
        return Stored.read(self.before.name, result.one(0), result.one(1), taken)

    def is_carried_out_in(self, there: Stored) -> bool:
        """Whether an earlier sending of this edit, whose answer was lost, shows in what is there now."""
        if self.value is None:
            # Gone, or made again since: it was deleted while we waited, and one deletion is as good as another.
            return there.job is None or (
                self.before.job is not None and there.job.create_revision != self.before.job.create_revision
            )
        return there.job is not None and there.job.value == self.value and there.revision > self.before.revision


def plan_save(
    keys: Keys, before: Stored, spec: JobSpec, *, now_ms: int, by: str, change: Change = Change.SAVE
) -> Edit | None:
    """The edit that saves ``spec``; None where the very same spec is there already: nothing is written then."""
    if before.saved is not None and before.saved.spec == spec and before.mark_ms is not None:
        return None
    pause = None
    if not spec.enabled:
        # Whoever edits a paused job does not pause it anew: since when, by whom and why it is paused stays true.
        pause = (before.saved.pause if before.saved else None) or Pause(since_ms=now_ms, by=by)
    return _save(keys, before, spec, pause, change, now_ms=now_ms, by=by)


def plan_pause(keys: Keys, before: Stored, *, reason: str | None, now_ms: int, by: str) -> Edit | None:
    """The edit that pauses the job; None where it is paused already and no other reason is given.

    NotFoundError, ConflictError: there is no job to pause, or none that can be read.
    """
    saved = readable(before)
    pause = Pause(since_ms=now_ms, by=by, reason=reason)
    if not saved.spec.enabled:
        there = saved.pause or Pause(since_ms=saved.saved_ms, by=saved.saved_by)
        if reason in (None, there.reason):
            return None
        pause = replace(pause, since_ms=there.since_ms)
    return _save(keys, before, replace(saved.spec, enabled=False), pause, Change.PAUSE, now_ms=now_ms, by=by)


def plan_resume(keys: Keys, before: Stored, *, now_ms: int, by: str) -> Edit | None:
    """The edit that lets the job fire again, from now on; None where it is not paused. Errors as for a pause."""
    saved = readable(before)
    if saved.spec.enabled:
        return None
    return _save(keys, before, replace(saved.spec, enabled=True), None, Change.RESUME, now_ms=now_ms, by=by)


def plan_delete(keys: Keys, before: Stored, *, now_ms: int, by: str) -> Edit | None:
    """The edit that deletes the job and keeps its mark; None where there is no job."""
    if before.job is None:
        return None
    return _edit(keys, before, None, _new_mark(before, now_ms), "deleted", Change.DELETE, now_ms=now_ms, by=by)


def readable(before: Stored) -> SavedJob:
    """The job as it is; NotFoundError, ConflictError: there is none, or none that can be read."""
    if before.job is None:
        raise NotFoundError(f"there is no job {before.name}")
    if before.saved is None:
        raise ConflictError(f"job {before.name!r} cannot be read ({before.problem}): save it anew, or delete it")
    return before.saved


def _save(
    keys: Keys, before: Stored, spec: JobSpec, pause: Pause | None, change: Change, *, now_ms: int, by: str
) -> Edit:
    mark_ms = _new_mark(before, now_ms)
    saved = SavedJob(spec=spec, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by, pause=pause)
    reason = "edited" if spec.enabled else "paused"
    return _edit(keys, before, saved.to_json(), mark_ms, reason, change, now_ms=now_ms, by=by)


def _edit(
    keys: Keys, before: Stored, value: bytes | None, mark_ms: int, reason: str, change: Change, *, now_ms: int, by: str
) -> Edit:
    job, mark = keys.job(before.name), keys.mark(before.name)
    record = _skipped(before, mark_ms, reason, now_ms=now_ms, by=by)
    compares: list[Compare] = [
        mod_revision_is(job, before.revision),
        absent(mark) if before.mark is None else value_is(mark, before.mark.value),
    ]
    then: list[Operation] = [
        Delete(job) if value is None else Put(job, value),
        Put(mark, encode_mark(mark_ms)),
        Put(keys.seen(Watched.JOBS), before.name.encode()),
        *_former(keys, before, change, now_ms=now_ms, by=by),
    ]
    otherwise: list[Operation] = [Get(job), Get(mark)]
    record_key = None if record is None else keys.run(record.run_id)
    if record is not None and record_key is not None:
        compares.append(absent(record_key))
        then.append(Put(record_key, final_entry(record).to_json()))
        otherwise.append(Get(record_key, keys_only=True))
    return Edit(
        before=before, value=value, mark_ms=mark_ms, record=record, record_key=record_key, compares=compares,
        then=then, otherwise=otherwise,
    )  # fmt: skip


def _former(keys: Keys, before: Stored, change: Change, *, now_ms: int, by: str) -> list[Operation]:
    """The spec that is replaced stays readable; one that was none of ours does not."""
    saved = before.saved
    if saved is None:
        return []
    version = JobVersion(
        job=before.name, revision=before.revision, spec=saved.spec.to_stored(), saved_ms=saved.saved_ms,
        saved_by=saved.saved_by, ended_ms=now_ms, ended_by=by, ended_with=change,
    )  # fmt: skip
    return [Put(keys.version(before.name, before.revision), version.to_json())]


def _mark_ms(mark: KeyValue | None) -> int | None:
    try:
        return None if mark is None else decode_mark(mark.value)
    except ValueError:
        return None


def _new_mark(before: Stored, now_ms: int) -> int:
    return now_ms if before.mark_ms is None else max(before.mark_ms, now_ms)


def _skipped(before: Stored, mark_ms: int, reason: str, *, now_ms: int, by: str) -> RunRecord | None:
    """One record for the enabled old spec's planned fires in (old mark, new mark]; None where there are none."""
    fires = _undecided(before, mark_ms)
    if fires is None or before.saved is None:
        return None
    spec, several = before.saved.spec, fires.count > 1
    return RunRecord(
        run_id=RunId.planned(before.name, fires.lo_ms), status=Verdict.SKIPPED,
        command=spec.command_line[:_COMMAND_SHOWN], err=f"skipped: {reason}", reason=reason, by=by,
        plan_ms=fires.lo_ms, create_ms=now_ms, end_ms=now_ms,
        range_end_ms=fires.hi_ms if several else None, count=fires.count if several else None,
        count_is_minimum=fires.at_least, revision=before.revision, labels=spec.labels,
    )  # fmt: skip


def _undecided(before: Stored, mark_ms: int) -> FireRange | None:
    # Without a mark nothing says which fires were decided: the steward starts such a job from now, and so does a save.
    if before.saved is None or not before.saved.spec.enabled or before.mark_ms is None:
        return None
    from_ms = max(before.mark_ms, before.saved.anchor_ms, *before.taken)
    return undecided(before.saved.spec.schedule, mark_ms=from_ms, until_ms=mark_ms)
