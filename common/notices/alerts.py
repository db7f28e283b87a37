"""The alert of one job, or of one matter of the system: what an event makes of it, and which channel gets what.

    none --a problem--> open --a success that is newer--> none        sent: the problem; its repeats; that it is over
    open, over, open within 15 minutes: flapping --15 minutes without a change--> open, or none
                                                                      sent: that it flaps, hourly; what came of it

A channel hears of an alert once, as soon as something that applies to the job asks for it: ``after`` problems in a
row, no silence. What a silence holds back is sent behind it, where the alert is still open, whatever problem of another
kind came since. What is over is sent where the problem was, silence or not.

Orders decide what is newer (`common.protocol.run.last_order`), no clock: a failure that arrives behind a success that
is newer is sent, and is over at once. What is delivered again is known by (order, kind). Everything here is a function
of what was stored, so that what is done again after a crash sends the same.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from common.notices.applying import Applying
from common.notices.events import Event
from common.notices.joining import joined
from common.notices.notice import AlertedEvent, Notice, NoticeKind, notice_id
from common.notices.silences import Silence
from common.verdicts import FAILURES, EventKind

OPENING: Final = frozenset({
    *FAILURES, EventKind.SILENT, *(kind for kind in EventKind if kind.is_of_the_system)
})  # fmt: skip
"""What is a problem until it is over. All others are sent by themselves."""
FLAPPING_MS: Final = 15 * 60_000
FLAPS: Final = 3
"""So many changes within that time are flapping."""
FLAPPING_AGAIN_MS: Final = 3_600_000
_SEEN: Final = 32
_SEEN_MS: Final = 3_600_000
_SLOW_SEEN_MS: Final = 30 * 86_400_000
"""A run is reported as slow once, however long it takes."""
_MOST_CHANGES: Final = 8
_SYSTEM: Final = "~"
"""No job's name begins so."""


