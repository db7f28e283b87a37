"""The steward counts records for the statistics, an hour's at a time, rolls days up, and forgets those of long ago.

    each minute: the hours that are due  ->  days that are a week old are rolled up  ->  old ones go

An hour is due while it lasts; then again after half as long as it had been over when it was counted last, and after a
day at the latest: a record may come hours after its plan time. The newest comes first, then those that were not counted
for longest, one of them however long the newest has taken; what cannot be counted holds up none of the others. It runs
beside the steward's duties, not among them. Two at once do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

from common.clock import Clock
from common.errors import UnavailableError
from common.runlog.statistics import HOUR_MS, ROLLED_UP_DAYS, Counts

_log = logging.getLogger(__name__)

STEP: Final = 500
"""Records in one step; or documents, of those that are too old."""
COUNT_EVERY_S: Final = 60.0
"""From the end of a pass to the beginning of the next; a pass begins no third hour after as long, and rolls up for as
long at most: the next one goes on.
"""
KEPT_DAYS: Final = 400
"""Of counts, whatever records are kept."""
_REST: Final = 20.0
"""How many times as long as a step took, it rests after it."""
_LONGEST_REST_S: Final = 5.0
_DAY_MS: Final = 24 * HOUR_MS

T = TypeVar("T")


class StatisticsStore(Protocol):
    """What this asks of the log store: see `common.runlog.RunLog`."""

    async def count_hour(self, hour: int, *, after: str, limit: int, to: dict[str, Counts]) -> str | None: ...

    async def newest_hour(self, before: int) -> int | None: ...

    async def put_hour(self, hour: int, found: Mapping[str, Counts]) -> None: ...

    async def counted_hours(self) -> dict[int, int]: ...

    async def put_counted_hours(self, hours: Mapping[int, int]) -> None: ...

    async def roll_up_statistics(self, before_day: int) -> bool: ...

    async def forget_statistics(self, before_day: int, *, limit: int) -> int: ...


class StatisticsKeeping:
    """Counts the records of each hour into the statistics, for as long as this worker is steward."""

    def __init__(self, *, store: StatisticsStore, is_clock_off: Callable[[], bool], clock: Clock) -> None:
        """``is_clock_off``: by a wrong clock nothing is counted, and nothing is too old."""
        self._store = store
        self._is_clock_off = is_clock_off
        self._clock = clock

    async def run(self) -> None:
        """Pass after pass, until cancelled; what cannot be done while the log store is away is done a minute later."""
        is_logged = False
        while True:
            try:
                await self.count()
            except Exception as error:  # one steward after the other would meet it, and stand down
                level, is_logged = (logging.DEBUG if is_logged else logging.WARNING), True
                extra, why = {"action": "statistics.postponed"}, not isinstance(error, UnavailableError)
                _log.log(level, "statistics are postponed: %s", error, extra=extra, exc_info=why)
            else:
                is_logged = False
            await asyncio.sleep(COUNT_EVERY_S)

    async def count(self) -> None:
        """One pass."""
        if self._is_clock_off():
            return
        now_ms = self._clock.wall_ms()
        today = now_ms // _DAY_MS
        counted = {hour: at_ms for hour, at_ms in (await self._store.counted_hours()).items() if at_ms <= now_ms}
        hours = range(now_ms // HOUR_MS, (today - ROLLED_UP_DAYS) * 24 - 1, -1)
        failure = await self._count_due(hours, counted, now_ms)
        await self._store.put_counted_hours({hour: at_ms for hour, at_ms in counted.items() if hour in hours})
        ends_s = self._clock.monotonic() + COUNT_EVERY_S
        while await self._rested(self._store.roll_up_statistics(today - ROLLED_UP_DAYS)):
            if self._clock.monotonic() >= ends_s:
                break
        while not self._is_clock_off():
            forgotten = await self._rested(self._store.forget_statistics(today - KEPT_DAYS, limit=STEP))
            if forgotten < STEP or self._clock.monotonic() >= ends_s:
                break
        if failure is not None:
            raise failure

    async def _count_due(self, hours: range, counted: dict[int, int], now_ms: int) -> Exception | None:
        """Counts those of the hours (newest first) that are due, as far as there is time, and notes them in `counted`.

        What kept some of them from being counted, if anything did.
        """
        began, begun, failure = self._clock.monotonic(), 0, None
        due = [hour for hour in hours if is_due(hour, counted.get(hour), now_ms)]
        due.sort(key=lambda hour: (hour != hours[0], counted.get(hour, 0)))
        empty = range(0)
        for hour in due:
            # Most hours of a small or new installation are empty: those up to the next record are passed at once.
            if hour not in empty:
                if begun > 1 and self._clock.monotonic() - began >= COUNT_EVERY_S:
                    break
                begun += 1
                try:
                    if not await self._count(hour):
                        filled = await self._store.newest_hour(hour)
                        empty = range(0 if filled is None else filled + 1, hour)
                except Exception as error:  # it may be this hour's alone, whose records are too much for one answer
                    failure = error
                    continue
            counted[hour] = now_ms
        return failure

    async def _count(self, hour: int) -> bool:
        """Whether it has any record."""
        found: dict[str, Counts] = {}
        after: str | None = ""
        while after is not None:
            after = await self._rested(self._store.count_hour(hour, after=after, limit=STEP, to=found))
        await self._store.put_hour(hour, found)
        return bool(found)

    async def _rested(self, step: Awaitable[T]) -> T:
        """What the step came to, after a rest where there may be another."""
        began = self._clock.monotonic()
        result = await step
        if result:
            await asyncio.sleep(min(_LONGEST_REST_S, _REST * (self._clock.monotonic() - began)))
        return result


def is_due(hour: int, counted_ms: int | None, now_ms: int) -> bool:
    """Whether the records of an hour (since the epoch) that was counted then, or never, are to be counted now."""
    if counted_ms is None or counted_ms > now_ms:
        return True
    over_ms = max(0, counted_ms - (hour + 1) * HOUR_MS)
    return now_ms - counted_ms >= min(over_ms / 2, _DAY_MS)
