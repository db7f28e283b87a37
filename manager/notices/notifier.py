"""The notifier: one elected process that makes notices of what is in the outbox, and of what time brings.

    records, and what `look` finds --> outbox --read in order--> alerts --> notices --> senders

Each turn: look at what time has brought (an alert that is over, a run that is slow, a worker that is down, ...) and
write it into the outbox; read the outbox; decide (`common.notices.alerts`); put the notices; write the alerts; delete
what was read. A crash behind any of these does the rest again, and makes the same notices, by their ids.

Leadership is a key in etcd under this process's session. A term begins by raising the epoch that alerts are written
with: a notifier that was frozen and comes back writes none, deletes nothing, and its term is over. What a term knows,
it has read at its begin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from common.clock import Clock
from common.errors import EtcronError, UnavailableError
from common.etcd import EtcdClient
from common.etcd.election import Election
from common.notices.alerts import (
    NEVER_HEARD_OF,
    NOTHING,
    OPENING,
    Alert,
    CameTo,
    Setting,
    Standing,
    Tell,
    decide,
    key_of,
    look,
    looked_for,
    notices_of,
    recovery_of,
)
from common.notices.applying import Applying, applying_to_job, applying_to_system, jobs_of_commands
from common.notices.events import Event
from common.notices.notice import Notice
from common.notices.silences import Silence
from common.process import failpoints
from common.process.lifecycle import until_first
from common.protocol.keys import Keys
from common.runlog import RunLog
from common.runlog.alerts import Bucket, bucket_of
from common.runlog.outbox import OutboxDocument, outbox_documents
from common.verdicts import EventKind
from manager.background.presence import Presence
from manager.notices.lifelines import Heartbeat, LogStoreAway
from manager.notices.sender import Sender
from manager.notices.system_events import SystemEvents
from manager.notices.time_events import SilentJobs, SlowRuns
from manager.watch.watching import Watching

_log = logging.getLogger(__name__)

_EVERY_S: Final = 1.0
_BUCKETS_A_SECOND: Final = 8
"""After a turn that wrote many documents of alerts the next one waits: a storm costs so many, and no more."""
_DOCUMENTS: Final = 200
_EVENTS: Final = 5_000
"""Of a turn; a document more may go beyond it."""
_LOOKED_AT: Final = 500
"""Alerts, each second."""
_SETTLED_S: Final = 2.0
_SETTLING_S: Final = 10.0
_STAND_DOWN_S: Final = 60.0
_WELL_S: Final = 60.0
"""A notifier whose last turn was longer ago tells nobody that it is there."""
_LONG_S: Final = 120.0
_UNANSWERED_S: Final = 30.0
_SHUT_OUT_S: Final = 300.0
"""Whom another one shuts out sees it only with the next event that it takes."""
SHUT_OUT: Final = (
    "another one, which etcd knows nothing of, takes the alerts of the log store again and again: does another cluster "
    "use the same mongodbDatabase?"
)
_AT_ONCE: Final = 100
"""Events that are decided without a pause: other work waits for so long."""


class TermOverError(EtcronError):
    """Another notifier leads by now, or may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What ends a notifier's terms again and again. Times by the monotonic clock."""

    why: str
    since_s: float
    last_s: float
    for_s: float
    """It is over where it was not seen again for so long."""

    def reason(self, now_s: float) -> str | None:
        """Why, where it has gone on for minutes."""
        return self.why if self._goes_on(now_s) and self.last_s - self.since_s >= _LONG_S else None

    def _goes_on(self, now_s: float) -> bool:
        return now_s - self.last_s <= self.for_s

    @classmethod
    def seen(cls, before: Trouble | None, why: str, now_s: float, *, for_s: float) -> Trouble:
        """Once more, or anew. ``before``: as it was."""
        since_s = before.since_s if before is not None and before._goes_on(now_s) else now_s
        return cls(why=why, since_s=since_s, last_s=now_s, for_s=for_s)


