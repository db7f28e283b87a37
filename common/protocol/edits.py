"""What one edit of a job writes: a single etcd transaction, so that marks never go back, and no fire is lost silently.

    if   mod_revision(jobs/J) is what was read       the job has not changed meanwhile
    and  marks/J is what was read                    no fire was decided meanwhile
    [and the lock is free, or still that run's]      only of a job that runs `after` its last run
    then jobs/J = the new spec (or delete it),  marks/J = max(old mark, now) but for a save as below,  seen/jobs = J,
         versions/J/<its revision> = the old spec
         runs/J/<lo>/1 = skipped                     the old spec's undecided fires in (old mark, new mark], one record
         requests/J/next/1                           of an `after` job: see `common.protocol.chain`

A save that leaves alone when the job fires keeps the mark, and skips nothing: what was planned and has not started, for
it waits for its jitter, a slot, a lock or a worker, starts under the new spec (``JobSpec.fires_alike``). The mark of an
`at` that is past, and within its grace, stays just before it: it is still to fire.

Pure: functions of (what etcd held, the change, now). Source: ``docs/internals/protocol.md``, *Marks never go back*.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from msgspec import structs

from common.errors import ConflictError, InvalidInputError, NotFoundError, StaleError
from common.instants import iso
from common.jobs.job import JobSpec
from common.protocol.absence import why_no_worker
from common.protocol.chain import Chained, edit_chain
from common.protocol.compares import Compare, absent, mod_revision_is, value_is
from common.protocol.keys import Keys, Watched, encode_mark, read_mark
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from common.protocol.planned_job import PlannedJob
from common.protocol.planner import FireRange, undecided
from common.protocol.records import fire_record
from common.protocol.run import RunRecord, final_entry
from common.protocol.saved_job import Again, EditKind, JobVersion, Pause, SavedJob, Signed, newer_fields
from common.protocol.signatures import Seal
from common.protocol.txn import Delete, Earlier, Fate, Get, GetKey, KeyValue, Operation, Put, Txn, TxnResult
from common.schedules.schedule import Schedule
from common.verdicts import Verdict

_RECORD = 4
"""Where a refusal has the run key, after the reads of `Stored.look`."""
_NO_CHAIN = Chained()
_CLOCKS_MS: Final = 60_000
"""Further apart no two managers' clocks are that edit jobs."""


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
    """Plan times after the mark that have a run key all the same (the mark was set back by hand)."""
    chained: Chained = field(default_factory=Chained)

    @property
    def revision(self) -> int:
        """The job's revision, 0 where there is none."""
        return self.job.mod_revision if self.job else 0

    @property
    def generation(self) -> int:
        """Of its signature, 0 where it has none."""
        return 0 if self.saved is None or self.saved.signature is None else self.saved.signature.generation

    def next_generation(self, now_ms: int) -> int:
        """Of what takes its place: also of a job of this name that has been deleted, whose mark is still there."""
        mark_ms = -1 if self.job is not None or self.mark_ms is None else self.mark_ms
        return max(now_ms, self.generation + 1, mark_ms + 1)

    def is_signed(self, seal: Seal) -> bool:
        """Whether a manager has signed it as it is."""
        if self.job is None or self.saved is None:
            return False
        return Signed.of(self.job.value).fault(seal.trust, self.name) is None

    def seal_of_derived(self, seal: Seal | None) -> Seal | None:
        """What an edit is signed with that keeps the most of what etcd holds: nothing, where that was not signed.

        Else pausing a job would sign whatever was put into etcd.
        """
        return seal if seal is not None and self.is_signed(seal) else None

    @property
    def labels(self) -> Mapping[str, str] | None:
        """The job's; None: there is none, or they cannot be read."""
        return None if self.saved is None else self.saved.spec.labels

    def planned(self, again: Again | None = None) -> PlannedJob | None:
        """The job as its fires are planned; None: there is none that can be read. ``again``: in place of its own."""
        if self.job is None or self.saved is None:
            return None
        return PlannedJob.of(self.saved, self.job, again)

    @classmethod
    def read(
        cls, name: str, job: KeyValue | None, mark: KeyValue | None, *, taken: frozenset[int] = frozenset(),
        chained: Chained = _NO_CHAIN,
    ) -> Self:  # fmt: skip
        """Read both values; what does not parse is set aside, and disturbs nothing."""
        saved, problem = None, None
        if job is not None:
            try:
                saved = SavedJob.from_json(job.value, name=name)
            except InvalidInputError as error:
                problem = str(error)
        return cls(
            name=name, job=job, mark=mark, saved=saved, problem=problem, mark_ms=read_mark(mark), taken=taken,
            chained=chained,
        )  # fmt: skip

    @classmethod
    def look(cls, keys: Keys, name: str) -> list[Operation]:
        """The reads whose answer `found` takes."""
        return [Get(keys.job(name)), Get(keys.mark(name)), GetKey(keys.lock(name)), Get(keys.chain(name))]

    @classmethod
    def found(cls, name: str, answer: TxnResult, *, taken: frozenset[int] = frozenset()) -> Self:
        """What an answer that begins with these reads says."""
        chained = Chained(lock=answer.key(2), link=answer.one(3))
        return cls.read(name, answer.one(0), answer.one(1), taken=taken, chained=chained)


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
    txn: Txn

    @property
    def warnings(self) -> tuple[str, ...]:
        """In words, which fires it takes away."""
        record = self.record
        if record is None or record.status is not Verdict.SKIPPED:
            return ()
        if record.count is None or record.range_end_ms is None:
            return (f"skips the fire of {iso(record.plan_ms)}, which was due and has not started",)
        least = "at least " if record.count_is_minimum else ""
        span = f"from {iso(record.plan_ms)} to {iso(record.range_end_ms)}"
        return (f"skips {least}{record.count} fires {span}, which were due and have not started",)

    def meanwhile(self, result: TxnResult) -> Stored:
        """What etcd holds instead, from the answer of a transaction whose compares failed."""
        taken = self.before.taken
        if self.record is not None and result.key(_RECORD) is not None:
            taken |= {self.record.plan_ms}
        return Stored.found(self.before.name, result, taken=taken)

    def earlier(self, refusal: TxnResult) -> Earlier:
        """What became of an earlier sending of this edit."""
        there, before = self.meanwhile(refusal), self.before
        if self.is_carried_out_in(there):
            return there.revision if self.value is not None else 0
        if before.job is None or there.job is None or there.job.create_revision != before.job.create_revision:
            return Fate.UNKNOWN
        edits = there.job.version - before.job.version
        if edits > 1 and self.value is not None:
            return Fate.UNKNOWN  # the last is another writer's; one of those before it may have been this one
        is_open = edits == 0 and there.mark_ms == before.mark_ms  # the lock may come free, or a run key go
        return Fate.UNKNOWN if is_open else Fate.NEVER

    def is_carried_out_in(self, there: Stored) -> bool:
        """Whether an earlier sending of this edit, whose answer was lost, shows in what is there now."""
        if self.value is None:
            # Gone, or made again since: it was deleted while we waited, and one deletion is as good as another.
            return there.job is None or (
                self.before.job is not None and there.job.create_revision != self.before.job.create_revision
            )
        return there.job is not None and there.job.value == self.value and there.revision > self.before.revision


