"""Channels, rules and silences as a watch on etcd has shown them; what is none of them harms no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from common.clock import Clock
from common.etcd import Change, EtcdClient, Mirror, MirrorTimings
from common.notices.channels import CHANNEL, Channel
from common.notices.forms import Form
from common.notices.rules import RULE, Rule
from common.notices.silences import SILENCE, Silence
from common.protocol.keys import Keys
from manager.watch.catalog import Changes

_log = logging.getLogger(__name__)

T = TypeVar("T")

_TIMINGS: Final = MirrorTimings(progress_s=5.0, silence_s=15.0)


class NoticeRecords:
    """By name, or a silence's id. For who tells; an edit reads etcd."""

    def __init__(self, etcd: EtcdClient, keys: Keys, *, clock: Clock) -> None:
        self.channels: dict[str, Channel] = {}
        self.rules: dict[str, Rule] = {}
        self.silences: dict[str, Silence] = {}
        self._channels_at = keys.channels
        self._unreadable: set[str] = set()
        """Keys."""
        self.changes = Changes()
        """Tells of each change of any of them."""
        self._mirrors = [
            Mirror(etcd, prefix, take, clock=clock, timings=_TIMINGS)
            for prefix, take in (
                (keys.channels, self._taking(self.channels, CHANNEL, keys.channels)),
                (keys.rules, self._taking(self.rules, RULE, keys.rules)),
                (keys.silences, self._taking(self.silences, SILENCE, keys.silences)),
            )
        ]

    async def run(self) -> None:
        """Watch for ever; an etcd that is away is tried again."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.run(), name=f"mirror {mirror.prefix}")

    @property
    def are_read(self) -> bool:
        """Whether all of them have been read once: no message goes out before."""
        return all(mirror.synced.is_set() for mirror in self._mirrors)

    async def read(self) -> None:
        """Waits for that."""
        for mirror in self._mirrors:
            await mirror.synced.wait()

    @property
    def has_channels(self) -> bool:
        """Whether there is any, also where it cannot be read, or nothing has been read yet."""
        return bool(self.channels or self._unreadable) or not self.are_read

    def has_channel(self, name: str) -> bool:
        """Whether there is one of this name, also where it cannot be read, or nothing has been read yet."""
        return name in self.channels or self._channels_at + name in self._unreadable or not self.are_read

    async def has_reached(self, revision: int) -> bool:
        """Whether everything up to this revision is known; waits a second for it. Quiet prefixes tell none."""
        return await self.changes.until(lambda: max(m.newest_mod_revision for m in self._mirrors) >= revision, 1.0)

    def _taking(self, held: dict[str, T], form: Form[Any], prefix: str) -> Callable[[Sequence[Change]], None]:
        def take(changes: Sequence[Change]) -> None:
            for change in changes:
                name = change.key.removeprefix(prefix)
                held.pop(name, None)
                self._unreadable.discard(change.key)
                if change.new is None:
                    continue
                try:
                    held[name] = form.from_json(change.new.value).record
                except ValueError as error:
                    self._unreadable.add(change.key)
                    key = ascii(change.key)  # it may be no text
                    extra = {"action": "notices.odd", "key": key, "error": str(error)}
                    _log.error("%s is left out: %s", key, error, extra=extra)
            self.changes.notify()

        return take
