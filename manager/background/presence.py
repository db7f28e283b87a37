"""Shows that this manager lives: a beat under a lease of its own, every 3 s; the steward compares clocks by it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Final

from common.clock import Clock
from common.clocks.watch import ClockWatch
from common.errors import EtcronError
from common.etcd import EtcdClient, Session
from common.json_text import dumps
from common.process.runtime import machine_load
from common.protocol.keys import Keys
from common.protocol.member import Beat, BeatPace
from common.version import VERSION

_log = logging.getLogger(__name__)

_RETRY_S: Final = 5.0


class Presence:
    """Keeps ``beats/<manager>`` for as long as this process lives and etcd hears it; nothing depends on it."""

    def __init__(
        self, etcd: EtcdClient, keys: Keys, *, name: str, watch: ClockWatch, clock: Clock, ttl_s: int,
        problem: Callable[[], str | None],
    ) -> None:  # fmt: skip
        """``problem``: what keeps this process from telling people what has happened."""
        self._problem = problem
        self._etcd = etcd
        self._key = keys.beat(name)
        self._watch = watch
        self._clock = clock
        self._ttl_s = ttl_s
        self.session: Session | None = None
        """The newest one; None: there was none yet."""

    @property
    def is_shown(self) -> bool:
        """Whether the others can tell that this process lives."""
        return self.session is not None and self.session.healthy

    async def run(self) -> None:
        """Beat for ever; a session that ended, or an etcd that is away, is tried again.

        Cancelled, it leaves the beat to `close`: what the other loops still have under way, nobody else begins.
        """
        while True:
            try:
                session = await Session.open(
                    self._etcd, key_of=lambda _: self._key, value=self._beat(), ttl=self._ttl_s, clock=self._clock
                )
                self.session = session
                async with asyncio.TaskGroup() as tasks:
                    beating = tasks.create_task(self._keep_beating(session), name="beats")
                    await session.run()
                    beating.cancel()
            except EtcronError as error:
                extra = {"action": "presence.interrupted", "key": self._key, "error": str(error)}
                _log.debug("no beat of this manager for now", extra=extra)
            await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """The process has done all that it does."""
        if self.session is not None:
            await self.session.close()

    async def _keep_beating(self, session: Session) -> None:
        pace, round_trip_ms = BeatPace(), None
        while True:
            await asyncio.sleep(pace.after(self._watch.name))
            try:
                sent_s, reported_ms = self._clock.boottime(), round_trip_ms
                round_trip_ms = None
                await session.update_value(self._beat(reported_ms))
                round_trip_ms = round((self._clock.boottime() - sent_s) * 1000)
            except EtcronError as error:
                extra = {"action": "presence.beat_failed", "key": self._key, "error": str(error)}
                _log.debug("a beat of this manager did not arrive", extra=extra)

    def _beat(self, round_trip_ms: int | None = None) -> bytes:
        """What every process says, and our version, which a worker has in its session's key."""
        self._watch.look()
        load, memory_percent = machine_load()
        beat = Beat(
            kind="manager",
            wall_ms=self._clock.wall_ms(),
            load=load,
            memory_percent=memory_percent,
            problem=self._problem(),
            clock=self._watch.name,
            round_trip_ms=round_trip_ms,
        )
        return dumps({**json.loads(beat.to_json()), "version": VERSION}).encode()
