"""What is told to people: alerts, and how much waits to be told; read once for all who ask at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from common.clock import Clock
from common.errors import UnavailableError
from common.notices.alerts import Alert
from common.runlog import RunLog
from common.runlog.alerts import ended_alerts, open_alerts
from common.runlog.notices import ChannelCounts, NoticeCounts

T = TypeVar("T")

_ALERTS_S: Final = 1.0
_COUNTS_S: Final = 10.0


class _Kept(Generic[T]):
    """An answer of the log store, for so long, also that there was none; who asks meanwhile gets the same."""

    def __init__(self, read: Callable[[], Awaitable[T]], clock: Clock, seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._kept: T | UnavailableError | None = None
        self._kept_at = 0.0

    async def get(self) -> T:
        """UnavailableError: it is not known."""
        async with self._lock:
            if self._kept is None or self._clock.monotonic() - self._kept_at >= self._seconds:
                try:
                    self._kept = await self._read()
                except UnavailableError as error:
                    self._kept = error
                self._kept_at = self._clock.monotonic()
        if isinstance(self._kept, UnavailableError):
            raise self._kept
        return self._kept


class Told:
    """For lists, metrics and ``/readyz``. Every call: UnavailableError where the log store is away."""

    def __init__(self, runlog: RunLog, clock: Clock) -> None:
        self._alerts = _Kept(runlog.alerts.read, clock, _ALERTS_S)
        self._counts = _Kept(runlog.notices.counts, clock, _COUNTS_S)
        self._channels = _Kept(runlog.notices.by_channel, clock, _ALERTS_S)

    async def open(self) -> Sequence[Alert]:
        """The newest first."""
        return open_alerts(await self._alerts.get())

    async def ended(self) -> Sequence[Alert]:
        """Those that ended last, the newest first."""
        return ended_alerts(await self._alerts.get())

    async def counts(self) -> NoticeCounts:
        return await self._counts.get()

    async def by_channel(self) -> dict[str, ChannelCounts]:
        return dict(await self._channels.get())