class Alert(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A problem of a job or of the system, open until it has an end."""

    event: Event
    """The newest problem."""
    others: tuple[Event, ...] = ()
    """The newest ones of other kinds since the last success, newest first: a channel may ask for those alone."""
    since_ms: int
    count: int = 1
    """Problems in all."""
    in_a_row: int = 1
    """Since the last success."""
    first_run: str = ""
    last_ok_ms: int | None = None
    told: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Channel to when it heard of it last."""
    held: tuple[str, ...] = ()
    """Channels that are still to hear of it: a silence keeps them from it, or they know of its flapping alone."""
    is_flapping: bool = False
    is_bad: bool = True
    """Only what flaps can be well at the moment."""
    end_ms: int | None = None

    @property
    def id(self) -> str:
        """The same for as long as it is open; for links and keys."""
        return notice_id(str(self.since_ms), key_of(self.event))


class Standing(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is remembered of one job, or of one matter of the system."""

    alert: Alert | None = None
    seen: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Digests of events, and until when they are remembered."""
    changes: tuple[int, ...] = ()
    """When it was last opened or over."""

    def kept(self, now_ms: int) -> Standing | None:
        """Without what need not be remembered any longer; None: nothing need."""
        seen = {one: until_ms for one, until_ms in self.seen.items() if until_ms > now_ms}
        changes = tuple(at_ms for at_ms in self.changes if at_ms > now_ms - FLAPPING_MS)
        if self.alert is None and not seen and not changes:
            return None
        is_same = len(seen) == len(self.seen) and len(changes) == len(self.changes)
        return self if is_same else replace(self, seen=seen, changes=changes)


NEVER_HEARD_OF: Final = Standing()


class CameTo(Struct, frozen=True, kw_only=True):
    """What a job came to, as the log store's last results say."""

    order: str = ""
    """Of its newest record."""
    successes: tuple[str, ...] = ()
    """The orders of its newest ones that succeeded, oldest first; of a broadcast job those since which it fails on no
    worker."""
    success_ms: int | None = None
    """When it succeeded last."""

    def newest(self, *, below: str | None = None) -> str:
        """The order of the newest success, of those that are older than this; empty: there is none."""
        return next((one for one in reversed(self.successes) if below is None or one < below), "")

    def ended_ms(self, order: str) -> int:
        """When this success was, at least about."""
        if self.successes and order == self.successes[-1] and self.success_ms is not None:
            return self.success_ms
        return int(order[:16])


NOTHING: Final = CameTo()


class Tell(Struct, frozen=True, kw_only=True):
    """Something to be sent on a channel."""

    channel: str
    kind: NoticeKind
    told: AlertedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is at the moment for one job, or for the system."""

    applying: Sequence[Applying] = ()
    silences: Collection[Silence] = ()
    exists: bool = True
    """Whether there is such a job."""
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What an event, or time, has made of it."""

    standing: Standing
    tells: list[Tell] = field(default_factory=list)
    ended: list[Alert] = field(default_factory=list)


def key_of(event: Event) -> str:
    """What the event belongs to: its job, or one matter of the system."""
    if event.job:
        return event.job
    return _SYSTEM + (event.subject if event.kind is EventKind.RECOVERED else f"{event.kind}/{event.subject}")


def _asked_for(one: Applying, events: Iterable[Event]) -> Event | None:
    """The first of them that it asks for."""
    return next((event for event in events if event.kind in one.on), None)


def _problems(alert: Alert, event: Event) -> list[Event]:
    """The newest problem of each kind with this one, newest first; without what was before the last success."""
    known = (alert.event, *alert.others) if alert.is_bad or event.order < alert.event.order else ()
    newest: dict[EventKind, Event] = {}
    for one in sorted((event, *known), key=lambda one: one.order, reverse=True):  # of the same order: as they stand
        newest.setdefault(one.kind, one)
    return list(newest.values())


def recovered(alert: Alert, *, at_ms: int, order: str = "") -> Event:
    """The event that ends it. ``order``: of the success."""
    event = alert.event
    if not event.job:
        return Event(kind=EventKind.RECOVERED, at_ms=at_ms, subject=f"{event.kind}/{event.subject}")
    return Event(
        kind=EventKind.RECOVERED, at_ms=at_ms, job=event.job, labels=event.labels, order=order,
        run=order.split("/", 3)[-1], zone=event.zone,
    )  # fmt: skip


def looked_for(alert: Alert, now_ms: int) -> Event:
    """The event that has it looked at again, as something is due."""
    return replace(alert.event, due_ms=now_ms)


def decide(standing: Standing, event: Event, came_to: CameTo, setting: Setting) -> Decided:
    """What this event makes of it. ``came_to``: of its job."""
    case = _Case(standing, setting if event.due_ms is None else dataclasses.replace(setting, now_ms=event.due_ms))
    if event.due_ms is not None:
        case.look()
    elif not case.has_seen(event):
        match event.kind:
            case EventKind.RECOVERED:
                case.recovers(event)
            case kind if kind in OPENING:
                case.problem(event, came_to)
            case _:
                case.tell_once(event)
    return case.decided()


def look(standing: Standing, setting: Setting) -> Decided:
    """What time alone makes of it: what a silence held back, repeats, the end of flapping, a job that was deleted."""
    case = _Case(standing, setting)
    case.look()
    return case.decided()


def recovery_of(alert: Alert, came_to: CameTo) -> Event | None:
    """The event that says so; None: it has not."""
    newest = came_to.newest()
    ok_ms = came_to.success_ms or 0
    if not alert.is_bad or not alert.event.job:
        return None
    if newest > alert.event.order:
        return recovered(alert, at_ms=max(came_to.ended_ms(newest), alert.event.at_ms), order=newest)
    if alert.event.kind is EventKind.SILENT and ok_ms > alert.since_ms:
        return recovered(alert, at_ms=ok_ms, order=newest)
    return None


def notices_of(cause: str, tells: Iterable[Tell], now_ms: int) -> list[Notice]:
    """One for each channel; the same ids for the same cause. That a run printed something is no news beside its end."""
    by_channel: dict[str, list[Notice]] = {}
    tells = list(tells)
    ends = {(tell.channel, tell.told.event.run) for tell in tells if tell.told.event.kind is not EventKind.OUTPUT}
    for tell in tells:
        if tell.told.event.kind is EventKind.OUTPUT and (tell.channel, tell.told.event.run) in ends:
            continue
        notice = Notice(
            id=notice_id(cause, tell.channel), channel=tell.channel, kind=tell.kind, created_ms=now_ms,
            told=(tell.told,),
        )  # fmt: skip
        by_channel.setdefault(tell.channel, []).append(notice)
    return [joined(notices) for notices in by_channel.values()]


class _Case:
    """One standing, while it is decided on."""

    def __init__(self, standing: Standing, setting: Setting) -> None:
        self._alert = standing.alert
        self._seen = dict(standing.seen)
        self._changes = standing.changes
        self._setting = setting
        self._tells: list[Tell] = []
        self._ended: list[Alert] = []

    def decided(self) -> Decided:
        standing = Standing(alert=self._alert, seen=self._seen, changes=self._changes)
        return Decided(standing=standing, tells=self._tells, ended=self._ended)

    def has_seen(self, event: Event) -> bool:
        """Whether it was delivered before; of the system nothing is, and whatever is open is sent once anyway."""
        if not event.order or not event.job:
            return False
        digest = hashlib.blake2b(f"{event.order} {event.kind}".encode(errors="surrogatepass"), digest_size=8)
        known, now_ms = digest.hexdigest(), self._setting.now_ms
        if known in self._seen:
            return True
        self._seen[known] = now_ms + (_SLOW_SEEN_MS if event.kind is EventKind.SLOW else _SEEN_MS)
        if len(self._seen) > _SEEN:
            del self._seen[min(self._seen, key=lambda one: self._seen[one])]
        return False

    # Events

    def problem(self, event: Event, came_to: CameTo) -> None:
        alert = self._alert
        if event.job and alert is not None and (order := came_to.newest(below=event.order)) > alert.event.order:
            self._success(came_to.ended_ms(order), order)
        self._happened(event, came_to.success_ms)
        if event.job and event.kind is not EventKind.SILENT and (order := came_to.newest()) > event.order:
            self._success(came_to.ended_ms(order), order)

    def recovers(self, event: Event) -> None:
        alert = self._alert
        if alert is None or not alert.is_bad:
            return
        if not event.job or event.order > alert.event.order or (
            alert.event.kind is EventKind.SILENT and event.at_ms > alert.since_ms
        ):  # fmt: skip
            self._success(event.at_ms, event.order)

    def tell_once(self, event: Event) -> None:
        for one in self._setting.applying:
            if event.kind in one.on and not self._is_silenced(event, 0, one):
                self._tell(one.to, NoticeKind.PROBLEM, AlertedEvent(event=event))

    def _happened(self, event: Event, ok_ms: int | None) -> None:
        alert = self._alert
        if alert is None:
            self._changed(event.at_ms)
            count = max(1, event.count)
            alert = Alert(
                event=event, since_ms=event.at_ms, count=count, in_a_row=count, first_run=event.run,
                last_ok_ms=ok_ms if ok_ms is not None and ok_ms <= event.at_ms else None,
                is_flapping=self._flaps,
            )  # fmt: skip
        else:
            if not alert.is_bad:
                self._changed(event.at_ms)
            is_another = bool(event.job) and event.run != alert.event.run and event.kind is not EventKind.SILENT
            count = max(1, event.count) if is_another else 0
            newest, *others = _problems(alert, event)
            alert = replace(
                alert, is_bad=True, count=alert.count + count, in_a_row=alert.in_a_row + count, event=newest,
                others=tuple(others),
            )  # fmt: skip
        self._alert = alert
        self._tell_problem(event)

    def _success(self, at_ms: int, order: str) -> None:
        alert = self._alert
        if alert is None:
            return
        at_ms = max(at_ms, alert.since_ms)
        self._changed(at_ms)
        if alert.is_flapping or self._flaps:
            self._alert = replace(alert, is_flapping=True, is_bad=False, in_a_row=0, last_ok_ms=at_ms)
            if not alert.is_flapping:
                self._tell_channels(dict.fromkeys(alert.told, alert.event), NoticeKind.FLAPPING)
            return
        self._over(at_ms, order)

    def _over(self, at_ms: int, order: str = "") -> None:
        alert = self._alert
        assert alert is not None
        told = AlertedEvent(
            event=recovered(alert, at_ms=at_ms, order=order), since_ms=alert.since_ms, last_ok_ms=alert.last_ok_ms,
            in_a_row=alert.count,
        )  # fmt: skip
        for one in self._setting.applying:
            if EventKind.RECOVERED in one.on:
                self._tell([channel for channel in one.to if channel in alert.told], NoticeKind.RECOVERED, told)
        self._end(at_ms)

    def _end(self, at_ms: int) -> None:
        if self._alert is not None:
            self._ended.append(replace(self._alert, end_ms=at_ms, others=(), held=(), is_bad=False))
            self._alert = None

    # Time

    def look(self) -> None:
        alert, now_ms = self._alert, self._setting.now_ms
        if alert is None:
            return
        if not self._setting.exists:
            self._end(now_ms)
        elif alert.is_flapping and self._changes[-1:] <= (now_ms - FLAPPING_MS,):
            self._calm(alert)
        else:
            self._tell_problem()
            self._repeat()

    def _calm(self, alert: Alert) -> None:
        self._changes = ()
        self._alert = replace(alert, is_flapping=False)
        if alert.is_bad:
            # All hear once more: now, behind a silence, or once it is a problem that they ask for.
            self._alert = replace(self._alert, held=tuple({**alert.told, **dict.fromkeys(alert.held)}))
            self._tell_problem()
        else:
            self._over(alert.last_ok_ms or self._setting.now_ms)

    def _repeat(self) -> None:
        alert, now_ms = self._alert, self._setting.now_ms
        assert alert is not None
        due: dict[str, Event] = {}
        for one in self._setting.applying:
            every_ms = FLAPPING_AGAIN_MS if alert.is_flapping else one.repeat_ms
            event = _asked_for(one, (alert.event, *alert.others))
            if every_ms and event is not None and not self._is_silenced(event, alert.since_ms, one):
                due |= {name: event for name in one.to if alert.told.get(name, now_ms) + every_ms <= now_ms}
        self._tell_channels(due, NoticeKind.FLAPPING if alert.is_flapping else NoticeKind.REPEAT)

    # Telling

    def _tell_problem(self, event: Event | None = None) -> None:
        """Those that ask for it and have not heard of the alert; None: those that are still to hear, of the newest
        problem that each asks for."""
        alert = self._alert
        assert alert is not None
        held, now = dict.fromkeys(alert.held), dict[str, Event]()
        for one in self._setting.applying:
            asked = _asked_for(one, (alert.event, *alert.others) if event is None else (event,))
            if asked is None or not (alert.in_a_row >= one.after or not asked.job or asked.kind is EventKind.SILENT):
                continue
            names = [name for name in one.to if name in alert.held or (event is not None and name not in alert.told)]
            if self._is_silenced(asked, alert.since_ms, one):
                held |= dict.fromkeys(names)
            else:
                now |= dict.fromkeys(names, asked)
        problem = NoticeKind.PROBLEM if alert.event.job else NoticeKind.SYSTEM
        self._alert = replace(alert, held=tuple(name for name in held if name not in now))
        self._tell_channels(now, NoticeKind.FLAPPING if alert.is_flapping else problem)

    def _tell_channels(self, channels: Mapping[str, Event], kind: NoticeKind) -> None:
        """They know of the alert now."""
        alert = self._alert
        assert alert is not None
        for name, event in channels.items():
            told = AlertedEvent(
                event=event, since_ms=alert.since_ms, last_ok_ms=alert.last_ok_ms, in_a_row=max(1, alert.in_a_row),
                is_flapping=kind is NoticeKind.FLAPPING,
            )  # fmt: skip
            self._tell([name], kind, told)
        self._alert = replace(alert, told={**alert.told, **dict.fromkeys(channels, self._setting.now_ms)})

    def _tell(self, channels: Iterable[str], kind: NoticeKind, told: AlertedEvent) -> None:
        """Each of them once, whatever asks for it."""
        known = {tell.channel for tell in self._tells if tell.told.event is told.event and tell.kind is kind}
        self._tells += [
            Tell(channel=name, kind=kind, told=told) for name in dict.fromkeys(channels) if name not in known
        ]  # fmt: skip

    def _is_silenced(self, event: Event, since_ms: int, one: Applying) -> bool:
        return not one.required and any(
            silence.covers(job=event.job, labels=event.labels, since_ms=since_ms, now_ms=self._setting.now_ms)
            for silence in self._setting.silences
        )

    @property
    def _flaps(self) -> bool:
        return len(self._changes) >= FLAPS

    def _changed(self, at_ms: int) -> None:
        recent = [one for one in self._changes if at_ms - FLAPPING_MS < one]
        self._changes = tuple(sorted([*recent, min(at_ms, self._setting.now_ms)])[-_MOST_CHANGES:])
