"""Events of the system: what is wrong with workers, clocks, etcd and the steward, by etcd and our own looks.

What is wrong is compared with the alerts that are open: what is new is an event, and so is what is over. So the
next notifier goes on where the last one left off. What is unknown at the moment, as etcd is away, stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.clock import Clock
from common.clocks.watch import ClockWatch
from common.errors import EtcronError
from common.etcd import EtcdClient
from common.notices.alerts import Alert, key_of, recovered
from common.notices.events import LONGEST_TEXT, Event
from common.protocol.clocks import Clocks, off_by
from common.protocol.keys import Keys
from common.protocol.roster import Left
from common.verdicts import EventKind
from manager.views.inventory import Inventory, SeenWorker

_EVERY_S: Final = 5.0
_HOUR_MS: Final = 3_600_000
_DRAINED_FOR_MS: Final = 24 * _HOUR_MS
"""A drain that lasts longer may have been forgotten."""
_MANY_UNSENT: Final = 10_000
_FEW_UNSENT: Final = 1_000
"""Records in a spool; with fewer it is no longer filling."""
_LOOKS: Final[Mapping[EventKind, int]] = {
    EventKind.WORKER_DOWN: 2, EventKind.WORKER_REFUSING: 6, EventKind.CLOCK_OFF: 2, EventKind.NO_LEADER: 12,
    EventKind.SPOOL_FILLING: 6, EventKind.ETCD_FULL: 1, EventKind.ETCD_MEMBER_AWAY: 6,
}  # fmt: skip
"""In so many looks one after the other a matter has to be seen: what passes by itself is not sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The state of etcd and of this manager."""

    workers: Sequence[SeenWorker]
    beating: Collection[str]
    """The processes that there are."""
    has_steward: bool
    clocks: Clocks | None
    etcd_full: str | None
    etcd_away: Mapping[str, str] | None
    """Members that do not answer, and why; None: before the first look at them."""
    now_ms: int


class SystemEvents:
    """Looks every 5 s."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, inventory: Inventory, *, fullness: Callable[[], str | None],
        members_away: Callable[[], Mapping[str, str] | None], name: str, watch: ClockWatch, max_skew_ms: int,
        clock: Clock,
    ) -> None:  # fmt: skip
        """``fullness``: how full etcd is, in words, where it is; ``members_away``: those of its members that do not
        answer, and why, None before the first look at them; ``name``: of this process.
        """
        self._etcd = etcd
        self._keys = keys
        self._inventory = inventory
        self._fullness = fullness
        self._members_away = members_away
        self._name = name
        self._watch = watch
        self._max_skew_ms = max_skew_ms
        self._clock = clock
        self._look_at_s = 0.0
        self._looks: Counter[str] = Counter()
        self._booted_ms: int | None = None
        """When the machine has booted, by the median, where its clock was certainly off as it was measured last."""

    def now_ms(self) -> int:
        """The time by the median of all clocks, where ours is certainly off."""
        return self._clock.wall_ms() if self._booted_ms is None else self._booted_ms + self._boot_ms()

    def _boot_ms(self) -> int:
        return round(1000 * self._clock.boottime())

    async def look(self, there: Mapping[str, Alert]) -> list[Event]:
        """What is new, and what of these alerts is over; nothing where etcd does not answer."""
        if self._clock.monotonic() < self._look_at_s:
            return []
        self._look_at_s = self._clock.monotonic() + _EVERY_S
        try:
            fleet = await self._inventory.fleet()
            # Where its channel is gone, no later success will end its alert.
            gone = [
                key for key, alert in there.items()
                if alert.event.kind is EventKind.NOTICES_FAILING
                and await self._etcd.get(self._keys.channel(alert.event.subject)) is None
            ]  # fmt: skip
        except EtcronError:
            return []
        seen = Seen(
            workers=fleet.workers, beating=fleet.beating, has_steward=fleet.has_steward, clocks=fleet.clocks,
            etcd_full=self._fullness(), etcd_away=self._members_away(), now_ms=self.now_ms(),
        )  # fmt: skip
        wall_ms, measured = self._watch.look(), seen.clocks and seen.clocks.measured.get(self._name)
        if measured and measured.clock == self._watch.name:  # it was not set since
            is_off = measured.is_off(self._max_skew_ms)
            self._booted_ms = wall_ms - measured.offset_ms - self._boot_ms() if is_off else None
        wrong = {key_of(event): event for event in wrong_in(seen, there, max_skew_ms=self._max_skew_ms)}
        self._looks = Counter({key: self._looks[key] + 1 for key in wrong})
        new = [
            event for key, event in wrong.items()
            if key not in there and self._looks[key] >= _LOOKS[event.kind]
        ]  # fmt: skip
        over = [
            recovered(alert, at_ms=seen.now_ms) for key, alert in there.items()
            if key in gone or (alert.event.kind in _LOOKS and key not in wrong)
        ]  # fmt: skip
        return new + over


