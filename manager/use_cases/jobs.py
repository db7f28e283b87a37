"""The use cases that change a job: save, pause, resume, delete. One etcd transaction decides each.

    read what is there -> plan the edit -> settle it
                            ^                |-- carried out               done
                            +----------------|-- certainly not             overtaken: plan on what is there
                            +----------------'-- in doubt, and overtaken   the same; but the first edit may have been
                                                                           carried out, whatever comes of that

Everything ends within `patience_s`, with an answer that has what is known.

The caller's rights are checked on the job that was read, at the revision that the transaction compares: a change of the
job's labels meanwhile makes the edit be judged anew. A job that the caller may not know of is as one that there is not,
but for its name: a save reports that it is taken.

A key under ``jobs/`` that no job can be called by, put there with another tool, is listed, and can be deleted. It may
have any bytes for a name: with spaces, slashes, or none that are UTF-8 (those stand in the text as Python's
``surrogateescape`` has them). Nothing but the key itself is touched: a name with a ``~`` would be that of a worker's
own sequence of another job, and its mark that one's.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol
from weakref import WeakValueDictionary

from common.access.masks import refuse_masks
from common.access.rights import Rights, Role
from common.clock import Clock
from common.errors import EtcdError, InvalidInputError, NotFoundError, OvertakenError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.settle import Patience, Settled, UnsettledError, settle
from common.instants import iso
from common.jobs.job import JobSpec
from common.jobs.reader import check_name
from common.jobs.values import NEVER
from common.notices.channels import Channel
from common.process import failpoints
from common.protocol.edits import (
    ANY_REVISION,
    Edit,
    StaleRevisionError,
    Stored,
    TooManyJobsError,
    plan_delete,
    plan_pause,
    plan_resume,
    plan_save,
    readable,
    remove_odd,
)
from common.protocol.keys import Keys
from common.protocol.member import Member
from common.protocol.placement import is_eligible
from common.protocol.saved_job import EditKind, Signed
from common.protocol.signatures import Seal
from common.protocol.txn import Txn
from common.timings import Timings
from manager.background.housekeeping import Delivery
from manager.use_cases.channels import NamedChannels
from manager.views.advice import save_warnings, schedule_problems
from manager.watch.eligibility import Eligibility

_log = logging.getLogger(__name__)

_COMPETING_S = 0.03
_UNSIGNED = (
    "is not signed, for what etcd held before this change was not: workers that require signatures do not run it; look "
    "at it and save it as a whole, or use `etcron signing sign-all`"
)


class RefuseWrongClock(Protocol):
    """Asked before an edit is dated."""

    async def __call__(self, decided_ms: int | None = None) -> None:
        """ClockOffError where it may not be; ``decided_ms``: the newest fire of the job that is decided."""


async def trust_clock(decided_ms: int | None = None) -> None:
    """Where there is nothing to compare the clock with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What a save did."""

    before: Stored
    """What it replaced."""
    spec: JobSpec
    """What it is now."""
    revision: int
    """The job's revision now."""
    changed: bool
    """False: the same spec was there already, and nothing was written."""
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """What a pause, a resume, an unblocking or a delete did."""

    before: Stored
    revision: int
    """Of the write; of a delete whose answer was lost it is not known, 0."""
    changed: bool
    """False: it was so already, and nothing was written."""
    edit: Edit | None
    """What was carried out."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    before: Stored
    revision: int
    edit: Edit | None


@dataclass(frozen=True, slots=True)
class _Judged:
    """What to do with a job, and what of it the caller may know."""

    plan: Callable[[Stored], Edit | None]
    judge: Callable[[Stored], Stored] = lambda stored: stored  # the plan of a save looks by itself
    """May raise NotFoundError, ForbiddenError."""


class JobService:
    """Saves, pauses, resumes and deletes; any number of managers may do so at once."""

    def __init__(
        self,
        etcd: EtcdClient,
        keys: Keys,
        *,
        clock: Clock,
        timings: Timings,
        deliver: Callable[[Delivery], None],
        on_edited: Callable[[str], None] = lambda _job: None,
        workers: Callable[[], Sequence[Member]] = tuple,
        jobs: Callable[[], int] = int,
        max_jobs: int = 1_000_000,
        patience_s: float = 4.0,
        refuse_wrong_clock: RefuseWrongClock = trust_clock,
        seal: Seal | None = None,
        channels: NamedChannels | None = None,
    ) -> None:
        """``seal``: signs what is saved, for workers that believe nothing else. ``channels``: those that jobs may name.

        ``on_edited``: an edit of this job was carried out, and has left the former spec behind. ``workers``: the
        live ones. ``jobs``: how many there are, as far as is known; with ``max_jobs`` no other is made.

        ``refuse_wrong_clock``: raises ClockOffError where an edit may not be dated by this clock.
        """
        self._refuse_wrong_clock = refuse_wrong_clock
        self.seal = seal
        """None: nothing is signed here."""
        self._channels = channels
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._timings = timings
        self._deliver = deliver
        self._on_edited = on_edited
        self._workers = workers
        self._jobs = jobs
        self._max_jobs = max_jobs
        self._patience_s = patience_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By job, while one is edited here: edits through one manager compete with those through others alone."""

    async def save(
        self, spec: JobSpec, *, by: str, rights: Rights, if_match: int | None = None, change: EditKind = EditKind.SAVE
    ) -> Saved:
        """Save the job under its name; once this returns, no fire is claimed under the spec that it replaced.

        InvalidInputError: it does not fit its surroundings (never fires again, timings). StaleRevisionError: it is not
        at the revision `if_match` (0: there must be none). ForbiddenError: the caller may not save it, or not in place
        of what has its name. TooManyJobsError: it would be one more than there may be.
        OvertakenError: it changed each time before.
        UnavailableError: its text says whether the job may have been saved.
        """
        self._refuse_unfit(spec)
        channels = await self._known_channels(spec)

        def plan(stored: Stored) -> Edit | None:
            rights.check_save(spec, stored.labels, is_new=stored.job is None)
            self._check_channels(spec, stored, rights, channels)
            _refuse_masks(spec, stored)
            _refuse_stale(stored, if_match)
            # By what is watched, so at no cost; several at once may pass it by as many.
            if stored.job is None and self._jobs() >= self._max_jobs:
                raise TooManyJobsError(
                    f"job {stored.name!r} was not made: there are {self._jobs():,} jobs, and maxJobs is "
                    f"{self._max_jobs:,}; delete some, or raise it on each manager"
                )
            return plan_save(
                self._keys, stored, spec, now_ms=self._clock.wall_ms(), by=by, change=change, members=self._workers(),
                seal=self.seal,
            )  # fmt: skip

        return self._saved(spec, await self._carry_out(spec.name, _Judged(plan), "saved"), by)

    async def change(
        self, name: str, merged: Callable[[JobSpec], JobSpec], *, by: str, rights: Rights, if_match: int | None = None
    ) -> Saved:
        """Save what becomes of the job as it is, whatever else changes it meanwhile.

        NotFoundError: there is none. Else as `save`.
        """
        check_name(name)
        channels = await self._known_channels()
        specs: list[JobSpec] = []

        def plan(stored: Stored) -> Edit | None:
            _refuse_stale(stored, if_match)
            spec = merged(readable(stored).spec)
            rights.check_save(spec, stored.labels, is_new=False)
            self._check_channels(spec, stored, rights, channels)
            _refuse_masks(spec, stored)
            self._refuse_unfit(spec)
            specs.append(spec)
            return plan_save(
                self._keys, stored, spec, now_ms=self._clock.wall_ms(), by=by, members=self._workers(), seal=self.seal,
                is_derived=True,
            )  # fmt: skip

        outcome = await self._carry_out(name, _judged(plan, rights, Role.EDITOR), "saved")
        return self._saved(specs[-1], outcome, by)

    def _saved(self, spec: JobSpec, outcome: _Outcome, by: str) -> Saved:
        if outcome.edit is not None:
            self._say("job.saved", spec.name, outcome, by)
        mark_ms = outcome.edit.mark_ms if outcome.edit else outcome.before.mark_ms
        return Saved(
            before=outcome.before,
            spec=spec,
            revision=outcome.revision,
            changed=outcome.edit is not None,
            warnings=self._warnings(spec, mark_ms, outcome.before.problem)
            + _warnings_of(outcome.edit)
            + self._unsigned(outcome),
        )

    def _unsigned(self, outcome: _Outcome) -> tuple[str, ...]:
        """That a change of an unsigned job is not signed either."""
        value = None if outcome.edit is None else outcome.edit.value
        if self.seal is None or value is None or Signed.of(value).signature is not None:
            return ()
        return (_UNSIGNED,)

    async def check(self, spec: JobSpec, *, rights: Rights) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The warnings that a save of this spec would give, and which fires it would take away.

        The latter is not known without etcd. InvalidInputError where the spec would be refused for itself,
        ForbiddenError where the caller may not save it.
        """
        self._refuse_unfit(spec)
        rights.check_spec(Role.EDITOR, spec)
        warnings = self._warnings(spec)
        try:
            channels, stored = await self._known_channels(spec), await self._read(spec.name)
        except (EtcdError, UnavailableError):
            return warnings, ()
        rights.check_save(spec, stored.labels, is_new=stored.job is None)
        self._check_channels(spec, stored, rights, channels)
        _refuse_masks(spec, stored)
        return warnings, _warnings_of(plan_save(self._keys, stored, spec, now_ms=self._clock.wall_ms(), by=""))

    async def pause(self, name: str, *, by: str, rights: Rights, reason: str | None = None) -> Changed:
        """The job fires no more, and shows since when, by whom, why; what runs goes on. NotFoundError: no such job."""
        check_name(name)

        def plan(stored: Stored) -> Edit | None:
            return plan_pause(
                self._keys, stored, reason=reason, now_ms=self._clock.wall_ms(), by=by, members=self._workers(),
                seal=self.seal,
            )  # fmt: skip

        return await self.switch("paused", name, plan, by, rights=rights, role=Role.OPERATOR)

    async def resume(self, name: str, *, by: str, rights: Rights) -> Changed:
        """The job fires again from now on; nothing is made up for.

        ForbiddenError also where the caller has no right to its user or its workers: it was paused, and runs again by
        the one who resumes it. An `at` that is past by less than its grace fires at once, as when it is saved.
        InvalidInputError: it would never fire again.
        """
        check_name(name)

        def plan(stored: Stored) -> Edit | None:
            now_ms = self._clock.wall_ms()
            edit = plan_resume(self._keys, stored, now_ms=now_ms, by=by, seal=self.seal)
            if edit is not None and stored.saved is not None:
                rights.check_spec(Role.OPERATOR, stored.saved.spec)
                self._refuse_unfit(replace(stored.saved.spec, enabled=True))
            return edit

        done = await self.switch("resumed", name, plan, by, rights=rights, role=Role.OPERATOR)
        if done.edit is None or done.before.saved is None:
            return done
        resumed = replace(done.before.saved.spec, enabled=True)
        return replace(done, warnings=self._warnings(resumed, done.edit.mark_ms))

    async def delete(self, name: str, *, by: str, rights: Rights, if_match: int | None = None) -> Changed:
        """Delete the job; what runs goes on. StaleRevisionError: it is not at the revision ``if_match``.

        Also a key that no job can be called by; InvalidInputError: there is none of that name either.
        """
        _check_encodable(name)
        channels = await self._known_channels()

        def plan(stored: Stored) -> Edit | None:
            if self._channels is not None and stored.job is not None:
                self._channels.check_made_or_deleted(name, rights, channels)
            _refuse_stale(stored, if_match)
            now_ms = self._clock.wall_ms()
            if _is_odd(name):
                return _plan_removal(self._keys, stored, now_ms=now_ms, by=by)
            return plan_delete(self._keys, stored, now_ms=now_ms, by=by, members=self._workers())

        return await self.switch("deleted", name, plan, by, rights=rights, role=Role.EDITOR)

    async def check_there(self, name: str, role: Role, *, rights: Rights) -> None:
        """Return where there is such a job, and the caller has this role on it; NotFoundError, ForbiddenError."""
        stored = await self._read(name)
        if stored.job is None:
            raise NotFoundError(f"there is no job {name}")
        rights.check(role, stored.labels, f"job {name}")

    # How an edit is carried out

    async def switch(
        self, done: str, name: str, plan: Callable[[Stored], Edit | None], by: str, *, rights: Rights, role: Role,
        **fields: str | None,
    ) -> Changed:  # fmt: skip
        """Carry out what is planned on the job as it is, in the end; the log says so, with these ``fields``.

        ``role``: what the caller needs on the job.
        """
        outcome = await self._carry_out(name, _judged(plan, rights, role), done)
        if outcome.edit is not None:
            self._say(f"job.{done}", name, outcome, by, **fields)
        return Changed(
            before=outcome.before, revision=outcome.revision, changed=outcome.edit is not None, edit=outcome.edit,
            warnings=_warnings_of(outcome.edit),
        )  # fmt: skip

    def _warnings(self, spec: JobSpec, mark_ms: int | None = None, problem: str | None = None) -> tuple[str, ...]:
        schedule = save_warnings(spec, now_ms=self._clock.wall_ms(), mark_ms=mark_ms, problem=problem)
        return schedule + _placing_warnings(spec, self._workers())

    async def _known_channels(self, spec: JobSpec | None = None) -> Mapping[str, Channel]:
        return {} if self._channels is None else await self._channels.known(spec)

    def _check_channels(
        self, spec: JobSpec, stored: Stored, rights: Rights, channels: Mapping[str, Channel]
    ) -> None:  # fmt: skip
        if self._channels is not None:
            self._channels.check(spec, stored.labels, rights, channels, is_new=stored.job is None)

    def _refuse_unfit(self, spec: JobSpec) -> None:
        lost_after_s = spec.lost_after_s if spec.lost_after_s is not None else self._timings.lost_after_s
        problems = self._timings.job_problems(
            lost_after_s=None if lost_after_s == NEVER else lost_after_s,
            kill_grace_s=spec.kill_grace_s,
            misfire_grace_s=spec.misfire.grace_s,
        )
        problems += schedule_problems(spec, now_ms=self._clock.wall_ms())
        if problems:
            raise InvalidInputError(problems)

    async def _carry_out(self, name: str, plan: _Judged, done: str) -> _Outcome:
        turn = self._turns.setdefault(name, asyncio.Lock())
        try:
            async with asyncio.timeout(self._patience_s):
                await turn.acquire()
        except TimeoutError:
            raise OvertakenError(
                f"job {name!r} was not {done}, and nothing was changed: edits of it that came before had no answer of "
                "etcd yet; try again"
            ) from None
        doubts: list[UnsettledError] = []
        try:
            return await self._carry_out_now(name, plan, done, doubts)
        except Exception as error:
            if doubts and error is not doubts[-1]:
                raise doubts[-1] from error
            raise
        finally:
            turn.release()

    async def _carry_out_now(self, name: str, plan: _Judged, done: str, doubts: list[UnsettledError]) -> _Outcome:
        """``doubts``: is given those of edits that may have been carried out, though they are planned anew."""
        await self._refuse_wrong_clock()
        deadline = self._clock.monotonic() + self._patience_s
        stored = plan.judge(await self._read(name))
        tries = 0
        while (edit := plan.plan(stored)) is not None:
            # Once more: it may have jumped before the edit was dated by it.
            await self._refuse_wrong_clock(stored.mark_ms)
            try:
                settled = await self._send(edit, deadline, done)
            except UnsettledError as error:
                if error.refusal is None:
                    raise
                doubts.append(error)
                refusal = error.refusal
            else:
                if settled.done:
                    return _Outcome(before=stored, revision=settled.revision, edit=edit)
                refusal = settled.answer
            stored, tries = plan.judge(edit.meanwhile(refusal)), tries + 1
            if self._clock.monotonic() > deadline:
                raise OvertakenError(
                    f"job {name!r} was not {done}, and nothing was changed: it or its fires changed {tries} times "
                    "meanwhile, each time before etcd had answered; try again"
                )
            # Short however often: each round carries out one of those who compete, so waiting long only loses rounds.
            await asyncio.sleep(random.uniform(0, _COMPETING_S))
        if doubts:
            raise doubts[-1]
        return _Outcome(before=stored, revision=stored.revision, edit=None)

    async def _read(self, name: str) -> Stored:
        return Stored.found(name, await self._etcd.txn(Txn((), Stored.look(self._keys, name))))

    async def _send(self, edit: Edit, deadline: float, done: str) -> Settled:
        name = edit.before.name

        def in_doubt(error: Exception) -> str:
            return (
                f"job {name!r} may or may not have been {done}: etcd took it and gave no answer. "
                f"Look at the job before you try again. ({error})"
            )

        def note(error: Exception) -> None:
            extra = {"action": "edit.in_doubt", "job": name, "error": str(error)}
            _log.warning("an edit of %s is in doubt: it is settled", name, extra=extra)

        patience = Patience.until(deadline, self._clock, in_doubt, note)
        settled = await settle(self._etcd, self._clock, edit.txn, patience, edit.earlier)
        if failpoints.armed and settled.answer.succeeded:
            failpoints.hit("after_commit")
        if settled.done:
            self._on_edited(name)
        # The run key was put at the same revision; after a delete that may not be known: then the steward delivers.
        if settled.revision and edit.record is not None and edit.record_key is not None:
            self._deliver(Delivery(record=edit.record, key=edit.record_key, revision=settled.revision))
        return settled

    def _say(self, action: str, name: str, outcome: _Outcome, by: str, **fields: str | None) -> None:
        assert outcome.edit is not None
        mark = iso(outcome.edit.mark_ms)
        extra = {"action": action, "job": name, "by": by, "revision": outcome.revision, "mark": mark, **fields}
        _log.info("%s: %s by %s", action, name, by, extra=extra)


def _judged(plan: Callable[[Stored], Edit | None], rights: Rights, role: Role) -> _Judged:
    """A plan for a job that the caller may know of; they have to have this role on it."""

    def judge(stored: Stored) -> Stored:
        seen = as_seen(stored, rights)
        if seen.job is not None:
            rights.check(role, seen.labels, f"job {seen.name}")
        return seen

    return _Judged(plan, judge)


def as_seen(stored: Stored, rights: Rights) -> Stored:
    """What a caller may know of it: of a job that is hidden from them as much as of one that there is not."""
    if stored.job is None or rights.sees(stored.labels):
        return stored
    return Stored(name=stored.name, job=None, mark=None)


def _refuse_masks(spec: JobSpec, stored: Stored) -> None:
    refuse_masks(spec.env, {} if stored.saved is None else stored.saved.spec.env)


def _warnings_of(edit: Edit | None) -> tuple[str, ...]:
    return () if edit is None else edit.warnings


def _refuse_stale(stored: Stored, if_match: int | None) -> None:
    if if_match is None or if_match == stored.revision or (if_match == ANY_REVISION and stored.revision):
        return
    there = f"is at revision {stored.revision}" if stored.job else "does not exist"
    wanted = "and was to be there" if if_match == ANY_REVISION else f"not at {if_match}"
    wanted = wanted if if_match else "and was to be made"
    message = f"job {stored.name!r} {there}, {wanted}; read it again and repeat the change"
    raise StaleRevisionError(message, there=stored)


def _is_odd(name: str) -> bool:
    """Whether no job can have this name."""
    try:
        check_name(name)
    except InvalidInputError:
        return True
    return False


def _check_encodable(name: str) -> None:
    """InvalidInputError where the text stands for no bytes at all, so that no key can have it for a name."""
    try:
        name.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        check_name(name)


def _plan_removal(keys: Keys, before: Stored, *, now_ms: int, by: str) -> Edit:
    """The edit that deletes the key, which never was a job. InvalidInputError: there is no such key."""
    if before.job is None:
        check_name(before.name)
    return remove_odd(keys, before, now_ms=now_ms, by=by)


def _placing_warnings(spec: JobSpec, members: Sequence[Member]) -> tuple[str, ...]:
    """A warning where workers are live and none of them has the labels and the slots that the job asks for."""
    if not members or any(is_eligible(spec, member.labels, member.slots) for member in members):
        return ()
    reason = Eligibility(spec, members).takers("").reason
    return (f"it cannot run on any worker that is live now: {reason}",)