class Notifier:
    """Stands for election, and makes the notices while it leads."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, runlog: RunLog, watching: Watching, presence: Presence, sender: Sender,
        system: SystemEvents, *, name: str, heartbeat_url: str | None, clock: Clock,
    ) -> None:  # fmt: skip
        """``presence``: under whose session it leads; ``sender`` hears of what was put; ``name``: of this process."""
        self._etcd = etcd
        self._keys = keys
        self._runlog = runlog
        self._watching = watching
        self._presence = presence
        self._sender = sender
        self._system = system
        self._name = name
        self._clock = clock
        self._away = LogStoreAway(watching.notices, runlog, sender, clock=clock)
        self._heartbeat = Heartbeat(heartbeat_url, is_well=self._is_well)
        self._turned_s: float | None = None
        self._trouble: Trouble | None = None

    @property
    def problem(self) -> str | None:
        """What has kept it for minutes from telling all that happens; None: nothing has."""
        return None if self._trouble is None else self._trouble.reason(self._clock.monotonic())

    async def run(self) -> None:
        """Stands for election for ever."""
        while True:
            session = self._presence.session
            if session is None or session.ended.is_set():
                await asyncio.sleep(_EVERY_S)
                continue
            # One candidacy: it ends with its session.
            election = Election(self._etcd, session, self._keys.notifier, self._name.encode(), clock=self._clock)
            await until_first(election.run(), self._lead_again_and_again(election))

    async def _lead_again_and_again(self, election: Election) -> None:
        while True:
            await election.gained.wait()
            if election.leading:
                _log.info("is the notifier now", extra={"action": "notifier.begins"})
                await until_first(election.lost.wait(), self._lead(election), self._heartbeat.run())
                self._turned_s = None
            else:  # the session is not healthy, and the election has not said so yet
                await asyncio.sleep(_EVERY_S)

    async def _lead(self, election: Election) -> None:
        """Turn after turn, until another leads; what the log store interrupts begins anew with a reading of it."""
        await self._watching.notices.read()
        await self._watching.jobs_read.wait()
        await self._watching.runs_read.wait()
        self._away.begin()
        while election.leading:
            try:
                try:
                    term = await self._begun(election)
                    while election.leading:
                        wait_s = await term.turn()
                        self._turned_s = self._clock.monotonic()
                        await self._away.note_back()
                        await asyncio.sleep(wait_s)
                except UnavailableError as error:
                    self._note(str(error), for_s=_UNANSWERED_S)
                    await self._away.note_away(str(error))
            except TermOverError:
                _log.warning("another notifier leads by now, or may", extra={"action": "notifier.replaced"})
                if await election.confirm():
                    self._note(SHUT_OUT, for_s=_SHUT_OUT_S)
            except Exception as error:  # a notifier that fails must not take the manager down, and all others in turn
                _log.exception("a turn of the notifier failed", extra={"action": "notifier.failed"})
                self._note(f"{type(error).__name__}, as its log says", for_s=2 * _STAND_DOWN_S)
                await election.stand_down(_STAND_DOWN_S)
            await asyncio.sleep(_EVERY_S)

    def _note(self, why: str, *, for_s: float) -> None:
        self._trouble = Trouble.seen(self._trouble, why, self._clock.monotonic(), for_s=for_s)

    def _is_well(self) -> bool:
        return self._turned_s is not None and self._clock.monotonic() - self._turned_s < _WELL_S and not self.problem

    async def _begun(self, election: Election) -> Term:
        # In this order: whoever leads once etcd was asked reads later; what that one has taken cannot be taken here.
        epoch = await self._runlog.alerts.epoch() + 1
        if not await election.confirm() or not await self._runlog.alerts.take(epoch):
            raise TermOverError
        return Term(
            election, epoch, await self._runlog.alerts.read(), self._runlog, self._watching, self._sender, self._system,
            slow=SlowRuns(self._watching),
            silent=await SilentJobs.begun(self._watching, self._runlog, self._system.now_ms, self._clock),
            clock=self._clock,
        )  # fmt: skip


class Term:
    """What one notifier knows for as long as it leads, and the log store answers."""

    def __init__(
        self, election: Election, epoch: int, buckets: Sequence[Bucket], runlog: RunLog, watching: Watching,
        sender: Sender, system: SystemEvents, *, slow: SlowRuns, silent: SilentJobs, clock: Clock,
    ) -> None:  # fmt: skip
        """``buckets``: as the log store has them under this epoch."""
        self._election = election
        self._epoch = epoch
        self._standings: list[dict[str, Standing]] = [dict(bucket.standings) for bucket in buckets]
        self._ended = [bucket.ended for bucket in buckets]
        self._buckets = buckets
        self._runlog = runlog
        self._watching = watching
        self._sender = sender
        self._system = system
        self._slow = slow
        self._silent = silent
        self._open: dict[str, None] = {
            key: None for some in self._standings for key, one in some.items() if one.alert is not None
        }
        self._to_look_at: list[str] = []
        self._settling = Settling(clock)
        self._has_backlog = False

    async def turn(self) -> float:
        """Do what there is to be done; how many seconds the next turn may wait. UnavailableError, TermOverError."""
        if not self._has_backlog and (found := await self._look()):
            await self._runlog.outbox.put(outbox_documents(found, self._system.now_ms()))
        documents = await self._runlog.outbox.read(_DOCUMENTS, most_events=_EVENTS)
        ready = self._settling.settled(documents)
        is_full = len(documents) == _DOCUMENTS or sum(len(one.events) for one in documents) >= _EVENTS
        self._has_backlog = is_full and bool(ready)
        changed = await self._take(ready) if ready else 0
        return 0.0 if self._has_backlog else max(_EVERY_S, changed / _BUCKETS_A_SECOND)

    # What time brings

    async def _look(self) -> list[Event]:
        """Events of what nobody writes a record of."""
        events = self._slow.look(self._system.now_ms())
        events += await self._silent.look()
        events += await self._system.look(self._open_of_the_system())
        events += await self._look_at_alerts()
        return events

    def _open_of_the_system(self) -> dict[str, Alert]:
        alerts = ((key, self._standing(key).alert) for key in self._open)
        return {key: alert for key, alert in alerts if alert is not None and not alert.event.job}

    async def _look_at_alerts(self) -> list[Event]:
        """Which of some open alerts are over, or have something due; all of them have their turn."""
        if not self._to_look_at:
            self._to_look_at = list(self._open)
        keys = [self._to_look_at.pop() for _ in range(min(_LOOKED_AT, len(self._to_look_at)))]
        alerts = [(key, alert) for key in keys if (alert := self._standing(key).alert) is not None]
        came_to = await self._came_to({alert.event.job for _, alert in alerts if alert.event.job})
        now_ms, settings, found = self._system.now_ms(), self._settings(), list[Event]()
        for key, alert in alerts:
            standing = self._standing(key)
            if (event := recovery_of(alert, came_to.get(alert.event.job, NOTHING))) is not None:
                found.append(event)
            elif look(standing, settings.of(alert.event)).standing != standing:
                found.append(looked_for(alert, now_ms))
        return found

    # What is in the outbox

    async def _take(self, documents: Sequence[OutboxDocument]) -> int:
        """Notices are made of these, and they are gone; how many documents of alerts were written."""
        events = [event for document in documents for event in document.events]
        came_to = await self._came_to({one.job for one in events if one.job and one.kind in OPENING})
        settings, notices, changed = self._settings(), list[Notice](), dict[int, list[Alert]]()
        decided = 0
        for document in documents:
            tells: list[Tell] = []
            for event in document.events:
                key, came = key_of(event), came_to.get(event.job, NOTHING)
                decided += 1
                try:
                    result = decide(self._standing(key), event, came, settings.of(event))
                except Exception:  # one event that nobody foresaw must not hold up all others for ever
                    extra = {"action": "notifier.event_failed", "id": document.id}
                    _log.exception("an event in %s is told to nobody", document.id, extra=extra)
                    continue
                tells += result.tells
                number = self._note(key, result.standing)
                changed.setdefault(number, []).extend(result.ended)
                if decided % _AT_ONCE == 0:
                    await asyncio.sleep(0)
            notices += notices_of(document.id, tells, settings.now_ms)
        await self._write(notices, changed)
        await self._runlog.outbox.delete([document.id for document in documents])
        return len(changed)

    async def _write(self, notices: Sequence[Notice], changed: Mapping[int, Sequence[Alert]]) -> None:
        """The notices, then the alerts that have brought them."""
        if not self._election.leading:
            raise TermOverError
        if failpoints.armed:
            failpoints.hit("before_notices")
        await self._runlog.notices.put(notices)
        if notices:
            self._sender.wake()
        if failpoints.armed:
            failpoints.hit("after_notices")
        buckets = {number: self._bucket(number, ended) for number, ended in changed.items()}
        if not await self._runlog.alerts.write(buckets, self._epoch):
            raise TermOverError

    def _bucket(self, number: int, ended: Sequence[Alert]) -> Bucket:
        """As it is to be written, without what need not be remembered any longer."""
        now_ms = self._system.now_ms()
        kept = ((key, standing.kept(now_ms)) for key, standing in self._standings[number].items())
        self._standings[number] = {key: standing for key, standing in kept if standing is not None}
        bucket = replace(self._buckets[number], standings=self._standings[number], ended=self._ended[number])
        bucket = bucket.with_ended(ended)
        self._ended[number] = bucket.ended
        return bucket

    # What is known

    def _standing(self, key: str) -> Standing:
        return self._standings[bucket_of(key)].get(key, NEVER_HEARD_OF)

    def _note(self, key: str, standing: Standing) -> int:
        """The number of the bucket that has to be written for it."""
        number = bucket_of(key)
        self._standings[number][key] = standing
        if standing.alert is None:
            self._open.pop(key, None)
        else:
            self._open[key] = None
        return number

    async def _came_to(self, jobs: Collection[str]) -> dict[str, CameTo]:
        found, wanted = dict[str, CameTo](), sorted(jobs)
        for start in range(0, len(wanted), _LOOKED_AT):
            found |= await self._runlog.came_to(wanted[start : start + _LOOKED_AT])
        return found

    def _settings(self) -> Settings:
        return Settings(self._watching, self._system.now_ms())


class Settling:
    """Holds back for some seconds what was lost: the steward finds the runs of a dead worker one after the other, and
    they are one message.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}
        """When each document with runs that were lost was first seen."""

    def settled(self, documents: Sequence[OutboxDocument]) -> list[OutboxDocument]:
        """Those of them that need not wait."""
        now_s = self._clock.monotonic()
        lost = [one.id for one in documents if any(event.kind is EventKind.LOST for event in one.events)]
        self._seen = {one: self._seen.get(one, now_s) for one in lost}
        came = self._seen.values()
        if not came or now_s - max(came) >= _SETTLED_S or now_s - min(came) >= _SETTLING_S:
            return list(documents)
        return [one for one in documents if one.id not in self._seen]


