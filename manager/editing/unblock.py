"""The way back from a mark that lies ahead: somebody's clock was wrong, and the job would not fire until then.

    if   some mark of the job, or its anchor, lies ahead by more than skew and claimLead        else ConflictError
    and  nobody's beat is ahead of this manager's clock, and the kernel calls that synchronised (unless forced)
    and  the log store tells what was started, and decided last                                 else UnavailableError
    then one transaction that compares the job's revision and the old marks:
         marks/J = now,  jobs/J = the same spec with anchorMs = now and `again`,  seen/jobs = J,  versions/J/<revision>
         marks/J~<worker> = now          those of a broadcast job's own sequences that lie ahead
         requests/J/next/1               of an `after` job: anew, for its time was told by the same clock
         runs/J/<lo>/1 = missed          the fires since the newest that is known to be decided, one record

It is the one edit with which a mark goes back. The job's new revision makes every worker read the mark afresh, and
refuses what was planned with the old one. Fires up to the old mark that were started (or are asked for) are left out of
the schedule; the others run at their times, under the attempt number in ``again``: older records are not in their way.
What was started is looked for before the transaction, at a revision: job or marks newer than that are looked at anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from common.clock import Clock
from common.errors import ConflictError, UnavailableError
from common.etcd import EtcdClient
from common.instants import iso
from common.jobs.reader import check_name
from common.protocol.job_version import Change
from common.protocol.keys import Keys, Watched, encode_mark, read_mark, sequence_name
from common.protocol.member import Beat
from common.protocol.planner import undecided
from common.protocol.run import RunRecord, Verdict, final_entry
from common.protocol.saved_job import Again, SavedJob
from common.protocol.txn import (
    Compare,
    Get,
    GetKey,
    KeyValue,
    Operation,
    Put,
    TxnResult,
    absent,
    mod_revision_is,
    value_is,
)
from common.schedules.leaving_out import spans_of
from manager.editing.chain_edits import Chained, edit_chain
from manager.editing.edits import Edit, Stored, former, passed_record, readable
from manager.editing.inventory import Inventory
from manager.editing.service import Changed, JobService
from manager.editing.started import Records, Started, look_for_started

_SPANS: Final = 500
"""Of started fires that follow each other, in the job's value."""
_UNSENT: Final = 1_000
"""More records than these waiting at a worker may be of runs that etcd knows no more."""
_SKEW_MS: Final = 60_000
"""A clock that is so far ahead of this manager's does not fit it: who is wrong cannot be told here."""
_AT_ONCE: Final = 50
"""Own marks in one transaction; of more, the rest go into the next."""

Decided: TypeAlias = tuple[int | None, str]
"""The newest decided fire: its plan time, 0 where there is none, and ``""``; or None, and why nothing tells it."""