def plan_save(
    keys: Keys, before: Stored, spec: JobSpec, *, now_ms: int, by: str, change: EditKind = EditKind.SAVE,
    members: Sequence[Member] = (), seal: Seal | None = None, is_derived: bool = False,
) -> Edit | None:  # fmt: skip
    """The edit that saves ``spec``; None where the very same spec is there already: nothing is written then.

    ``members``, here and below: the live workers; none: they are not known. Where none of them could take the fires
    that the edit decides, the record says why. ``seal``, here and below: signs what is saved. ``is_derived``: the spec
    is what etcd holds, changed here and there, so it is signed only where that was.
    """
    is_same = before.saved is not None and before.saved.spec == spec and before.mark_ms is not None
    if is_same and (seal is None or is_derived or before.is_signed(seal)):
        return None
    pause = None
    if not spec.enabled:
        # An edit of a paused job does not pause it anew: since when, by whom and why it is paused stays true.
        pause = (before.saved.pause if before.saved else None) or Pause(since_ms=now_ms, by=by)
    seal = seal if not is_derived else before.seal_of_derived(seal)
    return _save(keys, before, spec, pause, change, now_ms=now_ms, by=by, members=members, seal=seal)


def plan_pause(
    keys: Keys, before: Stored, *, reason: str | None, now_ms: int, by: str, members: Sequence[Member] = (),
    seal: Seal | None = None,
) -> Edit | None:  # fmt: skip
    """The edit that pauses the job; None where it is paused already: since when, by whom and why stays true.

    NotFoundError, ConflictError: there is no job to pause, or none that can be read.
    """
    saved = readable(before)
    if not saved.spec.enabled:
        return None
    pause, paused = Pause(since_ms=now_ms, by=by, reason=reason), replace(saved.spec, enabled=False)
    seal = before.seal_of_derived(seal)
    return _save(keys, before, paused, pause, EditKind.PAUSE, now_ms=now_ms, by=by, members=members, seal=seal)