class Settings:
    """Rules, silences and jobs as they are at one moment, by what an event asks of them."""

    def __init__(self, watching: Watching, now_ms: int) -> None:
        self._watching = watching
        self.now_ms = now_ms
        self._by_name: dict[str, list[Silence]] = {}
        self._by_labels: list[Silence] = []
        for silence in watching.notices.silences.values():
            names = (silence.alert.job,) if silence.alert is not None else silence.jobs
            for name in names:
                self._by_name.setdefault(name, []).append(silence)
            if silence.labels is not None:
                self._by_labels.append(silence)
        self._of_commands = jobs_of_commands(watching.notices.channels)
        self._of_the_system = list(applying_to_system(watching.notices.rules))
        self._known: dict[object, tuple[list[Applying], list[Silence]]] = {}
        """By labels and the job's own entries, which many jobs share."""

    def of(self, event: Event) -> Setting:
        """What there is for its job, or for the system."""
        if not event.job:
            return Setting(applying=self._of_the_system, now_ms=self.now_ms)
        job = self._watching.catalog.get(event.job)
        notify = job.saved.spec.notify if job is not None and job.saved is not None else ()
        is_of_command = event.job in self._of_commands
        key = (tuple(sorted(event.labels.items())), tuple(notify), is_of_command)
        if (known := self._known.get(key)) is None:
            notices = self._watching.notices
            known = self._known[key] = (
                applying_to_job(event.labels, notify, notices.rules, notices.channels, is_of_command=is_of_command),
                [one for one in self._by_labels if one.labels is not None and one.labels.matches(event.labels)],
            )
        applying, silences = known
        return Setting(
            applying=applying, silences=[*self._by_name.get(event.job, ()), *silences],
            exists=job is not None or self._watching.stale_since_ms is not None, now_ms=self.now_ms,
        )  # fmt: skip
