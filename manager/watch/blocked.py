"""Jobs that do not fire before a time to come, for their marks lie there: a clock was ahead.

Marks move with every fire, so no watch has them: the greatest are read now and then. They are 16 digits each, so the
order of their bytes is that of their times.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from common.access.rights import Rights
from common.clock import Clock
from common.errors import EtcronError
from common.etcd import EtcdClient
from common.protocol.keys import Keys, read_mark, split_sequence
from manager.watch.catalog import Catalog, ListState

_log = logging.getLogger(__name__)

BLOCKED_MS: Final = 10_000
"""A mark that is so far ahead was put there by a wrong clock; less would be over before it is read."""
_LOOK_S: Final = 30.0
_MOST: Final = 1_000
"""So many are known at most; the first to look at when something is wrong are among them."""


class BlockedJobs:
    """By job, until when it does not fire; as of the newest look."""

    def __init__(self, etcd: EtcdClient, keys: Keys, catalog: Catalog, *, clock: Clock) -> None:
        self._etcd = etcd
        self._keys = keys
        self._catalog = catalog
        self._clock = clock
        self._until: Mapping[str, tuple[int, int]] = {}
        """With the job's revision: an edit may have moved the mark."""

    def until(self, rights: Rights) -> Mapping[str, int]:
        """Those that still are and that a caller may know of, the latest first; ms since the epoch."""
        seen = (job for job in self._until if self._catalog.seen(job, rights) is not None)
        return {job: until_ms for job in seen if (until_ms := self.of(job)) is not None}

    def of(self, job: str) -> int | None:
        """Until when this one is; None: it is not, or it is not known."""
        until_ms, revision = self._until.get(job, (0, 0))
        known = self._catalog.get(job)
        is_as_it_was = known is not None and known.state is ListState.ENABLED and known.revision == revision
        return until_ms if is_as_it_was and until_ms > self._clock.wall_ms() + BLOCKED_MS else None

    async def run(self) -> None:
        """Look every 30 s, for ever."""
        while True:
            try:
                await self.look()
            except EtcronError as error:
                _log.debug("the marks were not read: %s", error, extra={"action": "marks.unread"})
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Read the greatest marks. Of a broadcast job its workers' marks count too."""
        until: dict[str, tuple[int, int]] = {}
        for kv in await self._etcd.get_greatest(self._keys.marks, limit=_MOST):
            job, mark_ms = split_sequence(self._keys.job_of(kv.key))[0], read_mark(kv)
            known = self._catalog.get(job)
            if mark_ms is not None and known is not None and job not in until:
                until[job] = mark_ms, known.revision
        self._until = until
