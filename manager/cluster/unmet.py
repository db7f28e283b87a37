"""The jobs that are due, and that no worker may take now: no worker counts them, for none has them in its line."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Final

from common.access.rights import Rights
from common.clock import Clock
from common.etcd import EtcdClient
from common.protocol.keys import Keys, decode_mark
from common.protocol.planner import undecided
from common.protocol.saved_job import SavedJob
from common.protocol.txn import KeyValue
from manager.cluster.jobs_health import Fits
from manager.views.cached_read import CachedRead
from manager.views.fire_verdicts import newest_due_ms
from manager.watch.watching import Watching

_MOST: Final = 500
"""Jobs whose marks are read."""
_YIELD_EVERY: Final = 100
"""Looks, at a job or at what some ask for."""
_SECONDS: Final = 2.0


class Unmet:
    """Counts them; their marks are read once for all who ask within a while."""

    def __init__(self, watching: Watching, etcd: EtcdClient, keys: Keys, *, clock: Clock) -> None:
        self._watching = watching
        self._etcd = etcd
        self._keys = keys
        self._clock = clock
        self._names = CachedRead(self._late, clock, _SECONDS)

    async def count(self, rights: Rights) -> int:
        """Those that a caller may know of, of the first 500; EtcronError: it is not known."""
        catalog = self._watching.catalog
        return sum(catalog.seen(name, rights) is not None for name in await self._names.get())

    async def _late(self) -> Sequence[str]:
        if not (due := await self._due()):
            return []
        marks = await self._etcd.get_many([self._keys.mark(name) for name, _, _ in due])
        return [name for name, saved, due_ms in due if _is_owed(saved, marks.get(self._keys.mark(name)), due_ms)]

    async def _due(self) -> list[tuple[str, SavedJob, int]]:
        """Each with its newest fire that is due, decided or not; of broadcasts no fire is owed."""
        catalog, now_ms, due = self._watching.catalog, self._clock.wall_ms(), list[tuple[str, SavedJob, int]]()
        fits = Fits(one for one in self._watching.members if one.accepts)
        looks = count(1)
        for names in list(catalog.needs.values()):  # all that ask for the same
            if next(looks) % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            known = (job.saved.spec for name in names if (job := catalog.get(name)) and job.saved)
            if (first := next(known, None)) is None or fits.any(first):
                continue
            for name in list(names):
                if next(looks) % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                job = catalog.get(name) if name in names else None
                if job is None or job.saved is None or job.saved.spec.broadcast:
                    continue
                due_ms = newest_due_ms(job.saved.spec, now_ms)
                if due_ms is not None and due_ms > job.saved.anchor_ms:
                    due.append((job.name, job.saved, due_ms))
                if len(due) == _MOST:
                    return due
        return due


def _is_owed(saved: SavedJob, mark: KeyValue | None, due_ms: int) -> bool:
    try:
        mark_ms = 0 if mark is None else decode_mark(mark.value)
    except ValueError:
        return False  # its page says what is wrong
    after_ms = max(mark_ms, saved.anchor_ms)
    return undecided(saved.spec.schedule, mark_ms=after_ms, until_ms=due_ms) is not None
