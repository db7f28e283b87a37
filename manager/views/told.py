"""What is told to people: alerts, and how much waits to be told; read once for all who ask at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from common.clock import Clock
from common.errors import UnavailableError
from common.instants import iso
from common.notices.alerts import Alert
from common.runlog import RunLog
from common.runlog.alerts import ended_alerts, open_alerts
from common.runlog.notices import ChannelCounts, NoticeCounts

T = TypeVar("T")

_ALERTS_S: Final = 1.0
_COUNTS_S: Final = 10.0
_LONG_MS: Final = 15 * 60_000
_NAMED: Final = 5


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is still to be told."""

    notices: NoticeCounts
    channels: Mapping[str, ChannelCounts]
    oldest_ms: int | None
    """Since when the oldest waits: a notice, or an event of which none has been made yet. None: nothing does."""

    def problems(self, now_ms: int) -> list[str]:
        """What somebody should see to: messages that are not sent, and the channels that are to blame."""
        failing = sorted(name for name, counts in self.channels.items() if counts.is_failing)
        found = [_failing(name, self.channels[name]) for name in failing[:_NAMED]]
        if len(failing) > _NAMED:
            found.append(f"and messages to {len(failing) - _NAMED} more channels fail")
        if not failing and self.oldest_ms is not None and now_ms - self.oldest_ms > _LONG_MS:
            found.append(
                f"what is to be told has waited since {iso(self.oldest_ms)}: does a manager run with `notifier: true`, "
                "or an `etcron notifier`?"
            )
        return found


def _failing(channel: str, counts: ChannelCounts) -> str:
    why = f": {counts.last_error}" if counts.last_error else ""
    return f"messages to channel {channel} fail{why} (etcron notice list --channel {channel})"


class Told:
    """For lists, metrics and ``/readyz``. Every call: UnavailableError where the log store is away."""

    def __init__(self, runlog: RunLog, clock: Clock, *, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is such a channel; what its messages came to is of no more use where it is gone."""
        self._alerts = _Kept(runlog.alerts.read, clock, _ALERTS_S)
        self._runlog = runlog
        self._exists = exists
        self._waiting = _Kept(self._look, clock, _COUNTS_S)
        self._channels = _Kept(runlog.notices.by_channel, clock, _ALERTS_S)

    async def open(self) -> Sequence[Alert]:
        """The newest first."""
        return open_alerts(await self._alerts.get())

    async def ended(self) -> Sequence[Alert]:
        """Those that ended last, the newest first."""
        return ended_alerts(await self._alerts.get())

    async def waiting(self) -> Waiting:
        """For 10 s the same."""
        return await self._waiting.get()

    async def by_channel(self) -> Mapping[str, ChannelCounts]:
        return {name: counts for name, counts in (await self._channels.get()).items() if self._exists(name)}

    async def _look(self) -> Waiting:
        notices, first = await self._runlog.notices.counts(), await self._runlog.read_outbox(1)
        oldest = [*([] if notices.oldest_ms is None else [notices.oldest_ms]), *(one.made_ms for one in first)]
        return Waiting(notices=notices, channels=await self.by_channel(), oldest_ms=min(oldest, default=None))