class Unblocking:
    """Sets marks back; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, service: JobService, inventory: Inventory, *,
        last_decided: Callable[[str, int], Awaitable[Decided]], records: Records, ahead_ms: int, clock: Clock,
    ) -> None:  # fmt: skip
        """``last_decided``: of this job, until this time, the newest fire with a record or a run. UnavailableError: it
        cannot be told now.

        ``ahead_ms``: a mark that is further ahead was put there by a wrong clock.
        """
        self._records = records
        self._ahead_ms = ahead_ms
        self._last_decided = last_decided
        self._etcd = etcd
        self._keys = keys
        self._service = service
        self._inventory = inventory
        self._clock = clock

    async def unblock(self, name: str, *, by: str, reason: str | None = None, force: bool = False) -> Changed:
        """Let the job fire again from now on; what did not fire until now is recorded as missed, where that is known.

        ``force``: also by a clock that nobody vouches for. ConflictError: nothing blocks it, or the clock may be wrong.
        NotFoundError: there is no such job. UnavailableError: the log store does not tell what was started or decided.
        """
        check_name(name)
        self._refuse_clock(force=force)
        _refuse_beats(await self._inventory.beats(), now_ms=self._clock.wall_ms())
        warnings: tuple[str, ...] = ()
        while True:
            own = OwnMarks(await self._own_marks(name), ahead_ms=self._ahead_ms)
            decided_ms, why = await self._last_decided(name, self._clock.wall_ms())
            after_ms = self._clock.wall_ms()
            started = await look_for_started(self._etcd, self._keys, self._records, name, after_ms=after_ms)

            def plan(
                stored: Stored, own: OwnMarks = own, decided_ms: int | None = decided_ms, started: Started = started
            ) -> Edit:
                now_ms = self._clock.wall_ms()
                return plan_unblock(
                    self._keys,
                    stored,
                    own,
                    started,
                    decided_ms=decided_ms,
                    now_ms=now_ms,
                    ahead_ms=self._ahead_ms,
                    by=by,
                )

            try:
                done = await self._service.switch("unblocked", name, plan, by, reason=reason)
            except _MovedError:
                continue
            warnings = warnings or _what_became(done, why)
            if len(own.ahead_of(self._clock.wall_ms())) <= _AT_ONCE:
                return replace(done, warnings=warnings)

    def _refuse_clock(self, *, force: bool) -> None:
        if not force and not self._clock.is_synchronised():
            raise ConflictError(
                "nothing was changed: the kernel does not call this manager's clock synchronised (NTP), and by a wrong "
                "clock the mark would be wrong again; look at the time, then unblock with force"
            )

    async def _own_marks(self, name: str) -> list[KeyValue]:
        prefix = self._keys.mark(sequence_name(name, ""))
        return [kv async for page in self._etcd.read_prefix(prefix) for kv in page.kvs]


class OwnMarks:
    """The marks of a broadcast job's workers, as they were last read."""

    def __init__(self, marks: Iterable[KeyValue], *, ahead_ms: int) -> None:
        self._marks = {kv.key: kv for kv in marks}
        self._ahead_ms = ahead_ms

    def ahead_of(self, now_ms: int) -> list[KeyValue]:
        """Those that a wrong clock has put ahead."""
        return [kv for kv in self._marks.values() if (read_mark(kv) or 0) > now_ms + self._ahead_ms]

    def take(self, keys: Iterable[str], found: Iterable[KeyValue | None]) -> None:
        """What some of them are now."""
        for key, kv in zip(keys, found, strict=True):
            self._marks.pop(key, None)
            if kv is not None:
                self._marks[key] = kv


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unblock(Edit):
    own: OwnMarks
    own_keys: tuple[str, ...]

    def meanwhile(self, result: TxnResult) -> Stored:
        first = len(self.otherwise) - len(self.own_keys)
        self.own.take(self.own_keys, [result.one(first + index) for index in range(len(self.own_keys))])
        return Edit.meanwhile(self, result)


class _MovedError(Exception):
    """The job or its marks have changed since what was started was looked for."""


def plan_unblock(
    keys: Keys, before: Stored, own: OwnMarks, started: Started, *, decided_ms: int | None, now_ms: int, ahead_ms: int,
    by: str,
) -> Edit:  # fmt: skip
    """The edit that sets the job's marks back. ConflictError: none lies ahead; NotFoundError: there is no job.

    ``decided_ms``: the newest fire that is known to be decided, 0 where none is; None: that is not known.
    """
    saved, own_ahead = readable(before), own.ahead_of(now_ms)
    ahead = own_ahead[:_AT_ONCE]
    mark_ms, until_ms = before.mark_ms or 0, now_ms + ahead_ms
    if not ahead and mark_ms <= until_ms and saved.anchor_ms <= until_ms:
        raise ConflictError(f"job {before.name!r} is not blocked: {_not_ahead(before)}; nothing was changed")
    if any(kv is not None and kv.mod_revision > started.revision for kv in (before.job, before.mark, *own_ahead)):
        raise _MovedError
    marks = (mark_ms, saved.anchor_ms, *(read_mark(kv) or 0 for kv in own_ahead))
    again = None  # the times of a chain's runs are not those of a schedule, which come once more
    if saved.spec.after is None:
        again = _again(saved, started, until_ms=max(marks), now_ms=now_ms)
    mark_ms = now_ms if mark_ms > until_ms else max(mark_ms, now_ms)
    after = replace(saved, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by, again=again)
    compares, then = _edit(keys, before, after, now_ms=now_ms, by=by)
    otherwise = Stored.look(keys, before.name)
    record = _missed(before, decided_ms, again, now_ms=now_ms, by=by)
    record_key = None if record is None else keys.run(record.run_id)
    if record is not None and record_key is not None:
        compares.append(absent(record_key))
        then.append(Put(record_key, final_entry(record).to_json()))
        otherwise.append(GetKey(record_key))
    for kv in ahead:
        compares.append(value_is(kv.key, kv.value))
        then.append(Put(kv.key, encode_mark(now_ms)))
        otherwise.append(Get(kv.key))
    return _Unblock(
        before=before, value=after.to_json(), mark_ms=mark_ms, record=record, record_key=record_key, compares=compares,
        then=then, otherwise=otherwise, own=own, own_keys=tuple(kv.key for kv in ahead),
    )  # fmt: skip


