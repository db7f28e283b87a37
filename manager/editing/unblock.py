"""The way back from a mark in a far future: somebody's clock was wrong, and the job would not fire until then.

    if   some mark of the job, or its anchor, lies more than a day ahead      else ConflictError
    and  nobody's beat is ahead of this manager's clock                       else it would be this clock that is wrong
    then one transaction that compares the job's revision and the old marks:
         marks/J = now,  jobs/J = the same spec with anchorMs = now,  seen/jobs = J,  versions/J/<its revision>
         marks/J~<worker> = now          those of a broadcast job's own sequences that lie ahead
         requests/J/next/1               of an `after` job: anew, for its time was told by the same clock

It is the one edit with which a mark goes back. The job's new revision makes every worker read the mark afresh, and
refuses what was planned with the old one. What ran under the wrong clock keeps its records, so a fire that has one runs
again, and of its second run only the worker's log tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from common.clock import Clock
from common.errors import ConflictError
from common.etcd import Compare, EtcdClient, Get, KeyValue, Operation, Put, TxnResult, absent, mod_revision_is, value_is
from common.instants import iso
from common.jobs.reader import check_name
from common.stored.job_version import Change
from common.stored.keys import Keys, Watched, encode_mark, read_mark, sequence_name
from common.stored.member import Beat
from common.stored.saved_job import SavedJob
from manager.editing.advice import MARK_FAULT_MS
from manager.editing.chain_edits import Chained, edit_chain
from manager.editing.edits import Edit, Stored, former, readable
from manager.editing.inventory import Inventory
from manager.editing.service import Changed, JobService

_SKEW_MS: Final = 60_000
"""A clock that is so far ahead of this manager's does not fit it: who is wrong cannot be told here."""
_AT_ONCE: Final = 50
"""Own marks in one transaction; of more, the rest go into the next."""


class Unblocking:
    """Sets marks back; any number of managers may do so at once."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, service: JobService, inventory: Inventory, *, clock: Clock
    ) -> None:
        self._etcd = etcd
        self._keys = keys
        self._service = service
        self._inventory = inventory
        self._clock = clock

    async def unblock(self, name: str, *, by: str, reason: str | None = None) -> Changed:
        """Let the job fire again from now on.

        ConflictError: nothing blocks it, or this clock may be wrong. NotFoundError: there is no such job.
        """
        check_name(name)
        _refuse_clocks_ahead(await self._inventory.beats(), now_ms=self._clock.wall_ms())
        while True:
            own = OwnMarks(await self._own_marks(name))

            def plan(stored: Stored, own: OwnMarks = own) -> Edit:
                return plan_unblock(self._keys, stored, own, now_ms=self._clock.wall_ms(), by=by)

            done = await self._service.switch("unblocked", name, plan, by, reason=reason)
            if len(own.ahead_of(self._clock.wall_ms())) <= _AT_ONCE:
                return done

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


def plan_unblock(keys: Keys, before: Stored, own: OwnMarks, *, now_ms: int, by: str) -> Edit:
    """The edit that sets the job's marks back. ConflictError: none lies ahead; NotFoundError: there is no job."""
    saved, ahead = readable(before), own.ahead_of(now_ms)[:_AT_ONCE]
    if not ahead and not is_far(before.mark_ms, now_ms) and not is_far(saved.anchor_ms, now_ms):
        raise ConflictError(f"job {before.name!r} is not blocked: {_not_far(before)}; nothing was changed")
    mark_ms = now_ms if is_far(before.mark_ms, now_ms) else max(before.mark_ms or 0, now_ms)
    after = replace(saved, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by)
    compares, then = _edit(keys, before, after, now_ms=now_ms, by=by)
    otherwise = Stored.look(keys, before.name)
    for kv in ahead:
        compares.append(value_is(kv.key, kv.value))
        then.append(Put(kv.key, encode_mark(now_ms)))
        otherwise.append(Get(kv.key))
    return _Unblock(
        before=before, value=after.to_json(), mark_ms=mark_ms, record=None, record_key=None, compares=compares,
        then=then, otherwise=otherwise, own=own, own_keys=tuple(kv.key for kv in ahead),
    )  # fmt: skip


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
