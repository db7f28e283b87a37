"""Reading marks: what others should have decided, and have not, becomes this worker's to decide where it is its turn.

A hedge looks at single fires of which this worker is the second in rank. A look afresh is at all jobs, or at some:
ranks 0 and 1 of the newest due fire decide all that is undecided, the first at once, the second after the hedge. Only
their marks are read: together the workers read each mark twice, however many workers there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from common.etcd import EtcdClient
from common.protocol.keys import Keys, read_mark
from common.protocol.planner import Held
from common.timings import Timings
from worker.aside import Aside
from worker.deciding.agenda import Agenda, Agendum, Cue
from worker.deciding.mark_reading import read_marks
from worker.members import Members

_AT_ONCE = 1000
"""So many jobs are read, then looked at; then the next ones."""
_YIELD_EVERY = 200


class Looking:
    """Puts on the agenda what the marks say. Its calls raise EtcdError or UnavailableError where etcd is silent."""

    def __init__(
        self,
        *,
        client: EtcdClient,
        keys: Keys,
        members: Members,
        agenda: Agenda,
        timings: Timings,
    ) -> None:
        self._client = client
        self._keys = keys
        self._members = members
        self._agenda = agenda
        self._timings = timings
        self._aside = Aside("look at job")

    async def hedge(self, hedged: Sequence[tuple[Agendum, int]]) -> None:
        """Rank 1's try, after one batched look at the marks."""
        wanted = [(agendum, plan_ms) for agendum, plan_ms in hedged if agendum.base_ms < plan_ms]
        if not wanted:
            return
        marks = await self._read_marks([agendum.job.sequence for agendum, _ in wanted])
        for agendum, plan_ms in wanted:
            mark_ms = marks.get(agendum.job.sequence)
            if mark_ms is None or agendum.gone:
                continue
            with self._aside.apart(agendum.job.name, agendum.job.revision):
                self._hedge(agendum, plan_ms, mark_ms)

    def _hedge(self, agendum: Agendum, plan_ms: int, mark_ms: int) -> None:
        if mark_ms < plan_ms:
            agendum.base_ms = max(mark_ms, agendum.job.anchor_ms)
            self._agenda.want(agendum, plan_ms)
        else:
            agendum.base_ms = max(agendum.base_ms, mark_ms)

    async def look(
        self, agenda: Iterable[Agendum], now_ms: int, *, blind: bool = False, held: Held | None = None
    ) -> None:
        """Looks at these jobs. ``blind``: nothing was decided for a while, so what waits has lost its grace, too; but
        what was due while a leap of the clock ``held`` this worker keeps it."""
        async for looked_at in self._concerning(list(agenda), now_ms):
            marks = await self._read_marks([agendum.job.sequence for agendum, _ in looked_at])
            for index, (agendum, newest) in enumerate(looked_at, 1):
                if index % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                if not agendum.gone and (mark_ms := marks.get(agendum.job.sequence)) is not None:
                    with self._aside.apart(agendum.job.name, agendum.job.revision):  # its error harms no other job
                        self._look_at(agendum, newest, mark_ms, now_ms, blind=blind)
                        if held is not None and agendum.fresh_ms is not None:
                            agendum.fresh_ms = min(agendum.fresh_ms, held.from_ms)

    async def _concerning(
        self, agenda: Iterable[Agendum], now_ms: int
    ) -> AsyncIterator[list[tuple[Agendum, int | None]]]:
        """Those whose marks may give this worker something to decide, with their newest due fires, some at a time."""
        concerning: list[tuple[Agendum, int | None]] = []
        for index, agendum in enumerate(agenda, 1):
            if index % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            if agendum.gone:
                continue
            with self._aside.apart(agendum.job.name, agendum.job.revision):
                newest = agendum.job.fires.newest_due_ms(now_ms)
                if self._may_decide(agendum, newest):
                    concerning.append((agendum, newest))
            if len(concerning) == _AT_ONCE:
                yield concerning
                concerning = []
        if concerning:
            yield concerning

    def _may_decide(self, agendum: Agendum, newest: int | None) -> bool:
        """Whether it has something to decide already, or is one of the first two in rank for the newest due fire."""
        if agendum.wants or agendum.busy or agendum.queued or agendum.parked:
            return True
        if newest is None or newest <= agendum.job.anchor_ms:
            return False
        return self._members.rank(agendum.job, str(newest)) in (0, 1)

    def _look_at(self, agendum: Agendum, newest: int | None, mark_ms: int, now_ms: int, *, blind: bool) -> None:
        job = agendum.job
        if agendum.busy:
            agendum.look_again = True
            return
        base_ms = max(mark_ms, job.anchor_ms)
        if blind:
            agendum.fresh_ms = agendum.until_ms if agendum.wants else None
        elif (agendum.queued or agendum.parked) and agendum.base_ms >= base_ms:
            return  # it waits for a slot, or for a lock, here: it keeps its grace
        if newest is None or newest <= base_ms:
            agendum.base_ms = max(agendum.base_ms, base_ms)
            agendum.tidy()
            return
        match self._members.rank(job, str(newest)):
            case 0:
                agendum.base_ms, agendum.fresh_ms = base_ms, newest
                agendum.until_ms = max(agendum.until_ms, newest)
                self._agenda.line.join(agendum)
            case 1:
                self._agenda.put_cue(now_ms + self._timings.hedge_ms, Cue.HEDGE, agendum, newest)
            case _:
                pass

    async def _read_marks(self, names: Sequence[str]) -> dict[str, int]:
        marks = await read_marks(self._client, self._keys, names)
        return {name: mark_ms for name, kv in marks.items() if (mark_ms := read_mark(kv)) is not None}
