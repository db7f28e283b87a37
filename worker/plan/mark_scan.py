"""Reading marks: what others should have decided, and have not, becomes this worker's to decide where it is its turn.

A hedge looks at single fires of which this worker is the second in rank. A look afresh is at all jobs, or at some:
ranks 0 and 1 of the newest due fire decide all that is undecided, the first at once, the second after the hedge. Only
their marks are read: together the workers read each mark twice, however many workers there are.

A catalog that is looked at as a whole comes in the order of its names, or nearly so: its marks are read as a range,
a thousand neighbours by one request, which costs etcd and this process far less than asking for each key. Where the
range holds mostly marks that are not wanted, the rest is asked for by name. A few neighbours tell which it is: etcd
counts whatever a range holds, so that a thousand marks here and there, which are the share of one worker of many,
would cost it a walk over nearly all of them.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from typing import Final

from common.etcd import EtcdClient
from common.protocol.keys import Keys, read_mark
from common.protocol.planner import Held
from common.protocol.txn import MAX_READS, KeyValue
from common.timings import Timings
from worker.members import Members
from worker.plan.pending_jobs import Cue, PendingJob, PendingJobs
from worker.quarantine import Quarantine

_PAGE: Final = 1000
_PROBE: Final = 8
"""So many are read first."""
_FEW: Final = MAX_READS
"""So many keys go into one request by name."""
_WORTH: Final = 0.25
"""Below this share of wanted keys, names are cheaper than ranges."""


async def read_marks(client: EtcdClient, keys: Keys, sequences: Collection[str]) -> dict[str, KeyValue]:
    """The marks of these sequences that exist, by sequence; EtcdError, UnavailableError.

    Each as it was at some moment since the call: they need not be of one revision.
    """
    key_of = {keys.mark(sequence): sequence for sequence in sequences}
    wanted, at, found = sorted(key_of), 0, dict[str, KeyValue]()
    many, limit = _PROBE, round(_PROBE / _WORTH)
    while len(wanted) - at > _FEW:
        # No further than the wanted keys of a page: etcd counts also what is beyond the limit.
        last = wanted[min(len(wanted), at + many) - 1]
        kvs, more = await client.get_between(wanted[at], last, limit=limit)
        own = {key_of[kv.key]: kv for kv in kvs if kv.key in key_of}
        found.update(own)
        at = bisect_right(wanted, kvs[-1].key if more else last)
        if len(own) < _WORTH * len(kvs):
            break
        many = limit = _PAGE
    by_name = await client.get_many(wanted[at:])
    return found | {key_of[key]: kv for key, kv in by_name.items()}


_AT_ONCE = 1000
"""So many jobs are read, then looked at; then the next ones."""
_YIELD_EVERY = 200


class MarkScan:
    """Has jobs pend by what their marks say. Its calls raise EtcdError or UnavailableError where etcd is silent."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        members: Members,
        pending_jobs: PendingJobs,
        timings: Timings,
    ) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._pending_jobs = pending_jobs
        self._timings = timings
        self._quarantine = Quarantine("look at job")

    async def hedge(self, hedged: Sequence[tuple[PendingJob, int]]) -> None:
        """Queues the fires that rank 0 has left, after one batched look at the marks."""
        wanted = [(pending, plan_ms) for pending, plan_ms in hedged if pending.base_ms < plan_ms]
        if not wanted:
            return
        marks = await self._read_marks([pending.job.sequence for pending, _ in wanted])
        for pending, plan_ms in wanted:
            mark_ms = marks.get(pending.job.sequence)
            if mark_ms is None or pending.gone:
                continue
            with self._quarantine.isolate(pending.job.name, pending.job.revision):
                if mark_ms < plan_ms:
                    pending.base_ms = max(mark_ms, pending.job.anchor_ms)
                    self._pending_jobs.want(pending, plan_ms)
                else:
                    pending.base_ms = max(pending.base_ms, mark_ms)

    async def look(
        self, pending_jobs: Iterable[PendingJob], now_ms: int, *, after_a_gap: bool = False, held: Held | None = None
    ) -> None:
        """Looks at these jobs. ``after_a_gap``: nothing was decided for a while, so what waits has lost its grace, too;
        but what was due while a leap of the clock ``held`` this worker keeps it."""
        async for looked_at in self._concerning(list(pending_jobs), now_ms):
            marks = await self._read_marks([pending.job.sequence for pending, _ in looked_at])
            for index, (pending, newest) in enumerate(looked_at, 1):
                if index % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                if not pending.gone and (mark_ms := marks.get(pending.job.sequence)) is not None:
                    with self._quarantine.isolate(pending.job.name, pending.job.revision):  # harms no other
                        self._look_at(pending, newest, mark_ms, now_ms, after_a_gap=after_a_gap)
                        if held is not None and pending.fresh_ms is not None:
                            misfire = pending.job.spec.misfire
                            pending.fresh_ms = held.limits(pending.fresh_ms, misfire, now_ms=now_ms)

    async def _concerning(
        self, pending_jobs: Iterable[PendingJob], now_ms: int
    ) -> AsyncIterator[list[tuple[PendingJob, int | None]]]:
        """Those whose marks may give this worker something to decide, with their newest due fires, some at a time."""
        concerning: list[tuple[PendingJob, int | None]] = []
        for index, pending in enumerate(pending_jobs, 1):
            if index % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            if pending.gone:
                continue
            with self._quarantine.isolate(pending.job.name, pending.job.revision):
                newest = pending.job.fires.newest_due_ms(now_ms)
                if self._may_decide(pending, newest):
                    concerning.append((pending, newest))
            if len(concerning) == _AT_ONCE:
                yield concerning
                concerning = []
        if concerning:
            yield concerning

    def _may_decide(self, pending: PendingJob, newest: int | None) -> bool:
        """Whether it has something to decide already, or is one of the first two in rank for the newest due fire."""
        if pending.wants or pending.busy or pending.queued or pending.parked:
            return True
        if newest is None or newest <= pending.job.anchor_ms:
            return False
        return self._members.rank(pending.job, str(newest)) in (0, 1)

    def _look_at(
        self, pending: PendingJob, newest: int | None, mark_ms: int, now_ms: int, *, after_a_gap: bool
    ) -> None:
        job = pending.job
        if pending.busy:
            pending.look_again = True
            return
        base_ms = max(mark_ms, job.anchor_ms)
        if after_a_gap:
            pending.fresh_ms = pending.until_ms if pending.wants else None
        elif (pending.queued or pending.parked) and pending.base_ms >= base_ms:
            return  # it waits for a slot, or for a lock, here: it keeps its grace
        if newest is None or newest <= base_ms:
            pending.base_ms = max(pending.base_ms, base_ms)
            pending.tidy()
            return
        match self._members.rank(job, str(newest)):
            case 0:
                pending.base_ms, pending.fresh_ms = base_ms, newest
                pending.until_ms = max(pending.until_ms, newest)
                self._pending_jobs.line.join(pending)
            case 1:
                self._pending_jobs.put_cue(now_ms + self._timings.hedge_ms, Cue.HEDGE, pending, newest)
            case _:
                pass

    async def _read_marks(self, names: Sequence[str]) -> dict[str, int]:
        marks = await read_marks(self._client, self._keys, names)
        return {name: mark_ms for name, kv in marks.items() if (mark_ms := read_mark(kv)) is not None}