def plan_resume(
    keys: Keys, before: Stored, *, now_ms: int, by: str, seal: Seal | None = None
) -> Edit | None:  # fmt: skip
    """The edit that lets the job fire again, from now on; None where it is not paused. Errors as for a pause."""
    saved = readable(before)
    if saved.spec.enabled:
        return None
    resumed, seal = replace(saved.spec, enabled=True), before.seal_of_derived(seal)
    return _save(keys, before, resumed, None, EditKind.RESUME, now_ms=now_ms, by=by, seal=seal)


def plan_sealing(keys: Keys, before: Stored, *, now_ms: int, seal: Seal) -> Edit | None:
    """The edit that signs the job as it is, and changes nothing else: neither its mark, nor its fires. Errors as for a
    pause; None: there is no mark, so a save has to do it."""
    saved = readable(before)
    if before.job is None or before.mark_ms is None:
        return None
    value, job = saved.sealed(seal, before.next_generation(now_ms)).to_json(), before.job
    return Edit(
        before=before, value=value, mark_ms=before.mark_ms, record=None, record_key=None,
        txn=Txn(
            [mod_revision_is(job.key, job.mod_revision)],
            [Put(job.key, value), Put(keys.seen(Watched.JOBS), before.name.encode())],
            Stored.look(keys, before.name),
        ),
    )  # fmt: skip


def plan_delete(
    keys: Keys, before: Stored, *, now_ms: int, by: str, members: Sequence[Member] = ()
) -> Edit | None:  # fmt: skip
    """The edit that deletes the job and keeps its mark; None where there is no job."""
    if before.job is None:
        return None
    # One that is made again under this name, by a manager whose clock is behind, is newer all the same.
    mark_ms = max(_new_mark(before, None, now_ms), min(before.generation, now_ms + _CLOCKS_MS))
    return _edit(keys, before, None, None, mark_ms, "deleted", EditKind.DELETE, now_ms=now_ms, by=by, members=members)


def readable(before: Stored) -> SavedJob:
    """The job as it is; NotFoundError, ConflictError: there is none, or none that can be read, or all of it."""
    if before.job is None:
        raise NotFoundError(f"there is no job {before.name}")
    _refuse_newer(before)
    if before.saved is None:
        raise ConflictError(f"job {before.name!r} cannot be read ({before.problem}): save it anew, or delete it")
    return before.saved


def _refuse_newer(before: Stored) -> None:
    """An edit writes the job anew, and would take away the fields that this version does not know."""
    if before.job is not None and (newer := newer_fields(before.job.value)) is not None:
        remedy = "edit it through a manager of that version or a later one, or delete it"
        raise ConflictError(f"job {before.name!r} was not changed: {newer.words}; {remedy}")


