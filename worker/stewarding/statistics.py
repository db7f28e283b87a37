"""The steward folds what writers have added to the statistics into the counts of days, and forgets those of long ago.

Nobody waits for it: until then the statistics are a minute behind. It runs beside the steward's duties, not among them.
Two at once do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from common.clock import Clock
from common.errors import UnavailableError

_log = logging.getLogger(__name__)

STEP: Final = 50
"""Additions in one step; or documents, of those that are too old."""
FOLD_EVERY_S: Final = 60.0
KEPT_DAYS: Final = 400
"""Of counts, whatever records are kept."""
_REST: Final = 5.0
"""How many times as long as a step took, it rests after it."""
_LONGEST_REST_S: Final = 5.0
_DAY_MS: Final = 86_400_000


class StatisticsStore(Protocol):
    """What this asks of the log store: see `common.runlog.RunLog`."""

    async def fold_statistics(self, *, limit: int) -> int: ...

    async def forget_statistics(self, before_day: int, *, limit: int) -> int: ...


class StatisticsKeeping:
    """For as long as this worker is steward."""

    def __init__(self, *, store: StatisticsStore, is_clock_off: Callable[[], bool], clock: Clock) -> None:
        """``is_clock_off``: by a wrong clock nothing is too old."""
        self._store = store
        self._is_clock_off = is_clock_off
        self._clock = clock

    async def run(self) -> None:
        """Pass after pass, until cancelled; what cannot be done while the log store is away is done a minute later."""
        said = False
        while True:
            try:
                await self._pass()
            except UnavailableError as error:
                level, said = (logging.DEBUG if said else logging.WARNING), True
                _log.log(level, "statistics are postponed: %s", error, extra={"action": "statistics.postponed"})
            except Exception as error:  # one steward after the other would meet it, and stand down
                level, said = (logging.DEBUG if said else logging.WARNING), True
                extra = {"action": "statistics.postponed"}
                _log.log(level, "statistics are postponed: %s", error, extra=extra, exc_info=True)
            else:
                said = False
            await asyncio.sleep(FOLD_EVERY_S)

    async def _pass(self) -> None:
        while await self._rested(lambda: self._store.fold_statistics(limit=STEP)) == STEP:
            pass
        while not self._is_clock_off() and await self._rested(self._forget) == STEP:
            pass

    async def _forget(self) -> int:
        today = self._clock.wall_ms() // _DAY_MS
        return await self._store.forget_statistics(today - KEPT_DAYS, limit=STEP)

    async def _rested(self, step: Callable[[], Awaitable[int]]) -> int:
        began = self._clock.monotonic()
        count = await step()
        if count == STEP:
            await asyncio.sleep(min(_LONGEST_REST_S, _REST * (self._clock.monotonic() - began)))
        return count