def _again(saved: SavedJob, started: Started, *, until_ms: int, now_ms: int) -> Again:
    """Fires up to the old mark run under the next attempt, but for those that were started."""
    earlier, spans = saved.again, {}
    for worker, plans_ms in started.by_worker.items():
        spans[worker] = spans_of(saved.spec.schedule, [ms for ms in plans_ms if now_ms < ms <= until_ms])
    if sum(map(len, spans.values())) > _SPANS:
        raise ConflictError(
            f"nothing was changed: the fires of {saved.spec.name!r} that were started before their time lie too far "
            f"scattered ({_SPANS} spans at most)"
        )
    if earlier is not None and earlier.until_ms > now_ms:
        until_ms = max(until_ms, earlier.until_ms)
    return Again(
        until_ms=until_ms, attempt=1 + (1 if earlier is None else earlier.attempt),
        started={worker: found for worker, found in spans.items() if found},
    )  # fmt: skip


def _missed(
    before: Stored, decided_ms: int | None, again: Again | None, *, now_ms: int, by: str
) -> RunRecord | None:  # fmt: skip
    """One record for the fires since then that nobody could claim, for the mark lay behind them."""
    saved = before.saved
    if decided_ms is None or saved is None or not saved.spec.enabled or saved.spec.broadcast:
        return None
    # An anchor ahead tells nothing: the job was saved while it was blocked. What was before that save is not known.
    since_ms = saved.anchor_ms if saved.anchor_ms <= now_ms else saved.saved_ms
    if not 0 < since_ms <= now_ms:
        return None
    from_ms = max(decided_ms, since_ms, *before.taken)
    fires = undecided(saved.schedule, mark_ms=from_ms, until_ms=now_ms)
    if fires is None:
        return None
    lay = max(before.mark_ms or 0, saved.anchor_ms)
    reason = f"blocked: the job's mark lay at {iso(lay)}"
    return passed_record(before, saved.spec, fires, Verdict.MISSED, reason, now_ms=now_ms, by=by, again=again)


def _what_became(done: Changed, why: str) -> tuple[str, ...]:
    """What the history says of the fires until now."""
    record = None if done.edit is None else done.edit.record
    if record is not None:
        many = "1 fire" if record.count is None else f"{record.count} fires"
        least = "at least " if record.count_is_minimum else ""
        return (f"{least}{many} since {iso(record.plan_ms)} did not run: recorded as missed",)
    saved = done.before.saved
    if saved is None or not saved.spec.enabled:
        return ()
    if saved.spec.broadcast:
        why = "each worker's own fires are not recorded here"
    elif not why and saved.anchor_ms > (done.edit.mark_ms if done.edit else 0):
        why = "it was saved while it was blocked"
    return (f"fires that were due until now and did not run have no record: {why}",) if why else ()


def _edit(
    keys: Keys, before: Stored, after: SavedJob, *, now_ms: int, by: str
) -> tuple[list[Compare], list[Operation]]:
    job, mark = keys.job(before.name), keys.mark(before.name)
    # As if it had no link: the time in the one that is there was told by the clock that was wrong.
    unchained = Chained(lock=before.chained.lock)
    chain = edit_chain(keys, before.job, before.saved, unchained, after.spec, now_ms=now_ms, name=before.name)
    compares = [
        mod_revision_is(job, before.revision),
        absent(mark) if before.mark is None else value_is(mark, before.mark.value),
        *chain.compares,
    ]
    then: list[Operation] = [
        Put(job, after.to_json()),
        Put(mark, encode_mark(after.anchor_ms)),
        Put(keys.seen(Watched.JOBS), before.name.encode()),
        *former(keys, before, Change.UNBLOCK, now_ms=now_ms, by=by),
        *chain.then,
    ]
    return compares, then


def _not_ahead(before: Stored) -> str:
    if before.mark_ms is None:
        return "it has no mark that lies ahead"
    return f"its mark is {iso(before.mark_ms)}, which is not ahead"


def _refuse_beats(beats: dict[str, bytes], *, now_ms: int) -> None:
    """No clock may be ahead of this one: it may be this one that is wrong. Nor may records be on their way in numbers:
    etcd need not know of their runs any more."""
    for process, value in sorted(beats.items()):
        try:
            beat = Beat.from_json(value)
        except ValueError:
            continue
        ahead_ms = beat.wall_ms - now_ms
        if beat.unsent_records > _UNSENT:
            raise UnavailableError(
                f"nothing was changed: {beat.unsent_records:,} records of {process} are not in the log store yet, so "
                "it does not tell what was started; try again when they are"
            )
        if ahead_ms > _SKEW_MS:
            raise ConflictError(
                f"nothing was changed: the clock of {process} is {ahead_ms // 1000:,} s ahead of ours: one "
                "of the two is wrong; set the clocks right, then unblock the job"
            )