def _save(
    keys: Keys, before: Stored, spec: JobSpec, pause: Pause | None, change: EditKind, *, now_ms: int, by: str,
    members: Sequence[Member] = (), seal: Seal | None = None,
) -> Edit:  # fmt: skip
    _refuse_newer(before)
    mark_ms = _new_mark(before, spec, now_ms)
    again = _still_again(before.saved, spec, now_ms)
    saved = SavedJob(spec=spec, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by, pause=pause, again=again)
    if seal is not None:
        saved = saved.sealed(seal, before.next_generation(now_ms))
    reason = "edited" if spec.enabled else "paused"
    return _edit(keys, before, spec, saved.to_json(), mark_ms, reason, change, now_ms=now_ms, by=by, members=members)


def _edit(
    keys: Keys, before: Stored, spec: JobSpec | None, value: bytes | None, mark_ms: int, reason: str, change: EditKind,
    *, now_ms: int, by: str, members: Sequence[Member],
) -> Edit:  # fmt: skip
    job, mark = keys.job(before.name), keys.mark(before.name)
    reason += _had_waited(before, members)
    record = _skipped(before, spec, mark_ms, reason, now_ms=now_ms, by=by)
    chain = edit_chain(keys, before.job, before.saved, before.chained, spec, now_ms=now_ms, name=before.name)
    compares: list[Compare] = [
        mod_revision_is(job, before.revision),
        absent(mark) if before.mark is None else value_is(mark, before.mark.value),
        *chain.compares,
    ]
    then: list[Operation] = [
        Delete(job) if value is None else Put(job, value),
        *([] if mark_ms == before.mark_ms else [Put(mark, encode_mark(mark_ms))]),
        Put(keys.seen(Watched.JOBS), before.name.encode()),
        *former(keys, before, change, now_ms=now_ms, by=by),
        *chain.then,
    ]
    otherwise = Stored.look(keys, before.name)
    record_key = None if record is None else keys.run(record.run_id)
    if record is not None and record_key is not None:
        compares.append(absent(record_key))
        then.append(Put(record_key, final_entry(record).to_json()))
        otherwise.append(GetKey(record_key))
    return Edit(
        before=before, value=value, mark_ms=mark_ms, record=record, record_key=record_key,
        txn=Txn(compares, then, otherwise),
    )  # fmt: skip


def former(keys: Keys, before: Stored, change: EditKind, *, now_ms: int, by: str) -> list[Operation]:
    """The spec that is replaced stays readable; one that was none of ours does not."""
    saved = before.saved
    if saved is None:
        return []
    spec, beside = saved.spec.to_stored(), ""
    if saved.signature is not None and before.job is not None:
        signed = Signed.of(before.job.value)
        spec, beside = dict(signed.spec), signed.beside
    version = JobVersion(
        job=before.name, revision=before.revision, spec=spec, saved_ms=saved.saved_ms,
        saved_by=saved.saved_by, ended_ms=now_ms, ended_by=by, ended_with=change,
        paused_reason=saved.pause.reason if saved.pause is not None else None, signature=saved.signature, beside=beside,
    )  # fmt: skip
    return [Put(keys.version(before.name, before.revision), version.to_json())]


def _kept_mark(before: Stored, spec: JobSpec | None) -> int | None:
    """The mark that stays, where the spec plans the fires of the one before; None: it starts from now."""
    saved, mark_ms = before.saved, before.mark_ms
    if saved is None or mark_ms is None or spec is None or not spec.fires_alike(saved.spec):
        return None
    return max(mark_ms, saved.anchor_ms)  # the anchor is ahead where the mark was set back by hand


def _still_again(saved: SavedJob | None, spec: JobSpec, now_ms: int) -> Again | None:
    """What an unblocking lets run stays so until its time; of another schedule's fires none was started."""
    again = None if saved is None else saved.again
    if saved is None or again is None or again.until_ms <= now_ms:
        return None
    return again if spec.schedule == saved.spec.schedule else replace(again, started={})


