"""The one edit with which a job's mark goes back: a clock was wrong, and the job would not fire until then.

    if   the job's revision and the old marks are what was read
    then marks/J = now,  jobs/J = the same spec with anchorMs = now and `again`,  seen/jobs = J,  versions/J/<revision>
         marks/J~<worker> = now          those of a broadcast job's own sequences that lie ahead
         requests/J/next/1               of an `after` job: anew, for its time came from the same clock
         runs/J/<lo>/1 = missed          the fires since the newest that is known to be decided, one record

The job's new revision makes every worker read the mark afresh, and refuses what was planned with the old one. Fires up
to the old mark that were started (or are asked for) are left out of the schedule; the others run at their times, under
the attempt number in ``again``: older records are not in their way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from common.errors import ConflictError
from common.instants import iso
from common.protocol.chain import Chained, edit_chain
from common.protocol.compares import Compare, absent, mod_revision_is, value_is
from common.protocol.edits import Edit, Stored, former, readable
from common.protocol.keys import Keys, Watched, encode_mark, read_mark
from common.protocol.planner import undecided
from common.protocol.records import fire_record
from common.protocol.run import RunRecord, final_entry
from common.protocol.saved_job import Again, EditKind, SavedJob
from common.protocol.signatures import Seal
from common.protocol.txn import Get, GetKey, KeyValue, Operation, Put, Txn, TxnResult
from common.schedules.job_calendar import spans_of
from common.verdicts import Verdict

_SPANS: Final = 500
"""Of started fires that follow each other, in the job's value."""
OWN_MARKS_AT_ONCE: Final = 50
"""Own marks in one transaction; of more, the rest go into the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Plan times of the fires that were started, or are asked for, as of a revision of etcd."""

    revision: int
    by_worker: Mapping[str, list[int]]
    """Of the job (under ``""``), of a broadcast job by worker."""


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
        first = len(self.txn.otherwise) - len(self.own_keys)
        self.own.take(self.own_keys, [result.one(first + index) for index in range(len(self.own_keys))])
        return Edit.meanwhile(self, result)


class MovedError(Exception):
    """The job or its marks have changed since what was started was looked for."""


def plan_unblock(
    keys: Keys, before: Stored, own: OwnMarks, started: Started, *, decided_ms: int | None, now_ms: int, ahead_ms: int,
    by: str, seal: Seal | None = None,
) -> Edit:  # fmt: skip
    """The edit that sets the job's marks back. ConflictError: none lies ahead; NotFoundError: there is no job.

    ``decided_ms``: the newest fire that is known to be decided, 0 where none is; None: that is not known.
    """
    saved, own_ahead = readable(before), own.ahead_of(now_ms)
    ahead = own_ahead[:OWN_MARKS_AT_ONCE]
    mark_ms, until_ms = before.mark_ms or 0, now_ms + ahead_ms
    if not ahead and mark_ms <= until_ms and saved.anchor_ms <= until_ms:
        why = "it has no mark that lies ahead"
        if before.mark_ms is not None:
            why = f"its mark is {iso(before.mark_ms)}, which is not ahead"
        raise ConflictError(f"job {before.name!r} is not blocked: {why}; nothing was changed")
    if any(kv is not None and kv.mod_revision > started.revision for kv in (before.job, before.mark, *own_ahead)):
        raise MovedError
    marks = (mark_ms, saved.anchor_ms, *(read_mark(kv) or 0 for kv in own_ahead))
    again = None  # the times of a chain's runs are not those of a schedule, which come once more
    if saved.spec.after is None:
        again = _again(saved, started, until_ms=max(marks), now_ms=now_ms)
    mark_ms = now_ms if mark_ms > until_ms else max(mark_ms, now_ms)
    after = replace(saved, anchor_ms=mark_ms, saved_ms=now_ms, saved_by=by, again=again, signature=None)
    if (seal := before.seal_of_derived(seal)) is not None:
        after = after.sealed(seal, before.next_generation(now_ms))
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
        before=before, value=after.to_json(), mark_ms=mark_ms, record=record, record_key=record_key,
        txn=Txn(compares, then, otherwise), own=own, own_keys=tuple(kv.key for kv in ahead),
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
    """One record for the fires since then that no worker could claim, for the mark lay behind them."""
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
    planned = before.planned(again)
    assert planned is not None, "it can be read"
    return fire_record(planned, fires=fires, status=Verdict.MISSED, reason=reason, now_ms=now_ms, by=by)


def _edit(
    keys: Keys, before: Stored, after: SavedJob, *, now_ms: int, by: str
) -> tuple[list[Compare], list[Operation]]:
    job, mark = keys.job(before.name), keys.mark(before.name)
    # As if it had no link: the time in the one that is there came from the clock that was wrong.
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
        *former(keys, before, EditKind.UNBLOCK, now_ms=now_ms, by=by),
        *chain.then,
    ]
    return compares, then
