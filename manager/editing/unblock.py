"""The way back from a mark in a far future: somebody's clock was wrong, and the job would not fire until then.

    if   some mark of the job, or its anchor, lies more than a day ahead      else ConflictError
    and  nobody's beat is ahead of this manager's clock                       else it would be this clock that is wrong
    then one transaction that compares the job's revision and the old marks:
         marks/J = now,  jobs/J = the same spec with anchorMs = now,  seen/jobs = J,  versions/J/<its revision>
         marks/J~<worker> = now          those of a broadcast job's own sequences that lie ahead
         requests/J/next/1               of an `after` job: anew, for its time was told by the same clock
         runs/J/<lo>/1 = missed          the fires since the newest that is known to be decided, one record

It is the one edit with which a mark goes back. The job's new revision makes every worker read the mark afresh, and
refuses what was planned with the old one. What ran under the wrong clock keeps its records, so a fire that has one runs
again, and of its second run only the worker's log tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from common.clock import Clock
from common.errors import ConflictError, UnavailableError
from common.etcd import (
    Compare,
    EtcdClient,
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
from common.instants import iso
from common.jobs.reader import check_name
from common.planning.planner import undecided
from common.stored.job_version import Change
from common.stored.keys import Keys, Watched, encode_mark, read_mark, sequence_name
from common.stored.member import Beat
from common.stored.run import RunRecord, Verdict, final_entry
from common.stored.saved_job import SavedJob
from manager.editing.advice import MARK_FAULT_MS
from manager.editing.chain_edits import Chained, edit_chain
from manager.editing.edits import Edit, Stored, former, passed_record, readable
from manager.editing.inventory import Inventory
from manager.editing.service import Changed, JobService

_SKEW_MS: Final = 60_000
"""A clock that is so far ahead of this manager's does not fit it: who is wrong cannot be told here."""
_AT_ONCE: Final = 50
"""Own marks in one transaction; of more, the rest go into the next."""


class Unblocking:
    """Sets marks back; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, service: JobService, inventory: Inventory, *,
        last_decided: Callable[[str, int], Awaitable[int]], clock: Clock,
    ) -> None:  # fmt: skip
        """``last_decided``: of this job, until this time, the newest fire with a record or a run: its plan time, or 0.

        UnavailableError: it cannot be told.
        """
        self._last_decided = last_decided
        self._etcd = etcd
        self._keys = keys
        self._service = service
        self._inventory = inventory
        self._clock = clock

    async def unblock(self, name: str, *, by: str, reason: str | None = None) -> Changed:
        """Let the job fire again from now on; what did not fire until now is recorded as missed, where that is known.

        ConflictError: nothing blocks it, or this clock may be wrong. NotFoundError: there is no such job.
        """
        check_name(name)
        _refuse_clocks_ahead(await self._inventory.beats(), now_ms=self._clock.wall_ms())
        warnings: tuple[str, ...] = ()
        while True:
            own = OwnMarks(await self._own_marks(name))
            decided_ms, why = await self._decided(name)

            def plan(stored: Stored, own: OwnMarks = own, decided_ms: int | None = decided_ms) -> Edit:
                now_ms = self._clock.wall_ms()
                return plan_unblock(self._keys, stored, own, decided_ms=decided_ms, now_ms=now_ms, by=by)

            done = await self._service.switch("unblocked", name, plan, by, reason=reason)
            warnings = warnings or _what_became(done, why)
            if len(own.ahead_of(self._clock.wall_ms())) <= _AT_ONCE:
                return replace(done, warnings=warnings)

    async def _decided(self, name: str) -> tuple[int | None, str]:
        """The plan time of the newest fire that is known to be decided; None: it cannot be told, and why."""
        try:
            return await self._last_decided(name, self._clock.wall_ms()), ""
        except UnavailableError as error:
            return None, str(error)

    async def _own_marks(self, name: str) -> list[KeyValue]:
        prefix = self._keys.mark(sequence_name(name, ""))
        return [kv async for page in self._etcd.read_prefix(prefix) for kv in page.kvs]


class OwnMarks:
    """The marks of a broadcast job's workers, as they were last read."""

    def __init__(self, marks: Iterable[KeyValue]) -> None:
        self._marks = {kv.key: kv for kv in marks}

    def ahead_of(self, now_ms: int) -> list[KeyValue]:
        """Those that lie more than a day ahead."""
        return [kv for kv in self._marks.values() if is_far(read_mark(kv), now_ms)]

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


def is_far(mark_ms: int | None, now_ms: int) -> bool:
    """Whether a mark lies so far ahead that it is a fault."""
    return mark_ms is not None and mark_ms > now_ms + MARK_FAULT_MS


def plan_unblock(
    keys: Keys, before: Stored, own: OwnMarks, *, decided_ms: int | None, now_ms: int, by: str
) -> Edit:  # fmt: skip
    """The edit that sets the job's marks back. ConflictError: none lies ahead; NotFoundError: there is no job.

    ``decided_ms``: the newest fire that is known to be decided, 0 where none is; None: that is not known.
    """
    saved, ahead = readable(before), own.ahead_of(now_ms)[:_AT_ONCE]
    if not ahead and not is_far(before.mark_ms, now_ms) and not is_far(saved.anchor_ms, now_ms):
        raise ConflictError(f"job {before.name!r} is not blocked: {_not_far(before)}; nothing was changed")
    mark_ms = now_ms if is_far(before.mark_ms, now_ms) else max(before.mark_ms or 0, now_ms)
    after = replace(saved, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by)
    compares, then = _edit(keys, before, after, now_ms=now_ms, by=by)
    otherwise = Stored.look(keys, before.name)
    record = _missed(before, decided_ms, now_ms=now_ms, by=by)
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


def _missed(before: Stored, decided_ms: int | None, *, now_ms: int, by: str) -> RunRecord | None:
    """One record for the fires since then that nobody could claim, for the mark lay behind them."""
    saved = before.saved
    if decided_ms is None or saved is None or not saved.spec.enabled or saved.spec.broadcast:
        return None
    # An anchor ahead tells nothing: the job was saved while it was blocked. What was before that save is not known.
    since_ms = saved.anchor_ms if saved.anchor_ms <= now_ms else saved.saved_ms
    if not 0 < since_ms <= now_ms:
        return None
    from_ms = max(decided_ms, since_ms, *before.taken)
    fires = undecided(saved.spec.schedule, mark_ms=from_ms, until_ms=now_ms)
    if fires is None:
        return None
    lay = max(before.mark_ms or 0, saved.anchor_ms)
    reason = f"blocked: the job's mark lay at {iso(lay)}"
    return passed_record(before, saved.spec, fires, Verdict.MISSED, reason, now_ms=now_ms, by=by)


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


def _not_far(before: Stored) -> str:
    if before.mark_ms is None:
        return "it has no mark that lies ahead"
    return f"its mark is {iso(before.mark_ms)}, which is not more than a day ahead"


def _refuse_clocks_ahead(beats: dict[str, bytes], *, now_ms: int) -> None:
    """A mark that is set back too far makes fires run twice, so no clock may be ahead of this one."""
    for process, value in sorted(beats.items()):
        try:
            ahead_ms = Beat.from_json(value).wall_ms - now_ms
        except ValueError:
            continue
        if ahead_ms > _SKEW_MS:
            raise ConflictError(
                f"nothing was changed: the clock of {process} is {ahead_ms // 1000:,} s ahead of ours: one "
                "of the two is wrong; set the clocks right, then unblock the job"
            )
