"""What the notifier tells without the log store: that it is away, and, to a URL, that the notifier itself is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import aiohttp

from common.clock import Clock
from common.errors import EtcronError
from common.notices.applying import applying_to_system
from common.notices.events import LONGEST_TEXT, Event
from common.notices.notice import AlertedEvent, Notice, NoticeKind, notice_id
from common.runlog import RunLog
from common.verdicts import EventKind
from manager.http.outgoing import Names, ask_for_status
from manager.notices.sender import Sender
from manager.notices.ways import Tls
from manager.watch.notices import NoticeRecords

_log = logging.getLogger(__name__)

_AWAY_FOR_S: Final = 15.0
"""A log store that restarts is back sooner."""
_AGAIN_S: Final = 60.0
_BEAT_EVERY_S: Final = 60.0
_BEAT_WITHIN_S: Final = 10.0
_LOOK_S: Final = 1.0
_MOST_BYTES: Final = 65_536


class LogStoreAway:
    """Sends one message to each channel that asks for it, and one when the log store is back.

    Nothing can be written down meanwhile: a notifier that takes over says it once more.
    """

    def __init__(self, records: NoticeRecords, runlog: RunLog, sender: Sender, *, clock: Clock) -> None:
        self._records = records
        self._runlog = runlog
        self._sender = sender
        self._clock = clock
        self._since: tuple[float, int] | None = None
        """By the monotonic and the wall clock."""
        self._warned: set[str] = set()
        self._warned_before: set[str] = set()
        """When this process led last: nobody has told them that it is over, as far as is known here."""
        self._again_s = 0.0

    def begin(self) -> None:
        """This process leads anew: an outage that it sees from now on is another one."""
        self._warned_before |= self._warned
        self._since, self._warned = None, set()

    async def note_away(self, why: str) -> None:
        """It has not answered; ``why``: in words."""
        now_s, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        if self._since is None:
            self._since, self._again_s = (now_s, now_ms), now_s + _AWAY_FOR_S
            _log.warning("what is to be told waits: %s", why, extra={"action": "notifier.waiting", "why": why})
        if now_s < self._again_s:
            return
        self._again_s = now_s + _AGAIN_S
        event = Event(kind=EventKind.LOG_STORE_AWAY, at_ms=self._since[1], reason=why[:LONGEST_TEXT])
        async with asyncio.TaskGroup() as tasks:  # at once: a server that hangs is waited for, and the others are not
            sent = {
                channel: tasks.create_task(self._sender.send_unwritten(self._notice(channel, event)))
                for channel in self._channels(EventKind.LOG_STORE_AWAY)
                if channel not in self._warned
            }
        self._warned |= {channel for channel, one in sent.items() if one.result()}

    async def note_back(self) -> None:
        """It answers. UnavailableError: it does not, after all."""
        if self._since is None and not self._warned_before:
            return
        if self._since is not None:
            _log.info("what was to be told is told now", extra={"action": "notifier.goes_on"})
        over = Event(kind=EventKind.RECOVERED, at_ms=self._clock.wall_ms(), subject="the log store")
        warned = [name for name in self._channels(EventKind.RECOVERED) if name in self._warned | self._warned_before]
        await self._runlog.notices.put([self._notice(channel, over) for channel in warned])
        self._since, self._warned, self._warned_before = None, set(), set()

    def _channels(self, kind: EventKind) -> list[str]:
        applying = applying_to_system(self._records.rules)
        return list(dict.fromkeys(channel for one in applying if kind in one.on for channel in one.to))

    def _notice(self, channel: str, event: Event) -> Notice:
        since_ms = self._since[1] if self._since is not None else None
        kind = NoticeKind.RECOVERED if event.kind is EventKind.RECOVERED else NoticeKind.SYSTEM
        return Notice(
            id=notice_id(f"log-store-away/{event.kind}/{since_ms or event.at_ms}", channel), channel=channel, kind=kind,
            created_ms=self._clock.wall_ms(), told=(AlertedEvent(event=event, since_ms=since_ms),),
        )  # fmt: skip


class Heartbeat:
    """Calls the administrator's URL each minute, for as long as notices are made: what watches it tells of the end."""

    def __init__(
        self, url: str | None, *, is_well: Callable[[], bool], every_s: float = _BEAT_EVERY_S,
        within_s: float = _BEAT_WITHIN_S,
    ) -> None:  # fmt: skip
        self._url = url
        self._is_well = is_well
        self._every_s = every_s
        self._within_s = within_s
        self._tls, self._names = Tls(), Names()
        self._failed = False

    async def run(self) -> None:
        """For ever."""
        while True:
            if self._url is not None and self._is_well():
                await self._beat(self._url)
                await asyncio.sleep(self._every_s)
            else:  # one that has taken over calls as soon as it is well: the last call is long ago
                await asyncio.sleep(min(self._every_s, _LOOK_S))

    async def _beat(self, url: str) -> None:
        """The URL may be a secret: it stands in no log."""
        why = ""
        try:
            tls = await self._tls.context()
            status, _ = await ask_for_status(
                "GET", url, within_s=self._within_s, tls=tls, most_bytes=_MOST_BYTES, names=self._names
            )
            why = "" if status < 300 else f"HTTP {status}"
            if 300 <= status < 400:
                why += " (redirects are not followed: give the URL that it leads to)"
        except (aiohttp.ClientError, OSError, EtcronError, TimeoutError) as error:
            why = type(error).__name__
        if why and not self._failed:
            _log.warning("heartbeatUrl does not answer as needed: %s", why, extra={"action": "heartbeat.failed"})
        self._failed = bool(why)