def wrong_in(seen: Seen, there: Mapping[str, Alert], *, max_skew_ms: int) -> Iterator[Event]:
    """All that is wrong, new or not. ``there``: what was before, as some of it is over only once it is well over."""
    for worker in seen.workers:
        yield from _of_worker(worker, seen.now_ms, there)
        yield from _of_spool(worker, seen.now_ms, there)
    yield from _of_clocks(seen, there, max_skew_ms)
    yield from _of_etcd(seen, there)
    if not seen.has_steward:
        reason = "nobody looks after lost runs and waiting fires: no worker is live, or none is elected"
        yield _event(EventKind.NO_LEADER, "steward", reason, seen.now_ms)


def _of_worker(worker: SeenWorker, now_ms: int, there: Mapping[str, Alert]) -> Iterator[Event]:
    name, member, past, drain = worker.name or worker.key, worker.member, worker.past, worker.drain
    if member is None:
        if past is not None and past.left in (None, Left.GONE):
            down = _event(EventKind.WORKER_DOWN, name, f"its session has ended, on host {past.host}", past.seen_ms)
            # A worker gone for long is no news after an update of etcron.
            if key_of(down) in there or now_ms - past.seen_ms < _HOUR_MS:
                yield down
        return
    if drain is not None:
        if now_ms - drain.since_ms > _DRAINED_FOR_MS:
            yield _event(EventKind.WORKER_REFUSING, name, f"{drain}, for more than a day", now_ms)
    elif not member.accepts:
        yield _event(EventKind.WORKER_REFUSING, name, member.not_accepting or "it has no slots", now_ms)


def _of_spool(worker: SeenWorker, now_ms: int, there: Mapping[str, Alert]) -> Iterator[Event]:
    name = worker.name or worker.key
    before = there.get(key_of(_event(EventKind.SPOOL_FILLING, name, "", now_ms)))
    if worker.member is None or worker.beat is None:
        if before is not None and (worker.member is not None or worker.past is not None):
            yield before.event  # the records wait on its disk, until it is back or forgotten
        return
    unsent = worker.beat.unsent_records
    if unsent > (_MANY_UNSENT if before is None else _FEW_UNSENT):
        yield _event(EventKind.SPOOL_FILLING, name, f"{unsent:,} records wait for the log store", now_ms)


def _of_clocks(seen: Seen, there: Mapping[str, Alert], max_skew_ms: int) -> Iterator[Event]:
    if seen.clocks is None or not seen.clocks.measured:  # the steward has changed, or there are too few of them
        alerts = (alert.event for alert in there.values() if alert.event.kind is EventKind.CLOCK_OFF)
        yield from (event for event in alerts if event.subject in seen.beating)
        return
    for name, offset_ms in seen.clocks.off(max_skew_ms).items():
        yield _event(EventKind.CLOCK_OFF, name, f"it is {off_by(offset_ms)}", seen.now_ms)


def _of_etcd(seen: Seen, there: Mapping[str, Alert]) -> Iterator[Event]:
    if seen.etcd_away is None:
        kinds = (EventKind.ETCD_FULL, EventKind.ETCD_MEMBER_AWAY)
        yield from (alert.event for alert in there.values() if alert.event.kind in kinds)
        return
    if seen.etcd_full is not None:
        yield _event(EventKind.ETCD_FULL, "etcd", seen.etcd_full, seen.now_ms)
    for endpoint, reason in seen.etcd_away.items():
        yield _event(EventKind.ETCD_MEMBER_AWAY, endpoint, reason, seen.now_ms)


def _event(kind: EventKind, subject: str, reason: str, at_ms: int) -> Event:
    return Event(kind=kind, at_ms=at_ms, subject=subject, reason=reason[:LONGEST_TEXT])
