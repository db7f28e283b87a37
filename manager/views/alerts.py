"""What is told to people: alerts, and how much waits to be told; read once for all who ask at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.instants import iso
from common.notices.alerts import Alert
from common.runlog import RunLog
from common.runlog.alerts import ended_alerts, open_alerts
from common.runlog.causes import cause_of
from common.runlog.notices import ChannelCounts, NoticeCounts
from manager.views.cached_read import CachedRead

_ALERTS_S: Final = 1.0
_COUNTS_S: Final = 10.0
_LONG_MS: Final = 15 * 60_000
_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What is still to be told."""

    notices: NoticeCounts
    channels: Mapping[str, ChannelCounts]
    oldest_ms: int | None
    """Since when the oldest waits: a notice, or an event of which none has been made yet. None: nothing does."""

    def problems(self, now_ms: int) -> list[str]:
        """What an operator should see to: messages that are not sent, and the channels that are to blame."""
        failing = sorted(name for name, counts in self.channels.items() if counts.is_failing)
        found = [_failing(name, self.channels[name]) for name in failing[:_NAMED]]
        if len(failing) > _NAMED:
            found.append(f"and messages to {len(failing) - _NAMED} more channels fail")
        if not failing and self.oldest_ms is not None and now_ms - self.oldest_ms > _LONG_MS:
            found.append(
                f"what is to be told has waited since {iso(self.oldest_ms)}: does a manager run with `notifier: true`, "
                "or an `etcron start notifier`?"
            )
        return found


def _failing(channel: str, counts: ChannelCounts) -> str:
    why = f": {counts.last_error}" if counts.last_error else ""
    return f"messages to channel {channel} fail{why} (etcron notice list --channel {channel})"


def alert_cause(alert: Alert) -> str:
    """What it has in common with others that one thing is to blame for, as runs have theirs."""
    event = alert.event
    if not event.job:
        return str(event.kind)
    return cause_of({"status": event.kind, "exitCode": event.exit_code, "reason": event.reason, "err": event.err})


def by_cause(alerts: Iterable[Alert]) -> list[tuple[str, Sequence[Alert]]]:
    """The alerts of each cause, in the order that they have; of most alerts first, then of the first alert."""
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        found.setdefault(alert_cause(alert), []).append(alert)
    return sorted(found.items(), key=lambda group: -len(group[1]))


class AlertBoard:
    """For lists, metrics and ``/readyz``. Every call: UnavailableError where the log store is away."""

    def __init__(self, runlog: RunLog, clock: Clock, *, exists: Callable[[str], bool]) -> None:
        """``exists``: whether there is such a channel; what its messages came to is of no more use where it is gone."""
        self._alerts = CachedRead(runlog.alerts.read, clock, _ALERTS_S)
        self._runlog = runlog
        self._exists = exists
        self._waiting = CachedRead(self._look, clock, _COUNTS_S)
        self._channels = CachedRead(runlog.notices.by_channel, clock, _ALERTS_S)

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
        notices, first = await self._runlog.notices.counts(), await self._runlog.outbox.read(1)
        oldest = [*([] if notices.oldest_ms is None else [notices.oldest_ms]), *(one.made_ms for one in first)]
        return Waiting(notices=notices, channels=await self.by_channel(), oldest_ms=min(oldest, default=None))