def _new_mark(before: Stored, spec: JobSpec | None, now_ms: int) -> int:
    """Now, or just before the one instant of an `at` that is past: it is within its grace, and still to fire."""
    if (kept_ms := _kept_mark(before, spec)) is not None:
        return kept_ms
    new_ms = now_ms if (at_ms := _late_ms(spec, now_ms)) is None else at_ms - 1
    return max(before.mark_ms or 0, new_ms)


def _late_ms(spec: JobSpec | None, now_ms: int) -> int | None:
    at = spec.at if spec is not None and spec.enabled else None
    return at.ms if at is not None and at.ms <= now_ms else None


def _skipped(
    before: Stored, spec: JobSpec | None, mark_ms: int, reason: str, *, now_ms: int, by: str
) -> RunRecord | None:
    """One record for the enabled old spec's planned fires until now, or the new mark; None where there are none."""
    saved = before.saved
    # Without a mark nothing says which fires were decided: the steward starts such a job from now, and so does a save.
    if saved is None or not saved.spec.enabled or before.mark_ms is None or _kept_mark(before, spec) is not None:
        return None
    if saved.spec.broadcast:
        return None  # each worker that it fires on records the end of its own sequence
    from_ms, until_ms = max(before.mark_ms, saved.anchor_ms, *before.taken), max(mark_ms, now_ms)
    fires = undecided(saved.schedule, mark_ms=from_ms, until_ms=until_ms)
    if fires is not None and (still_to_fire_ms := _late_ms(spec, now_ms)) is not None:
        fires = _without(fires, saved.schedule, still_to_fire_ms)
    planned = before.planned()
    if fires is None or planned is None:
        return None
    return fire_record(planned, fires=fires, status=Verdict.SKIPPED, reason=reason, now_ms=now_ms, by=by)


def _had_waited(before: Stored, members: Sequence[Member]) -> str:
    """What held up the old spec's fires until now, where none of these workers could take them."""
    if before.saved is None or not members:
        return ""
    spec = before.saved.spec
    if any(one.accepts and is_eligible(spec, one.labels, one.slots) for one in members):
        return ""
    return f": until then {why_no_worker(spec, members)}"


def _without(fires: FireRange, schedule: Schedule, ms: int) -> FireRange | None:
    """The fires but for the one at this instant, where there is one."""
    before_ms, after_ms = schedule.last_before_ms(ms), schedule.next_after_ms(ms)
    if not fires.lo_ms <= ms <= fires.hi_ms or schedule.last_before_ms(ms + 1) != ms:
        return fires
    if fires.lo_ms == fires.hi_ms:
        return None
    lo_ms = after_ms if fires.lo_ms == ms and after_ms is not None else fires.lo_ms
    hi_ms = before_ms if fires.hi_ms == ms and before_ms is not None else fires.hi_ms
    return structs.replace(fires, lo_ms=lo_ms, hi_ms=hi_ms, count=fires.count - 1)


def remove_odd(keys: Keys, before: Stored, *, now_ms: int, by: str) -> Edit:
    """The edit that deletes a key that never was a job, and nothing but that."""
    job = keys.job(before.name)
    return Edit(
        before=before, value=None, mark_ms=now_ms, record=None, record_key=None,
        txn=Txn(
            [mod_revision_is(job, before.revision)],
            [Delete(job), Put(keys.seen(Watched.JOBS), by.encode())],
            Stored.look(keys, before.name),
        ),
    )  # fmt: skip


ANY_REVISION: Final = -1
"""In place of a revision that a job must be at: it must exist, at whatever revision (RFC 9110, `If-Match: *`)."""


class StaleRevisionError(StaleError):
    """The job has changed since the revision in If-Match. Read it again and repeat the change."""

    def __init__(self, message: str, *, there: Stored) -> None:
        self.there = there
        """What it is now."""
        super().__init__(message)


class TooManyJobsError(ConflictError):
    """There are as many jobs as there may be (maxJobs). Delete some, or raise it."""
